//! A store whose methods are async: it keeps the contract, and a runtime that stalls or ends is an error in time.

use std::collections::HashMap;

use soloist::contract::Harness;
use soloist::store::{AsyncEventMutex, AsyncMutex, Lease, LeaseRequest, Owner, Scope, Slot};
use soloist::time::Moment;
use soloist::{FencingToken, MutexError, Term};
use tokio::sync::{Barrier, Semaphore};

use super::*;

/// The holder and end of each name. Each call takes a few turns of its runtime.
#[derive(Debug)]
struct Table {
    clock: Clock,
    rows: tokio::sync::Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    granted: u64,
    held: HashMap<MutexName, (Owner, Moment)>,
}

impl Table {
    fn new(clock: Clock) -> Self {
        Self { clock, rows: tokio::sync::Mutex::default() }
    }

    fn owner(&self, rows: &Rows, name: &MutexName) -> Option<Owner> {
        rows.held.get(name).filter(|(_, until)| self.clock.moment() < *until).map(|(owner, _)| *owner)
    }
}

impl AsyncEventMutex for Table {
    const EXTENDS: bool = true;

    async fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        tokio::task::yield_now().await;
        let mut rows = self.rows.lock().await;
        if self.owner(&rows, request.name()).is_some() {
            return Ok(None);
        }
        let until = self.clock.moment().plus(request.term().get());
        rows.held.insert(request.name().clone(), (request.owner(), until));
        rows.granted += 1;
        Ok(Some(request.granted(FencingToken::new(rows.granted))))
    }

    async fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        tokio::task::yield_now().await;
        Ok(self.owner(&*self.rows.lock().await, name).is_some())
    }

    async fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        tokio::task::yield_now().await;
        let mut rows = self.rows.lock().await;
        let ours = self.owner(&rows, lease.name()) == Some(lease.owner());
        Ok(ours && rows.held.remove(lease.name()).is_some())
    }

    async fn extend(&self, lease: &Lease, term: Term) -> Result<bool, MutexError> {
        tokio::task::yield_now().await;
        let mut rows = self.rows.lock().await;
        let ours = self.owner(&rows, lease.name()) == Some(lease.owner());
        if ours {
            let until = self.clock.moment().plus(term.get());
            rows.held.insert(lease.name().clone(), (lease.owner(), until));
        }
        Ok(ours)
    }

    fn scope(&self) -> Scope {
        Scope::Process
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}

struct InRuntime {
    clock: ManualClock,
    mutex: AsyncMutex<Table>,
    _runtime: Runtime,
}

impl InRuntime {
    fn new() -> Self {
        let (clock, runtime) = (ManualClock::at(chrono::DateTime::UNIX_EPOCH), many_threads());
        let mutex = AsyncMutex::new(Table::new(Clock::from(&clock)), runtime.handle().clone()).with_timeout(PATIENCE);
        Self { clock, mutex, _runtime: runtime }
    }
}

impl Harness for InRuntime {
    type Mutex = AsyncMutex<Table>;

    fn mutex(&self) -> AsyncMutex<Table> {
        self.mutex.clone()
    }

    fn clock(&self) -> Clock {
        Clock::from(&self.clock)
    }

    fn let_time_pass(&self, by: Duration) {
        self.clock.advance(by);
    }
}

soloist::contract_tests!(InRuntime::new());

fn on(runtime: &Runtime) -> AsyncMutex<Table> {
    AsyncMutex::new(Table::new(Clock::system()), runtime.handle().clone()).with_timeout(PATIENCE)
}

#[test]
fn it_protects_events_of_a_service_in_the_same_runtime() {
    let runtime = many_threads();
    let (mutex, count) = (on(&runtime), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    let event = Event::spawn("count", move |_| {
        let count = Arc::clone(&counted);
        async move { _ = count.fetch_add(1, Ordering::SeqCst) }
    });
    let schedule = schedule(mutex.clone(), &runtime, [event.without_overlapping().on_one_server()]);
    let reports =
        runtime.block_on(async { [schedule.run_due_async(noon()).await, schedule.run_due_async(noon()).await] });
    assert!(ran(&reports[0], "count").is_success(), "{}", reports[0]);
    assert!(matches!(skipped(&reports[1], "count"), SkipReason::RanElsewhere(_)), "{}", reports[1]);
    assert_eq!(mutex.check().unwrap().len(), 1, "it shares a runtime");
}

/// How many renewals a slow store answers together.
const HUNDRED: usize = 100;

/// A store that grants on a signal, and renews when a hundred renewals have arrived.
#[derive(Debug)]
struct Slow {
    held: Arc<Mutex<Vec<MutexName>>>,
    is_out: Arc<AtomicBool>,
    goes: Arc<Semaphore>,
    renewals: Barrier,
}

impl Slow {
    fn new() -> Self {
        let (held, is_out, goes) = (Arc::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        Self { held, is_out, goes, renewals: Barrier::new(HUNDRED) }
    }
}

impl AsyncEventMutex for Slow {
    const EXTENDS: bool = true;

    async fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.held.lock().unwrap().push(request.name().clone());
        let _goes = self.goes.acquire().await.expect("nobody closes it");
        Ok(Some(request.granted(FencingToken::new(1))))
    }

    async fn exists(&self, _: &MutexName) -> Result<bool, MutexError> {
        if self.is_out.load(Ordering::SeqCst) { Err(MutexError::unavailable("look", "it is out")) } else { Ok(false) }
    }

    async fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.held.lock().unwrap().retain(|held| held != lease.name());
        Ok(true)
    }

    async fn extend(&self, _: &Lease, _: Term) -> Result<bool, MutexError> {
        self.renewals.wait().await;
        Ok(true)
    }
}

fn request(name: &str) -> LeaseRequest {
    LeaseRequest::new(MutexName::lease(name).unwrap(), Term::DEFAULT, &Clock::system())
}

#[test]
fn a_lease_that_is_granted_too_late_is_given_back() {
    let (runtime, store) = (many_threads(), Slow::new());
    let (held, goes) = (Arc::clone(&store.held), Arc::clone(&store.goes));
    let mutex = AsyncMutex::new(store, runtime.handle().clone()).with_timeout(Duration::from_millis(100));
    assert!(mutex.create(&request("late")).unwrap_err().is_unavailable());
    until(|| held.lock().unwrap().len() == 1).expect("it is being granted");
    goes.add_permits(1);
    until(|| held.lock().unwrap().is_empty()).unwrap();
}

#[test]
fn a_hundred_renewals_of_a_slow_store_take_as_long_as_one() {
    let (runtime, store) = (one_worker(), Slow::new());
    let mutex = AsyncMutex::new(store, runtime.handle().clone()).with_timeout(PATIENCE);
    let lease = |number: usize| request(&number.to_string()).granted(FencingToken::new(1));
    let mut slots: Vec<Slot<Lease, bool>> = (0..HUNDRED).map(lease).map(Slot::new).collect();
    mutex.extend(&mut slots, Term::DEFAULT);
    for slot in slots {
        assert!(matches!(slot.answer(), Some(Ok(true))), "{slot:?}");
    }
}

#[test]
fn a_check_asks_the_store() {
    let (runtime, store) = (many_threads(), Slow::new());
    let is_out = Arc::clone(&store.is_out);
    let mutex = AsyncMutex::new(store, runtime.handle().clone()).with_timeout(PATIENCE);
    assert_eq!(mutex.check().unwrap().len(), 1, "it shares a runtime");
    is_out.store(true, Ordering::SeqCst);
    assert!(mutex.check().unwrap_err().is_unavailable());
}

#[test]
fn a_runtime_that_this_call_blocks_is_an_error_within_its_time_out() {
    let runtime = one_thread();
    let mutex = on(&runtime).with_timeout(Duration::from_millis(100));
    let error = runtime.block_on(async { mutex.exists(&MutexName::lease("e").unwrap()) }).unwrap_err();
    assert!(error.is_unavailable());
    assert!(
        error.to_string().ends_with("no answer within 100ms: the store is slow, or its runtime is busy or blocked")
    );
}

#[test]
fn a_runtime_that_has_ended_is_an_error() {
    let runtime = many_threads();
    let mutex = on(&runtime);
    runtime.shutdown_background();
    let error = mutex.exists(&MutexName::lease("e").unwrap()).unwrap_err();
    assert!(error.is_unavailable() && error.to_string().ends_with("or its runtime has ended"), "{error}");
}
