//! A store that does what the test says: around another one, with hooks before and after each call, and a record of all.

use std::fmt;
use std::sync::{Arc, Mutex};

use soloist::{
    Admission, Admitted, Answers, Broken, Clock, EventMutex, Holder, Lease, LeaseRequest, MemoryMutex, MutexError,
    MutexName, Scope, StoreId, Term,
};

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
    admit: Option<Box<Instead<[Admission], Answers<Admitted>>>>,
    release: Option<Box<Instead<[Lease], Answers<bool>>>>,
    calls: Mutex<Vec<Call>>,
}

type Hook = dyn Fn(&Call) -> Result<(), MutexError> + Send + Sync;
type Create = Instead<LeaseRequest, Result<Option<Lease>, MutexError>>;
type Instead<Asked, Answer> = dyn Fn(&dyn EventMutex, &Asked) -> Answer + Send + Sync;

/// Which calls go through `create`, `exists` and `forget`, one name at a time.
#[derive(Clone, Copy, PartialEq)]
enum Steps {
    None,
    /// Admissions and releases.
    Some,
    /// All: the store has no other methods.
    All,
}

/// One call of a store.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The name of the method.
    pub(crate) verb: &'static str,
    /// One for each lease; for an admission that of its lease, or of its claim if it has none.
    pub(crate) names: Vec<MutexName>,
    /// The new term of `extend` and `release_after`.
    pub(crate) term: Option<Term>,
}

impl Call {
    pub(crate) fn is(&self, verb: &str) -> bool {
        self.verb == verb
    }

    /// What a store says when its server does not answer this call.
    pub(crate) fn times_out(&self) -> Result<(), MutexError> {
        let verb = if self.is("exists") { "look at" } else { self.verb };
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        Err(MutexError::unavailable(format!("{verb} {}", names.join(", ")), "timed out"))
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

    /// A store in memory that says of itself that a fleet shares it.
    pub(crate) fn fleet() -> Self {
        Self::fleet_by(Clock::system())
    }

    /// The same, by this clock.
    pub(crate) fn fleet_by(clock: impl Into<Clock>) -> Self {
        Self::over(MemoryMutex::with_clock(clock)).scope(Scope::Fleet)
    }

    pub(crate) fn scope(self, scope: Scope) -> Self {
        self.with(|script| script.scope = Some(scope))
    }

    /// Says whether it can extend a lease.
    pub(crate) fn can_extend(self, can: bool) -> Self {
        self.with(|script| script.can_extend = Some(can))
    }

    /// Admits and releases one name at a time, by `create`, `exists` and `forget`.
    pub(crate) fn in_steps(self) -> Self {
        self.with(|script| script.steps = Steps::Some)
    }

    /// Has only the three methods that every store has.
    pub(crate) fn three_methods(self) -> Self {
        self.with(|script| script.steps = Steps::All)
    }

    /// Before each call. An error is the answer, once for each name; the store in it is not asked.
    pub(crate) fn before(self, hook: impl Fn(&Call) -> Result<(), MutexError> + Send + Sync + 'static) -> Self {
        self.with(|script| script.before = Some(Box::new(hook)))
    }

    /// After each call. An error takes the place of the answer: the store in it has done what it was asked for.
    pub(crate) fn after(self, hook: impl Fn(&Call) -> Result<(), MutexError> + Send + Sync + 'static) -> Self {
        self.with(|script| script.after = Some(Box::new(hook)))
    }

    /// Instead of `create`.
    pub(crate) fn on_create(
        self,
        create: impl Fn(&dyn EventMutex, &LeaseRequest) -> Result<Option<Lease>, MutexError> + Send + Sync + 'static,
    ) -> Self {
        self.with(|script| script.create = Some(Box::new(create)))
    }

    /// Instead of `admit`.
    pub(crate) fn on_admit(
        self,
        admit: impl Fn(&dyn EventMutex, &[Admission]) -> Answers<Admitted> + Send + Sync + 'static,
    ) -> Self {
        self.with(|script| script.admit = Some(Box::new(admit)))
    }

    /// Instead of `release`.
    pub(crate) fn on_release(
        self,
        release: impl Fn(&dyn EventMutex, &[Lease]) -> Answers<bool> + Send + Sync + 'static,
    ) -> Self {
        self.with(|script| script.release = Some(Box::new(release)))
    }

    fn with(mut self, change: impl FnOnce(&mut Script)) -> Self {
        change(Arc::get_mut(&mut self.0).expect("its script is written before it is shared"));
        self
    }

    /// How often it was asked for something.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.lock().unwrap().len()
    }

    /// For how many names each call of these methods asked.
    pub(crate) fn asked(&self, verbs: &[&str]) -> Vec<usize> {
        let calls = self.0.calls.lock().unwrap();
        calls.iter().filter(|call| verbs.contains(&call.verb)).map(|call| call.names.len()).collect()
    }

    /// How many admissions each call asked for.
    pub(crate) fn admissions(&self) -> Vec<usize> {
        self.asked(&["admit"])
    }

    /// How many leases each call gave back.
    pub(crate) fn releases(&self) -> Vec<usize> {
        self.asked(&["release", "forget"])
    }

    /// How many leases each call prolonged or shortened.
    pub(crate) fn extensions(&self) -> Vec<usize> {
        self.asked(&["extend", "release_after"])
    }

    fn call<T>(
        &self,
        verb: &'static str,
        name: &MutexName,
        ask: impl FnOnce(&Script) -> Result<T, MutexError>,
    ) -> Result<T, MutexError> {
        self.calls_of(verb, vec![name.clone()], None, |script| vec![ask(script)]).remove(0)
    }

    fn of_leases(
        &self,
        verb: &'static str,
        leases: &[Lease],
        term: Option<Term>,
        ask: impl FnOnce(&Script) -> Answers<bool>,
    ) -> Answers<bool> {
        self.calls_of(verb, leases.iter().map(|lease| lease.name().clone()).collect(), term, ask)
    }

    fn calls_of<T>(
        &self,
        verb: &'static str,
        names: Vec<MutexName>,
        term: Option<Term>,
        ask: impl FnOnce(&Script) -> Answers<T>,
    ) -> Answers<T> {
        let (script, call) = (&*self.0, Call { verb, names, term });
        script.calls.lock().unwrap().push(call.clone());
        let hear = |hook: &Option<Box<Hook>>| hook.as_ref().map_or(Ok(()), |hook| hook(&call));
        let all = |error: MutexError| call.names.iter().map(|_| Err(error.clone())).collect();
        if let Err(error) = hear(&script.before) {
            return all(error);
        }
        let answers = ask(script);
        hear(&script.after).map_or_else(all, |()| answers)
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted({} calls)", self.calls())
    }
}

impl EventMutex for Scripted {
    fn inner(&self) -> Option<&dyn EventMutex> {
        (self.0.steps != Steps::All).then_some(&*self.0.inner)
    }

    fn identity(&self) -> StoreId {
        self.0.inner.identity()
    }

    fn scope(&self) -> Scope {
        let own = if self.0.steps == Steps::All { Scope::Unknown } else { self.0.inner.scope() };
        self.0.scope.unwrap_or(own)
    }

    fn can_extend(&self) -> bool {
        self.0.can_extend.unwrap_or(self.0.steps != Steps::All && self.0.inner.can_extend())
    }

    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.call("create", request.name(), |script| match &script.create {
            Some(create) => create(&*script.inner, request),
            None => script.inner.create(request),
        })
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.call("exists", name, |script| script.inner.exists(name))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.call("forget", lease.name(), |script| script.inner.forget(lease))
    }

    fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
        if self.0.steps != Steps::None && self.0.admit.is_none() {
            return ThreeMethods(self).admit(admissions);
        }
        let name = |it: &Admission| it.lease().or(it.claim()).expect("it asks for something").name().clone();
        self.calls_of("admit", admissions.iter().map(name).collect(), None, |script| match &script.admit {
            Some(admit) => admit(&*script.inner, admissions),
            None => script.inner.admit(admissions),
        })
    }

    fn release(&self, leases: &[Lease]) -> Answers<bool> {
        if self.0.steps != Steps::None && self.0.release.is_none() {
            return ThreeMethods(self).release(leases);
        }
        self.of_leases("release", leases, None, |script| match &script.release {
            Some(release) => release(&*script.inner, leases),
            None => script.inner.release(leases),
        })
    }

    fn extend(&self, leases: &[Lease], term: Term) -> Answers<bool> {
        if !self.can_extend() {
            return ThreeMethods(self).extend(leases, term);
        }
        self.of_leases("extend", leases, Some(term), |script| script.inner.extend(leases, term))
    }

    fn release_after(&self, leases: &[Lease], rest: Term) -> Answers<bool> {
        if !self.can_extend() {
            return ThreeMethods(self).extend(leases, rest);
        }
        self.of_leases("release_after", leases, Some(rest), |script| script.inner.release_after(leases, rest))
    }

    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        if self.0.steps == Steps::All {
            return ThreeMethods(self).holder(name);
        }
        self.call("holder", name, |script| script.inner.holder(name))
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        if self.0.steps == Steps::All {
            return ThreeMethods(self).break_lease(name);
        }
        self.call("break_lease", name, |script| script.inner.break_lease(name))
    }
}

/// The defaults of the trait, by these three.
#[derive(Debug)]
struct ThreeMethods<'a>(&'a Scripted);

impl EventMutex for ThreeMethods<'_> {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.0.create(request)
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.0.exists(name)
    }
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.0.forget(lease)
    }
    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        if self.0.0.steps == Steps::All { Ok(None) } else { self.0.holder(name) }
    }
}
