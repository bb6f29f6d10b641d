//! Decides whether and when the next attempt of a failed task begins, and waits for it. The wait of a background run
//! needs no thread, because the loop that awaits futures also checks waits. A foreground run waits on the caller's
//! thread.
//!
//! [`PlannedRun::decide_on_attempt`] decides whether the next attempt may begin: before the wait, and at the end of the
//! wait. The reasons that follow from the definition of the event, such as its next occurrence, are in
//! `event/definition.rs`. The lease is renewed during the wait. A shutdown, a request to stop, or the loss
//! of the lease ends the wait immediately, because the signal of the run wakes the loop. The beginning of a pause wakes
//! no loop. So if the event can be paused, the loop also calls the function about once a second during the wait, and
//! the function reads the pauses from the store.

use std::sync::Arc;
use std::task::Waker;

use chrono::{DateTime, Utc};

use crate::hold::change_signal::TaskWaiter;
use crate::hold::held_lease::HeldLease;
use crate::hold::renewal_thread::RenewalThread;
use crate::lease::term::Renewal;
use crate::outcome::fault::Fault;
use crate::outcome::no_retry::NoRetry;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::run_due::planned_run::PlannedRun;
use crate::task::event_task::Work;
use crate::task::future_task::{FutureTask, TaskControl, TaskEnd};
use crate::task::run::Run;
use crate::time::clock::moment::Moment;
use crate::time::clock::{Waiting, about_a_second, wall_plus};

/// A part of a run that needs no thread.
pub(super) enum AwaitedPart<'a> {
    /// A future that is to be started.
    NextTask(&'a FutureTask),
    /// A future that has been started on its runtime.
    Task(Arc<TaskControl>),
    TaskEnded(TaskEnd),
    /// The run waits for its next attempt.
    Retry(FailedAttempt, RetryWait<'a>),
}

/// The start of the first attempt, on the monotonic clock and on the wall clock.
pub(super) type TaskStart = (Moment, DateTime<Utc>);

/// A failed attempt, in a run that waits for its next attempt.
pub(super) struct FailedAttempt {
    pub(super) fault: Fault,
    pub(super) ended: Moment,
    /// The earliest time for the next attempt.
    pub(super) retry_at: Moment,
}

pub(super) struct RetryWait<'a> {
    planned: &'a PlannedRun<'a>,
    held: Arc<HeldLease>,
    /// The time of the next decision.
    until: Moment,
    /// Wakes the loop when the run changes.
    waiter: TaskWaiter,
    /// The registration of the wait at the clock. The clock of a test stops at `until`, and moves on after the next
    /// decision.
    waiting: Waiting,
}

impl RetryWait<'_> {
    /// Registers `changed`, which is woken when the run changes.
    pub(super) fn start(&self, changed: &Waker) {
        self.waiter.set(changed);
    }

    /// Returns the time of the next check. `None`: the wait is over.
    pub(super) fn next_look(&self) -> Option<Moment> {
        let is_over = self.waiting.sleep_until(self.until).is_zero()
            || self.planned.context.schedule.is_shutting_down()
            || self.held.reason_at(self.held.now()).is_some();
        (!is_over).then(|| self.until.min(self.held.end()))
    }
}

impl PlannedRun<'_> {
    /// Returns the failed attempt, if another attempt may follow: the task ended by itself, its run was not cancelled,
    /// and attempts are left.
    pub(super) fn failed_attempt(&self, run: &Run, fault: &Fault, ended: Moment) -> Option<FailedAttempt> {
        let delay = self.event.retry.as_ref()?.delay_after(run.attempt())?;
        let is_interrupted = matches!(&self.event.work, Work::Command(command) if command.was_interrupted(fault));
        let ended_by_itself = !is_interrupted && fault.is_of_the_task() && run.held.reason_at(ended).is_none();
        let retry_at = ended.plus(delay);
        ended_by_itself.then(|| FailedAttempt { fault: fault.clone(), ended, retry_at })
    }

    /// Decides on the next attempt of a run. `Ok(None)`: the attempt begins now. `Ok(Some(..))`: the run waits. `Err`:
    /// no attempt follows.
    pub(super) fn decide_on_attempt(
        &self,
        run: &Run,
        start: TaskStart,
        failed: &FailedAttempt,
    ) -> Result<Option<RetryWait<'_>>, NoRetry> {
        let now = self.clock.moment();
        let is_due = failed.retry_at <= now;
        self.check_attempt(run, start, now.max(failed.retry_at))?;
        let is_readable = match self.look_for_pauses_again(is_due) {
            Err(SkipReason::Paused(_)) => return Err(NoRetry::Paused),
            // An error means that the store did not say whether the event is paused. Then the run waits.
            answer => answer.is_ok(),
        };
        let renewals = RenewalThread::of(self.store, self.clock);
        if is_due && is_readable {
            // If the process exits during the wait, the lease is released. From now on, an exit does not release the
            // lease. `goes_on` is `false` if the process is exiting already: then no attempt may begin.
            let goes_on = renewals.end_wait(&run.held);
            self.check_attempt(run, start, self.clock.moment())?;
            return if goes_on { Ok(None) } else { Err(NoRetry::ShuttingDown) };
        }
        renewals.begin_wait(&run.held);
        let look = if self.pauses.is_some() { now.plus(about_a_second()) } else { Moment::NEVER };
        let until = if is_due { look } else { failed.retry_at.min(look) };
        let (held, waiter) = (Arc::clone(&run.held), TaskWaiter::new(run.held.signal()));
        let waiting = self.clock.waiting(run.held.signal());
        Ok(Some(RetryWait { planned: self, held, until, waiter, waiting }))
    }

    /// Refuses an attempt that is to begin at the moment `at`, if this process knows a reason without a read of the
    /// store. If the run was cancelled, reports the cancellation.
    fn check_attempt(&self, run: &Run, start: TaskStart, at: Moment) -> Result<(), NoRetry> {
        if let Some(reason) = run.held.reason() {
            return Err(reason.into());
        }
        if self.context.schedule.is_shutting_down() {
            return Err(NoRetry::ShuttingDown);
        }
        let (began, since) = start;
        if self.event.timeout.is_some_and(|limit| began.plus(limit) <= at) {
            return Err(NoRetry::TimedOut);
        }
        let is_fixed = self.event.protection.lease.is_some_and(|lease| lease.renewal == Renewal::Never);
        if is_fixed && run.held.end() <= at {
            return Err(NoRetry::LeaseOver);
        }
        // No attempt may begin at or after the next occurrence. If the clock was set forward during the run, that
        // occurrence comes sooner. So the time since the start is measured on two clocks, the wall clock and the
        // monotonic clock, and the longer time counts.
        let on_the_wall = (self.clock.now() - since).to_std().unwrap_or_default();
        let since_its_begin = self.clock.moment().since(began).max(on_the_wall) + at.since(self.clock.moment());
        let tick = self.tick.now().max(self.context.now);
        let at = wall_plus(tick, began.since(self.context.began) + since_its_begin);
        match self.event.refuses_attempt(at, tick, self.context.past_filters) {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }
}
