//! `LeaseGuard`: a lease for a task that runs under another scheduler.

use std::sync::Arc;
use std::time::Duration;

use super::held_lease::HeldLease;
use super::keeper::Keeper;
use super::release_on_drop::ReleaseOnDrop;
use super::signal::sleep_until;
use crate::base::error::MutexError;
use crate::lease::name::MutexName;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::term::{Renewal, SHORTEST_RENEWED, Term};
use crate::observe::release::Release;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::{event_mutex::EventMutex, handle::Store};
use crate::time::clock::{Clock, about_a_second, moment::Moment};

/// A lease in hand, for a task that runs under some other scheduler; dropping it gives the name back.
///
/// It is renewed for as long as it is there, so a short term is enough: a killed process leaves the name blocked for
/// that long at most. A task that works for longer asks [`is_lost`](Self::is_lost) now and then, and stops if it is.
/// [`EventMutex::held`] tells who holds a name that is refused. `MutexName::lease("reports")` is also what the
/// lease of an event `reports` is called. A store that can't be cloned, or a `dyn EventMutex`, goes in as `&Arc<_>`.
///
/// It is not re-entrant: who holds a name and acquires it again is refused as anybody else is.
///
/// It belongs to the process that acquired it. The copy of it in a child process that `fork` makes gives nothing back, and
/// counts as lost from its deadline on, because nobody renews it there.
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
#[must_use = "the lease is given back as soon as the guard is dropped"]
pub struct LeaseGuard {
    lease: Lease,
    held: ReleaseOnDrop<Arc<dyn EventMutex>, Arc<HeldLease>>,
    /// Has the lease in hand for as long as it is there.
    _keeper: Arc<Keeper>,
}

impl LeaseGuard {
    /// Takes the name, and renews the lease before its term is over, from 100 milliseconds to ten years. `Ok(None)`:
    /// somebody else holds it.
    ///
    /// # Errors
    ///
    /// The store did not answer, or not before the term was over; whether the name is held is not known. The term is
    /// shorter than 100 milliseconds, or the store can't extend a lease: [`acquire_for`](Self::acquire_for) is for that.
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
        Self::take(&store, name, term, Renewal::WhileItRuns)
    }

    /// [`acquire`](Self::acquire), which waits while somebody else holds the name: for `patience` at most, on the store's clock,
    /// in which it asks about once a second. Of those who wait, any may be the next. `Ok(None)`: somebody still holds it.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire); while it may wait, it asks a store again that did not answer.
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
        patience: Duration,
    ) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        let rest = |clock: &Clock, next| {
            sleep_until(clock, next);
            true
        };
        let enough = mutex.clock().moment().plus(patience);
        Self::acquire_after_rests(mutex, &name, term, enough, rest)
    }

    /// Acquires before `enough`. `rest` sleeps before the next attempt, and returns whether to make it.
    pub(crate) fn acquire_after_rests<M>(
        mutex: &M,
        name: &MutexName,
        term: Term,
        enough: Moment,
        rest: impl Fn(&Clock, Moment) -> bool,
    ) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        let clock = mutex.clock();
        loop {
            let answer = Self::acquire(mutex, name.clone(), term);
            let is_none = answer.as_ref().map_or_else(MutexError::is_outage, Option::is_none);
            let now = clock.moment();
            if !is_none || now >= enough || !rest(&clock, now.plus(about_a_second()).min(enough)) {
                return answer;
            }
        }
    }

    /// Takes the name for a fixed term, which is not renewed: choose one that the task stays within. For stores that
    /// can't extend a lease.
    ///
    /// # Errors
    ///
    /// The store did not answer, or not before the term was over; whether the name is held is not known.
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
        Self::take(&Store::new(mutex.clone()), name, term, Renewal::Never)
    }

    fn take(store: &Store, name: MutexName, term: Term, renewal: Renewal) -> Result<Option<Self>, MutexError> {
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
        let (keeper, now) = (Keeper::of(store, clock), clock.moment());
        let held = HeldLease::new(clock.clone(), Some(Grant::of(lease.clone())), now, None, Duration::ZERO);
        let held = ReleaseOnDrop::new(Arc::clone(&store.mutex), Arc::new(held));
        if lease.deadline() <= now {
            return Err(MutexError::granted_too_late(format!("admit {}", lease.name())));
        }
        // Whoever in this process has the name already has the better right.
        let kept = keeper.keep(store, held.holding(), renewal);
        Ok(kept.is_ok().then_some(Self { lease, held, _keeper: keeper }))
    }

    /// What is held, as it was granted. How long it lasts after its renewals says [`remaining`](Self::remaining).
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the lease is not ours any more: it could not be renewed in time, or somebody broke it. Somebody else may
    /// be at work, so the task should stop. Once it is lost, it stays so.
    pub fn is_lost(&self) -> bool {
        self.held.holding().is_gone()
    }

    /// How long the lease lasts as things are; it is renewed before. Zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.held.holding().remaining()
    }

    /// Waits until the lease is lost, for `timeout` at most: a sleep that ends early. `false`: the time is over, and it
    /// is still ours.
    pub fn wait_lost(&self, timeout: Duration) -> bool {
        self.held.holding().wait_until_gone(timeout)
    }

    /// Gives the name back and says how that went. `Ok(false)`: it was not ours any more, and was left alone.
    ///
    /// # Errors
    ///
    /// The store did not answer; the lease expires with its term.
    pub fn release(mut self) -> Result<bool, MutexError> {
        match self.held.release().1 {
            Some(Release::Failed(error)) => Err(error),
            Some(Release::Lost) => Ok(false),
            _ => Ok(true),
        }
    }
}
