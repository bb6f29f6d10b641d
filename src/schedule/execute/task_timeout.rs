//! The timeout of a task: it is cancelled then, has failed however it ends, and a warning is logged if it does not end.

use crate::observe::{fault::Fault, outcome::Ended};
use crate::schedule::planned_run::PlannedRun;
use crate::task::run::Run;
use crate::time::clock::moment::Moment;

impl PlannedRun<'_> {
    /// The task begins, under the timeout of its event. The hooks after it have none.
    #[inline]
    pub(super) fn begin_timeout(&self, run: &Run, began: Moment) {
        if let Some(limit) = self.event.timeout {
            let end = began.plus(limit);
            run.held().limit_task_until(end);
            self.context.keepers.with(self.store, self.clock, |keeper| keeper.expect_end(run.held(), run.id(), end));
        }
    }

    /// How the task, which began then, has ended with this fault.
    #[inline]
    pub(super) fn end_timeout(&self, run: &Run, began: Moment, fault: Option<Fault>) -> Ended {
        if let Some(limit) = self.event.timeout {
            self.context.keepers.with(self.store, self.clock, |keeper| keeper.has_ended(run.held()));
            if limit <= self.clock.moment().since(began) {
                return Ended::TimedOut { limit, fault };
            }
            run.held().limit_task_until(Moment::NEVER);
        }
        fault.map_or(Ended::Succeeded, Ended::Faulted)
    }
}
