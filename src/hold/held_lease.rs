//! The lease of a run or of a lease guard, from its grant to its release.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use super::change_signal::Signal;
use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::base::per_process::Process;
use crate::lease::{holder::Holder, owner::Owner, request::Lease, term::Term, token::FencingToken};
use crate::observe::notice::{About, Step};
use crate::observe::tell::notice_queue::Posted;
use crate::observe::tell::observers::{Observers, RunObservers};
use crate::observe::tell::trace::print_unless_logged;
use crate::outcome::release::Release;
use crate::store::event_mutex::admission::Grant;
use crate::store::{event_mutex::EventMutex, event_mutex::batch::Batch};
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
    /// The thread that runs the task, or [`NO_THREAD`].
    thread: AtomicUsize,
    /// Locked only for an instant. A thread that holds this lock never locks `signal`.
    state: Mutex<HeldState>,
    /// Wakes the threads and tasks that wait for a change of the lease or of the run. The signal is made when it is first
    /// needed, because most runs end without it.
    signal: OnceLock<Arc<Signal>>,
    /// The observers of the run. `None`: a guard holds the lease, or the run has no observers.
    pub(crate) observed: Option<Box<RunObservers>>,
    pub(crate) by: HeldBy,
}

/// The part of a [`HeldLease`] that changes between the grant and the release.
pub(super) struct HeldState {
    pub(super) lease: LeaseState,
    loss_is_reported: bool,
    /// Whether a request for a renewal is under way.
    is_renewing: bool,
    /// The moment of the task's timeout.
    pub(super) timeout: Moment,
    /// The moment when the drain of a shutdown ends.
    pub(super) drained_by: Moment,
    /// The moment when the process exits, even if the task is still running.
    pub(super) exit_by: Moment,
    /// The number of the signal that shuts the process down.
    pub(super) exit_signal: Option<i32>,
    /// The moment when this process read a request to stop the run, and the process that made the request, if it is
    /// known.
    pub(super) stop_request: Option<(Moment, Option<Holder>)>,
    /// Whether the reason to stop was reported. Also `true` if a reason must not be reported: for a guard, and after
    /// the end of a task.
    pub(super) cancel_is_reported: bool,
}

/// The kinds of values that hold a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBy {
    Guard,
    Run,
    /// A run that a newer run of its event may replace.
    ReplaceableRun,
}

/// The state of a lease. The deadline is that of the grant or of the last renewal, less the time that is kept for
/// stopping the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    HeldUntil(Moment),
    /// The deadline has passed.
    LostAt(Moment),
    /// The store has refused a renewal, because another owner or no owner holds the name. The moment is that of the loss.
    TakenAway(Moment),
    /// The lease was released. The moment is its last deadline.
    Released(Moment),
}

impl LeaseState {
    /// Returns the moment of the loss, or the last deadline of a released lease. `None`: the lease is held.
    pub(super) fn gone_at(self) -> Option<Moment> {
        match self {
            Self::HeldUntil(_) => None,
            Self::LostAt(moment) | Self::TakenAway(moment) | Self::Released(moment) => Some(moment),
        }
    }

    pub(super) fn is_lost(self) -> bool {
        matches!(self, Self::LostAt(_) | Self::TakenAway(_))
    }
}

impl HeldState {
    /// Returns the state of the lease at `now`. If the deadline has passed, notes the loss, so that no later renewal
    /// can undo it.
    pub(super) fn lease_at(&mut self, now: Moment) -> LeaseState {
        if let LeaseState::HeldUntil(deadline) = self.lease
            && deadline <= now
        {
            self.lease = LeaseState::LostAt(deadline);
        }
        self.lease
    }

    /// Returns the deadline of the lease. Returns [`Moment::BEGINNING`] if a thread has noted that the lease is lost or
    /// released.
    pub(super) fn deadline(&self) -> Moment {
        if let LeaseState::HeldUntil(deadline) = self.lease { deadline } else { Moment::BEGINNING }
    }
}

impl HeldLease {
    /// Makes the value from the lease and claim that the store granted. A guard has only one reason to stop: the loss of
    /// its lease.
    pub(crate) fn new(
        clock: Clock,
        grant: Option<Grant>,
        granted_at: Moment,
        minimum_hold: Option<Term>,
        stopping: Duration,
        by: HeldBy,
        observed: Option<Box<RunObservers>>,
    ) -> Arc<Self> {
        let lease = grant.as_ref().and_then(Grant::lease);
        let until = lease.map_or(Moment::NEVER, |lease| lease.deadline().minus(stopping));
        Arc::new(Self {
            clock,
            grant,
            granted_at,
            minimum_hold,
            stopping,
            thread: AtomicUsize::new(NO_THREAD),
            state: Mutex::new(HeldState {
                lease: LeaseState::HeldUntil(until),
                loss_is_reported: false,
                is_renewing: false,
                timeout: Moment::NEVER,
                drained_by: Moment::NEVER,
                exit_by: Moment::NEVER,
                exit_signal: None,
                stop_request: None,
                cancel_is_reported: by == HeldBy::Guard,
            }),
            signal: OnceLock::new(),
            observed,
            by,
        })
    }

    /// Returns the id of the run, if the run has observers.
    pub(crate) fn observed_run(&self) -> Option<Owner> {
        Some(self.observed.as_ref()?.owner)
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
        let granted = self.grant.as_ref().and_then(Grant::lease_or_claim);
        granted.map_or(Duration::ZERO, |granted| self.granted_at.since(granted.asked_at()))
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.grant.as_ref().and_then(Grant::lease_or_claim).map(Lease::owner)
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
        let gone = self.state().lease_at(now).gone_at()?;
        self.report_loss(None);
        Some(gone)
    }

    /// Returns the moment when the task is cancelled unless the lease is renewed: the lease's deadline, less the time
    /// for stopping. `None`: the lease is lost or released.
    pub(crate) fn deadline_at(&self, now: Moment) -> Option<Moment> {
        if let LeaseState::HeldUntil(deadline) = self.state().lease_at(now) { Some(deadline) } else { None }
    }

    /// Returns the deadline of the lease, less the time for stopping. Returns [`Moment::BEGINNING`] if a thread has
    /// noted that the lease is lost or released.
    pub(super) fn deadline(&self) -> Moment {
        self.state().deadline()
    }

    /// Returns the [deadline](Self::deadline) without waiting for another thread. `None`: the state is locked.
    pub(super) fn try_deadline(&self) -> Option<Moment> {
        self.state.try_lock().ok().map(|state| state.deadline())
    }

    /// Returns the moment by which the task must have stopped: the end of the lease, or of the process if that is
    /// earlier. If another owner may hold the name, the task must stop at once, so this returns [`Moment::BEGINNING`].
    pub(crate) fn last_moment(&self) -> Moment {
        let state = self.state();
        match state.lease {
            LeaseState::TakenAway(_) => Moment::BEGINNING,
            LeaseState::HeldUntil(end) | LeaseState::LostAt(end) | LeaseState::Released(end) => {
                end.plus(self.stopping).min(state.exit_by)
            }
        }
    }

    pub(crate) fn was_released(&self) -> bool {
        matches!(self.state().lease, LeaseState::Released(_))
    }

    /// Returns whether the lease was lost. A lease that was released in time is not lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.state().lease.is_lost()
    }

    /// Returns the signal for a thread or task that is about to wait, or for a change that others may wait for.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        self.signal.get_or_init(Arc::default)
    }

    /// Wakes the waiting threads and tasks after a change of the state. A waiter makes the signal before it looks at the
    /// state. So if there is no signal here, a later waiter sees the change.
    pub(crate) fn wake(&self) {
        if let Some(signal) = self.signal.get() {
            signal.wake();
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, HeldState> {
        // A poisoned lock can still be used: after a panic, the state is never half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a renewal is about to be requested. `false`: the lease is gone, so the store must not be asked.
    pub(crate) fn begin_renewal(&self, now: Moment) -> bool {
        let mut state = self.state();
        state.is_renewing = matches!(state.lease_at(now), LeaseState::HeldUntil(_));
        state.is_renewing
    }

    /// Notes that the store has renewed the lease until `deadline`. A lease that is gone stays gone.
    pub(crate) fn renewed_until(&self, deadline: Moment, now: Moment) {
        self.end_renewal(|state| {
            if let LeaseState::HeldUntil(_) = state.lease_at(now) {
                state.lease = LeaseState::HeldUntil(deadline.minus(self.stopping));
            }
        });
    }

    /// Notes that the lease is lost: the store has answered that another owner, or no owner, holds the name. Wakes the
    /// waiting threads, but no tasks.
    pub(crate) fn lose(&self, now: Moment) {
        self.end_renewal(|state| {
            state.lease = match state.lease_at(now) {
                LeaseState::HeldUntil(_) => LeaseState::TakenAway(now),
                // A task that is already stopping must now end at once, because another owner may hold the name.
                LeaseState::LostAt(lost) => LeaseState::TakenAway(lost),
                gone => gone,
            };
        });
    }

    /// Notes that the store did not answer the request for a renewal.
    pub(crate) fn renewal_failed(&self) {
        self.end_renewal(|_| ());
    }

    fn end_renewal(&self, note: impl FnOnce(&mut HeldState)) {
        self.signal().change(|| {
            let mut state = self.state();
            note(&mut state);
            state.is_renewing = false;
        });
    }

    /// Notes that the lease ends at `deadline` at the latest. Call this before the store is asked to shorten the lease,
    /// so that the task never relies on a later deadline than the store has.
    pub(crate) fn shorten_until(&self, deadline: Moment) {
        // Wakes the threads that wait until the old deadline, which is later.
        self.signal().change(|| {
            if let LeaseState::HeldUntil(until) = &mut self.state().lease {
                *until = deadline.minus(self.stopping).min(*until);
            }
        });
    }

    /// Notes the release of the lease, so that no renewal begins any more. Returns the lease with its last deadline. A
    /// lost lease has the deadline of its grant. The caller must wake the waiting tasks, without holding a lock.
    pub(crate) fn begin_release(&self) -> Option<Lease> {
        let mut state = self.state();
        let mut lease = self.lease().cloned();
        if let LeaseState::HeldUntil(until) | LeaseState::Released(until) = state.lease {
            state.lease = LeaseState::Released(until);
            lease = lease.map(|lease| lease.held_until(until.plus(self.stopping)));
        }
        lease
    }

    /// Returns the time that is left of the minimum hold. `None`: no time is left, or the lease is lost. A released lease
    /// keeps its minimum hold, because the release may be requested twice.
    pub(crate) fn minimum_hold_left(&self) -> Option<Term> {
        let minimum_hold = self.minimum_hold?.get();
        let now = self.clock.moment();
        let left = self.granted_at.plus(minimum_hold).since(now);
        let is_lost = self.state().lease_at(now).is_lost();
        Term::new(left).ok().filter(|_| !is_lost)
    }

    /// Waits until a renewal that is under way is answered, at most until `deadline`. Without this wait, the store
    /// could carry out the renewal after the release, so that the lease would last too long.
    pub(crate) fn wait_for_renewal(&self, deadline: Moment) {
        let is_renewing = |now| self.state().is_renewing && now < deadline;
        self.wait_while(|now, waiting| is_renewing(now).then(|| waiting.patience(deadline)));
    }

    /// Reports the loss of the lease once. Subscribers can be slow, so call this only while no other thread waits for
    /// the caller.
    #[cold]
    pub(super) fn report_loss(&self, posted: Option<Posted>) {
        let mut state = self.state();
        let is_new = state.lease.is_lost() && !mem::replace(&mut state.loss_is_reported, true);
        drop(state);
        if is_new {
            self.tell(&Step::LeaseLost { mutex: self.lease().map(Lease::name), token: self.token() }, posted);
        }
    }

    pub(super) fn tell(&self, step: &Step<'_>, posted: Option<Posted>) {
        let about = self.observed.as_ref().map_or_else(About::default, |observed| observed.about());
        self.observers().tell(About { posted, ..about }, step);
    }
}

impl fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLease")
            .field("grant", &self.grant)
            .field("state", &self.state().lease)
            .finish_non_exhaustive()
    }
}

/// A held lease that is released when this value is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseOnDrop {
    store: Arc<dyn EventMutex>,
    held: Arc<HeldLease>,
    /// The process that the store granted the lease to.
    granted_to: Process,
    is_armed: bool,
}

impl ReleaseOnDrop {
    pub(crate) fn new(store: Arc<dyn EventMutex>, held: Arc<HeldLease>) -> Self {
        Self { store, held, granted_to: Process::this(), is_armed: true }
    }

    /// Disables the release on drop, because the caller releases the lease.
    pub(crate) fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// Releases the lease now. `None`: there is no lease to release.
    pub(crate) fn release(&mut self) -> Option<Release> {
        self.is_armed = false;
        if self.is_inherited() {
            return Some(Release::Lost);
        }
        let (lease, minimum_hold) = self.begin_release()?;
        let mut batch = Batch::new();
        batch.add_release(lease, minimum_hold);
        batch.ask(&*self.store);
        Some(batch.take_release(0))
    }

    /// Notes the end of the run or the guard, and wakes the threads and tasks that wait for this end. Returns the
    /// lease, and the time that is left of its minimum hold. The caller must ask the store to release the lease.
    /// `None`: there is no lease to release.
    pub(crate) fn begin_release(&self) -> Option<(Lease, Option<Term>)> {
        if self.is_inherited() {
            return None;
        }
        let minimum_hold = self.held.minimum_hold_left();
        let lease = self.held.begin_release();
        self.held.wake();
        let lease = lease?;
        if minimum_hold.is_some() {
            self.held.wait_for_renewal(lease.deadline());
        }
        Some((lease, minimum_hold))
    }

    /// Returns whether this process is a child that inherited the lease by `fork`. Then the parent still holds the
    /// lease, so the child must not release it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.granted_to != Process::this() && self.held.owner().is_some()
    }
}

impl Deref for ReleaseOnDrop {
    type Target = Arc<HeldLease>;

    fn deref(&self) -> &Arc<HeldLease> {
        &self.held
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        // Only a failure is printed. The loss of a lease was reported before, and a success needs no message.
        if self.is_armed
            && let Some(failed @ Release::Failed(_)) = self.release()
        {
            print_unless_logged(failed);
        }
    }
}

/// A value in place of the number of a thread: the task runs on no thread.
pub(crate) const NO_THREAD: usize = 0;

#[cfg(unix)]
pub(crate) use crate::base::system::this_thread;

/// Returns [`NO_THREAD`], because only Unix uses the number of the thread.
#[cfg(not(unix))]
pub(crate) fn this_thread() -> usize {
    NO_THREAD
}

#[cfg(test)]
impl HeldLease {
    /// Makes the value for a run without observers.
    pub(crate) fn for_test(
        clock: &Clock,
        grant: Option<Grant>,
        minimum_hold: Option<Term>,
        stopping: Duration,
    ) -> Arc<Self> {
        Self::new(clock.clone(), grant, clock.moment(), minimum_hold, stopping, HeldBy::Run, None)
    }
}
