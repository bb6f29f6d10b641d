//! The only RAII code: a lease that is given back on every way out.

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::{Chain, MutexError};
use crate::lease::{Lease, LeaseRequest, MutexName, Term};
use crate::mutex::EventMutex;
use crate::task::contain;

/// A lease in hand, for a task that runs under some other scheduler; dropping it gives the name back.
///
/// It is held for its term and not renewed: choose a term that the task stays within.
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
pub struct LeaseGuard {
    mutex: Arc<dyn EventMutex>,
    lease: Lease,
    given_back: bool,
}

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
        Ok(lease.map(|lease| Self::over(Arc::new(mutex.clone()), lease)))
    }

    /// Guards a lease that was just granted.
    pub(crate) fn over(mutex: Arc<dyn EventMutex>, lease: Lease) -> Self {
        Self { mutex, lease, given_back: false }
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
        &self.lease
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
    pub fn release(mut self) -> Result<bool, MutexError> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<bool, MutexError> {
        self.given_back = true;
        let name = self.lease.name();
        let answer = contain(|| self.mutex.forget(&self.lease))
            .unwrap_or_else(|message| Err(MutexError::panicked(format!("forget {name}"), &message)));
        if let Err(error) = &answer {
            tracing::error!(target: "soloist", mutex = %name, error = %Chain(error), "lease not given back");
        }
        answer
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if !self.given_back {
            // What comes of it has been told; a drop has nobody else to tell.
            let _ = self.give_back();
        }
    }
}
