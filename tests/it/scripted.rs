//! A store for tests: around another one, with hooks before and after each call, and a record of all calls.

use std::fmt;
use std::mem::take;
use std::slice;
use std::sync::{Arc, Mutex};

use soloist::observe::{RunRecord, SkipCount};
use soloist::store::{
    Admission, Admitted, Batch, Description, Held, Lease, LeaseRelease, LeaseRequest, Names, RunLog, Scope, Slot,
};
use soloist::time::Clock;
use soloist::{EventMutex, MemoryMutex, MutexError, MutexName, Term};

/// Forwards each call to the store in it, unless a hook answers. Clones are one store.
#[derive(Clone)]
pub(crate) struct Scripted(Arc<Script>);

struct Script {
    inner: Arc<dyn EventMutex>,
    scope: Option<Scope>,
    can_extend: Option<bool>,
    steps: Steps,
    before: Option<Box<Hook>>,
    after: Option<Box<Hook>>,
    create: Option<Box<Create>>,
    admit: Option<Box<Instead<Admissions>>>,
    release: Option<Box<Instead<Releases>>>,
    /// Each call, with its parts.
    calls: Mutex<Vec<Vec<Call>>>,
}

type Hook = dyn Fn(&Call) -> Result<(), MutexError> + Send + Sync;
type Create = dyn Fn(&dyn EventMutex, &LeaseRequest) -> Result<Option<Lease>, MutexError> + Send + Sync;
type Instead<Asked> = dyn Fn(&dyn EventMutex, &mut Asked) + Send + Sync;

pub(crate) type Admissions = [Slot<Admission, Admitted>];
pub(crate) type Releases = [Slot<LeaseRelease, bool>];

/// The calls that go through `create`, `exists` and `forget`, one name at a time.
#[derive(Clone, Copy, PartialEq)]
enum Steps {
    None,
    /// Batches.
    Some,
    /// All: the store has no other methods.
    All,
}

/// A call of a store, or a part of one: `carry_out` is recorded as `release` and `admit`, or as one of them.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The name of the method, or `release`, `release_after`, `admit`, and for the log of runs `write` and `runs`.
    pub(crate) verb: &'static str,
    /// The name of each lease; for an admission the name of its lease, or of its claim if it has no lease; for `write` a
    /// lease with the name of the event of each record.
    pub(crate) names: Vec<MutexName>,
    /// The new term of `extend`, and the minimum hold of `release_after`.
    pub(crate) term: Option<Term>,
}

impl Call {
    pub(crate) fn is(&self, verb: &str) -> bool {
        self.verb == verb
    }

    /// Returns the error of a store whose server does not answer this call.
    pub(crate) fn times_out(&self) -> Result<(), MutexError> {
        let verb = if self.is("exists") { "read" } else { self.verb };
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        Err(MutexError::unavailable(format!("{verb} {}", names.join(", ")), "timed out"))
    }

    /// Returns the parts of a batch: releases, separately those with each minimum hold, and admissions.
    fn parts(batch: &Batch) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for asked in batch.releases().iter().map(Slot::asked) {
            let (name, term) = (asked.lease().name().clone(), asked.minimum_hold());
            let verb = if term.is_none() { "release" } else { "release_after" };
            match parts.iter_mut().find(|part| part.term == term) {
                Some(part) => part.names.push(name),
                None => parts.push(Self { verb, names: vec![name], term }),
            }
        }
        let request = |slot: &Slot<Admission, _>| slot.asked().lease().or(slot.asked().claim()).cloned();
        let requests = batch.admissions().iter().filter_map(request);
        let names: Vec<_> = requests.map(|request| request.name().clone()).collect();
        if !names.is_empty() {
            parts.push(Self { verb: "admit", names, term: None });
        }
        parts
    }

    /// Answers all that this part of a batch asks for.
    fn fill(&self, batch: &mut Batch, error: &MutexError) {
        let (releases, admissions) = batch.slots_mut();
        if self.is("admit") {
            return fill(admissions, error);
        }
        for slot in releases.iter_mut().filter(|slot| slot.asked().minimum_hold() == self.term) {
            slot.fill(Err(error.clone()));
        }
    }
}

/// Answers all with this error.
fn fill<Q, A>(slots: &mut [Slot<Q, A>], error: &MutexError) {
    for slot in slots {
        slot.fill(Err(error.clone()));
    }
}

/// Fills the empty slots with the answers of `store` to one call.
pub(crate) fn forward(store: &dyn EventMutex, releases: &mut Releases, admissions: &mut Admissions) {
    let (mut batch, releases, admissions) = (Batch::new(), empty(releases), empty(admissions));
    if releases.is_empty() && admissions.is_empty() {
        return;
    }
    for asked in releases.iter().map(|slot| slot.asked()) {
        match asked.minimum_hold() {
            None => batch.release(asked.lease().clone()),
            Some(rest) => batch.release_after(asked.lease().clone(), rest),
        }
    }
    for slot in &admissions {
        batch.admit(slot.asked().clone());
    }
    store.carry_out(&mut batch);
    answer(releases, batch.releases());
    answer(admissions, batch.admissions());
}

fn empty<Q, A>(slots: &mut [Slot<Q, A>]) -> Vec<&mut Slot<Q, A>> {
    slots.iter_mut().filter(|slot| slot.answer().is_none()).collect()
}

fn answer<Q, A: Clone>(slots: Vec<&mut Slot<Q, A>>, answered: &[Slot<Q, A>]) {
    for (slot, answered) in slots.into_iter().zip(answered) {
        if let Some(answer) = answered.answer() {
            slot.fill(answer.clone());
        }
    }
}

impl Default for Scripted {
    fn default() -> Self {
        Self::over(MemoryMutex::new())
    }
}

impl Scripted {
    pub(crate) fn over(inner: impl EventMutex + 'static) -> Self {
        Self(Arc::new(Script {
            inner: Arc::new(inner),
            scope: None,
            can_extend: None,
            steps: Steps::None,
            before: None,
            after: None,
            create: None,
            admit: None,
            release: None,
            calls: Mutex::default(),
        }))
    }

    /// Returns a store in memory whose scope is a fleet.
    pub(crate) fn fleet() -> Self {
        Self::fleet_by(Clock::system())
    }

    /// Returns a store in memory with this clock whose scope is a fleet.
    pub(crate) fn fleet_by(clock: impl Into<Clock>) -> Self {
        Self::over(MemoryMutex::with_clock(clock)).scope(Scope::Fleet)
    }

    pub(crate) fn scope(self, scope: Scope) -> Self {
        self.with(|script| script.scope = Some(scope))
    }

    /// Sets whether the store can extend a lease.
    pub(crate) fn can_extend(self, can: bool) -> Self {
        self.with(|script| script.can_extend = Some(can))
    }

    /// Splits a batch into single names, by `create`, `exists`, `forget` and `extend`.
    pub(crate) fn in_steps(self) -> Self {
        self.with(|script| script.steps = Steps::Some)
    }

    /// Removes all but the three required methods.
    pub(crate) fn three_methods(self) -> Self {
        self.with(|script| script.steps = Steps::All)
    }

    /// Runs before each call, or each part of it. An error is the answer to the whole part; the inner store is not
    /// asked.
    pub(crate) fn before(self, hook: impl Fn(&Call) -> Result<(), MutexError> + Send + Sync + 'static) -> Self {
        self.with(|script| script.before = Some(Box::new(hook)))
    }

    /// Runs after each call, or each part of it. An error replaces the answers, although the inner store has
    /// acted.
    pub(crate) fn after(self, hook: impl Fn(&Call) -> Result<(), MutexError> + Send + Sync + 'static) -> Self {
        self.with(|script| script.after = Some(Box::new(hook)))
    }

    /// Replaces `create`.
    pub(crate) fn on_create(
        self,
        create: impl Fn(&dyn EventMutex, &LeaseRequest) -> Result<Option<Lease>, MutexError> + Send + Sync + 'static,
    ) -> Self {
        self.with(|script| script.create = Some(Box::new(create)))
    }

    /// Replaces the admissions of a batch.
    pub(crate) fn on_admit(self, admit: impl Fn(&dyn EventMutex, &mut Admissions) + Send + Sync + 'static) -> Self {
        self.with(|script| script.admit = Some(Box::new(admit)))
    }

    /// Replaces the releases of a batch.
    pub(crate) fn on_release(self, release: impl Fn(&dyn EventMutex, &mut Releases) + Send + Sync + 'static) -> Self {
        self.with(|script| script.release = Some(Box::new(release)))
    }

    fn with(mut self, change: impl FnOnce(&mut Script)) -> Self {
        change(Arc::get_mut(&mut self.0).expect("its script is written before it is shared"));
        self
    }

    /// Returns how many calls there were. A batch counts once.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.lock().unwrap().len()
    }

    /// Returns the number of names in each call of these methods.
    pub(crate) fn asked(&self, verbs: &[&str]) -> Vec<usize> {
        let calls = self.0.calls.lock().unwrap();
        calls.iter().flatten().filter(|call| verbs.contains(&call.verb)).map(|call| call.names.len()).collect()
    }

    /// Returns the number of admissions in each call.
    pub(crate) fn admissions(&self) -> Vec<usize> {
        self.asked(&["admit"])
    }

    /// Returns how many names each call read.
    pub(crate) fn reads(&self) -> Vec<usize> {
        self.asked(&["held"])
    }

    /// Returns the number of released leases in each call.
    pub(crate) fn releases(&self) -> Vec<usize> {
        self.asked(&["release", "forget"])
    }

    /// Returns the number of leases that each call extended or shortened.
    pub(crate) fn extensions(&self) -> Vec<usize> {
        self.asked(&["extend", "release_after"])
    }

    fn call<T>(
        &self,
        verb: &'static str,
        names: &[MutexName],
        ask: impl FnOnce(&Script) -> Result<T, MutexError>,
    ) -> Result<T, MutexError> {
        let call = Call { verb, names: names.to_vec(), term: None };
        self.record(vec![call.clone()]);
        self.run_before(&call)?;
        let answer = ask(&self.0);
        self.run_after(&call)?;
        answer
    }

    fn record(&self, call: Vec<Call>) {
        self.0.calls.lock().unwrap().push(call);
    }

    fn run_before(&self, call: &Call) -> Result<(), MutexError> {
        self.0.before.as_ref().map_or(Ok(()), |hook| hook(call))
    }

    fn run_after(&self, call: &Call) -> Result<(), MutexError> {
        self.0.after.as_ref().map_or(Ok(()), |hook| hook(call))
    }

    fn extend_as(&self, verb: &'static str, leases: &mut [Slot<Lease, bool>], term: Term) {
        if !self.describe().can_extend() {
            return fill(leases, &MutexError::unsupported("extend a lease"));
        }
        let names = leases.iter().map(|slot| slot.asked().name().clone()).collect();
        let call = Call { verb, names, term: Some(term) };
        self.record(vec![call.clone()]);
        if let Err(error) = self.run_before(&call) {
            return fill(leases, &error);
        }
        self.0.inner.extend(leases, term);
        self.run_after(&call).unwrap_or_else(|error| fill(leases, &error));
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted({} calls)", self.calls())
    }
}

impl RunLog for Scripted {
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        let names = records.iter().filter_map(|record| MutexName::lease(record.event()).ok()).collect::<Vec<_>>();
        self.call("write", &names, |script| script.run_log().write(records, keep))
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        self.call("runs", &[], |script| script.run_log().runs(event))
    }

    fn count_skips(&self, event: &str, skips: &[SkipCount]) -> Result<(), MutexError> {
        self.call("count_skips", &[], |script| script.run_log().count_skips(event, skips))
    }

    fn skips(&self, event: &str) -> Result<Vec<SkipCount>, MutexError> {
        self.call("skips", &[], |script| script.run_log().skips(event))
    }
}

impl Script {
    fn run_log(&self) -> &dyn RunLog {
        self.inner.run_log().expect("it was asked whether it has one")
    }
}

impl EventMutex for Scripted {
    fn inner(&self) -> Option<&dyn EventMutex> {
        (self.0.steps != Steps::All).then_some(&*self.0.inner)
    }

    fn describe(&self) -> Description {
        let Script { inner, scope, can_extend, steps, .. } = &*self.0;
        let (inner, is_whole) = (inner.describe(), *steps != Steps::All);
        let scope = scope.unwrap_or(if is_whole { inner.scope() } else { Scope::Unknown });
        let can_extend = can_extend.unwrap_or(is_whole && inner.can_extend());
        let own = if can_extend { inner.with_extension() } else { Description::of(&*self.0) };
        own.with_scope(scope)
    }

    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.call("create", slice::from_ref(request.name()), |script| match &script.create {
            Some(create) => create(&*script.inner, request),
            None => script.inner.create(request),
        })
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.call("exists", slice::from_ref(name), |script| script.inner.exists(name))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.call("forget", slice::from_ref(lease.name()), |script| script.inner.forget(lease))
    }

    fn run_log(&self) -> Option<&dyn RunLog> {
        (self.0.steps != Steps::All && self.0.inner.run_log().is_some()).then_some(self)
    }

    fn carry_out(&self, batch: &mut Batch) {
        let Script { inner, steps, admit, release, .. } = &*self.0;
        if *steps != Steps::None {
            return InSteps(self).carry_out(batch);
        }
        let parts = Call::parts(batch);
        self.record(parts.clone());
        for part in &parts {
            self.run_before(part).unwrap_or_else(|error| part.fill(batch, &error));
        }
        let (mut releases, mut admissions) = batch.slots_mut();
        if let Some(release) = release
            && !empty(releases).is_empty()
        {
            release(&**inner, take(&mut releases));
        }
        if let Some(admit) = admit
            && !empty(admissions).is_empty()
        {
            admit(&**inner, take(&mut admissions));
        }
        forward(&**inner, releases, admissions);
        for part in &parts {
            self.run_after(part).unwrap_or_else(|error| part.fill(batch, &error));
        }
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        self.extend_as("extend", leases, term);
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        match names {
            _ if self.0.steps == Steps::All => InSteps(self).held(names),
            Names::Each(asked) => self.call("held", asked, |script| script.inner.held(names)),
            _ => self.0.inner.held(names),
        }
    }

    fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, MutexError> {
        if self.0.steps == Steps::All {
            return InSteps(self).break_lease(name);
        }
        self.call("break_lease", slice::from_ref(name), |script| script.inner.break_lease(name))
    }
}

/// The defaults of the trait, by these methods. A lease is extended only by a release with a minimum hold.
#[derive(Debug)]
struct InSteps<'a>(&'a Scripted);

impl EventMutex for InSteps<'_> {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.0.create(request)
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.0.exists(name)
    }
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.0.forget(lease)
    }
    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        self.0.extend_as("release_after", leases, term);
    }
}
