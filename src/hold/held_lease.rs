//! What a run, or a lease guard, holds, and until when it may be relied on.
//!
//! One atomic `u64` holds the deadline, or the time of loss. So a thread that finds the deadline passed and a thread that
//! moves it after a renewal agree on which of the two happened, and a lost lease never comes back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::signal::Signal;
use super::sync::{AtomicU64, Ordering};
use crate::lease::{holder::Holder, owner::Owner, request::Lease, term::Term, token::FencingToken};
use crate::observe::notice::{About, Step};
use crate::observe::tell::delivery::Posted;
use crate::observe::tell::observers::{Observers, RunObservers};
use crate::store::event_mutex::admission::Grant;
use crate::time::{clock::Clock, clock::moment::Moment};

/// A lease from its grant to its release, with the claim that was granted along with it; or nothing, for a run without
/// protection.
pub(crate) struct HeldLease {
    clock: Clock,
    grant: Option<Grant>,
    /// When the grant was there.
    began: Moment,
    /// How long the lease is held from then on, however soon it is given back.
    at_least: Option<Term>,
    /// How long before the lease ends it stops being relied on: what it takes to stop the work under it.
    stopping: Duration,
    right: AtomicU64,
    /// Whether the store said that it is not ours any more, before its time.
    taken_away: AtomicBool,
    loss_is_told: AtomicBool,
    /// Whether the store is just being asked for a renewal. It changes while the signal is locked.
    renewing: AtomicBool,
    signal: Arc<Signal>,
    /// `None`: nobody observes the run that holds it, or it is held without a run.
    observed: Option<Box<RunObservers>>,
}

/// Whoever has a lease in hand: a run, or the lease guard alone.
pub(crate) trait HoldsLease: Send + Sync + fmt::Debug {
    fn held(&self) -> &HeldLease;

    /// Whether the work under it is done on this thread.
    fn is_at_work_on(&self, thread: usize) -> bool;

    /// Whether it knows the work under it: a lease guard does not.
    fn has_work(&self) -> bool {
        false
    }

    /// Somebody asks for the lease, so that the work under it should stop.
    fn give_way(&self, _to: Option<Holder>) {}

    /// Whether somebody has asked for it.
    fn gives_way(&self) -> bool {
        false
    }

    /// Tells why the work under it should stop, if it should and nobody was told yet. Observers may take their time, so nobody
    /// calls this while others wait.
    fn tell_why_it_stops(&self, posted: Option<Posted>);
}

/// The right to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Until(Moment),
    GoneSince(Moment),
}

const GONE: u64 = 1 << 63;

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

impl HeldLease {
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
            right: AtomicU64::new(Right::Until(until).word()),
            taken_away: AtomicBool::new(false),
            loss_is_told: AtomicBool::new(false),
            renewing: AtomicBool::new(false),
            signal: Arc::default(),
            observed: None,
        }
    }

    /// The run that holds it is observed.
    pub(crate) fn observe_by(&mut self, observers: RunObservers) {
        self.observed = Some(Box::new(observers));
    }

    /// Which run it is that holds it, if that is observed.
    pub(crate) fn observed_run(&self) -> Option<Owner> {
        self.observed.as_ref().map(|observed| observed.owner)
    }

    /// The observers of the run that holds it.
    pub(crate) fn observers(&self) -> &Observers {
        self.observed.as_ref().map_or(&Observers::NONE, |observed| &observed.observers)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What wakes whoever waits for a change.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
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

    /// How long it takes to stop the work under it.
    pub(crate) fn stopping(&self) -> Duration {
        self.stopping
    }

    /// When the grant was there.
    #[inline]
    pub(crate) fn began(&self) -> Moment {
        self.began
    }

    /// Whether it is lost, or given back. A loss is told.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone_by(self.clock.moment()).is_some()
    }

    /// How long it may be relied on, as things are.
    pub(crate) fn remaining(&self) -> Duration {
        self.end().since(self.clock.moment())
    }

    /// Waits until it has gone, for `timeout` at most.
    pub(crate) fn wait_until_gone(&self, timeout: Duration) -> bool {
        let enough = self.clock.moment().plus(timeout);
        let waits = |now| self.gone_at(now).is_none() && now < enough;
        self.signal.wait_while(&self.clock.waiting(&self.signal), |now, waiting| {
            waits(now).then(|| waiting.patience(self.end().min(enough)))
        });
        self.is_gone()
    }

    /// Since when the lease is lost, or given back. A loss is told.
    #[inline]
    pub(crate) fn gone_by(&self, now: Moment) -> Option<Moment> {
        let gone = self.gone_at(now);
        if gone.is_some() {
            self.tell_loss(None);
        }
        gone
    }

    /// The same, without telling anybody.
    #[inline]
    pub(crate) fn gone_at(&self, now: Moment) -> Option<Moment> {
        if let Right::GoneSince(moment) = self.right_at(now) { Some(moment) } else { None }
    }

    /// Until when the lease may be relied on, and nothing if it has gone.
    pub(crate) fn deadline_at(&self, now: Moment) -> Option<Moment> {
        if let Right::Until(deadline) = self.right_at(now) { Some(deadline) } else { None }
    }

    /// When it will have gone, as things are.
    pub(crate) fn end(&self) -> Moment {
        match Right::of(self.right.load(Ordering::Acquire)) {
            Right::Until(deadline) => deadline,
            Right::GoneSince(_) => Moment::BEGINNING,
        }
    }

    /// Until when the work under it may take to stop: until the lease ends, and not at all if it may be another's already.
    pub(crate) fn last_moment(&self) -> Moment {
        if self.taken_away.load(Ordering::Acquire) {
            return Moment::BEGINNING;
        }
        let (Right::Until(deadline) | Right::GoneSince(deadline)) = Right::of(self.right.load(Ordering::Acquire));
        deadline.plus(self.stopping)
    }

    #[inline]
    pub(crate) fn was_given_back(&self) -> bool {
        self.right.load(Ordering::Acquire) & GIVEN_BACK != 0
    }

    /// Whether it has gone before it was given back.
    pub(crate) fn is_lost(&self) -> bool {
        self.right.load(Ordering::Acquire) & (GONE | GIVEN_BACK) == GONE
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
    pub(crate) fn begin_renewal(&self, now: Moment) -> bool {
        let is_live = self.deadline_at(now).is_some();
        self.signal.change_silently(|| {
            // It may have ended before this was locked, and whoever ended it waits for a renewal that was asked for earlier.
            let begins = is_live && matches!(Right::of(self.right.load(Ordering::Acquire)), Right::Until(_));
            self.renewing.store(begins, Ordering::Release);
            begins
        })
    }

    /// The store renewed it: it lasts until `deadline`, unless it was over when the answer came.
    pub(crate) fn renewed_until(&self, deadline: Moment, now: Moment) {
        self.end_renewal(now, Right::Until(deadline.minus(self.stopping)));
    }

    /// The store says that the lease is not ours any more. Threads that wait hear of it at once, tasks when the keeper wakes
    /// them.
    pub(crate) fn lose(&self, now: Moment) {
        if !self.was_given_back() {
            // Also when it was lost before: what is being stopped has no more time then.
            self.taken_away.store(true, Ordering::Release);
        }
        self.end_renewal(now, Right::GoneSince(now));
    }

    /// The store's answer makes this of a right that still lasts.
    fn end_renewal(&self, now: Moment, answer: Right) {
        if let right @ Right::Until(_) = self.right_at(now) {
            // Whoever changed it meanwhile has ended it.
            let _ = self.right.compare_exchange(right.word(), answer.word(), Ordering::AcqRel, Ordering::Acquire);
        }
        self.renewal_failed();
    }

    /// The store gave no answer to the renewal: nothing is asked any more.
    pub(crate) fn renewal_failed(&self) {
        self.signal.change(|| self.renewing.store(false, Ordering::Release));
    }

    /// The store is about to be asked to let it end at this moment: nobody relies on more than that from here on.
    pub(crate) fn shorten_until(&self, deadline: Moment) {
        let deadline = deadline.minus(self.stopping);
        let is_later = |word| matches!(Right::of(word), Right::Until(until) if deadline < until);
        let shorten = |word| is_later(word).then(|| Right::Until(deadline).word());
        let _ = self.right.fetch_update(Ordering::AcqRel, Ordering::Acquire, shorten);
        // Whoever is about to wait until the later deadline is told once it does.
        self.signal.change(|| ());
    }

    /// Ends the right to go on, because the run is over or the guard is dropped, and the renewal with it. Returns the lease as
    /// it is now, if it was renewed. The caller wakes the tasks that wait, with nothing locked.
    #[inline]
    pub(crate) fn begin_release(&self) -> Option<Lease> {
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
    pub(crate) fn wait_for_its_renewal(&self, deadline: Moment) {
        let is_under_way = |now| self.renewing.load(Ordering::Acquire) && now < deadline;
        let waiting = self.clock.waiting(&self.signal);
        self.signal.wait_while(&waiting, |now, waiting| is_under_way(now).then(|| waiting.patience(deadline)));
    }

    /// Tells of the loss of the lease, if it is lost, once. A subscriber may take its time, so nobody calls this while
    /// others wait.
    #[cold]
    pub(crate) fn tell_loss(&self, posted: Option<Posted>) {
        if !self.is_lost() || self.loss_is_told.swap(true, Ordering::AcqRel) {
            return;
        }
        self.tell(&Step::LeaseLost { mutex: self.lease().map(Lease::name), token: self.token() }, posted);
    }

    /// Tells of a step of the run that holds it.
    pub(super) fn tell(&self, step: &Step<'_>, posted: Option<Posted>) {
        let about = self.observed.as_ref().map_or_else(About::default, |observed| observed.about());
        self.observers().tell_as(about, step, posted);
    }
}

/// A lease guard has nothing else in hand.
impl HoldsLease for HeldLease {
    fn held(&self) -> &HeldLease {
        self
    }

    /// Nobody knows who works under a guard.
    fn is_at_work_on(&self, _: usize) -> bool {
        false
    }

    fn tell_why_it_stops(&self, posted: Option<Posted>) {
        self.tell_loss(posted);
    }
}

impl fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = Right::of(self.right.load(Ordering::Acquire));
        f.debug_struct("HeldLease").field("grant", &self.grant).field("right", &right).finish_non_exhaustive()
    }
}
