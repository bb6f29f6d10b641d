//! The blocking calls of a lease guard, as futures.

use std::time::Duration;

use super::{CancelOnDrop, ask, on_a_thread};
use crate::base::error::MutexError;
use crate::hold::guard::LeaseGuard;
use crate::lease::{name::MutexName, term::Term};
use crate::schedule::shutdown::Shutdown;
use crate::store::{described_store::Store, event_mutex::EventMutex};
use crate::time::clock::{Clock, moment::Moment};

impl LeaseGuard {
    /// Acquires like [`acquire_within`](Self::acquire_within), as a future. A separate thread waits, so that no worker
    /// of the runtime is blocked. If the future is dropped, that thread makes no further attempt. If a running attempt
    /// then gets the lease, the thread releases it. A call whose future was dropped may still wait for the store. While
    /// sixteen such calls wait, this call does not begin its first attempt.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_within`](Self::acquire_within).
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let (mutex, name) = (MemoryMutex::new(), MutexName::lease("migration")?);
    /// let guard = LeaseGuard::acquire_within_async(&mutex, name, Term::DEFAULT, Duration::from_secs(30)).await?;
    /// assert!(guard.is_some());
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub async fn acquire_within_async<M>(
        mutex: &M,
        name: MutexName,
        term: Term,
        timeout: Duration,
    ) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        let (mutex, dropped) = (mutex.clone(), Shutdown::new());
        let enough = mutex.clock().moment().plus(timeout);
        let store = Store::new(mutex.clone());
        let _wake = CancelOnDrop(dropped.clone());
        let acquire = move || {
            if dropped.is_triggered() {
                return Ok(None);
            }
            let pause = |clock: &Clock, next: Moment| !dropped.sleep_until(next, &dropped.waiting(clock));
            Self::acquire_in_attempts(&mutex, &name, term, enough, pause)
        };
        ask(&store, acquire).await
    }

    /// Releases like [`release`](Self::release), as a future. A separate thread waits for the store, so that no worker
    /// of the runtime is blocked. If the future is dropped, that thread continues.
    ///
    /// # Errors
    ///
    /// The errors of [`release`](Self::release).
    ///
    /// ```
    /// use soloist::{LeaseGuard, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let guard = LeaseGuard::acquire(&MemoryMutex::new(), MutexName::lease("migration")?, Term::DEFAULT)?;
    /// if let Some(guard) = guard {
    ///     assert!(guard.release_async().await?);
    /// }
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub async fn release_async(self) -> Result<bool, MutexError> {
        on_a_thread(move || self.release()).await
    }
}
