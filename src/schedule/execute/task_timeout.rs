//! The timeout of a task: it is cancelled then, has failed however it ends, and a warning is logged if it does not end.

use crate::observe::{fault::Fault, outcome::Ended};
use crate::schedule::planned_run::PlannedRun;
use crate::task::run::Run;
use crate::time::clock::moment::Moment;

impl PlannedRun<'_> {
    /// Calls the task, which began then, under the timeout of its event. The hooks after it have none.
    pub(super) fn under_timeout(&self, run: &Run, began: Moment, task: impl FnOnce() -> Option<Fault>) -> Ended {
        let Some(limit) = self.event.timeout else { return ended(task()) };
        let cancellation = run.cancellation();
        cancellation.limit_task_until(began.plus(limit));
        let fault = self.context.keepers.with(self.store, self.clock, |keeper| {
            keeper.expect_end(cancellation, run.id(), began.plus(limit));
            let fault = task();
            keeper.has_ended(&**cancellation);
            fault
        });
        if limit <= self.clock.moment().since(began) {
            return Ended::TimedOut { limit, fault };
        }
        cancellation.limit_task_until(Moment::NEVER);
        ended(fault)
    }
}

fn ended(fault: Option<Fault>) -> Ended {
    fault.map_or(Ended::Succeeded, Ended::Faulted)
}
