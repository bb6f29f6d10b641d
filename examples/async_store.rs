//! Shows a store of your own on an async driver, such as the connection pool of your application. The program tests
//! whether the store keeps the contract: `cargo run --example async_store`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SendError, Sender, channel};
use std::time::Duration;

use soloist::contract::{self, Harness};
use soloist::store::{Description, Lease, LeaseRequest, Owner, Scope, Slot, StoreWarning};
use soloist::time::{Clock, ManualClock, Moment};
use soloist::{EventMutex, FencingToken, MutexError, MutexName, Term};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Mutex;
use tokio::task::yield_now;

/// The queries. This example has a map behind an async lock instead of a table. In your store, each method is one
/// statement on the pool, and the server's clock decides when a lease ends.
#[derive(Debug)]
struct Table {
    clock: Clock,
    rows: Mutex<Rows>,
}

/// The leases, each with its owner and its end, and the token of the last grant.
#[derive(Debug, Default)]
struct Rows {
    held: HashMap<MutexName, (Owner, Moment)>,
    last_token: u64,
}

impl Table {
    async fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        yield_now().await;
        let mut rows = self.rows.lock().await;
        if self.owner(&rows, request.name()).is_some() {
            return Ok(None);
        }
        rows.held.insert(request.name().clone(), (request.owner(), self.after(request.term())));
        rows.last_token += 1;
        Ok(Some(request.granted(FencingToken::new(rows.last_token))))
    }

    async fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        yield_now().await;
        Ok(self.owner(&*self.rows.lock().await, name).is_some())
    }

    async fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        yield_now().await;
        let mut rows = self.rows.lock().await;
        let ours = self.owner(&rows, lease.name()) == Some(lease.owner());
        Ok(ours && rows.held.remove(lease.name()).is_some())
    }

    /// Extends all `leases` of a process in one statement, so that they cost only one round trip.
    async fn extend(&self, leases: &[Lease], term: Term) -> Result<Vec<bool>, MutexError> {
        yield_now().await;
        let mut rows = self.rows.lock().await;
        let mut extend = |lease: &Lease| {
            let ours = self.owner(&rows, lease.name()) == Some(lease.owner());
            if ours {
                rows.held.insert(lease.name().clone(), (lease.owner(), self.after(term)));
            }
            ours
        };
        Ok(leases.iter().map(&mut extend).collect())
    }

    fn owner(&self, rows: &Rows, name: &MutexName) -> Option<Owner> {
        rows.held.get(name).filter(|(_, until)| self.clock.moment() < *until).map(|(owner, _)| *owner)
    }

    fn after(&self, term: Term) -> Moment {
        self.clock.moment().plus(term.get())
    }
}

/// The store. Each call is a task of the runtime. The calling thread waits for the answer, with a time limit.
///
/// Renewals are tasks of the runtime, too: if the runtime stalls for longer than a term, leases are lost, and their
/// runs are cancelled. A separate runtime for the store is safer. If the runtime has only one thread, a call from one
/// of its tasks blocks the runtime, and fails at the time limit.
#[derive(Clone, Debug)]
pub(crate) struct AsyncStore {
    table: Arc<Table>,
    runtime: Handle,
    timeout: Duration,
}

impl AsyncStore {
    /// Makes a store with an empty table. No call waits longer than `timeout` for its answer.
    pub(crate) fn new(clock: Clock, runtime: Handle, timeout: Duration) -> Self {
        let table = Arc::new(Table { clock, rows: Mutex::default() });
        Self { table, runtime, timeout }
    }

    /// Runs `call` as a task, and waits for the answer that the task sends. `attempted` describes the call in an error.
    fn ask<T, Call: Future<Output = ()> + Send + 'static>(
        &self,
        attempted: String,
        call: impl FnOnce(Sender<Result<T, MutexError>>) -> Call,
    ) -> Result<T, MutexError> {
        let (sender, answer) = channel();
        self.runtime.spawn(call(sender));
        answer.recv_timeout(self.timeout).unwrap_or_else(|error| {
            let why = match error {
                RecvTimeoutError::Disconnected => "the call panicked, or its runtime has ended".to_owned(),
                RecvTimeoutError::Timeout => {
                    format!("no answer within {:?}: the store is slow, or its runtime is busy or blocked", self.timeout)
                }
            };
            Err(MutexError::unavailable(attempted, why))
        })
    }
}

impl EventMutex for AsyncStore {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        let (table, asked) = (Arc::clone(&self.table), request.clone());
        self.ask(format!("create {}", request.name()), |answer| async move {
            // If the caller does not wait any more, no run will use the lease, so it is released.
            if let Err(SendError(Ok(Some(unused)))) = answer.send(table.create(&asked).await) {
                let _ = table.forget(&unused).await;
            }
        })
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        let (table, asked) = (Arc::clone(&self.table), name.clone());
        self.ask(format!("read {name}"), |answer| async move { _ = answer.send(table.exists(&asked).await) })
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        let (table, asked) = (Arc::clone(&self.table), lease.clone());
        self.ask(
            format!("forget {}", lease.name()),
            |answer| async move { _ = answer.send(table.forget(&asked).await) },
        )
    }

    fn describe(&self) -> Description {
        // If your store is on a server, write `Scope::Fleet` here.
        Description::of(&*self.table).with_scope(Scope::Process).with_extension()
    }

    fn clock(&self) -> Clock {
        self.table.clock.clone()
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        let table = Arc::clone(&self.table);
        let asked: Vec<Lease> = leases.iter().map(|slot| slot.asked().clone()).collect();
        let attempted = format!("extend {} leases", asked.len());
        let answers = self.ask(attempted, |answer| async move { _ = answer.send(table.extend(&asked, term).await) });
        for (at, slot) in leases.iter_mut().enumerate() {
            slot.fill(answers.as_ref().map(|are_ours: &Vec<bool>| are_ours[at]).map_err(MutexError::clone));
        }
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        self.exists(&MutexName::lease("check").expect("it is a name"))?;
        Ok(vec![StoreWarning::new(
            "its calls and renewals are tasks of the application's runtime: if this runtime stalls for longer than a term, leases are \
             lost; give the store a separate runtime, or the leases a longer term",
        )])
    }
}

/// The harness of the contract tests: a runtime, a store that uses this runtime, and a clock that the tests move.
pub(crate) struct OnRuntime {
    clock: ManualClock,
    store: AsyncStore,
    _runtime: Runtime,
}

impl OnRuntime {
    pub(crate) fn new() -> Self {
        let (clock, runtime) = (ManualClock::at(chrono::DateTime::UNIX_EPOCH), Runtime::new().expect("a runtime"));
        let store = AsyncStore::new(Clock::from(&clock), runtime.handle().clone(), Duration::from_secs(20));
        Self { clock, store, _runtime: runtime }
    }
}

impl Harness for OnRuntime {
    type Mutex = AsyncStore;

    fn mutex(&self) -> AsyncStore {
        self.store.clone()
    }

    fn clock(&self) -> Clock {
        Clock::from(&self.clock)
    }

    fn let_time_pass(&self, by: Duration) {
        self.clock.advance(by);
    }
}

fn main() -> Result<(), contract::Failed> {
    contract::check(OnRuntime::new)
}
