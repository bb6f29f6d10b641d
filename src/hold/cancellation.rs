//! The reasons why a run should stop: its lease is lost, its task took too long, the process shuts down, or another
//! process asked the run to stop.

use std::sync::Arc;
use std::time::Duration;

use super::held_lease::{HeldLease, moment};
use super::sync::Ordering;
use crate::lease::{holder::Holder, name::UNLOCK};
use crate::observe::notice::Step;
use crate::observe::tell::delivery::Posted;
use crate::outcome::cancel::CancelReason;
use crate::time::{clock::Waiting, clock::moment::Moment};

impl HeldLease {
    /// Returns the present moment on the clock of the run's deadlines.
    pub(crate) fn now(&self) -> Moment {
        self.clock.moment()
    }

    /// Makes a change that threads or tasks of the run wait for, and wakes these threads and tasks.
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> T) {
        self.signal.change_silently(change);
        self.signal.wake();
    }

    /// Sets the time of the task's timeout.
    pub(crate) fn limit_task_until(&self, timeout: Moment) {
        self.change(|| self.timeout.store(timeout.to_bits(), Ordering::Release));
    }

    /// Shuts the run down, perhaps by a signal: the task is cancelled after the `drain`, and the process exits after
    /// the `grace` that follows. If an earlier call set earlier times, these stay.
    pub(crate) fn shut_down(&self, drain: Duration, grace: Duration, signal: Option<i32>) {
        let drained_by = self.now().plus(drain);
        self.exit_signal.fetch_max(signal.unwrap_or(0), Ordering::AcqRel);
        self.change(|| {
            self.exit_by.fetch_min(drained_by.plus(grace).to_bits(), Ordering::AcqRel);
            self.drained_by.fetch_min(drained_by.to_bits(), Ordering::AcqRel);
        });
    }

    /// Returns the signal that shuts the process down. `None`: no signal does.
    pub(crate) fn exit_signal(&self) -> Option<i32> {
        Some(self.exit_signal.load(Ordering::Acquire)).filter(|signal| *signal > 0)
    }

    /// Asks the run to stop, because another run or an operator wants its lease.
    pub(super) fn ask_to_stop(&self, by: Option<Holder>) {
        let now = self.now();
        self.change(|| self.stop_request.get_or_init(|| Box::new((now, by))));
    }

    pub(super) fn is_asked_to_stop(&self) -> bool {
        self.stop_request.get().is_some()
    }

    /// Returns the process that asked the run to stop. `None`: no process did, or the store keeps no holders.
    pub(crate) fn asked_by(&self) -> Option<&Holder> {
        self.stop_request.get()?.1.as_ref()
    }

    /// Returns when the run was asked to stop; the end of time if it was not.
    fn asked_at(&self) -> Moment {
        self.stop_request.get().map_or(Moment::NEVER, |request| request.0)
    }

    /// Returns the first reason to stop, and reports it.
    pub(crate) fn reason(&self) -> Option<CancelReason> {
        self.report_reason(self.now(), None)
    }

    /// Returns the first reason to stop at the end of the task, and reports it. Later reasons are not reported.
    #[inline]
    pub(crate) fn reason_at_end(&self, ended: Moment) -> Option<CancelReason> {
        let reason = self.report_reason(ended, None);
        self.cancel_is_reported.store(true, Ordering::Release);
        reason
    }

    /// Returns the first reason to stop, and reports that reason once. Subscribers may be slow, so no thread calls this
    /// while other threads wait for the caller.
    pub(crate) fn report_reason(&self, now: Moment, posted: Option<Posted>) -> Option<CancelReason> {
        let reason = self.reason_at(now)?;
        if reason == CancelReason::LeaseLost {
            self.report_loss(posted);
            if !self.is_lost() {
                return Some(reason); // It was released.
            }
        }
        if !self.cancel_is_reported.swap(true, Ordering::AcqRel) {
            self.tell(&Step::Cancelled(reason), posted);
        }
        Some(reason)
    }

    /// Returns the first reason to stop, without a report.
    #[inline]
    pub(crate) fn reason_at(&self, now: Moment) -> Option<CancelReason> {
        Some(self.reason_since(now)?.0)
    }

    /// Returns the first reason to stop, with the moment since which it applies.
    #[inline]
    fn reason_since(&self, now: Moment) -> Option<(CancelReason, Moment)> {
        // The deadline of a released lease may be later.
        let lost = self.gone_at(now).map_or(Moment::NEVER, |lost| lost.min(now));
        let [timeout, drained_by] = [&self.timeout, &self.drained_by].map(moment);
        let first = lost.min(timeout).min(drained_by).min(self.asked_at());
        let reason = match first {
            _ if now < first => return None,
            first if first == lost => CancelReason::LeaseLost,
            first if first == timeout => CancelReason::TimedOut,
            first if first == drained_by => CancelReason::ShuttingDown,
            _ if self.asked_by().and_then(Holder::reason) == Some(UNLOCK) => CancelReason::Unlocked,
            _ => CancelReason::Replaced,
        };
        Some((reason, first))
    }

    /// Returns when a cancelled task is over at the latest: it may take `grace` to stop, and then `ending` to be
    /// dropped. `None`: the task is not cancelled.
    pub(crate) fn over_at(&self, now: Moment, grace: Duration, ending: Duration) -> Option<Moment> {
        let (_, since) = self.reason_since(now)?;
        Some(since.plus(grace).min(self.last_moment().minus(ending)))
    }

    /// Waits until there is a reason to stop, for `timeout` at most.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<CancelReason> {
        let enough = self.now().plus(timeout);
        self.wait_while(|now, waiting| {
            (self.reason_at(now).is_none() && now < enough).then(|| waiting.patience(self.end().min(enough)))
        });
        // The reason is reported after the wait, because the signal must not be locked during a report.
        self.reason()
    }

    /// Waits until `idle` returns `None`. Each change calls `idle` again, which returns the longest time to the next
    /// call.
    pub(crate) fn wait_while(&self, idle: impl Fn(Moment, &Waiting) -> Option<Duration>) {
        self.signal.wait_while(&self.clock.waiting(&self.signal), idle);
    }

    /// Waits, as a task, until there is a reason to stop. The renewal thread wakes it when the lease is lost.
    pub(crate) fn cancelled(self: &Arc<Self>) -> impl Future<Output = CancelReason> + Send + use<> {
        let this = Arc::clone(self);
        self.signal.wait_until(move || this.reason_at(this.now()))
    }

    /// Returns when there will be a reason to stop, if nothing changes until then.
    pub(crate) fn end(&self) -> Moment {
        self.deadline().min(moment(&self.timeout)).min(moment(&self.drained_by)).min(self.asked_at())
    }

    /// Returns how long the task may continue, if nothing changes until then. `None`: without a limit.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let end = self.end();
        (end < Moment::NEVER).then(|| end.since(self.now()))
    }
}
