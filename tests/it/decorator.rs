//! A store around another one: calls that it does not override go to the inner store, and no protection is lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use soloist::contract::Harness;
use soloist::observe::RunRecord;
use soloist::store::{
    Admission, Admitted, Batch, Description, Held, Lease, LeaseRequest, Lifeline, Names, RunLog, Scope, Slot,
    StoreWarning,
};
use soloist::time::{Clock, ManualClock};
use soloist::{Event, EventMutex, FencingToken, LeaseGuard, MemoryMutex, MutexError, MutexName, Schedule, Term};

use crate::support::noon;

/// A store that overrides only the required methods.
#[derive(Debug)]
pub(crate) struct Plain<M>(pub(crate) M);

impl<M: EventMutex> EventMutex for Plain<M> {
    fn inner(&self) -> Option<&dyn EventMutex> {
        Some(&self.0)
    }
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.0.create(request)
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.0.exists(name)
    }
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.0.forget(lease)
    }
}

/// A store that notes each call, and answers unlike any default.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<&'static str>>);

impl Asked {
    fn error(&self, asked: &'static str) -> MutexError {
        self.0.lock().unwrap().push(asked);
        MutexError::unusable(asked, "this is its answer")
    }
}

impl EventMutex for Asked {
    fn create(&self, _: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        Err(self.error("create"))
    }
    fn exists(&self, _: &MutexName) -> Result<bool, MutexError> {
        Err(self.error("exists"))
    }
    fn forget(&self, _: &Lease) -> Result<bool, MutexError> {
        Err(self.error("forget"))
    }
    fn describe(&self) -> Description {
        self.error("describe");
        Description::of(&self.0).with_scope(Scope::Host)
    }
    fn clock(&self) -> Clock {
        self.error("clock");
        Clock::system()
    }
    fn carry_out(&self, batch: &mut Batch) {
        let (releases, admissions) = batch.slots_mut();
        for slot in releases {
            slot.fill(Err(self.error("carry_out")));
        }
        for slot in admissions {
            slot.fill(Err(self.error("carry_out")));
        }
    }
    fn extend(&self, leases: &mut [Slot<Lease, bool>], _: Term) {
        for slot in leases {
            slot.fill(Err(self.error("extend")));
        }
    }
    fn lifeline(&self, _: &Lease) -> Result<Option<Lifeline>, MutexError> {
        Err(self.error("lifeline"))
    }
    fn held(&self, _: Names<'_>) -> Result<Vec<Held>, MutexError> {
        Err(self.error("held"))
    }
    fn break_lease(&self, _: &MutexName) -> Result<Option<Held>, MutexError> {
        Err(self.error("break_lease"))
    }
    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        Err(self.error("check"))
    }
    fn run_log(&self) -> Option<&dyn RunLog> {
        self.error("run_log");
        Some(self)
    }
}

impl RunLog for Asked {
    fn write(&self, _: &[RunRecord], _: usize) -> Result<(), MutexError> {
        Err(self.error("write"))
    }
    fn runs(&self, _: &str) -> Result<Vec<RunRecord>, MutexError> {
        Err(self.error("runs"))
    }
}

fn request() -> LeaseRequest {
    LeaseRequest::new(MutexName::lease("reports").unwrap(), Term::MAX, &Clock::system())
}

#[test]
fn what_a_decorator_does_not_override_is_asked_of_the_store_in_it() {
    let (request, store) = (request(), Plain(Asked::default()));
    let (name, lease) = (request.name(), request.granted(FencingToken::new(1)));
    let answered = |error: &MutexError, by: &str| assert!(error.to_string().contains(by), "{error} is not by {by}");
    answered(&store.create(&request).unwrap_err(), "create");
    answered(&store.exists(name).unwrap_err(), "exists");
    answered(&store.forget(&lease).unwrap_err(), "forget");
    assert_eq!(store.describe(), Description::of(&store.0.0).with_scope(Scope::Host));
    let _ = store.clock();
    let mut batch = Batch::new();
    batch.release(lease.clone());
    store.carry_out(&mut batch);
    answered(batch.releases()[0].answer().unwrap().as_ref().unwrap_err(), "carry_out");
    let mut leases = [Slot::new(lease.clone())];
    store.extend(&mut leases, Term::MIN);
    answered(leases[0].answer().unwrap().as_ref().unwrap_err(), "extend");
    answered(&store.lifeline(&lease).unwrap_err(), "lifeline");
    answered(&store.held(Names::of(name)).unwrap_err(), "held");
    answered(&store.break_lease(name).unwrap_err(), "break_lease");
    answered(&store.check().unwrap_err(), "check");
    assert!(store.run_log().is_some());

    let asked = store.0.0.lock().unwrap().clone();
    let so_far = ["create", "exists", "forget", "describe", "clock", "carry_out", "extend"];
    assert_eq!(asked, [&so_far[..], &["lifeline", "held", "break_lease", "check", "run_log"]].concat());
    // A method that stores learn later has its place here, or a decorator would take it away from them.
    let all: BTreeSet<&str> = asked.into_iter().chain(["inner"]).collect();
    assert_eq!(all, methods_of_the_trait());
}

fn methods_of_the_trait() -> BTreeSet<&'static str> {
    let source =
        include_str!("../../src/store/event_mutex.rs").split("pub trait EventMutex").nth(1).expect("the trait");
    let body = source.split("\n}\n").next().expect("it ends");
    body.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next()).collect()
}

/// A store that notes releases and acquisitions, in its one method for both.
#[derive(Debug, Default)]
struct Watched(MemoryMutex, Mutex<Vec<(usize, usize)>>);

impl EventMutex for Watched {
    fn inner(&self) -> Option<&dyn EventMutex> {
        Some(&self.0)
    }
    fn carry_out(&self, batch: &mut Batch) {
        self.1.lock().unwrap().push((batch.releases().len(), batch.admissions().len()));
        self.0.carry_out(batch);
    }
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.0.create(request)
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.0.exists(name)
    }
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.0.forget(lease)
    }
}

#[test]
fn all_that_is_taken_and_given_back_leads_through_carry_out() {
    let store = Arc::new(Watched::default());
    let seen = || std::mem::take(&mut *store.1.lock().unwrap());
    let event = |name: &str| Event::call(name, |_| {}).every_minute().without_overlapping().on_one_server();
    let schedule = Schedule::new(Arc::clone(&store));
    schedule.add(event("a")).unwrap().add(event("b")).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    assert_eq!(seen(), [(0, 1), (1, 1), (1, 0)]);
    assert!(!schedule.run_event("a", noon()).unwrap().is_failure());
    assert_eq!(seen(), [(0, 1), (1, 0)]);
    let acquire = || LeaseGuard::acquire(&store, request().name().clone(), Term::MAX).unwrap();
    assert!(acquire().expect("it is free").release().unwrap());
    assert_eq!(seen(), [(0, 1), (1, 0)]);
    drop(acquire());
    assert_eq!(seen(), [(0, 1), (1, 0)]);
    assert!(matches!(Admission::lease_only(request()).ask(&store), Ok(Admitted::Granted(_))));
    assert!(acquire().is_none());
    assert_eq!(seen(), [(0, 1), (0, 1)]);
}

#[test]
fn leases_in_a_decorated_store_are_renewed() {
    let schedule = Schedule::new(Plain(MemoryMutex::new()));
    schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping()).unwrap();
}

struct InMemory(ManualClock, MemoryMutex);

impl Harness for InMemory {
    type Mutex = Plain<MemoryMutex>;

    fn mutex(&self) -> Plain<MemoryMutex> {
        Plain(self.1.clone())
    }
    fn clock(&self) -> Clock {
        Clock::from(&self.0)
    }
    fn let_time_pass(&self, by: Duration) {
        self.0.advance(by);
    }
}

fn in_memory() -> InMemory {
    let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
    InMemory(clock.clone(), MemoryMutex::with_clock(clock))
}

soloist::contract_tests!(in_memory());
