//! Stores whose methods are async, such as one on somebody's pool of connections: an adapter makes an `EventMutex` of each.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::runtime::Handle;

use super::EventMutex;
use super::description::{Description, Scope};
use super::slot::Slot;
use super::warning::StoreWarning;
use crate::base::error::MutexError;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{name::MutexName, term::Term};
use crate::time::clock::Clock;

/// A store of your own whose methods are async. The three that it must have mean what those of [`EventMutex`] mean, whose
/// documentation is the contract; an [`AsyncMutex`] makes an [`EventMutex`] of it, and the contract suite
/// (`contract-tests`) tells whether it keeps the contract.
///
/// ```
/// use std::collections::HashMap;
/// use soloist::{
///     AsyncEventMutex, AsyncMutex, Clock, FencingToken, Lease, LeaseRequest, Moment, MutexError, MutexName, Owner, Schedule,
/// };
/// use tokio::sync::Mutex;
///
/// /// Who holds each name until when, and how many grants there were.
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
    /// Whether [`extend`](Self::extend) is there, which renewal and `hold_at_least` need. The default is that it is not.
    const EXTENDS: bool = false;

    /// `Ok(None)`: somebody else holds the name.
    fn create(&self, request: &LeaseRequest) -> impl Future<Output = Result<Option<Lease>, MutexError>> + Send;

    /// Whether somebody holds the name.
    fn exists(&self, name: &MutexName) -> impl Future<Output = Result<bool, MutexError>> + Send;

    /// `Ok(false)`: the name was not ours any more, and was left alone.
    fn forget(&self, lease: &Lease) -> impl Future<Output = Result<bool, MutexError>> + Send;

    /// Lets the lease end one `term` from now. `Ok(false)`: it was not ours any more, and was left alone.
    fn extend(&self, lease: &Lease, term: Term) -> impl Future<Output = Result<bool, MutexError>> + Send {
        let _ = (lease, term);
        ready(Err(MutexError::unsupported("extend a lease")))
    }

    /// Who sees what it holds. The default is [`Scope::Unknown`].
    fn scope(&self) -> Scope {
        Scope::Unknown
    }

    /// The clock on which its leases end. The default is the machine's.
    fn clock(&self) -> Clock {
        Clock::system()
    }
}

/// How long a call takes at most, unless it is said.
const USUAL_TIMEOUT: Duration = Duration::from_secs(4);

/// An [`EventMutex`] of an async store: each call is a task of its runtime, and is waited for on the thread that asks, for no
/// longer than its time-out.
///
/// Renewals share that runtime: **while it stalls for longer than a term, leases are lost in time**, and their runs told.
/// [`check`](EventMutex::check) says so. A runtime of its own is safer; the stores of this crate need none. A call that is
/// made in a task of a runtime of one thread, which the call itself blocks, gets no answer within its time-out: that is an
/// error, and no deadlock.
///
/// A cheap handle: clones are one store. An example is with [`AsyncEventMutex`].
///
/// ```
/// use std::time::Duration;
/// use soloist::{AsyncEventMutex, AsyncMutex, Schedule};
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
    /// The store, whose calls this runtime drives, for four seconds each at most.
    pub fn new(store: M, runtime: Handle) -> Self {
        Self { store: Arc::new(store), runtime, timeout: USUAL_TIMEOUT }
    }

    /// The same store, whose calls take no longer than this.
    #[must_use = "the time-out is that of the store which is returned"]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn ask<T, F>(&self, attempted: impl FnOnce() -> String, call: impl FnOnce(Arc<M>) -> F) -> Result<T, MutexError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, MutexError>> + Send + 'static,
    {
        let (answer, answered) = sync_channel(1);
        let call = call(Arc::clone(&self.store));
        // Nobody waits for an answer that comes too late.
        let task = self.runtime.spawn(async move { _ = answer.send(call.await) });
        answered.recv_timeout(self.timeout).unwrap_or_else(|error| {
            task.abort();
            let why = match error {
                RecvTimeoutError::Timeout => {
                    format!("no answer within {:?}: the store is slow, or its runtime is busy or blocked", self.timeout)
                }
                RecvTimeoutError::Disconnected => "the store panicked, or its runtime has ended".to_owned(),
            };
            Err(MutexError::unavailable(attempted(), why))
        })
    }
}

impl<M: AsyncEventMutex> EventMutex for AsyncMutex<M> {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        let asked = request.clone();
        let create = |store: Arc<M>| async move { store.create(&asked).await };
        self.ask(|| format!("create {}", request.name()), create)
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        let asked = name.clone();
        self.ask(|| format!("look at {name}"), |store| async move { store.exists(&asked).await })
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        let asked = lease.clone();
        self.ask(|| format!("forget {}", lease.name()), |store| async move { store.forget(&asked).await })
    }

    fn describe(&self) -> Description {
        let description = Description::of(&*self.store).with_scope(self.store.scope());
        if M::EXTENDS { description.with_extension() } else { description }
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        // All at once, so that a store that is out costs one time-out.
        let asked: Vec<Lease> = leases.iter().map(|slot| slot.asked().clone()).collect();
        let extend = |store: Arc<M>| async move {
            let mut answers = Vec::with_capacity(asked.len());
            for lease in &asked {
                answers.push(store.extend(lease, term).await);
            }
            Ok(answers)
        };
        let answers = self.ask(|| format!("extend {} leases", leases.len()), extend);
        match answers {
            Ok(answers) => leases.iter_mut().zip(answers).for_each(|(slot, answer)| slot.fill(answer)),
            Err(error) => leases.iter_mut().for_each(|slot| slot.fill(Err(error.clone()))),
        }
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        Ok(vec![StoreWarning::SharesRuntime])
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
