//! The store under test, with calls that must be granted or refused, and with assertions.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::child::{EntryPoint, Other};
use super::harness::Harness;
use crate::base::{error::MutexError, escape::Chain};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, term::Term};
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::event_mutex::extend_one;
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::{EventMutex, batch::Batch, batch::Slot, lifeline::Lifeline};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The result of a case that did not panic.
pub(super) type CaseResult = Result<(), DoesNotApply>;

/// The reason why a case does not apply to a store.
pub(super) struct DoesNotApply(pub(super) &'static str);

/// The type that a case returns. It is `()` if the case applies to all stores.
pub(super) trait IntoCaseResult {
    /// Returns the result of the case.
    fn case_result(self) -> CaseResult;
}

impl IntoCaseResult for CaseResult {
    fn case_result(self) -> CaseResult {
        self
    }
}

impl IntoCaseResult for () {
    fn case_result(self) -> CaseResult {
        Ok(())
    }
}

/// The limit of [`Harness::short_term`]. With longer terms, a case would exceed its time limit.
const LONGEST_SHORT_TERM: Duration = Duration::from_secs(5);

/// Four leases for a request about several leases. The first and the last are held. The second was released. The third
/// was released, too, and `holder` holds its name now.
pub(super) struct FourLeases {
    pub(super) leases: [Lease; 4],
    holder: Lease,
}

pub(super) struct Subject<H: Harness> {
    pub(super) harness: H,
    pub(super) mutex: H::Mutex,
    pub(super) clock: Clock,
    entry: EntryPoint,
    /// The beginning of all names of this case. No other case, process or host uses such names.
    pub(super) run: String,
    keeps_holders: OnceLock<bool>,
}

impl<H: Harness> Subject<H> {
    pub(super) fn new(harness: H, entry: EntryPoint) -> Self {
        Self::of_run(harness, entry, format!("contract {}", Owner::unique()))
    }

    /// Makes the subject for a role in a case of another process. All names begin with `run`, as in that case.
    pub(super) fn of_run(harness: H, entry: EntryPoint, run: String) -> Self {
        let short = harness.short_term();
        assert!(
            short.get() <= LONGEST_SHORT_TERM,
            "the harness has a `short_term` of {:?}: a case waits for several of these terms, so return at most {LONGEST_SHORT_TERM:?}",
            short.get()
        );
        let (mutex, clock) = (harness.mutex(), harness.clock());
        Self { harness, mutex, clock, entry, run, keeps_holders: OnceLock::new() }
    }

    /// Starts a process that opens the store at `address` and plays `role`, with the names of this case.
    pub(super) fn start(&self, address: &str, role: &str) -> Other {
        Other::start::<H>(&self.entry, &self.run, address, role)
    }

    pub(super) fn name(&self, text: impl fmt::Display) -> MutexName {
        lease(format!("{} {text}", self.run))
    }

    pub(super) fn short(&self) -> Term {
        self.harness.short_term()
    }

    pub(super) fn shorts(&self, count: u32) -> Term {
        Term::new(self.short().get() * count).expect("a few short terms are a term")
    }

    /// Lets time pass until a lease of this term has ended.
    pub(super) fn let_pass(&self, term: Term) {
        self.harness.let_time_pass(term.get() + term.get() / 4);
    }

    pub(super) fn request(&self, name: &MutexName) -> LeaseRequest {
        self.request_for(name, long())
    }

    pub(super) fn request_for(&self, name: &MutexName, term: Term) -> LeaseRequest {
        LeaseRequest::new(name.clone(), term, &self.clock)
    }

    pub(super) fn both(&self, name: &MutexName, claim: &MutexName) -> Admission {
        let lease = self.request(name);
        Admission::both(lease.clone(), lease.with(claim.clone(), long()))
    }

    /// Requests `name`, for a term that does not end within a case.
    #[track_caller]
    pub(super) fn try_create(&self, name: &MutexName) -> Option<Lease> {
        answered("create", name, self.mutex.create(&self.request(name)))
    }

    /// Requests a free name. The store must grant the request.
    #[track_caller]
    pub(super) fn create(&self, name: &MutexName) -> Lease {
        self.create_for(name, long())
    }

    #[track_caller]
    pub(super) fn create_for(&self, name: &MutexName, term: Term) -> Lease {
        let lease = answered("create", name, self.mutex.create(&self.request_for(name, term)));
        lease.unwrap_or_else(|| broken("a free name is granted", name, "create was refused"))
    }

    /// Requests a held name. The store must refuse the request.
    #[track_caller]
    pub(super) fn is_refused(&self, name: &MutexName) {
        if let Some(lease) = self.try_create(name) {
            let token = lease.token();
            broken("a held name is refused", name, format_args!("create was granted, with token {token}"));
        }
    }

    #[track_caller]
    pub(super) fn exists(&self, name: &MutexName) -> bool {
        answered("exists", name, self.mutex.exists(name))
    }

    /// Returns the holder of the name, or `None` if the name is free or the store keeps no holders.
    #[track_caller]
    pub(super) fn holder(&self, name: &MutexName) -> Option<Holder> {
        let held = self.held(Names::of(name))?;
        let one = held.len() < 2 && held.iter().all(|held| held.name() == name);
        must(one, "a read of one name returns no other name", name, format_args!("held answered {held:?}"));
        held.into_iter().next()?.into_holder()
    }

    /// Returns those of the `names` that are held. Returns `None` if the store says that it does not support this read.
    #[track_caller]
    pub(super) fn held(&self, names: Names<'_>) -> Option<Vec<Held>> {
        match self.mutex.held(names) {
            Err(error) if error.is_unsupported() => None,
            answer => Some(answered("held", &format_args!("{names:?}"), answer)),
        }
    }

    #[track_caller]
    pub(super) fn forget(&self, lease: &Lease) -> bool {
        answered("forget", lease.name(), self.mutex.forget(lease))
    }

    /// Releases a lease. Fails if its owner does not hold the lease any more.
    #[track_caller]
    pub(super) fn releases(&self, lease: &Lease) {
        let ours = self.forget(lease);
        must(ours, "the holder of a name can release it", lease.name(), "forget answered false");
    }

    #[track_caller]
    pub(super) fn extend(&self, lease: &Lease, term: Term) -> bool {
        answered("extend", lease.name(), extend_one(&self.mutex, lease, term))
    }

    #[track_caller]
    pub(super) fn extend_all(&self, leases: &[Lease], term: Term) -> Vec<bool> {
        let mut slots: Vec<_> = leases.iter().cloned().map(Slot::new).collect();
        self.mutex.extend(&mut slots, term);
        let same = slots.iter().map(Slot::asked).eq(leases);
        must(same, "a store does not change the requests", &"several leases", format_args!("got {slots:?}"));
        answers("extend", &slots, |lease| lease.name())
    }

    #[track_caller]
    pub(super) fn release_all(&self, leases: &[Lease]) -> Vec<bool> {
        let mut batch = Batch::new();
        for lease in leases {
            batch.release(lease.clone());
        }
        self.carry_out(batch).0
    }

    pub(super) fn four_leases(&self) -> FourLeases {
        let leases = ["one", "released", "another's", "two"].map(|text| self.create(&self.name(text)));
        self.releases(&leases[1]);
        self.releases(&leases[2]);
        let holder = self.create(leases[2].name());
        FourLeases { leases, holder }
    }

    /// Checks that a request about four leases succeeded only for the two that were held, and that it ended these two.
    #[track_caller]
    pub(super) fn are_ended(&self, four: &FourLeases, answers: &[bool], promise: &str) {
        let happened = format_args!(
            "it answered {answers:?} for four leases, in this order: held, free, held by another owner, held"
        );
        must(answers == [true, false, false, true], promise, four.leases[0].name(), happened);
        self.is_held_by(&four.holder, promise);
        for at in [0, 1, 3] {
            self.is_free(four.leases[at].name(), promise);
        }
    }

    #[track_caller]
    pub(super) fn release_after(&self, lease: &Lease, minimum_hold: Term) -> bool {
        let mut batch = Batch::new();
        batch.release_after(lease.clone(), minimum_hold);
        self.carry_out(batch).0.remove(0)
    }

    #[track_caller]
    pub(super) fn break_lease(&self, name: &MutexName) -> bool {
        answered("break_lease", name, self.mutex.break_lease(name)).is_some()
    }

    #[track_caller]
    pub(super) fn admit(&self, admission: &Admission) -> Admitted {
        self.admit_all(std::slice::from_ref(admission)).remove(0)
    }

    #[track_caller]
    pub(super) fn admit_all(&self, admissions: &[Admission]) -> Vec<Admitted> {
        let mut batch = Batch::new();
        for admission in admissions {
            batch.admit(admission.clone());
        }
        self.carry_out(batch).1
    }

    /// Returns the answer to each release and to each admission of a batch.
    #[track_caller]
    pub(super) fn carry_out(&self, mut batch: Batch) -> (Vec<bool>, Vec<Admitted>) {
        let asked = batch.clone();
        self.mutex.carry_out(&mut batch);
        let (releases, admissions) = (batch.releases(), batch.admissions());
        let same = releases.iter().map(Slot::asked).eq(asked.releases().iter().map(Slot::asked))
            && admissions.iter().map(Slot::asked).eq(asked.admissions().iter().map(Slot::asked));
        must(same, "a store does not change the requests", &"a batch", format_args!("got {batch:?}"));
        (
            answers("a release", releases, |asked| asked.lease().name()),
            answers("an admission", admissions, Admission::name),
        )
    }

    /// Requests an admission of free names. The store must grant the admission.
    #[track_caller]
    pub(super) fn is_admitted(&self, admission: &Admission) -> Grant {
        let admitted = self.admit(admission);
        granted(admission, admitted)
    }

    /// Checks that the name is held: by `exists`, and by the witness if there is one.
    #[track_caller]
    pub(super) fn is_held(&self, name: &MutexName, promise: &str) {
        self.looks(name, true, promise);
    }

    /// Checks that the name is free: by `exists`, and by the witness if there is one.
    #[track_caller]
    pub(super) fn is_free(&self, name: &MutexName, promise: &str) {
        self.looks(name, false, promise);
    }

    #[track_caller]
    fn looks(&self, name: &MutexName, held: bool, promise: &str) {
        let says = self.exists(name);
        must(says == held, promise, name, format_args!("exists answered {says}"));
        if let Some(saw) = self.harness.witness(name) {
            must(saw == held, promise, name, format_args!("exists answered {says}, but the witness answered {saw}"));
        }
    }

    /// Checks that this lease holds its name, by all reads that the store offers.
    #[track_caller]
    pub(super) fn is_held_by(&self, lease: &Lease, promise: &str) {
        self.is_held(lease.name(), promise);
        self.is_told(lease, self.holder(lease.name()).as_ref(), promise);
    }

    /// Checks that `told` is the holder of this lease, or that the store never returns holders.
    #[track_caller]
    pub(super) fn is_told(&self, lease: &Lease, told: Option<&Holder>, promise: &str) {
        let name = lease.name();
        match told {
            Some(holder) => {
                let same = holder.owner() == lease.owner() && holder.token() == lease.token();
                must(same, promise, name, format_args!("the holder is {holder:?} instead of the holder of {lease:?}"));
            }
            None => {
                must(
                    !self.keeps_holders(),
                    promise,
                    name,
                    "the answer has no holder, although the store keeps holders",
                );
            }
        }
    }

    /// Returns whether the store returns holders. A store must return holders always or never.
    pub(super) fn keeps_holders(&self) -> bool {
        *self.keeps_holders.get_or_init(|| {
            let lease = self.create(&self.name("whether holders are kept"));
            let kept = self.holder(lease.name()).is_some();
            self.releases(&lease);
            kept
        })
    }

    /// Returns an error if the store says that it can't extend leases. Another case checks whether that is true.
    pub(super) fn can_extend(&self) -> CaseResult {
        let none = DoesNotApply("the store can't extend a lease, and says so");
        self.mutex.describe().can_extend().then_some(()).ok_or(none)
    }

    /// Returns an error if the store can't break leases. Fails if the store can do so only sometimes.
    pub(super) fn can_break(&self) -> CaseResult {
        let lease = self.create(&self.name("whether leases are broken"));
        let held = self.mutex.break_lease(lease.name()).map(|held| held.is_some());
        let free = self.mutex.break_lease(lease.name()).map(|held| held.is_some());
        let promise = "a store that can't break leases says so each time";
        match (&held, &free) {
            (Ok(true), Ok(false)) => Ok(()),
            (Err(held), Err(free)) if held.is_unsupported() && free.is_unsupported() => {
                self.releases(&lease);
                Err(DoesNotApply("the store can't break a lease, and says so"))
            }
            _ => broken(
                promise,
                lease.name(),
                format_args!("it answered {held:?} for a held name and {free:?} for a free name"),
            ),
        }
    }

    #[track_caller]
    pub(super) fn lifeline(&self, lease: &Lease) -> Option<Lifeline> {
        answered("lifeline", lease.name(), self.mutex.lifeline(lease))
    }

    /// Returns an error if the store gives no [`Lifeline`] for a lease.
    pub(super) fn gives_lifelines(&self) -> CaseResult {
        let lease = self.create(&self.name("whether lifelines are given"));
        let lifeline = self.lifeline(&lease);
        self.releases(&lease);
        let none = DoesNotApply("the store gives no lifeline: it can't tell whether a process lives");
        lifeline.map(drop).ok_or(none)
    }

    /// Repeats `attempt`, each time with another name, until it returns an answer. On a busy machine, an answer of the
    /// store may come after the end of the lease. Such an answer proves nothing, so the attempt returns `None`; see
    /// [`before`](Self::before).
    #[track_caller]
    pub(super) fn in_time<T>(&self, mut attempt: impl FnMut(&MutexName) -> Option<T>) -> T {
        let seen = (0..20).find_map(|times| attempt(&self.name(format_args!("in time {times}"))));
        seen.unwrap_or_else(|| {
            panic!("this machine is too slow for leases of {:?}: 20 attempts failed", self.short().get())
        })
    }

    /// Returns `answer` if it came before `end`. Otherwise returns `None`.
    pub(super) fn before<T>(&self, end: Moment, answer: T) -> Option<T> {
        (self.clock.moment() < end).then_some(answer)
    }
}

/// Returns a term that does not end within a case.
pub(super) fn long() -> Term {
    Term::new(Duration::from_secs(600)).expect("ten minutes are a term")
}

pub(super) fn lease(name: impl Into<String>) -> MutexName {
    let name = name.into();
    MutexName::lease(name.clone()).unwrap_or_else(|error| panic!("{name:?} must be a name: {error}"))
}

/// Returns the `number`th of the suite's occurrences.
pub(super) fn occurrence(number: usize) -> DateTime<Utc> {
    let number = i64::try_from(number).expect("the suite counts to a few thousand");
    DateTime::UNIX_EPOCH + TimeDelta::minutes(number)
}

/// Returns the lease and the claim of a grant, as far as the grant has them.
pub(super) fn leases_of(grant: &Grant) -> impl Iterator<Item = &Lease> {
    grant.lease().into_iter().chain(grant.claim())
}

/// Returns the grant. Fails if the admission was refused, or if the grant does not match the request.
#[track_caller]
pub(super) fn granted(admission: &Admission, admitted: Admitted) -> Grant {
    let name = admission.name();
    let Admitted::Granted(grant) = admitted else {
        broken("a free lease and a free claim are granted", name, format_args!("the store answered {admitted:?}"));
    };
    let fits = |asked: Option<&LeaseRequest>, got: Option<&Lease>| match (asked, got) {
        (Some(asked), Some(got)) => {
            got.name() == asked.name() && got.owner() == asked.owner() && got.term() == asked.term()
        }
        (None, None) => true,
        _ => false,
    };
    let fits = fits(admission.lease(), grant.lease())
        && fits(admission.claim(), grant.claim())
        && grant.lease().or(grant.claim()).map(Lease::token) == Some(grant.token());
    must(fits, "the grant matches the request", name, format_args!("asked {admission:?}, got {grant:?}"));
    grant
}

/// Returns the store's answers to the requests of a batch. Fails if a request got no answer, or an error.
#[track_caller]
fn answers<Q, A: Clone>(what: &str, slots: &[Slot<Q, A>], name: fn(&Q) -> &MutexName) -> Vec<A> {
    let answer = |slot: &Slot<Q, A>| {
        let name = name(slot.asked());
        let empty = || broken("each request gets an answer", name, format_args!("{what} got no answer"));
        answered(what, name, slot.answer().cloned().unwrap_or_else(empty))
    };
    slots.iter().map(answer).collect()
}

#[track_caller]
pub(super) fn answered<T>(what: &str, name: &impl fmt::Display, answer: Result<T, MutexError>) -> T {
    answer.unwrap_or_else(|error| {
        broken("an available store answers", name, format_args!("{what} failed: {}", Chain(&error)))
    })
}

#[track_caller]
pub(super) fn must(kept: bool, promise: &str, name: &impl fmt::Display, happened: impl fmt::Display) {
    if !kept {
        broken(promise, name, happened);
    }
}

#[track_caller]
pub(super) fn broken(promise: &str, name: &impl fmt::Display, happened: impl fmt::Display) -> ! {
    let name = name.to_string();
    let shown: String = name.escape_debug().take(160).collect();
    panic!("promised: {promise}; on {shown}; but {happened}");
}
