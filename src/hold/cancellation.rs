//! The reasons why a run should stop: its lease is lost, its task took too long, the process shuts down, or another
//! process asked the run to stop.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::held_lease::{HeldLease, HeldState};
use crate::lease::{holder::Holder, name::UNLOCK};
use crate::observe::notice::Step;
use crate::observe::tell::notice_queue::Posted;
use crate::outcome::cancel::CancelReason;
use crate::time::{clock::Waiting, clock::moment::Moment};

impl HeldLease {
    /// Returns the present moment on the clock of the run's deadlines.
    pub(crate) fn now(&self) -> Moment {
        self.clock.moment()
    }

    /// Makes a change that threads or tasks of the run wait for, and wakes these threads and tasks.
    pub(crate) fn change(&self, change: impl FnOnce()) {
        self.signal().change(change);
        self.wake();
    }

    pub(crate) fn limit_task_until(&self, timeout: Moment) {
        self.change(|| self.state().timeout = timeout);
    }

    /// Plans the shutdown of the run: the task is cancelled after `drain`, and the process exits `grace` later.
    /// `signal` is the signal that asked for the shutdown, if there was one. If an earlier call has set earlier times,
    /// those times stay.
    pub(crate) fn shut_down(&self, drain: Duration, grace: Duration, signal: Option<i32>) {
        let drained_by = self.now().plus(drain);
        self.change(|| {
            let mut state = self.state();
            state.exit_signal = state.exit_signal.max(signal);
            state.exit_by = state.exit_by.min(drained_by.plus(grace));
            state.drained_by = state.drained_by.min(drained_by);
        });
    }

    /// Returns the moment when the drain of the run ends. [`Moment::NEVER`]: no shutdown has begun.
    pub(crate) fn drained_by(&self) -> Moment {
        self.state().drained_by
    }

    /// Returns the signal that shuts the process down. `None`: there was no such signal.
    pub(crate) fn exit_signal(&self) -> Option<i32> {
        self.state().exit_signal
    }

    /// Asks the run to stop, because a newer run wants the lease, or because an operator wants the run to stop.
    pub(super) fn ask_to_stop(&self, by: Option<Holder>) {
        let now = self.now();
        self.change(|| _ = self.state().stop_request.get_or_insert((now, by)));
    }

    pub(super) fn is_asked_to_stop(&self) -> bool {
        self.state().stop_request.is_some()
    }

    /// Returns the process that asked the run to stop. `None`: no process asked, or the store does not know the
    /// process.
    pub(crate) fn asked_by(&self) -> Option<Holder> {
        self.state().stop_request.as_ref()?.1.clone()
    }

    /// Returns the first reason to stop, and reports the reason.
    pub(crate) fn reason(&self) -> Option<CancelReason> {
        self.report_reason(self.now(), None)
    }

    /// Returns the first reason to stop that had come by `ended`, the moment when the task ended. Reports this
    /// reason, but no later reason.
    pub(crate) fn reason_at_end(&self, ended: Moment) -> Option<CancelReason> {
        let mut state = self.state();
        if state.reason_since(ended).is_none() {
            state.cancel_is_reported = true;
            return None;
        }
        drop(state);
        let reason = self.report_reason(ended, None);
        self.state().cancel_is_reported = true;
        reason
    }

    /// Returns the first reason to stop, and reports the reason once. Subscribers can be slow, so call this only while
    /// no other thread waits for the caller.
    pub(crate) fn report_reason(&self, now: Moment, posted: Option<Posted>) -> Option<CancelReason> {
        let mut state = self.state();
        let (reason, _) = state.reason_since(now)?;
        let is_lost = reason == CancelReason::LeaseLost;
        // If the lease was released, there is no loss to report.
        let is_reported = is_lost && !state.lease.is_lost() || mem::replace(&mut state.cancel_is_reported, true);
        drop(state);
        if is_lost {
            self.report_loss(posted);
        }
        if !is_reported {
            self.tell(&Step::Cancelled(reason), posted);
        }
        Some(reason)
    }

    /// Returns the first reason to stop, without a report.
    pub(crate) fn reason_at(&self, now: Moment) -> Option<CancelReason> {
        Some(self.state().reason_since(now)?.0)
    }

    /// Returns the moment when a cancelled task must be over: `grace` after the cancellation, but at the latest
    /// `ending` before the lease or the process ends. `ending` is the time that a drop of the task takes. `None`: the
    /// task is not cancelled.
    pub(crate) fn over_at(&self, now: Moment, grace: Duration, ending: Duration) -> Option<Moment> {
        let (_, since) = self.state().reason_since(now)?;
        Some(since.plus(grace).min(self.last_moment().minus(ending)))
    }

    /// Waits until there is a reason to stop, for `timeout` at most. Returns the reason, if there is one.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<CancelReason> {
        let latest = self.now().plus(timeout);
        self.wait_while(|now, waiting| {
            let mut state = self.state();
            let goes_on = state.reason_since(now).is_none() && now < latest;
            goes_on.then(|| waiting.patience(state.end().min(latest)))
        });
        // The reason is reported after the wait, because the signal must not be locked during a report.
        self.reason()
    }

    /// Blocks this thread until `idle` returns `None`. If `idle` returns a duration, `idle` is called again after each
    /// change, and at the latest when this duration is over.
    pub(crate) fn wait_while(&self, idle: impl Fn(Moment, &Waiting) -> Option<Duration>) {
        self.signal().wait_while(&self.clock.waiting(self.signal()), idle);
    }

    /// Waits, as a task, until there is a reason to stop. The renewal thread wakes the task when the lease is lost.
    pub(crate) fn cancelled(self: &Arc<Self>) -> impl Future<Output = CancelReason> + Send + use<> {
        let this = Arc::clone(self);
        self.signal().wait_until(move || this.reason_at(this.now()))
    }

    /// Returns the moment of the first reason to stop, if nothing changes until then.
    pub(crate) fn end(&self) -> Moment {
        self.state().end()
    }

    /// Returns how long the task may continue, if nothing changes until then. `None`: the time has no limit.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let end = self.end();
        (end < Moment::NEVER).then(|| end.since(self.now()))
    }
}

impl HeldState {
    /// Returns the moment of the first reason to stop, if nothing changes until then.
    fn end(&self) -> Moment {
        self.deadline().min(self.timeout).min(self.drained_by).min(self.asked_at())
    }

    /// Returns the moment when the run was asked to stop. [`Moment::NEVER`]: the run was not asked.
    fn asked_at(&self) -> Moment {
        self.stop_request.as_ref().map_or(Moment::NEVER, |(asked_at, _)| *asked_at)
    }

    /// Returns the first reason to stop, and the moment at which the reason came.
    fn reason_since(&mut self, now: Moment) -> Option<(CancelReason, Moment)> {
        // The moment can be later than `now`, but the lease is gone already.
        let lost = self.lease_at(now).gone_at().map_or(Moment::NEVER, |gone| gone.min(now));
        let first = lost.min(self.timeout).min(self.drained_by).min(self.asked_at());
        let asked_by = || self.stop_request.as_ref()?.1.as_ref()?.reason();
        let reason = match first {
            _ if now < first => return None,
            first if first == lost => CancelReason::LeaseLost,
            first if first == self.timeout => CancelReason::TimedOut,
            first if first == self.drained_by => CancelReason::ShuttingDown,
            _ if asked_by() == Some(UNLOCK) => CancelReason::Unlocked,
            _ => CancelReason::Replaced,
        };
        Some((reason, first))
    }
}
