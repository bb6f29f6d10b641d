//! `LeaseGuard`: a lease for a task that runs under another scheduler.

use std::sync::Arc;
use std::time::Duration;

use super::change_signal::sleep_until;
use super::held_lease::{HeldBy, HeldLease, ReleaseOnDrop};
use super::renewal_thread::RenewalThread;
use crate::base::error::MutexError;
use crate::lease::name::MutexName;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::term::{Renewal, SHORTEST_RENEWED, Term};
use crate::outcome::release::Release;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::{described_store::Store, event_mutex::EventMutex};
use crate::time::clock::{Clock, about_a_second, moment::Moment, shown::ExactDuration};

/// A held lease, for a task that runs under another scheduler. A drop of the guard releases the lease.
///
/// The lease is renewed until the guard is dropped. So a short term is enough: if the process is killed, the name is
/// blocked for one term at most. Only a lease of [`acquire_for`](Self::acquire_for) is not renewed. A long task should
/// call [`is_lost`](Self::is_lost) now and then, and stop if the lease is lost.
///
/// `MutexName::lease("reports")` is also the name of the lease of an event `reports`. If another owner holds the name,
/// [`EventMutex::held`] returns the holder. If a store can't be cloned, or is a `dyn EventMutex`, pass it as `&Arc<_>`.
///
/// A guard is not re-entrant: a process that holds a name can't acquire the name again.
///
/// A guard belongs to the process that acquired it. A child process that `fork` makes has a copy of the guard. The copy
/// renews nothing and releases nothing, and its lease counts as lost from the deadline on.
///
/// A drop waits for the reply of the store. If the store is unavailable, the wait usually ends after two seconds, the
/// time limit of a call. In a task of an async runtime, a drop blocks the worker thread for that time: call
/// `release_async` (feature `tokio`) there.
///
/// A guard uses the [clock](EventMutex::clock) of its store, so that a test can move the time of the guard and the
/// store together.
///
/// ```
/// use std::time::Duration;
/// use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// let name = MutexName::lease("reports")?;
/// let term = Term::new(Duration::from_secs(60))?;
/// if let Some(guard) = LeaseGuard::acquire(&mutex, name.clone(), term)? {
///     println!("working under token {}", guard.lease().token());
///     assert!(LeaseGuard::acquire(&mutex, name, term)?.is_none(), "one at a time");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lease is released as soon as the guard is dropped"]
pub struct LeaseGuard {
    lease: Lease,
    held: ReleaseOnDrop,
}

impl LeaseGuard {
    /// Acquires the name, and renews the lease until the guard is dropped. The term can be from 100 milliseconds to ten
    /// years. `Ok(None)`: another owner holds the name.
    ///
    /// # Errors
    ///
    /// - The store did not answer before the term was over. The store may still have granted the name.
    /// - The term is shorter than 100 milliseconds, or the store can't extend a lease: use
    ///   [`acquire_for`](Self::acquire_for).
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let term = Term::new(Duration::from_secs(60))?;
    /// let guard = LeaseGuard::acquire(&MemoryMutex::new(), MutexName::lease("reports")?, term)?;
    /// assert!(guard.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire<M>(mutex: &M, name: MutexName, term: Term) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        let store = Store::new(mutex.clone());
        if !store.can_extend {
            return Err(MutexError::unsupported(
                "extend a lease, which `acquire` and `acquire_within` need: use `acquire_for`",
            ));
        }
        if term.get() < SHORTEST_RENEWED {
            let (term, shortest) = (ExactDuration(term.get()), ExactDuration(SHORTEST_RENEWED));
            let why = format!(
                "the term is {term}, but `acquire` and `acquire_within` need {shortest} or longer: use `acquire_for`"
            );
            return Err(MutexError::unusable(format!("create {name}"), why));
        }
        Self::acquire_once(&store, name, term, Renewal::WhileItRuns)
    }

    /// Acquires the name as [`acquire`](Self::acquire) does. If another owner holds the name, tries again about once a
    /// second, for `timeout` at most, on the store's clock. If several processes wait, any of them can get the name
    /// next. `Ok(None)`: another owner held the name until the end of `timeout`.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire). While the store does not answer, the attempts go on until the end of
    /// `timeout`. The last attempt can then take as long as the store's time limit for a call.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (mutex, name) = (MemoryMutex::new(), MutexName::lease("migration")?);
    /// let held = LeaseGuard::acquire(&mutex, name.clone(), Term::DEFAULT)?;
    /// let ends = std::thread::spawn(move || drop(held));
    /// let guard = LeaseGuard::acquire_within(&mutex, name, Term::DEFAULT, Duration::from_secs(30))?;
    /// assert!(guard.is_some());
    /// # ends.join().unwrap();
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "the other functions that acquire a name take it by value, too")]
    pub fn acquire_within<M>(
        mutex: &M,
        name: MutexName,
        term: Term,
        timeout: Duration,
    ) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        let pause = |clock: &Clock, next| {
            sleep_until(clock, next);
            true
        };
        let latest = mutex.clock().moment().plus(timeout);
        Self::acquire_in_attempts(mutex, &name, term, latest, pause)
    }

    /// Acquires the name in several attempts, the last one at the moment `latest`. `pause` sleeps until the moment of
    /// the next attempt, and returns whether to make that attempt.
    pub(crate) fn acquire_in_attempts<M>(
        mutex: &M,
        name: &MutexName,
        term: Term,
        latest: Moment,
        pause: impl Fn(&Clock, Moment) -> bool,
    ) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        let clock = mutex.clock();
        loop {
            let answer = Self::acquire(mutex, name.clone(), term);
            let is_none = answer.as_ref().map_or_else(MutexError::is_outage, Option::is_none);
            let now = clock.moment();
            if !is_none || now >= latest || !pause(&clock, now.plus(about_a_second()).min(latest)) {
                return answer;
            }
        }
    }

    /// Acquires the name for a fixed term, without renewals, for stores that can't extend a lease. Choose a term that
    /// is longer than the task takes.
    ///
    /// # Errors
    ///
    /// The store did not answer before the term was over. The store may still have granted the name.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let term = Term::new(Duration::from_secs(4 * 3600))?;
    /// let guard = LeaseGuard::acquire_for(&MemoryMutex::new(), MutexName::lease("reports")?, term)?;
    /// assert!(guard.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_for<M>(mutex: &M, name: MutexName, term: Term) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        Self::acquire_once(&Store::new(mutex.clone()), name, term, Renewal::Never)
    }

    fn acquire_once(store: &Store, name: MutexName, term: Term, renewal: Renewal) -> Result<Option<Self>, MutexError> {
        let clock = store.mutex.clock();
        let _still = clock.stand_still();
        let request = LeaseRequest::new(name, term, &clock);
        let admission = Admission::lease_only(request);
        match admission.ask(&*store.mutex)? {
            Admitted::Granted(Grant { lease: Some(lease), .. }) => Self::hold(store, &clock, lease, renewal),
            _ => Ok(None),
        }
    }

    /// Makes the guard for a lease that `store` has just granted. `Ok(None)`: this process holds the name already.
    pub(crate) fn hold(
        store: &Store,
        clock: &Clock,
        lease: Lease,
        renewal: Renewal,
    ) -> Result<Option<Self>, MutexError> {
        let now = clock.moment();
        let grant = Some(Grant::of(lease.clone()));
        let held = HeldLease::new(clock.clone(), grant, now, None, Duration::ZERO, HeldBy::Guard, None);
        let held = ReleaseOnDrop::new(Arc::clone(&store.mutex), held);
        if lease.deadline() <= now {
            return Err(MutexError::granted_too_late(format!("admit {}", lease.name())));
        }
        // If this process still renews a lease of this name, the store has lost that lease, or an operator broke it. Its
        // run may not have stopped yet, so no guard is made.
        let kept = RenewalThread::of(store, clock).keep(store, &held, renewal);
        Ok(kept.is_ok().then_some(Self { lease, held }))
    }

    /// Returns the lease with the deadline of its grant. Renewals do not change this value: see
    /// [`remaining`](Self::remaining).
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns whether the lease is lost, because it was not renewed in time, or because an operator broke it. Then
    /// another owner may hold the name, so the task should stop. A lost lease stays lost.
    pub fn is_lost(&self) -> bool {
        match self.inherited_until() {
            Some(deadline) => deadline <= self.held.now(),
            None => self.held.reason().is_some(),
        }
    }

    /// Returns how long the lease lasts without another renewal. Zero if the lease is lost.
    pub fn remaining(&self) -> Duration {
        match self.inherited_until() {
            Some(deadline) => deadline.since(self.held.now()),
            None => self.held.remaining().unwrap_or(Duration::MAX),
        }
    }

    /// Waits until the lease is lost, but no longer than `timeout`. Returns whether the lease is lost.
    pub fn wait_lost(&self, timeout: Duration) -> bool {
        let Some(deadline) = self.inherited_until() else { return self.held.wait(timeout).is_some() };
        sleep_until(&self.held.clock, self.held.now().plus(timeout).min(deadline));
        self.is_lost()
    }

    /// Returns the deadline of a copy in a child process that `fork` made. The copy must not wait for a lock: it stays
    /// locked in the child if a thread of the parent held it at the moment of the `fork`.
    fn inherited_until(&self) -> Option<Moment> {
        self.held.is_inherited().then(|| self.held.try_deadline().unwrap_or(self.lease.deadline()))
    }

    /// Releases the name. `Ok(false)`: the lease was lost earlier, so nothing was released.
    ///
    /// # Errors
    ///
    /// The store did not answer. If the name is still held, its lease ends at the deadline.
    pub fn release(mut self) -> Result<bool, MutexError> {
        match self.held.release() {
            Some(Release::Failed(error)) => Err(error),
            Some(Release::Lost) => Ok(false),
            _ => Ok(true),
        }
    }
}
