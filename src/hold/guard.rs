//! `LeaseGuard`: a lease for a task that runs under another scheduler.

use std::sync::Arc;
use std::time::Duration;

use super::change_signal::sleep_until;
use super::held_lease::HeldLease;
use super::release_on_drop::ReleaseOnDrop;
use super::renewal_thread::RenewalThread;
use crate::base::error::MutexError;
use crate::lease::name::MutexName;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::term::{Renewal, SHORTEST_RENEWED, Term};
use crate::outcome::release::Release;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::{described_store::Store, event_mutex::EventMutex};
use crate::time::clock::{Clock, about_a_second, moment::Moment};

/// A held lease, for a task that runs under another scheduler. A drop releases it.
///
/// The lease is renewed until the guard is dropped, so a short term is enough: a killed process blocks the name for one
/// term at most. A task that runs for longer than the term calls [`is_lost`](Self::is_lost) now and then, and stops if
/// the lease is lost. If a name is refused, [`EventMutex::held`] returns its holder. `MutexName::lease("reports")` is
/// also the lease of an event `reports`. A store that can't be cloned, or a `dyn EventMutex`, is passed as `&Arc<_>`.
///
/// A guard is not re-entrant: if a process acquires a name that it holds already, it is refused, like any other
/// process.
///
/// A guard belongs to the process that acquired it. In a child process that `fork` makes, the copy of the guard
/// releases nothing. It is not renewed there, so it counts as lost from its deadline on.
///
/// A drop waits for the reply of the store: for two seconds, the usual limit of a call, if the store is unavailable. A drop in a
/// task of a runtime blocks the task's worker for that long: call `release_async` (feature `tokio`) there.
///
/// It goes by the [clock](EventMutex::clock) of its store, so that a test can move the time of both.
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
    /// Renews the lease.
    _keeper: Arc<RenewalThread>,
}

impl LeaseGuard {
    /// Acquires the name, and keeps renewing the lease. The term is from 100 milliseconds to ten years. `Ok(None)`:
    /// another owner holds it.
    ///
    /// # Errors
    ///
    /// The store did not answer before the term was over: the name may be held or not. The term is shorter than 100
    /// milliseconds, or the store can't extend a lease: [`acquire_for`](Self::acquire_for) is for that.
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
            return Err(MutexError::unsupported("extend a lease, and so renew it: use `acquire_for`"));
        }
        if term.get() < SHORTEST_RENEWED {
            let why = format!("a renewed lease is {SHORTEST_RENEWED:?} or longer; use `acquire_for`");
            return Err(MutexError::unusable(format!("create {name}"), why));
        }
        Self::acquire_once(&store, name, term, Renewal::WhileItRuns)
    }

    /// Acquires as [`acquire`](Self::acquire) does, and waits while another owner holds the name: for `timeout` at
    /// most, on the store's clock, with an attempt about once a second. Any of the waiting processes may get the name
    /// next. `Ok(None)`: another owner still holds it.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire). A store that did not answer is asked again within `timeout`.
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
    #[expect(clippy::needless_pass_by_value, reason = "as the other ways to acquire have it")]
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
        let enough = mutex.clock().moment().plus(timeout);
        Self::acquire_in_attempts(mutex, &name, term, enough, pause)
    }

    /// Acquires the name before `enough`. `pause` sleeps before the next attempt, and returns whether that attempt is
    /// to be made.
    pub(crate) fn acquire_in_attempts<M>(
        mutex: &M,
        name: &MutexName,
        term: Term,
        enough: Moment,
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
            if !is_none || now >= enough || !pause(&clock, now.plus(about_a_second()).min(enough)) {
                return answer;
            }
        }
    }

    /// Acquires the name for a fixed term, without renewals, for stores that can't extend a lease. Choose a term that
    /// is longer than the task takes.
    ///
    /// # Errors
    ///
    /// The store did not answer before the term was over: the name may be held or not.
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

    /// Holds what `store` has just granted.
    pub(crate) fn hold(
        store: &Store,
        clock: &Clock,
        lease: Lease,
        renewal: Renewal,
    ) -> Result<Option<Self>, MutexError> {
        let (renewal_thread, now) = (RenewalThread::of(store, clock), clock.moment());
        let held = HeldLease::for_guard(clock, lease.clone(), now);
        let held = ReleaseOnDrop::new(Arc::clone(&store.mutex), Arc::new(held));
        if lease.deadline() <= now {
            return Err(MutexError::granted_too_late(format!("admit {}", lease.name())));
        }
        // If this process already holds the name, the store has lost its data. Then the earlier lease counts.
        let kept = renewal_thread.keep(store, &held, renewal);
        Ok(kept.is_ok().then_some(Self { lease, held, _keeper: renewal_thread }))
    }

    /// Returns the lease as it was granted. [`remaining`](Self::remaining) counts its renewals.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns whether the lease is lost: it could not be renewed in time, or an operator broke it. Another owner may hold the
    /// name, so the task should stop. A lost lease stays lost.
    pub fn is_lost(&self) -> bool {
        self.held.reason().is_some()
    }

    /// Returns how long the lease lasts without another renewal. Zero if it is lost.
    pub fn remaining(&self) -> Duration {
        self.held.remaining().unwrap_or(Duration::MAX)
    }

    /// Waits until the lease is lost, for `timeout` at most: a sleep that ends early. `false`: the timeout is over, and the lease
    /// is not lost.
    pub fn wait_lost(&self, timeout: Duration) -> bool {
        self.held.wait(timeout).is_some()
    }

    /// Releases the name. `Ok(false)`: the lease was lost before, and nothing was released.
    ///
    /// # Errors
    ///
    /// The store did not answer; the lease expires with its term.
    pub fn release(mut self) -> Result<bool, MutexError> {
        match self.held.release() {
            Some(Release::Failed(error)) => Err(error),
            Some(Release::Lost) => Ok(false),
            _ => Ok(true),
        }
    }
}
