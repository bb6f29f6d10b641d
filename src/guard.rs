//! The only RAII code: a lease that is given back on every way out.

use std::borrow::Borrow;
use std::sync::Arc;

use crate::clock::Clock;
use crate::error::{Chain, MutexError};
use crate::fault::contain;
use crate::lease::{Lease, LeaseRequest, MutexName, Term};
use crate::mutex::EventMutex;

/// A lease in hand, for a task that runs under some other scheduler; dropping it gives the name back.
///
/// It is held for its term and not renewed: choose a term that the task stays within. Who holds a name that is refused
/// is told by [`EventMutex::holder`]. `MutexName::lease("reports")` is also what the lease of an event `reports` is
/// called. A store that can't be cloned, or a `dyn EventMutex`, goes in as `&Arc<_>`.
///
/// ```
/// use std::time::Duration;
/// use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// let name = MutexName::lease("reports")?;
/// let term = Term::new(Duration::from_secs(600))?;
/// if let Some(guard) = LeaseGuard::acquire(&mutex, name.clone(), term)? {
///     println!("working under token {}", guard.lease().token());
///     assert!(LeaseGuard::acquire(&mutex, name, term)?.is_none(), "one at a time");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lease is given back as soon as the guard is dropped"]
pub struct LeaseGuard(Held<Arc<dyn EventMutex>, Lease>);

impl LeaseGuard {
    /// Takes the name for a term. `Ok(None)`: somebody else holds it.
    ///
    /// # Errors
    ///
    /// The store did not answer; whether the name is held is not known.
    ///
    /// ```
    /// use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = LeaseGuard::acquire(&MemoryMutex::new(), MutexName::lease("reports")?, Term::MAX)?;
    /// assert!(guard.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire<M>(mutex: &M, name: MutexName, term: Term) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        let lease = mutex.create(&LeaseRequest::new(name, term, &Clock::system()))?;
        Ok(lease.map(|lease| Self(Held::new(Arc::new(mutex.clone()), lease))))
    }

    /// What is held.
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
        &self.0.lease
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
        self.0.release()
    }
}

/// A lease that is given back when this goes, owned or borrowed with its store.
#[derive(Debug)]
pub(crate) struct Held<M: EventMutex, L: Borrow<Lease>> {
    mutex: M,
    lease: L,
    given_back: bool,
}

impl<M: EventMutex, L: Borrow<Lease>> Held<M, L> {
    /// Holds a lease that was just granted.
    pub(crate) fn new(mutex: M, lease: L) -> Self {
        Self { mutex, lease, given_back: false }
    }

    /// Leaves the lease to whoever gets it from here.
    pub(crate) fn keep(mut self) -> L
    where
        L: Clone,
    {
        self.given_back = true;
        self.lease.clone()
    }

    pub(crate) fn release(mut self) -> Result<bool, MutexError> {
        self.give_back()
    }

    pub(crate) fn lease(&self) -> &Lease {
        self.lease.borrow()
    }

    /// The store was asked elsewhere to take it back, and said this.
    pub(crate) fn given_back(mut self, answer: Result<bool, MutexError>) -> Result<bool, MutexError> {
        self.given_back = true;
        tell(self.lease.borrow(), &answer);
        answer
    }

    fn give_back(&mut self) -> Result<bool, MutexError> {
        self.given_back = true;
        let lease = self.lease.borrow();
        let answer = contain(|| self.mutex.forget(lease))
            .unwrap_or_else(|message| Err(MutexError::panicked(format!("forget {}", lease.name()), &message)));
        tell(lease, &answer);
        answer
    }
}

fn tell(lease: &Lease, answer: &Result<bool, MutexError>) {
    if let Err(error) = answer {
        // In a drop, a panic of the error's own code would end the process.
        let error = contain(|| Chain(error).to_string()).unwrap_or_else(|message| message.to_string());
        let _ = contain(|| tracing::error!(target: "soloist", mutex = %lease.name(), error, "lease not given back"));
    }
}

/// Gives several leases of one store back at once, and says of each how that went.
pub(crate) fn release_together<M: EventMutex>(mutex: M, held: Vec<Held<M, Lease>>) -> Vec<Result<bool, MutexError>> {
    if held.len() < 2 {
        return held.into_iter().map(Held::release).collect();
    }
    let leases: Vec<Lease> = held.iter().map(|held| held.lease.clone()).collect();
    let attempted = |lease: &Lease| format!("forget {}", lease.name());
    let wrong: Box<dyn Fn(&Lease) -> MutexError> = match contain(|| mutex.release(&leases)) {
        Ok(answers) if answers.len() == leases.len() => {
            return held.into_iter().zip(answers).map(|(held, answer)| held.given_back(answer)).collect();
        }
        Ok(answers) => {
            let count = format!("the store gave {} answers to {} leases", answers.len(), leases.len());
            Box::new(move |lease| MutexError::unusable(attempted(lease), &*count))
        }
        Err(message) => Box::new(move |lease| MutexError::panicked(attempted(lease), &message)),
    };
    // Which of them went back is not known, so each is tried again alone. What is not ours any more may be one that did.
    let release = |held: Held<M, Lease>| {
        let wrong = wrong(&held.lease);
        match held.release() {
            Ok(false) => Err(wrong),
            answer => answer,
        }
    };
    held.into_iter().map(release).collect()
}

impl<M: EventMutex, L: Borrow<Lease>> Drop for Held<M, L> {
    fn drop(&mut self) {
        if !self.given_back {
            // What comes of it has been told; a drop has nobody else to tell.
            let _ = self.give_back();
        }
    }
}
