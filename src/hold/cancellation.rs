//! Why a run should stop: its lease is lost, its task took too long, the process shuts down, or somebody asks for its lease.

use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::at_work::AtWork;
use super::held_lease::{HeldLease, HoldsLease};
use super::sync::{AtomicU64, Ordering};
use crate::lease::{holder::Holder, name::UNLOCK};
use crate::observe::cancel::CancelReason;
use crate::observe::notice::Step;
use crate::observe::tell::delivery::Posted;
use crate::time::{clock::Waiting, clock::moment::Moment};

/// What a run holds, and what else ends it. All of it wakes the signal of the lease.
#[derive(Debug)]
pub(crate) struct Cancellation {
    held: HeldLease,
    at_work: AtWork,
    /// When the task has taken too long.
    limit: AtomicU64,
    /// When the process shuts down, and has waited for the run long enough.
    shut_down: AtomicU64,
    /// The signal that makes it shut down; zero: none does.
    signal: AtomicI32,
    /// When it will have ended, whatever is still at work.
    gone_by: AtomicU64,
    /// When it was told that somebody asks for its lease, and who that is.
    asked: OnceLock<Box<(Moment, Option<Holder>)>>,
    /// Also set once the task has ended: then nothing is to be told.
    reason_is_told: AtomicBool,
}

impl Cancellation {
    #[inline]
    pub(crate) fn new(held: HeldLease) -> Self {
        let never = || AtomicU64::new(Moment::NEVER.to_bits());
        let (at_work, asked) = (AtWork::default(), OnceLock::new());
        Self {
            held,
            at_work,
            limit: never(),
            shut_down: never(),
            signal: AtomicI32::new(0),
            gone_by: never(),
            asked,
            reason_is_told: AtomicBool::new(false),
        }
    }

    /// The thread on which the run is performed.
    #[inline]
    pub(crate) fn at_work(&self) -> &AtWork {
        &self.at_work
    }

    /// The time by which it is cancelled.
    pub(crate) fn now(&self) -> Moment {
        self.held.clock().moment()
    }

    /// Changes something that this run waits for, and wakes it.
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> T) {
        self.held.signal().change_silently(change);
        self.held.signal().wake();
    }

    /// The task may take until then.
    pub(crate) fn limit_task_until(&self, limit: Moment) {
        self.change(|| self.limit.store(limit.to_bits(), Ordering::Release));
    }

    /// The process shuts down, perhaps by a signal: the task should stop when the `drain` is over, and the process will have
    /// ended when the `grace` after it is over. An earlier end that was said before stays.
    pub(crate) fn shut_down(&self, drain: Duration, grace: Duration, signal: Option<i32>) {
        let drained = self.now().plus(drain);
        self.signal.fetch_max(signal.unwrap_or(0), Ordering::AcqRel);
        self.change(|| {
            self.gone_by.fetch_min(drained.plus(grace).to_bits(), Ordering::AcqRel);
            self.shut_down.fetch_min(drained.to_bits(), Ordering::AcqRel);
        });
    }

    /// Who asks for its lease. `None`: nobody does, or the store does not tell.
    pub(crate) fn asked_by(&self) -> Option<&Holder> {
        self.asked.get()?.1.as_ref()
    }

    /// When it was told that somebody asks for its lease; the end of time, if nobody does.
    fn asked_at(&self) -> Moment {
        self.asked.get().map_or(Moment::NEVER, |asked| asked.0)
    }

    /// Why the run should stop; the first reason there was. It is told.
    pub(crate) fn reason(&self) -> Option<CancelReason> {
        let reason = self.reason_at(self.now());
        if let Some(reason) = reason {
            self.tell_reason(reason, None);
        }
        reason
    }

    /// The signal that asks the process to end, if one does.
    pub(crate) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Acquire)).filter(|signal| *signal > 0)
    }

    /// The reason there was to stop when its task ended, at this moment. From here on it is not told of any other.
    #[inline]
    pub(crate) fn reason_at_end(&self, ended: Moment) -> Option<CancelReason> {
        let reason = self.reason_at(ended);
        if let Some(reason) = reason {
            self.tell_reason(reason, None);
        }
        self.reason_is_told.store(true, Ordering::Release);
        reason
    }

    #[cold]
    fn tell_reason(&self, reason: CancelReason, posted: Option<Posted>) {
        if reason == CancelReason::LeaseLost {
            self.held.tell_loss(posted);
            if !self.held.is_lost() {
                return; // It was given back.
            }
        }
        if !self.reason_is_told.swap(true, Ordering::AcqRel) {
            self.held.tell(&Step::Cancelled(reason), posted);
        }
    }

    /// The same, without telling of it.
    #[inline]
    pub(crate) fn reason_at(&self, now: Moment) -> Option<CancelReason> {
        Some(self.reason_since(now)?.0)
    }

    /// The same, and since when.
    #[inline]
    fn reason_since(&self, now: Moment) -> Option<(CancelReason, Moment)> {
        // One that was given back would have lasted longer.
        let lost = self.held.gone_at(now).map_or(Moment::NEVER, |lost| lost.min(now));
        let [limit, shut_down] = [&self.limit, &self.shut_down].map(moment);
        let first = lost.min(limit).min(shut_down).min(self.asked_at());
        let reason = match first {
            _ if now < first => return None,
            first if first == lost => CancelReason::LeaseLost,
            first if first == limit => CancelReason::TimedOut,
            first if first == shut_down => CancelReason::ShuttingDown,
            _ if self.asked_by().and_then(Holder::reason) == Some(UNLOCK) => CancelReason::Unlocked,
            _ => CancelReason::Replaced,
        };
        Some((reason, first))
    }

    /// When a task that takes this long to stop is over at the latest, which needs this long for its end; `None`: there is no
    /// reason to stop.
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
        // Not while the signal is locked: this tells of a loss.
        self.reason()
    }

    /// Waits as long as `idle`, which is asked at every change, says for how long at most.
    pub(crate) fn wait_while(&self, idle: impl Fn(Moment, &Waiting) -> Option<Duration>) {
        let signal = self.held.signal();
        signal.wait_while(&self.held.clock().waiting(signal), idle);
    }

    /// Waits, as a task, until there is a reason to stop. The renewal thread wakes it when the lease is lost.
    pub(crate) fn cancelled(self: &Arc<Self>) -> impl Future<Output = CancelReason> + Send + use<> {
        let this = Arc::clone(self);
        self.held.signal().wait_until(move || this.reason_at(this.now()))
    }

    /// When there will be a reason to stop, as things are.
    pub(crate) fn end(&self) -> Moment {
        self.held.end().min(moment(&self.limit)).min(moment(&self.shut_down)).min(self.asked_at())
    }

    /// How long the run may go on as things are; `None`: without end.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let end = self.end();
        (end < Moment::NEVER).then(|| end.since(self.now()))
    }

    /// Until when a task that was told to stop may go on: until its lease ends or its process does, and not at all if the
    /// lease may be another's already.
    pub(crate) fn last_moment(&self) -> Moment {
        self.held.last_moment().min(moment(&self.gone_by))
    }
}

fn moment(bits: &AtomicU64) -> Moment {
    Moment::from_bits(bits.load(Ordering::Acquire))
}

impl HoldsLease for Cancellation {
    #[inline]
    fn held(&self) -> &HeldLease {
        &self.held
    }

    fn is_at_work_on(&self, thread: usize) -> bool {
        self.at_work.is_on(thread)
    }

    fn has_work(&self) -> bool {
        true
    }

    fn give_way(&self, to: Option<Holder>) {
        let now = self.now();
        self.change(|| self.asked.get_or_init(|| Box::new((now, to))));
    }

    fn gives_way(&self) -> bool {
        self.asked.get().is_some()
    }

    fn tell_why_it_stops(&self, posted: Option<Posted>) {
        match self.reason_at(self.now()) {
            Some(reason) => self.tell_reason(reason, posted),
            None => self.held.tell_loss(posted),
        }
    }
}
