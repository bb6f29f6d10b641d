//! An adapter that makes an `EventMutex` of a store with async methods, such as a store on an application's connection pool.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use tokio::runtime::Handle;

use super::EventMutex;
use super::description::{Description, Scope};
use super::slot::Slot;
use super::warning::StoreWarning;
use crate::base::error::MutexError;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{name::MutexName, term::Term};
use crate::time::clock::{Clock, shown::ExactDuration};

/// A store of your own with async methods. The documentation of [`EventMutex`] is the contract of its three required methods, too.
/// An [`AsyncMutex`] makes an [`EventMutex`] of it, and the contract suite (`contract-tests`) tests whether it keeps the contract.
///
/// ```
/// use std::collections::HashMap;
/// use soloist::store::{AsyncEventMutex, AsyncMutex, Lease, LeaseRequest, Owner};
/// use soloist::time::{Clock, Moment};
/// use soloist::{FencingToken, MutexError, MutexName, Schedule};
/// use tokio::sync::Mutex;
///
/// /// The owner and the end of each name's lease, and the number of grants.
/// #[derive(Debug, Default)]
/// struct Names(Mutex<(HashMap<MutexName, (Owner, Moment)>, u64)>);
///
/// fn holder(held: &HashMap<MutexName, (Owner, Moment)>, name: &MutexName) -> Option<Owner> {
///     held.get(name).filter(|(_, until)| Clock::system().moment() < *until).map(|(owner, _)| *owner)
/// }
///
/// impl AsyncEventMutex for Names {
///     async fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
///         let (held, granted) = &mut *self.0.lock().await;
///         if holder(held, request.name()).is_some() {
///             return Ok(None);
///         }
///         let until = Clock::system().moment().plus(request.term().get());
///         held.insert(request.name().clone(), (request.owner(), until));
///         *granted += 1;
///         Ok(Some(request.granted(FencingToken::new(*granted))))
///     }
///
///     async fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
///         Ok(holder(&self.0.lock().await.0, name).is_some())
///     }
///
///     async fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
///         let (held, _) = &mut *self.0.lock().await;
///         let ours = holder(held, lease.name()) == Some(lease.owner());
///         Ok(ours && held.remove(lease.name()).is_some())
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = tokio::runtime::Runtime::new()?;
/// let schedule = Schedule::new(AsyncMutex::new(Names::default(), runtime.handle().clone()));
/// # Ok(())
/// # }
/// ```
pub trait AsyncEventMutex: fmt::Debug + Send + Sync + 'static {
    /// `true` if the store has an [`extend`](Self::extend), which renewal and `hold_at_least` need. The default is `false`.
    const EXTENDS: bool = false;

    /// Acquires the name. `Ok(None)`: another owner holds it.
    fn create(&self, request: &LeaseRequest) -> impl Future<Output = Result<Option<Lease>, MutexError>> + Send;

    /// Returns whether the name is held.
    fn exists(&self, name: &MutexName) -> impl Future<Output = Result<bool, MutexError>> + Send;

    /// Releases the name. `Ok(false)`: this owner does not hold it any more, and nothing has changed.
    fn forget(&self, lease: &Lease) -> impl Future<Output = Result<bool, MutexError>> + Send;

    /// Moves the deadline of the lease to one `term` from now. `Ok(false)`: the owner does not hold it any more, and nothing has
    /// changed.
    fn extend(&self, lease: &Lease, term: Term) -> impl Future<Output = Result<bool, MutexError>> + Send {
        let _ = (lease, term);
        ready(Err(MutexError::unsupported("extend a lease")))
    }

    /// Returns which processes share the store. The default is [`Scope::Unknown`].
    fn scope(&self) -> Scope {
        Scope::Unknown
    }

    /// Returns the clock of the terms. The default is the machine's clock.
    fn clock(&self) -> Clock {
        Clock::system()
    }
}

/// The longest time of a call, unless it is set.
const USUAL_TIMEOUT: Duration = Duration::from_secs(4);

/// An [`EventMutex`] of an async store. Each call is a task of a runtime; the calling thread waits for it until its timeout.
///
/// Renewals share that runtime: **if it stalls for longer than a term, leases are lost**, and their runs are cancelled.
/// [`check`](EventMutex::check) warns of that. A runtime for the store alone is safer; the stores of this crate need none. A call
/// inside a task of a single-threaded runtime blocks that runtime, and fails with its timeout instead of a deadlock.
///
/// A cheap handle: clones are one store. [`AsyncEventMutex`] has an example.
///
/// ```
/// use std::time::Duration;
/// use soloist::store::{AsyncEventMutex, AsyncMutex};
/// use soloist::Schedule;
///
/// fn schedule_on(store: impl AsyncEventMutex) -> Schedule {
///     let runtime = tokio::runtime::Handle::current();
///     Schedule::new(AsyncMutex::new(store, runtime).with_timeout(Duration::from_secs(2)))
/// }
/// ```
pub struct AsyncMutex<M> {
    store: Arc<M>,
    runtime: Handle,
    timeout: Duration,
}

impl<M: AsyncEventMutex> AsyncMutex<M> {
    /// Makes a store whose calls run on this runtime, for four seconds each at most.
    pub fn new(store: M, runtime: Handle) -> Self {
        Self { store: Arc::new(store), runtime, timeout: USUAL_TIMEOUT }
    }

    /// Sets the longest time of a call.
    #[must_use = "it returns the store with this timeout"]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Runs a call as a task, and waits for its answer. An answer that comes too late is dropped.
    fn ask<T: Send + 'static>(
        &self,
        attempted: impl FnOnce() -> String,
        call: impl Future<Output = Result<T, MutexError>> + Send + 'static,
    ) -> Result<T, MutexError> {
        let (sender, receiver) = channel();
        self.runtime.spawn(async move { _ = sender.send(call.await) });
        receiver.recv_timeout(self.timeout).unwrap_or_else(|error| {
            let why = match error {
                RecvTimeoutError::Disconnected => "the store panicked, or its runtime has ended".to_owned(),
                RecvTimeoutError::Timeout => format!(
                    "no answer within {}: the store is slow, or its runtime is busy or blocked",
                    ExactDuration(self.timeout)
                ),
            };
            Err(MutexError::unavailable(attempted(), why))
        })
    }
}

/// A lease on its way to the caller. If it does not arrive, because the caller has stopped waiting, no run knows of it, and it is
/// released.
struct LeaseInTransit<M: AsyncEventMutex> {
    lease: Option<Lease>,
    store: Arc<M>,
    runtime: Handle,
}

impl<M: AsyncEventMutex> Drop for LeaseInTransit<M> {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            let store = Arc::clone(&self.store);
            self.runtime.spawn(async move { _ = store.forget(&lease).await });
        }
    }
}

impl<M: AsyncEventMutex> EventMutex for AsyncMutex<M> {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        let (store, runtime, asked) = (Arc::clone(&self.store), self.runtime.clone(), request.clone());
        let create = async move {
            let lease = store.create(&asked).await?;
            Ok(LeaseInTransit { lease, store, runtime })
        };
        let mut granted = self.ask(|| format!("create {}", request.name()), create)?;
        Ok(granted.lease.take())
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        let (store, asked) = (Arc::clone(&self.store), name.clone());
        self.ask(|| format!("look at {name}"), async move { store.exists(&asked).await })
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        let (store, asked) = (Arc::clone(&self.store), lease.clone());
        self.ask(|| format!("forget {}", lease.name()), async move { store.forget(&asked).await })
    }

    fn describe(&self) -> Description {
        let description = Description::of(&*self.store).with_scope(self.store.scope());
        if M::EXTENDS { description.with_extension() } else { description }
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        // All at once, so that a slow or unavailable store costs one timeout.
        let (answer, answered) = channel();
        for (at, slot) in leases.iter().enumerate() {
            let (store, lease, answer) = (Arc::clone(&self.store), slot.asked().clone(), answer.clone());
            self.runtime.spawn(async move { _ = answer.send((at, store.extend(&lease, term).await)) });
        }
        drop(answer);
        let until = Clock::system().moment().plus(self.timeout);
        while let Ok((at, answer)) = answered.recv_timeout(until.since(Clock::system().moment())) {
            leases[at].fill(answer);
        }
        for slot in leases.iter_mut().filter(|slot| slot.answer().is_none()) {
            let why = format!("no answer within {}, or its runtime has ended", ExactDuration(self.timeout));
            slot.fill(Err(MutexError::unavailable(format!("extend {}", slot.asked().name()), why)));
        }
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let nothing = MutexName::lease("soloist: does the store answer?").expect("it is a name");
        self.exists(&nothing)?;
        Ok(vec![StoreWarning::new(
            "its calls, renewals among them, are tasks of the application's runtime: while that stalls for longer than a term, leases \
             are lost; give it a runtime of its own, or leases a longer term",
        )])
    }
}

impl<M> Clone for AsyncMutex<M> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), runtime: self.runtime.clone(), timeout: self.timeout }
    }
}

impl<M: fmt::Debug> fmt::Debug for AsyncMutex<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncMutex").field("store", &self.store).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
