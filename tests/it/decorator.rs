//! A store around another one: what it does not override is asked of the other, and nothing that protects is lost.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use soloist::contract::Harness;
use soloist::{
    Admission, Admitted, Answers, Clock, Event, EventMutex, FencingToken, Holder, Lease, LeaseRequest, Lifeline,
    ManualClock, MemoryMutex, MutexError, MutexName, Schedule, Scope, StoreId, StoreWarning, Term,
};

/// Overrides what it must, and nothing else.
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

/// Writes down what it is asked, and answers nothing that a default would.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<&'static str>>);

impl Asked {
    fn error(&self, asked: &'static str) -> MutexError {
        self.0.lock().unwrap().push(asked);
        MutexError::unusable(asked, "this is its answer")
    }

    fn errors<T>(&self, asked: &'static str, count: usize) -> Answers<T> {
        let error = self.error(asked);
        (0..count).map(|_| Err(error.clone())).collect()
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
    fn identity(&self) -> StoreId {
        self.error("identity");
        StoreId::of(&self.0)
    }
    fn scope(&self) -> Scope {
        self.error("scope");
        Scope::Host
    }
    fn clock(&self) -> Clock {
        self.error("clock");
        Clock::system()
    }
    fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
        self.errors("admit", admissions.len())
    }
    fn release(&self, leases: &[Lease]) -> Answers<bool> {
        self.errors("release", leases.len())
    }
    fn can_extend(&self) -> bool {
        self.error("can_extend");
        true
    }
    fn extend(&self, leases: &[Lease], _: Term) -> Answers<bool> {
        self.errors("extend", leases.len())
    }
    fn release_after(&self, leases: &[Lease], _: Term) -> Answers<bool> {
        self.errors("release_after", leases.len())
    }
    fn lifeline(&self, _: &Lease) -> Result<Option<Lifeline>, MutexError> {
        Err(self.error("lifeline"))
    }
    fn holder(&self, _: &MutexName) -> Result<Option<Holder>, MutexError> {
        Err(self.error("holder"))
    }
    fn break_lease(&self, _: &MutexName) -> Result<soloist::Broken, MutexError> {
        Err(self.error("break_lease"))
    }
    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        Err(self.error("check"))
    }
}

fn request() -> LeaseRequest {
    LeaseRequest::new(MutexName::lease("reports").unwrap(), Term::MAX, &Clock::system())
}

#[test]
fn what_a_decorator_does_not_override_is_asked_of_the_store_in_it() {
    let (request, store) = (request(), Plain(Asked::default()));
    let (name, lease) = (request.name(), request.granted(FencingToken::new(1)));
    let (leases, asked_for) = ([lease.clone()], [Admission::lease_only(request.clone())]);
    let answered = |error: &MutexError, by: &str| assert!(error.to_string().contains(by), "{error} is not by {by}");
    let all_answered = |answers: Vec<&MutexError>, by: &str| {
        assert_eq!(answers.len(), 1);
        answered(answers[0], by);
    };
    answered(&store.create(&request).unwrap_err(), "create");
    answered(&store.exists(name).unwrap_err(), "exists");
    answered(&store.forget(&lease).unwrap_err(), "forget");
    assert_eq!(store.identity(), StoreId::of(&store.0.0));
    assert_eq!(store.scope(), Scope::Host);
    let _ = store.clock();
    all_answered(errors(&store.admit(&asked_for)), "admit");
    answered(&store.admit_one(&asked_for[0]).unwrap_err(), "admit");
    all_answered(errors(&store.release(&leases)), "release");
    let (released, admitted) = store.release_then_admit(&leases, &asked_for);
    all_answered(errors(&released), "release");
    all_answered(errors(&admitted), "admit");
    assert!(store.can_extend());
    all_answered(errors(&store.extend(&leases, Term::MIN)), "extend");
    all_answered(errors(&store.release_after(&leases, Term::MIN)), "release_after");
    answered(&store.lifeline(&lease).unwrap_err(), "lifeline");
    answered(&store.holder(name).unwrap_err(), "holder");
    answered(&store.break_lease(name).unwrap_err(), "break_lease");
    answered(&store.check().unwrap_err(), "check");

    let asked = store.0.0.lock().unwrap().clone();
    let so_far =
        ["create", "exists", "forget", "identity", "scope", "clock", "admit", "admit", "release", "release", "admit"];
    let rest = ["can_extend", "extend", "release_after", "lifeline", "holder", "break_lease", "check"];
    assert_eq!(asked, [&so_far[..], &rest].concat());
    // A method that stores learn later has its place here, or a decorator would take it away from them.
    let all: BTreeSet<&str> = asked.into_iter().chain(["admit_one", "release_then_admit", "inner"]).collect();
    assert_eq!(all, methods_of_the_trait());
}

fn errors<T>(answers: &Answers<T>) -> Vec<&MutexError> {
    answers.iter().filter_map(|answer| answer.as_ref().err()).collect()
}

fn methods_of_the_trait() -> BTreeSet<&'static str> {
    let source =
        include_str!("../../src/store/event_mutex.rs").split("pub trait EventMutex").nth(1).expect("the trait");
    let body = source.split("\n}\n").next().expect("it ends");
    body.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next()).collect()
}

/// Sees what the gate asks for in the one method that it is about.
#[derive(Debug, Default)]
struct Watched(MemoryMutex, Mutex<Vec<usize>>);

impl EventMutex for Watched {
    fn inner(&self) -> Option<&dyn EventMutex> {
        Some(&self.0)
    }
    fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
        self.1.lock().unwrap().push(admissions.len());
        self.0.admit(admissions)
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
fn all_ways_to_be_admitted_lead_through_admit() {
    let store = Watched::default();
    let asked_for = [Admission::lease_only(request())];
    let Admitted::Granted(grant) = store.admit_one(&asked_for[0]).unwrap() else { panic!("it is free") };
    let lease = grant.lease().unwrap().clone();
    let (released, admitted) = store.release_then_admit(&[lease], &asked_for);
    assert!(matches!((&released[0], &admitted[0]), (Ok(true), Ok(Admitted::Granted(_)))));
    assert_eq!(*store.1.lock().unwrap(), [1, 1]);
}

#[test]
fn leases_in_a_decorated_store_are_renewed() {
    let mut schedule = Schedule::new(Plain(MemoryMutex::new()));
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
