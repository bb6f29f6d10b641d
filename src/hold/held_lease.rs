//! The lease of a run or of a lease guard, from its grant to its release.
//!
//! One atomic `u64` holds the deadline, or the time of the loss. One thread may find that the deadline has passed,
//! while another thread moves the deadline after a renewal. With one atomic value, both agree on the outcome, and a
//! lost lease stays lost.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::change_signal::Signal;
use super::sync::{AtomicU64, Ordering};
use crate::lease::{holder::Holder, owner::Owner, request::Lease, term::Term, token::FencingToken};
use crate::observe::notice::{About, Step};
use crate::observe::tell::delivery::Posted;
use crate::observe::tell::observers::{Observers, RunObservers};
use crate::store::event_mutex::admission::Grant;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The lease and the claim of a run or of a lease guard (a run without protection has neither), with everything that
/// ends a run early. The functions for the early end are in `cancellation.rs`.
pub(crate) struct HeldLease {
    pub(crate) clock: Clock,
    grant: Option<Grant>,
    pub(crate) granted_at: Moment,
    /// The lease is held at least this long from the grant on, even if it is released earlier.
    minimum_hold: Option<Term>,
    /// The time that the task takes to stop. The task is cancelled this long before the lease ends.
    pub(crate) stopping: Duration,
    /// A [`LeaseState`] as one word.
    state: AtomicU64,
    /// Whether the store said before the deadline that another owner holds the name.
    is_taken_away: AtomicBool,
    loss_is_reported: AtomicBool,
    /// Whether the store is being asked for a renewal. The signal is locked while this changes.
    is_renewing: AtomicBool,
    /// Wakes the threads and tasks that wait for a change.
    pub(crate) signal: Arc<Signal>,
    /// `None`: no run holds the lease, or the run is not observed.
    pub(crate) observed: Option<Box<RunObservers>>,
    pub(crate) by: HeldBy,
    /// The thread that runs the task, or [`NO_THREAD`].
    thread: AtomicUsize,
    /// When the task's timeout is over.
    pub(super) timeout: AtomicU64,
    /// When the drain of a shutdown is over.
    pub(super) drained_by: AtomicU64,
    /// When the process exits, even if the task still runs.
    pub(super) exit_by: AtomicU64,
    /// The signal that shuts the process down; zero: none.
    pub(super) exit_signal: AtomicI32,
    /// The moment when another process or an operator asked the run to stop, and that process.
    pub(super) stop_request: OnceLock<Box<(Moment, Option<Holder>)>>,
    /// Also set if no reason may be reported: for a guard, and after the end of a task.
    pub(super) cancel_is_reported: AtomicBool,
}

/// A kind of holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBy {
    Guard,
    Run,
    /// A run that another one may replace.
    ReplaceableRun,
}

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseState {
    HeldUntil(Moment),
    /// Lost or released.
    GoneSince(Moment),
}

const GONE: u64 = 1 << 63;

/// Set if the lease was released. The other bits are still the deadline.
const RELEASED: u64 = 1 << 62;

impl LeaseState {
    fn from_bits(bits: u64) -> Self {
        let moment = Moment::from_bits(bits & !(GONE | RELEASED));
        if bits & GONE == 0 { Self::HeldUntil(moment) } else { Self::GoneSince(moment) }
    }

    fn to_bits(self) -> u64 {
        match self {
            Self::HeldUntil(moment) => moment.to_bits(),
            Self::GoneSince(moment) => moment.to_bits() | GONE,
        }
    }

    /// Returns the state at this time, even if no thread has noticed it yet.
    fn at(self, now: Moment) -> Self {
        match self {
            Self::HeldUntil(deadline) if deadline <= now => Self::GoneSince(deadline),
            state => state,
        }
    }
}

impl HeldLease {
    /// Holds the grant of a run.
    #[inline]
    pub(crate) fn new(
        clock: Clock,
        grant: Option<Grant>,
        granted_at: Moment,
        minimum_hold: Option<Term>,
        stopping: Duration,
    ) -> Self {
        let lease = grant.as_ref().and_then(Grant::lease);
        let until = lease.map_or(Moment::NEVER, |lease| lease.deadline().minus(stopping));
        let never = || AtomicU64::new(Moment::NEVER.to_bits());
        Self {
            clock,
            grant,
            granted_at,
            minimum_hold,
            stopping,
            state: AtomicU64::new(LeaseState::HeldUntil(until).to_bits()),
            is_taken_away: AtomicBool::new(false),
            loss_is_reported: AtomicBool::new(false),
            is_renewing: AtomicBool::new(false),
            signal: Arc::default(),
            observed: None,
            by: HeldBy::Run,
            thread: AtomicUsize::new(NO_THREAD),
            timeout: never(),
            drained_by: never(),
            exit_by: never(),
            exit_signal: AtomicI32::new(0),
            stop_request: OnceLock::new(),
            cancel_is_reported: AtomicBool::new(false),
        }
    }

    /// Holds a lease for a guard. Only the loss of the lease ends it early.
    pub(crate) fn for_guard(clock: &Clock, lease: Lease, granted_at: Moment) -> Self {
        let held = Self::new(clock.clone(), Some(Grant::of(lease)), granted_at, None, Duration::ZERO);
        Self { by: HeldBy::Guard, cancel_is_reported: AtomicBool::new(true), ..held }
    }

    /// Returns the id of the run, if it is observed.
    pub(crate) fn observed_run(&self) -> Option<Owner> {
        self.observed.as_ref().map(|observed| observed.owner)
    }

    pub(crate) fn observers(&self) -> &Observers {
        self.observed.as_ref().map_or(&Observers::NONE, |observed| &observed.observers)
    }

    /// Returns the lease as it was granted.
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

    /// Returns this process as the holder of the lease.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.lease().map(|lease| Holder::of(lease, self.clock.wall_at(self.granted_at)))
    }

    /// Notes that the task runs on this thread from now on. If this thread calls `process::exit`, the lease is
    /// released.
    #[inline]
    pub(crate) fn enter_thread(&self) {
        self.thread.store(this_thread(), Ordering::Relaxed);
    }

    /// Notes that the task runs on no thread.
    #[inline]
    pub(crate) fn leave_thread(&self) {
        self.thread.store(NO_THREAD, Ordering::Relaxed);
    }

    pub(super) fn is_running_on(&self, thread: usize) -> bool {
        thread != NO_THREAD && self.thread.load(Ordering::Relaxed) == thread
    }

    /// Returns since when the lease is lost or released. Reports a loss.
    #[inline]
    pub(crate) fn gone_by(&self, now: Moment) -> Option<Moment> {
        let gone = self.gone_at(now);
        if gone.is_some() {
            self.report_loss(None);
        }
        gone
    }

    /// Returns since when the lease is lost or released.
    #[inline]
    pub(crate) fn gone_at(&self, now: Moment) -> Option<Moment> {
        if let LeaseState::GoneSince(moment) = self.state_at(now) { Some(moment) } else { None }
    }

    /// Returns the time when the task must have stopped for the lease, unless the lease is lost or released.
    pub(crate) fn deadline_at(&self, now: Moment) -> Option<Moment> {
        if let LeaseState::HeldUntil(deadline) = self.state_at(now) { Some(deadline) } else { None }
    }

    /// Returns the time when the task must have stopped for the lease. The beginning of time, if the lease is lost or
    /// released.
    pub(super) fn deadline(&self) -> Moment {
        match self.state() {
            LeaseState::HeldUntil(deadline) => deadline,
            LeaseState::GoneSince(_) => Moment::BEGINNING,
        }
    }

    /// Returns the time by which the task must have stopped: the end of the lease or of the process. That is now, if
    /// the store may have granted the name to another owner.
    pub(crate) fn last_moment(&self) -> Moment {
        if self.is_taken_away.load(Ordering::Acquire) {
            return Moment::BEGINNING;
        }
        let (LeaseState::HeldUntil(deadline) | LeaseState::GoneSince(deadline)) = self.state();
        deadline.plus(self.stopping).min(moment(&self.exit_by))
    }

    #[inline]
    pub(crate) fn was_released(&self) -> bool {
        self.state.load(Ordering::Acquire) & RELEASED != 0
    }

    /// Returns whether the lease was gone before it was released.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.load(Ordering::Acquire) & (GONE | RELEASED) == GONE
    }

    fn state(&self) -> LeaseState {
        LeaseState::from_bits(self.state.load(Ordering::Acquire))
    }

    /// Returns the state at this time. If the deadline has passed, the loss is final from now on.
    fn state_at(&self, now: Moment) -> LeaseState {
        let passed = |bits| {
            let (known, state) = (LeaseState::from_bits(bits), LeaseState::from_bits(bits).at(now));
            (known != state).then(|| state.to_bits())
        };
        let (Ok(bits) | Err(bits)) = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, passed);
        LeaseState::from_bits(bits).at(now)
    }

    /// Notes that a renewal is about to be requested. `false`: the lease is gone, so the store must not be asked.
    pub(crate) fn begin_renewal(&self, now: Moment) -> bool {
        let is_live = self.deadline_at(now).is_some();
        self.signal.change_silently(|| {
            // If a release came before this lock, it does not wait for this renewal, so the renewal must not begin.
            let begins = is_live && matches!(self.state(), LeaseState::HeldUntil(_));
            self.is_renewing.store(begins, Ordering::Release);
            begins
        })
    }

    /// Notes that the store has renewed the lease until `deadline`. A lease that is gone stays gone.
    pub(crate) fn renewed_until(&self, deadline: Moment, now: Moment) {
        self.end_renewal(now, LeaseState::HeldUntil(deadline.minus(self.stopping)));
    }

    /// Notes the answer of the store that another owner, or no owner, holds the name. Wakes the waiting threads, but no
    /// tasks.
    pub(crate) fn lose(&self, now: Moment) {
        if !self.was_released() {
            // This is also set if the deadline has passed, because a task that is being stopped has no more time.
            self.is_taken_away.store(true, Ordering::Release);
        }
        self.end_renewal(now, LeaseState::GoneSince(now));
    }

    fn end_renewal(&self, now: Moment, answer: LeaseState) {
        if let state @ LeaseState::HeldUntil(_) = self.state_at(now) {
            // If another thread has changed the state meanwhile, the lease is gone.
            let _ = self.state.compare_exchange(state.to_bits(), answer.to_bits(), Ordering::AcqRel, Ordering::Acquire);
        }
        self.renewal_failed();
    }

    /// Notes that the store did not answer the request for a renewal.
    pub(crate) fn renewal_failed(&self) {
        self.signal.change(|| self.is_renewing.store(false, Ordering::Release));
    }

    /// Notes that the lease ends at this moment at the latest. Called before the store is asked to shorten the lease.
    pub(crate) fn shorten_until(&self, deadline: Moment) {
        let deadline = deadline.minus(self.stopping);
        let is_later = |bits| matches!(LeaseState::from_bits(bits), LeaseState::HeldUntil(until) if deadline < until);
        let shorten = |bits| is_later(bits).then(|| LeaseState::HeldUntil(deadline).to_bits());
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, shorten);
        // Wakes the threads that wait until the former, later deadline.
        self.signal.change(|| ());
    }

    /// Ends the run or the guard, and the renewal with it. Returns the lease with its last deadline, if it was renewed.
    /// The caller wakes the waiting tasks, without holding a lock.
    #[inline]
    pub(crate) fn begin_release(&self) -> Option<Lease> {
        let end = |bits| (bits & GONE == 0).then_some(bits | GONE | RELEASED);
        let until = match self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, end) {
            Err(lost) if lost & RELEASED == 0 => return None,
            Ok(bits) | Err(bits) => Moment::from_bits(bits & !(GONE | RELEASED)),
        };
        let deadline = until.plus(self.stopping);
        self.lease().filter(|lease| lease.deadline() != deadline).map(|lease| lease.held_until(deadline))
    }

    /// Returns how much of the minimum hold is left; nothing if the lease is gone.
    pub(crate) fn minimum_hold_left(&self) -> Option<Term> {
        let minimum_hold = self.minimum_hold?.get();
        let now = self.clock.moment();
        let left = self.granted_at.plus(minimum_hold).since(now);
        self.deadline_at(now).and_then(|_| Term::new(left).ok())
    }

    /// Waits until a running renewal is answered, or until `deadline`. Otherwise the store could carry out the renewal
    /// after a request to shorten the lease.
    pub(crate) fn wait_for_renewal(&self, deadline: Moment) {
        let is_renewing = |now| self.is_renewing.load(Ordering::Acquire) && now < deadline;
        let waiting = self.clock.waiting(&self.signal);
        self.signal.wait_while(&waiting, |now, waiting| is_renewing(now).then(|| waiting.patience(deadline)));
    }

    /// Reports the loss of the lease once. Subscribers may be slow, so no thread calls this while other threads wait
    /// for the caller.
    #[cold]
    pub(super) fn report_loss(&self, posted: Option<Posted>) {
        if self.is_lost() && !self.loss_is_reported.swap(true, Ordering::AcqRel) {
            self.tell(&Step::LeaseLost { mutex: self.lease().map(Lease::name), token: self.token() }, posted);
        }
    }

    /// Reports a step of the run.
    pub(super) fn tell(&self, step: &Step<'_>, posted: Option<Posted>) {
        let about = self.observed.as_ref().map_or_else(About::default, |observed| observed.about());
        self.observers().tell_as(about, step, posted);
    }
}

impl fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLease").field("grant", &self.grant).field("state", &self.state()).finish_non_exhaustive()
    }
}

pub(super) fn moment(bits: &AtomicU64) -> Moment {
    Moment::from_bits(bits.load(Ordering::Acquire))
}

/// The number of no thread.
pub(crate) const NO_THREAD: usize = 0;

#[cfg(unix)]
#[inline]
pub(crate) fn this_thread() -> usize {
    crate::base::system::Thread::this().number()
}

/// Returns no thread: only Unix asks for it.
#[cfg(not(unix))]
pub(crate) fn this_thread() -> usize {
    NO_THREAD
}
