//! The only RAII code: a lease that is given back on every way out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::keeper::Keeper;
use super::tenure::Tenure;
use crate::base::contain::contain;
use crate::base::error::MutexError;
use crate::lease::name::MutexName;
use crate::lease::owner::Owner;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::term::{Renewal, SHORTEST_RENEWED, Term};
use crate::observe::outcome::Release;
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::Grant;
use crate::store::handle::Store;
use crate::task::run::Run;

use super::held::attempted;
use super::held::{Ending, Held, Holding};

/// A lease in hand, for a task that runs under some other scheduler; dropping it gives the name back.
///
/// It is renewed for as long as it is there, so a short term is enough: a killed process leaves the name blocked for
/// that long at most. A task that works for longer asks [`is_lost`](Self::is_lost) now and then, and stops if it is.
/// Who holds a name that is refused is told by [`EventMutex::holder`]. `MutexName::lease("reports")` is also what the
/// lease of an event `reports` is called. A store that can't be cloned, or a `dyn EventMutex`, goes in as `&Arc<_>`.
///
/// It is not re-entrant: who holds a name and acquires it again is refused as anybody else is.
///
/// It belongs to the process that acquired it. The copy of it in a child process that `fork` makes gives nothing back, and
/// counts as lost from its deadline on, because nobody renews it there.
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
    held: Held<Arc<dyn EventMutex>, Arc<Tenure>>,
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
        if !mutex.can_extend() {
            return Err(MutexError::unsupported("extend a lease, and so renew it: use `acquire_for`"));
        }
        if term.get() < SHORTEST_RENEWED {
            let why = format!("a renewed lease is {SHORTEST_RENEWED:?} or longer; use `acquire_for`");
            return Err(MutexError::unusable(format!("create {name}"), why));
        }
        Self::take(&Store::new(mutex.clone()), name, term, Renewal::WhileItRuns)
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
        let Some(lease) = store.mutex.create(&request)? else { return Ok(None) };
        let now = clock.moment();
        if lease.deadline() <= now {
            Held::new(&store.mutex, lease).release();
            return Err(MutexError::granted_too_late(format!("create {}", request.name())));
        }
        let keeper = Keeper::of(store, &clock);
        let tenure = Arc::new(Tenure::new(clock, Some(Grant::of(lease.clone())), now, None, Duration::ZERO));
        let held = Held::new(Arc::clone(&store.mutex), tenure);
        // Whoever in this process has the name already has the better right.
        let kept = keeper.keep(store, held.holding(), renewal);
        Ok(kept.is_ok().then_some(Self { lease, held, _keeper: keeper }))
    }

    /// What is held, as it was granted. How long it lasts after its renewals says [`remaining`](Self::remaining).
    ///
    /// ```
    /// # use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mutex = MemoryMutex::new();
    /// let guard = LeaseGuard::acquire(&mutex, MutexName::lease("reports")?, Term::MAX)?.expect("nobody holds it");
    /// assert_eq!(guard.lease().name().mutex(), "reports");
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the lease is not ours any more: it could not be renewed in time, or somebody broke it. Somebody else may
    /// be at work, so the task should stop. Once it is lost, it stays so.
    ///
    /// ```
    /// # use soloist::{EventMutex, LeaseGuard, MemoryMutex, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mutex = MemoryMutex::new();
    /// let guard = LeaseGuard::acquire(&mutex, MutexName::lease("reports")?, Term::MAX)?.expect("nobody holds it");
    /// for row in 0..1000 {
    ///     if guard.is_lost() {
    ///         return Err(format!("another one is at work: stopped before row {row}").into());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.held.holding().gone_since().is_some()
    }

    /// How long the lease lasts as things are; it is renewed before. Zero when it is lost.
    ///
    /// ```
    /// # use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mutex = MemoryMutex::new();
    /// let guard = LeaseGuard::acquire(&mutex, MutexName::lease("reports")?, Term::DEFAULT)?.expect("nobody holds it");
    /// assert!(guard.remaining() <= Term::DEFAULT.get());
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.held.holding().remaining().unwrap_or(Duration::MAX)
    }

    /// Waits until the lease is lost, for `timeout` at most: a sleep that ends early. `false`: the time is over, and it
    /// is still ours.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use soloist::{EventMutex, LeaseGuard, MemoryMutex, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mutex = MemoryMutex::new();
    /// let guard = LeaseGuard::acquire(&mutex, MutexName::lease("reports")?, Term::MAX)?.expect("nobody holds it");
    /// assert!(!guard.lost(Duration::from_millis(1)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self, timeout: Duration) -> bool {
        self.held.holding().wait(timeout).is_some()
    }

    /// Gives the name back and says how that went. `Ok(false)`: it was not ours any more, and was left alone.
    ///
    /// # Errors
    ///
    /// The store did not answer; the lease expires with its term.
    ///
    /// ```
    /// # use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mutex = MemoryMutex::new();
    /// let guard = LeaseGuard::acquire(&mutex, MutexName::lease("reports")?, Term::MAX)?.expect("nobody holds it");
    /// assert!(guard.release()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(self) -> Result<bool, MutexError> {
        match self.held.release().1 {
            Some(Release::Failed(error)) => Err(error),
            Some(Release::Lost) => Ok(false),
            _ => Ok(true),
        }
    }
}

impl Holding for Arc<Tenure> {
    #[inline]
    fn end(&self) -> Option<Ending<'_>> {
        let lease = self.lease()?;
        let rest = self.rest();
        let lease = self.end_renewal().map_or(Cow::Borrowed(lease), Cow::Owned);
        if rest.is_some() {
            self.wait_for_its_renewal(lease.deadline());
        }
        Some(Ending { lease, rest })
    }

    fn is_released_now(&self) -> bool {
        self.lease().is_some() && self.rest().is_none()
    }

    #[inline]
    fn pid(&self) -> Option<u32> {
        self.owner().map(Owner::pid)
    }
}

impl Holding for Run {
    #[inline]
    fn end(&self) -> Option<Ending<'_>> {
        self.tenure().end()
    }

    fn is_released_now(&self) -> bool {
        self.tenure().is_released_now()
    }

    #[inline]
    fn pid(&self) -> Option<u32> {
        Holding::pid(self.tenure())
    }
}

/// Gives back what is held in one store, what is to be held for the same rest in one call, and says of each how that went.
pub(crate) fn release_together<M: EventMutex, H: Holding>(
    mutex: M,
    held: Vec<Held<M, H>>,
) -> Vec<(H, Option<Release>)> {
    if held.len() < 2 {
        return held.into_iter().map(Held::release).collect();
    }
    let ended: Vec<Option<(Lease, Option<Term>)>> = held.iter().map(Held::end).collect();
    let mut together = BTreeMap::<Option<Term>, Vec<usize>>::new();
    for (place, ended) in ended.iter().enumerate() {
        if let Some((_, rest)) = ended {
            together.entry(*rest).or_default().push(place);
        }
    }
    let mut answers: Vec<Option<Answer>> = ended.iter().map(|_| None).collect();
    for (rest, places) in together {
        let leases: Vec<Lease> = places.iter().filter_map(|place| Some(ended[*place].as_ref()?.0.clone())).collect();
        for (place, answer) in places.into_iter().zip(released(&mutex, &leases, rest)) {
            answers[place] = Some(answer);
        }
    }
    let conclude = |((held, ended), answer): ((Held<M, H>, _), _)| match (ended, answer) {
        (Some((lease, rest)), Some(Answer::Heard(answer))) => held.given_back(&lease, rest, answer),
        // It is tried again alone. What is not ours any more may be one that went back.
        (_, Some(Answer::Unknown(error))) => match held.release() {
            (holding, Some(Release::Lost)) => (holding, Some(Release::Failed(error))),
            released => released,
        },
        _ => held.release(),
    };
    held.into_iter().zip(ended).zip(answers).map(conclude).collect()
}

/// What came of asking for one of several leases.
enum Answer {
    Heard(Result<bool, MutexError>),
    /// Which of them went back is not known.
    Unknown(MutexError),
}

/// Asks the store to take these leases back, now or after a rest; one answer for each.
fn released(mutex: &impl EventMutex, leases: &[Lease], rest: Option<Term>) -> Vec<Answer> {
    let answers = contain(|| match rest {
        None => mutex.release(leases),
        Some(rest) => mutex.release_after(leases, rest),
    });
    let unknown = |lease: &Lease| match &answers {
        Ok(answers) => {
            let count = format!("the store gave {} answers to {} leases", answers.len(), leases.len());
            Answer::Unknown(MutexError::unusable(attempted(lease), count))
        }
        Err(message) => Answer::Unknown(MutexError::panicked(attempted(lease), message)),
    };
    match answers {
        Ok(answers) if answers.len() == leases.len() => answers.into_iter().map(Answer::Heard).collect(),
        _ => leases.iter().map(unknown).collect(),
    }
}
