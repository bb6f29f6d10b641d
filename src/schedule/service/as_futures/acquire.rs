//! The wait for a lease guard, as a future.

use std::ops::ControlFlow;
use std::time::Duration;

use super::on_a_thread::on_a_thread;
use crate::base::error::MutexError;
use crate::hold::guard::{LeaseGuard, ask_again};
use crate::hold::signal::sleep_until;
use crate::lease::name::MutexName;
use crate::lease::term::Term;
use crate::store::event_mutex::EventMutex;

impl LeaseGuard {
    /// [`acquire_within`](Self::acquire_within) as a future, which stalls no worker of the runtime. If it is dropped, nobody asks
    /// any more, and what is granted meanwhile is given back.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_within`](Self::acquire_within).
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
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub async fn acquire_within_async<M>(
        mutex: &M,
        name: MutexName,
        term: Term,
        patience: Duration,
    ) -> Result<Option<Self>, MutexError>
    where
        M: EventMutex + Clone + 'static,
    {
        let clock = mutex.clock();
        let enough = clock.moment().plus(patience);
        let mut next = None;
        loop {
            let (mutex, name, clock_of_thread) = (mutex.clone(), name.clone(), clock.clone());
            let ask = move || {
                if let Some(next) = next {
                    sleep_until(&clock_of_thread, next);
                }
                Self::acquire(&mutex, name, term)
            };
            match ask_again(on_a_thread(ask).await, &clock, enough) {
                ControlFlow::Break(answer) => return answer,
                ControlFlow::Continue(moment) => next = Some(moment),
            }
        }
    }
}
