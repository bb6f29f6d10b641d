//! What one run holds, and until when it may go on.
//!
//! One atomic `u64` holds the deadline, or the time of loss. So a thread that finds the deadline passed and a thread that
//! moves it after a renewal agree on which of the two happened, and a lost lease never comes back.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::sync::{AtomicU64, Condvar, Mutex, Ordering};
use crate::base::{catch_panic::contain, escape::OneLine};
use crate::lease::{holder::Holder, owner::Owner, request::Lease, term::Term, token::FencingToken};
use crate::observe::cancel::CancelReason;
use crate::store::event_mutex::admission::Grant;
use crate::time::clock::{Clock, Waiting};
use crate::time::{clock::manual::Wake, clock::moment::Moment};

/// What one run, or one guard, holds from its grant to its release.
pub(crate) struct Tenure {
    clock: Clock,
    /// `None`: it has no protection, or runs without it.
    grant: Option<Grant>,
    /// When the grant was there.
    began: Moment,
    /// How long the lease is held from then on, however soon it is given back.
    at_least: Option<Term>,
    /// How long before its lease ends the task is told to stop: what stopping takes.
    stopping: Duration,
    /// On which thread it is performed, while it is.
    thread: AtomicUsize,
    right: AtomicU64,
    /// Whether the store said that it is not ours any more, before its time.
    taken_away: AtomicBool,
    /// When the task has taken too long.
    limit: AtomicU64,
    /// When the process began to shut down.
    shut_down: AtomicU64,
    /// When it will have ended, whatever is still at work.
    gone_by: AtomicU64,
    loss_is_logged: AtomicBool,
    /// Whether the store is just being asked for a renewal.
    asking: Mutex<bool>,
    /// Something changed that somebody may wait for.
    told: Condvar,
}

/// The right to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Until(Moment),
    GoneSince(Moment),
}

const GONE: u64 = 1 << 63;

/// What no thread is called.
pub(crate) const NO_THREAD: usize = 0;

/// It has gone because it was given back. What it lasted until is still known then.
const GIVEN_BACK: u64 = 1 << 62;

impl Right {
    fn of(word: u64) -> Self {
        let moment = Moment::from_bits(word & !(GONE | GIVEN_BACK));
        if word & GONE == 0 { Self::Until(moment) } else { Self::GoneSince(moment) }
    }

    fn word(self) -> u64 {
        match self {
            Self::Until(moment) => moment.to_bits(),
            Self::GoneSince(moment) => moment.to_bits() | GONE,
        }
    }

    /// What it is at this time, whether or not anybody has found out.
    fn at(self, now: Moment) -> Self {
        match self {
            Self::Until(deadline) if deadline <= now => Self::GoneSince(deadline),
            right => right,
        }
    }
}

impl Tenure {
    #[inline]
    pub(crate) fn new(
        clock: Clock,
        grant: Option<Grant>,
        began: Moment,
        at_least: Option<Term>,
        stopping: Duration,
    ) -> Self {
        let until =
            grant.as_ref().and_then(Grant::lease).map_or(Moment::NEVER, |lease| lease.deadline().minus(stopping));
        Self {
            clock,
            grant,
            began,
            at_least,
            stopping,
            thread: AtomicUsize::new(NO_THREAD),
            right: AtomicU64::new(Right::Until(until).word()),
            taken_away: AtomicBool::new(false),
            limit: AtomicU64::new(Moment::NEVER.to_bits()),
            shut_down: AtomicU64::new(Moment::NEVER.to_bits()),
            gone_by: AtomicU64::new(Moment::NEVER.to_bits()),
            loss_is_logged: AtomicBool::new(false),
            asking: Mutex::new(false),
            told: Condvar::new(),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The lease as it was granted.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.grant.as_ref()?.lease()
    }

    pub(crate) fn claim(&self) -> Option<&Lease> {
        self.grant.as_ref()?.claim()
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.lease().or(self.claim()).map(Lease::owner)
    }

    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.grant.as_ref().map(Grant::token)
    }

    /// This process, as others are told who holds the lease.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.lease().map(|lease| Holder::of(lease, self.clock.wall_at(self.began)))
    }

    /// How long it takes to stop what works under it.
    pub(crate) fn stopping(&self) -> Duration {
        self.stopping
    }

    /// The run is performed on this thread from here on, until [`has_been_performed`](Self::has_been_performed).
    #[inline]
    pub(crate) fn is_performed_here(&self) {
        self.thread.store(this_thread(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_been_performed(&self) {
        self.thread.store(NO_THREAD, Ordering::Relaxed);
    }

    pub(crate) fn is_performed_on(&self, thread: usize) -> bool {
        thread != NO_THREAD && self.thread.load(Ordering::Relaxed) == thread
    }

    /// The task may take until then.
    pub(crate) fn limit_task_until(&self, limit: Moment) {
        self.change(|| self.limit.store(limit.to_bits(), Ordering::Release));
    }

    /// The process shuts down, and will have ended when the `grace` is over: the task should stop.
    pub(crate) fn shut_down(&self, grace: Duration) {
        let now = self.clock.moment();
        self.change(|| {
            self.gone_by.store(now.plus(grace).to_bits(), Ordering::Release);
            self.shut_down.store(now.to_bits(), Ordering::Release);
        });
    }

    /// Wakes whoever waits for something that `change` may have brought about.
    pub(crate) fn change(&self, change: impl FnOnce()) {
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        change();
        drop(asking);
        self.told.notify_all();
    }

    /// Why the run should stop; the first reason there was.
    pub(crate) fn reason(&self) -> Option<CancelReason> {
        let reason = self.reason_at(self.clock.moment());
        if reason == Some(CancelReason::LeaseLost) {
            self.log_loss();
        }
        reason
    }

    /// The same, without logging a loss.
    #[inline]
    pub(crate) fn reason_at(&self, now: Moment) -> Option<CancelReason> {
        let lost = match self.right_at(now) {
            Right::Until(_) => Moment::NEVER,
            // One that was given back would have lasted longer.
            Right::GoneSince(lost) => lost.min(now),
        };
        let [limit, shut_down] =
            [&self.limit, &self.shut_down].map(|moment| Moment::from_bits(moment.load(Ordering::Acquire)));
        match lost.min(limit).min(shut_down) {
            first if now < first => None,
            first if first == lost => Some(CancelReason::LeaseLost),
            first if first == limit => Some(CancelReason::TimedOut),
            _ => Some(CancelReason::ShuttingDown),
        }
    }

    /// Waits until there is a reason to stop, for `timeout` at most.
    pub(crate) fn wait(self: &Arc<Self>, timeout: Duration) -> Option<CancelReason> {
        let enough = self.clock.moment().plus(timeout);
        self.wait_while(|now, waiting| {
            (self.reason_at(now).is_none() && now < enough).then(|| waiting.patience(self.end().min(enough)))
        });
        // Not while `asking` is locked: this logs a loss.
        self.reason()
    }

    /// Waits as long as `idle`, which is asked at every change, says for how long at most.
    pub(crate) fn wait_while(self: &Arc<Self>, idle: impl Fn(Moment, &Waiting) -> Option<Duration>) {
        let waiting = self.clock.waiting(self);
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        // What changes from here on is told once this thread waits.
        while let Some(patience) = idle(self.clock.moment(), &waiting) {
            (asking, _) = self.told.wait_timeout(asking, patience).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// When there will be a reason to stop, as things are.
    pub(crate) fn end(&self) -> Moment {
        let Right::Until(right) = Right::of(self.right.load(Ordering::Acquire)) else { return Moment::BEGINNING };
        let limit = Moment::from_bits(self.limit.load(Ordering::Acquire));
        right.min(limit).min(Moment::from_bits(self.shut_down.load(Ordering::Acquire)))
    }

    /// Until when a task that was told to stop may go on: until its lease ends or its process does, and not at all if the
    /// lease may be another's already.
    pub(crate) fn last_moment(&self) -> Moment {
        if self.taken_away.load(std::sync::atomic::Ordering::Acquire) {
            return Moment::BEGINNING;
        }
        let (Right::Until(deadline) | Right::GoneSince(deadline)) = Right::of(self.right.load(Ordering::Acquire));
        Moment::from_bits(self.gone_by.load(Ordering::Acquire)).min(deadline.plus(self.stopping))
    }

    /// When the grant was there.
    #[inline]
    pub(crate) fn began(&self) -> Moment {
        self.began
    }

    /// How long it may go on as things are; `None`: without end.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let end = self.end();
        (end < Moment::NEVER).then(|| end.since(self.clock.moment()))
    }

    /// Since when the lease is lost, or given back.
    pub(crate) fn gone_since(&self) -> Option<Moment> {
        self.gone_by(self.clock.moment())
    }

    #[inline]
    pub(crate) fn gone_by(&self, now: Moment) -> Option<Moment> {
        match self.right_at(now) {
            Right::Until(_) => None,
            Right::GoneSince(moment) => {
                self.log_loss();
                Some(moment)
            }
        }
    }

    /// Whether it was given back before it was lost.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.right.load(Ordering::Acquire) & GIVEN_BACK != 0
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.right.load(Ordering::Acquire) & (GONE | GIVEN_BACK) == GONE
    }

    /// Until when the lease may be relied on, and nothing if it has gone.
    pub(crate) fn deadline_at(&self, now: Moment) -> Option<Moment> {
        if let Right::Until(deadline) = self.right_at(now) { Some(deadline) } else { None }
    }

    /// The right at this time. Whoever finds that its deadline has passed makes that final.
    fn right_at(&self, now: Moment) -> Right {
        let passed = |word| {
            let (known, right) = (Right::of(word), Right::of(word).at(now));
            (known != right).then(|| right.word())
        };
        let (Ok(word) | Err(word)) = self.right.fetch_update(Ordering::AcqRel, Ordering::Acquire, passed);
        Right::of(word).at(now)
    }

    /// The store is about to be asked for a renewal. `false`: there is nothing to renew any more.
    pub(crate) fn ask(&self, now: Moment) -> bool {
        let live = self.deadline_at(now).is_some();
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended before this was locked, and whoever ended it waits for a renewal that was asked for earlier.
        *asking = live && matches!(Right::of(self.right.load(Ordering::Acquire)), Right::Until(_));
        *asking
    }

    /// The store renewed it: it lasts until `deadline`, unless it was over when the answer came.
    pub(crate) fn renewed_until(&self, deadline: Moment, now: Moment) {
        self.answer(now, Right::Until(deadline.minus(self.stopping)));
    }

    /// The store is about to be asked to let it end at this moment: nobody relies on more than that from here on.
    pub(crate) fn shorten_until(&self, deadline: Moment) {
        let deadline = deadline.minus(self.stopping);
        let is_later = |word| matches!(Right::of(word), Right::Until(until) if deadline < until);
        let shorten = |word| is_later(word).then(|| Right::Until(deadline).word());
        let _ = self.right.fetch_update(Ordering::AcqRel, Ordering::Acquire, shorten);
        // Whoever is about to wait until the later deadline is told once it does.
        self.wake();
    }

    /// The renewal was answered, or failed: nothing is asked any more.
    pub(crate) fn answered(&self) {
        *self.asking.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.told.notify_all();
    }

    /// The store says that the lease is not ours any more.
    pub(crate) fn lose(&self, now: Moment) {
        if !self.has_ended() {
            // Also when it was lost before: what is being stopped has no more time then.
            self.taken_away.store(true, std::sync::atomic::Ordering::Release);
        }
        self.answer(now, Right::GoneSince(now));
    }

    /// The store's answer makes this of a right that still lasts.
    fn answer(&self, now: Moment, answer: Right) {
        if let right @ Right::Until(_) = self.right_at(now) {
            // Whoever changed it meanwhile has ended it.
            let _ = self.right.compare_exchange(right.word(), answer.word(), Ordering::AcqRel, Ordering::Acquire);
        }
        self.answered();
    }

    /// The lease is about to be given back: from here on it is not renewed. What it has become, if it was renewed before.
    #[inline]
    pub(crate) fn end_renewal(&self) -> Option<Lease> {
        let end = |word| (word & GONE == 0).then_some(word | GONE | GIVEN_BACK);
        let told = match self.right.fetch_update(Ordering::AcqRel, Ordering::Acquire, end) {
            Err(lost) if lost & GIVEN_BACK == 0 => return None,
            Ok(word) | Err(word) => Moment::from_bits(word & !(GONE | GIVEN_BACK)),
        };
        let deadline = told.plus(self.stopping);
        self.lease().filter(|lease| lease.deadline() != deadline).map(|lease| lease.held_until(deadline))
    }

    /// How much longer the lease is to be held; nothing if it has gone.
    pub(crate) fn rest(&self) -> Option<Term> {
        let at_least = self.at_least?.get();
        let now = self.clock.moment();
        let rest = self.began.plus(at_least).since(now);
        self.deadline_at(now).and_then(|_| Term::new(rest).ok())
    }

    /// Waits for the answer to a renewal that is under way, so that it does not prolong what is shortened after it; not
    /// for longer than the lease lasts.
    pub(crate) fn wait_for_its_renewal(self: &Arc<Self>, deadline: Moment) {
        let waiting = self.clock.waiting(self);
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        while *asking && self.clock.moment() < deadline {
            let patience = waiting.patience(deadline);
            (asking, _) = self.told.wait_timeout(asking, patience).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Logs the loss of the lease, if it is lost, once. A subscriber may take its time, so nobody calls this while others
    /// wait.
    #[cold]
    pub(crate) fn log_loss(&self) {
        if !self.is_lost() || self.loss_is_logged.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return;
        }
        let (mutex, token) = (self.lease().map(Lease::name), self.token().map(FencingToken::get));
        // A subscriber that panics keeps nobody from stopping.
        let _ = contain(|| {
            tracing::error!(target: "soloist", mutex = mutex.map(|name| tracing::field::display(OneLine(name))), token, "lease lost");
        });
    }
}

impl Wake for Tenure {
    fn wake(&self) {
        drop(self.asking.lock().unwrap_or_else(PoisonError::into_inner));
        self.told.notify_all();
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = Right::of(self.right.load(Ordering::Acquire));
        f.debug_struct("Tenure").field("grant", &self.grant).field("right", &right).finish_non_exhaustive()
    }
}

#[cfg(unix)]
#[inline]
pub(crate) fn this_thread() -> usize {
    crate::base::system::Thread::this().number()
}

/// Elsewhere nobody asks for it.
#[cfg(not(unix))]
pub(crate) fn this_thread() -> usize {
    NO_THREAD
}
