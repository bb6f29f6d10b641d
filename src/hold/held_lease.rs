//! The lease of a run or of a lease guard, from its grant to its release.
//!
//! A single atomic `u64` holds the deadline of the lease, or the time at which the lease was lost. After a renewal, one
//! thread can move the deadline while another thread finds that the deadline has passed. Both threads change this one
//! value, so they agree on the result, and a lost lease stays lost.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::change_signal::Signal;
use super::sync::{AtomicU64, Ordering};
use crate::lease::{holder::Holder, owner::Owner, request::Lease, term::Term, token::FencingToken};
use crate::observe::notice::{About, Step};
use crate::observe::tell::notice_queue::Posted;
use crate::observe::tell::observers::{Observers, RunObservers};
use crate::store::event_mutex::admission::Grant;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The lease and the claim of a run, or the lease of a guard, with the reasons that can end the run early. A run
/// without protection has no lease and no claim. The functions for these reasons are in `cancellation.rs`.
pub(crate) struct HeldLease {
    pub(crate) clock: Clock,
    grant: Option<Grant>,
    pub(crate) granted_at: Moment,
    /// The minimum hold: the shortest time from the grant until the store frees the name, even if the run ends earlier.
    minimum_hold: Option<Term>,
    /// The time that is kept for stopping the task. The task is cancelled this long before the lease ends. Zero for a
    /// callback.
    pub(crate) stopping: Duration,
    /// A [`LeaseState`], encoded in 64 bits.
    state: AtomicU64,
    /// Whether the store has refused a renewal, because another owner or no owner holds the name.
    is_taken_away: AtomicBool,
    loss_is_reported: AtomicBool,
    /// Whether a request for a renewal is under way. Changes only while `signal` is locked.
    is_renewing: AtomicBool,
    /// Wakes the threads and tasks that wait for a change of the lease or of the run.
    pub(crate) signal: Arc<Signal>,
    /// The observers of the run. `None`: a guard holds the lease, or the run has no observers.
    pub(crate) observed: Option<Box<RunObservers>>,
    pub(crate) by: HeldBy,
    /// The thread that runs the task, or [`NO_THREAD`].
    thread: AtomicUsize,
    /// The moment of the task's timeout.
    pub(super) timeout: AtomicU64,
    /// The moment when the drain of a shutdown ends.
    pub(super) drained_by: AtomicU64,
    /// The moment when the process exits, even if the task is still running.
    pub(super) exit_by: AtomicU64,
    /// The number of the signal that shuts the process down, or zero.
    pub(super) exit_signal: AtomicI32,
    /// The moment when this process read a request to stop the run, and the process that made the request, if it is
    /// known.
    pub(super) stop_request: OnceLock<Box<(Moment, Option<Holder>)>>,
    /// Whether the reason to stop was reported. Also `true` if a reason must not be reported: for a guard, and after
    /// the end of a task.
    pub(super) cancel_is_reported: AtomicBool,
}

/// The kinds of values that hold a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBy {
    Guard,
    Run,
    /// A run that a newer run of its event may replace.
    ReplaceableRun,
}

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseState {
    HeldUntil(Moment),
    /// The lease was lost at this moment. For a released lease, the moment is the last deadline.
    GoneSince(Moment),
}

const GONE: u64 = 1 << 63;

/// The bit for a released lease. `GONE` is set, too, and the other bits are the last deadline.
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

    /// Returns the state at `now`. If the deadline has passed, the lease is gone, even if no thread has noticed that
    /// yet.
    fn at(self, now: Moment) -> Self {
        match self {
            Self::HeldUntil(deadline) if deadline <= now => Self::GoneSince(deadline),
            state => state,
        }
    }
}

impl HeldLease {
    /// Makes the value for a run, from the lease and claim that the store granted.
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

    /// Makes the value for a guard. A guard has only one reason to stop: the loss of its lease.
    pub(crate) fn for_guard(clock: &Clock, lease: Lease, granted_at: Moment) -> Self {
        let held = Self::new(clock.clone(), Some(Grant::of(lease)), granted_at, None, Duration::ZERO);
        Self { by: HeldBy::Guard, cancel_is_reported: AtomicBool::new(true), ..held }
    }

    /// Returns the id of the run, if the run has observers.
    pub(crate) fn observed_run(&self) -> Option<Owner> {
        self.observed.as_ref().map(|observed| observed.owner)
    }

    pub(crate) fn observers(&self) -> &Observers {
        self.observed.as_ref().map_or(&Observers::NONE, |observed| &observed.observers)
    }

    /// Returns the lease with the deadline of its grant.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.grant.as_ref()?.lease()
    }

    pub(crate) fn claim(&self) -> Option<&Lease> {
        self.grant.as_ref()?.claim()
    }

    /// Returns how long the store took to grant the lease or the claim. Zero: there is no grant.
    pub(crate) fn decided_in(&self) -> Duration {
        let granted = self.lease().or(self.claim());
        granted.map_or(Duration::ZERO, |granted| self.granted_at.since(granted.asked_at()))
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
    pub(crate) fn enter_thread(&self) {
        self.thread.store(this_thread(), Ordering::Relaxed);
    }

    /// Notes that the task runs on no thread.
    pub(crate) fn leave_thread(&self) {
        self.thread.store(NO_THREAD, Ordering::Relaxed);
    }

    pub(super) fn is_running_on(&self, thread: usize) -> bool {
        thread != NO_THREAD && self.thread.load(Ordering::Relaxed) == thread
    }

    /// Returns the moment of the loss, or the last deadline of a released lease. `None`: the lease is held. Reports a
    /// loss.
    pub(crate) fn gone_by(&self, now: Moment) -> Option<Moment> {
        let gone = self.gone_at(now);
        if gone.is_some() {
            self.report_loss(None);
        }
        gone
    }

    /// Returns the moment of the loss, or the last deadline of a released lease. `None`: the lease is held.
    pub(crate) fn gone_at(&self, now: Moment) -> Option<Moment> {
        if let LeaseState::GoneSince(moment) = self.state_at(now) { Some(moment) } else { None }
    }

    /// Returns the moment when the task is cancelled unless the lease is renewed: the lease's deadline, less the time
    /// for stopping. `None`: the lease is lost or released.
    pub(crate) fn deadline_at(&self, now: Moment) -> Option<Moment> {
        if let LeaseState::HeldUntil(deadline) = self.state_at(now) { Some(deadline) } else { None }
    }

    /// Returns the deadline of the lease, less the time for stopping. Returns [`Moment::BEGINNING`] if a thread has
    /// noted that the lease is lost or released.
    pub(super) fn deadline(&self) -> Moment {
        match self.state() {
            LeaseState::HeldUntil(deadline) => deadline,
            LeaseState::GoneSince(_) => Moment::BEGINNING,
        }
    }

    /// Returns the moment by which the task must have stopped: the end of the lease, or of the process if that is
    /// earlier. If another owner may hold the name, the task must stop at once, so this returns [`Moment::BEGINNING`].
    pub(crate) fn last_moment(&self) -> Moment {
        if self.is_taken_away.load(Ordering::Acquire) {
            return Moment::BEGINNING;
        }
        let (LeaseState::HeldUntil(deadline) | LeaseState::GoneSince(deadline)) = self.state();
        deadline.plus(self.stopping).min(moment(&self.exit_by))
    }

    pub(crate) fn was_released(&self) -> bool {
        self.state.load(Ordering::Acquire) & RELEASED != 0
    }

    /// Returns whether the lease was lost. A lease that was released in time is not lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.load(Ordering::Acquire) & (GONE | RELEASED) == GONE
    }

    fn state(&self) -> LeaseState {
        LeaseState::from_bits(self.state.load(Ordering::Acquire))
    }

    /// Returns the state at `now`. If the deadline has passed, notes the loss, so that no later renewal can undo it.
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
            // The signal is locked here. If the lease was released before the signal was locked, the release does not
            // wait for this renewal. So this renewal must not begin.
            let begins = is_live && matches!(self.state(), LeaseState::HeldUntil(_));
            self.is_renewing.store(begins, Ordering::Release);
            begins
        })
    }

    /// Notes that the store has renewed the lease until `deadline`. A lease that is gone stays gone.
    pub(crate) fn renewed_until(&self, deadline: Moment, now: Moment) {
        self.end_renewal(now, LeaseState::HeldUntil(deadline.minus(self.stopping)));
    }

    /// Notes that the lease is lost: the store has answered that another owner, or no owner, holds the name. Wakes the
    /// waiting threads, but no tasks.
    pub(crate) fn lose(&self, now: Moment) {
        if !self.was_released() {
            // `is_taken_away` is set even after the deadline: a task that is already stopping must now end at once,
            // because another owner may hold the name.
            self.is_taken_away.store(true, Ordering::Release);
        }
        self.end_renewal(now, LeaseState::GoneSince(now));
    }

    fn end_renewal(&self, now: Moment, answer: LeaseState) {
        if let state @ LeaseState::HeldUntil(_) = self.state_at(now) {
            // This fails if another thread has noted that the lease is gone. Then the lease stays gone.
            let _ = self.state.compare_exchange(state.to_bits(), answer.to_bits(), Ordering::AcqRel, Ordering::Acquire);
        }
        self.renewal_failed();
    }

    /// Notes that the store did not answer the request for a renewal.
    pub(crate) fn renewal_failed(&self) {
        self.signal.change(|| self.is_renewing.store(false, Ordering::Release));
    }

    /// Notes that the lease ends at `deadline` at the latest. Call this before the store is asked to shorten the lease,
    /// so that the task never relies on a later deadline than the store has.
    pub(crate) fn shorten_until(&self, deadline: Moment) {
        let deadline = deadline.minus(self.stopping);
        let is_later = |bits| matches!(LeaseState::from_bits(bits), LeaseState::HeldUntil(until) if deadline < until);
        let shorten = |bits| is_later(bits).then(|| LeaseState::HeldUntil(deadline).to_bits());
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, shorten);
        // Wakes the threads that wait until the old deadline, which is later.
        self.signal.change(|| ());
    }

    /// Notes the release of the lease, so that no renewal begins any more. Returns the lease with its last deadline, if
    /// the deadline has changed since the grant. The caller must wake the waiting tasks, without holding a lock.
    pub(crate) fn begin_release(&self) -> Option<Lease> {
        let end = |bits| (bits & GONE == 0).then_some(bits | GONE | RELEASED);
        let until = match self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, end) {
            Err(lost) if lost & RELEASED == 0 => return None,
            Ok(bits) | Err(bits) => Moment::from_bits(bits & !(GONE | RELEASED)),
        };
        let deadline = until.plus(self.stopping);
        self.lease().filter(|lease| lease.deadline() != deadline).map(|lease| lease.held_until(deadline))
    }

    /// Returns the time that is left of the minimum hold. `None`: no time is left, or the lease is gone.
    pub(crate) fn minimum_hold_left(&self) -> Option<Term> {
        let minimum_hold = self.minimum_hold?.get();
        let now = self.clock.moment();
        let left = self.granted_at.plus(minimum_hold).since(now);
        self.deadline_at(now).and_then(|_| Term::new(left).ok())
    }

    /// Waits until a renewal that is under way is answered, at most until `deadline`. Without this wait, the store
    /// could carry out the renewal after the release, so that the lease would last too long.
    pub(crate) fn wait_for_renewal(&self, deadline: Moment) {
        let is_renewing = |now| self.is_renewing.load(Ordering::Acquire) && now < deadline;
        let waiting = self.clock.waiting(&self.signal);
        self.signal.wait_while(&waiting, |now, waiting| is_renewing(now).then(|| waiting.patience(deadline)));
    }

    /// Reports the loss of the lease once. Subscribers can be slow, so call this only while no other thread waits for
    /// the caller.
    #[cold]
    pub(super) fn report_loss(&self, posted: Option<Posted>) {
        if self.is_lost() && !self.loss_is_reported.swap(true, Ordering::AcqRel) {
            self.tell(&Step::LeaseLost { mutex: self.lease().map(Lease::name), token: self.token() }, posted);
        }
    }

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

/// A value in place of the number of a thread: the task runs on no thread.
pub(crate) const NO_THREAD: usize = 0;

#[cfg(unix)]
pub(crate) fn this_thread() -> usize {
    crate::base::system::Thread::this().number()
}

/// Returns [`NO_THREAD`], because only Unix uses the number of the thread.
#[cfg(not(unix))]
pub(crate) fn this_thread() -> usize {
    NO_THREAD
}
