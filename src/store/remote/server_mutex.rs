//! The mutexes on a server of any kind: what an answer means for the caller, and what is given back when it was lost.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::failure::Failure;
use super::owned_name::OwnedName;
use super::pending_release::{PendingRelease, PendingReleases};
use crate::base::error::MutexError;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, term::Term};
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, LeaseReturn, attempted_release};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::{admit_in_steps, slot::answer_each};
use crate::store::event_mutex::{broken_lease::Broken, slot::Slot, warning::StoreWarning};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest time for which a release that the server did not answer is tried again.
const RELEASE_RETRIED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// One answer for each name that the server was asked about.
pub(crate) type EachAnswer<T> = Vec<Result<T, Failure>>;

/// A name that is held, and by whom; a text says why its entry can't be read.
pub(crate) type FoundEntry = (MutexName, Result<Holder, String>);

/// The client of one kind of server.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Whether releases and admissions go to the server in one round trip.
    const RELEASES_AND_ADMITS_AT_ONCE: bool;

    /// Whether the server may still carry out a request for as long as a call lasts after its answer was lost.
    const ACTS_LATE: bool;

    /// The server, for messages.
    fn server(&self) -> &dyn fmt::Display;
    fn timeout(&self) -> Duration;
    fn pending(&self) -> &PendingReleases;

    /// Asks the server anything, so that what is pending is sent before that.
    fn send_pending(self: &Arc<Self>);

    /// Whether the server can decide on this admission in one step.
    fn is_one_step(&self, admission: &Admission) -> bool;

    /// Gives names back, and then decides on admissions, each of which is one step. There is one answer for each; for the
    /// admissions there is none at all if it only turns out now that one of them is not one step: nothing was decided.
    fn release_and_admit(
        self: &Arc<Self>,
        held: &[OwnedName],
        admissions: &[&Admission],
    ) -> (EachAnswer<Released>, EachAnswer<Decided>);

    /// Lets names end one term from now; whether each was its owner's.
    fn extend(self: &Arc<Self>, held: &[OwnedName], term: Term) -> EachAnswer<bool>;

    /// Who holds a name. A text says why the entry of the name can't be read.
    fn holder(self: &Arc<Self>, name: &MutexName) -> Result<Option<Result<Holder, String>>, Failure>;

    /// The leases of all mutexes whose names begin with `prefix`, each of them once.
    fn leases(self: &Arc<Self>, prefix: &str) -> Result<Vec<FoundEntry>, Failure>;

    fn exists(self: &Arc<Self>, name: &MutexName) -> Result<bool, Failure> {
        Ok(self.holder(name)?.is_some())
    }

    fn check(self: &Arc<Self>) -> Result<Vec<StoreWarning>, MutexError>;

    fn error(&self, attempted: String, failure: Failure) -> MutexError;

    /// The `Debug` of the public store.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The server's answer to one release.
#[derive(Clone, Copy)]
pub(crate) struct Released {
    pub(crate) was_ours: bool,
    /// It was not ours any more, because an earlier attempt of the same call has released it, as far as one can tell.
    pub(crate) went_before: bool,
}

/// The server's answer to one admission.
pub(crate) struct Decided {
    /// The text says why the entry of the name can't be used.
    pub(crate) decision: Result<Admitted, String>,
    /// Whether an earlier attempt of the same call may have been granted.
    pub(crate) again: bool,
}

pub(crate) struct ServerMutex<B> {
    pub(crate) backend: Arc<B>,
}

impl<B> Clone for ServerMutex<B> {
    fn clone(&self) -> Self {
        Self { backend: Arc::clone(&self.backend) }
    }
}

impl<B: Backend> ServerMutex<B> {
    pub(crate) fn new(backend: B) -> Self {
        Self { backend: Arc::new(backend) }
    }

    /// Gives these back, and decides on these admissions, each of which is one step.
    fn exchange(&self, ended: &mut [&mut Slot<LeaseReturn, bool>], admissions: &mut [Slot<Admission, Admitted>]) {
        let held: Vec<OwnedName> = ended.iter().map(|slot| OwnedName::of(slot.asked().lease())).collect();
        let asked: Vec<&Admission> = admissions.iter().map(Slot::asked).collect();
        let (released, decided) = self.backend.release_and_admit(&held, &asked);
        let decided = self.admitted(&asked, decided);
        self.fill_released(ended, released);
        admissions.iter_mut().zip(decided).for_each(|(slot, answer)| slot.fill(answer));
    }

    fn fill_released(&self, ended: &mut [&mut Slot<LeaseReturn, bool>], answers: EachAnswer<Released>) {
        let now = Clock::system().moment();
        for (slot, answer) in ended.iter_mut().zip(answers) {
            let lease = slot.asked().lease();
            let answer = match answer {
                Ok(Released { was_ours, went_before }) => Ok(was_ours || (went_before && now < lease.deadline())),
                Err(failure) => {
                    self.release_later(lease, now);
                    Err(self.failed("forget", lease.name(), failure))
                }
            };
            slot.fill(answer);
        }
    }

    /// Lets these end when their rest is over, with one request for all that have the same. After an outage the server is
    /// asked nothing more: they are released later.
    fn shorten(&self, rested: Vec<&mut Slot<LeaseReturn, bool>>, mut outage: Option<MutexError>) {
        let mut by_rest = BTreeMap::<Term, Vec<&mut Slot<LeaseReturn, bool>>>::new();
        for slot in rested {
            if let Some(rest) = slot.asked().rest() {
                by_rest.entry(rest).or_default().push(slot);
            }
        }
        for (rest, slots) in by_rest {
            let from = Clock::system().moment().plus(rest.get());
            let leases = slots.iter().map(|slot| slot.asked().lease());
            let answers: Vec<_> = match &outage {
                None => self.extended(leases, rest),
                Some(first) => {
                    leases.map(|it| Err(MutexError::not_asked_again(attempted_release(it), first))).collect()
                }
            };
            for (slot, answer) in slots.into_iter().zip(answers) {
                if answer.is_err() {
                    self.release_later(slot.asked().lease(), from);
                }
                slot.fill(answer);
                outage = outage.or_else(|| slot.outage().cloned());
            }
        }
    }

    fn extended<'a>(
        &self,
        leases: impl Iterator<Item = &'a Lease> + Clone,
        term: Term,
    ) -> Vec<Result<bool, MutexError>> {
        let held: Vec<OwnedName> = leases.clone().map(OwnedName::of).collect();
        let answers = self.backend.extend(&held, term).into_iter().zip(leases);
        answers.map(|(answer, lease)| answer.map_err(|failure| self.failed("extend", lease.name(), failure))).collect()
    }

    /// Decides on one that is not one step: a node of a cluster looks for the excluding name first.
    fn admit_apart(&self, admission: &Admission) -> Result<Admitted, MutexError> {
        let alone = admission.without_exclusion();
        if !self.backend.is_one_step(&alone) {
            return admit_in_steps(self, admission);
        }
        let held = admission.excluded_by().map(|name| self.held(Names::Exactly(name))).transpose()?;
        match held.and_then(|mut held| held.pop()) {
            Some(held) => Ok(Admitted::Excluded(held.into_holder())),
            None => alone.ask(self),
        }
    }

    fn admitted(&self, admissions: &[&Admission], answers: EachAnswer<Decided>) -> Vec<Result<Admitted, MutexError>> {
        let may_be_ours = |(_, decided): &(&&Admission, &Result<Decided, Failure>)| match decided {
            // The first attempt may have been granted and be over but for its claim, or may still be granted.
            Ok(Decided { decision: Ok(Admitted::Granted(_)) | Err(_), .. }) => false,
            Ok(Decided { again, .. }) => *again,
            Err(failure) => failure.may_have_been_done(),
        };
        let perhaps_ours = admissions.iter().zip(&answers).filter(may_be_ours);
        self.add_pending(perhaps_ours.flat_map(|(admission, _)| self.releases_of(admission)).collect());
        let answer = |(decided, admission): (Result<Decided, Failure>, &&Admission)| {
            let decided = decided.map_err(|failure| self.failed("admit", admission.name(), failure))?;
            decided.decision.map_err(|why| MutexError::unusable(self.attempted("admit", admission.name()), why))
        };
        answers.into_iter().zip(admissions).map(answer).collect()
    }

    fn releases_of(&self, admission: &Admission) -> Vec<PendingRelease> {
        let now = Clock::system().moment();
        let latest = now.plus(2 * self.backend.timeout());
        let from: &[Moment] = if B::ACTS_LATE { &[now, latest] } else { &[now] };
        let requests = [admission.claim(), admission.lease()].into_iter().flatten();
        let release = |request: &LeaseRequest, from| {
            let held = OwnedName { name: request.name().clone(), owner: request.owner() };
            PendingRelease { held, from, until: latest.plus(request.term().get()) }
        };
        requests.flat_map(|request| from.iter().map(move |from| release(request, *from))).collect()
    }

    /// Releases a lease whose release got no answer, as soon as the server answers, but not before `from`.
    fn release_later(&self, lease: &Lease, from: Moment) {
        // It may have been extended, so that only the server knows when it ends.
        let until = from.plus(RELEASE_RETRIED_FOR);
        self.add_pending(vec![PendingRelease { held: OwnedName::of(lease), from, until }]);
    }

    fn add_pending(&self, releases: Vec<PendingRelease>) {
        self.backend.pending().add(releases, &self.backend, B::send_pending);
    }

    fn attempted(&self, verb: &str, name: &MutexName) -> String {
        format!("{verb} {name} in {}", self.backend.server())
    }

    fn failed(&self, verb: &str, name: &MutexName, failure: Failure) -> MutexError {
        self.backend.error(self.attempted(verb, name), failure)
    }
}

impl<B: Backend> fmt::Debug for ServerMutex<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.backend.show(f)
    }
}

impl<B: Backend> EventMutex for ServerMutex<B> {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        match Admission::of(request.clone()).ask(self)? {
            Admitted::Granted(grant) => Ok(Some(request.granted(grant.token()))),
            Admitted::LeaseTaken(_) | Admitted::ClaimTaken(_) | Admitted::Excluded(_) => Ok(None),
        }
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.backend.exists(name).map_err(|failure| self.failed("look at", name, failure))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        let mut batch = Batch::new();
        batch.release(lease.clone());
        self.carry_out(&mut batch);
        batch.releases()[0].answer().cloned().expect("each slot is filled")
    }

    fn describe(&self) -> Description {
        Description::of(&*self.backend).with_scope(Scope::Fleet).with_extension()
    }

    fn carry_out(&self, batch: &mut Batch) {
        let (releases, admissions) = batch.slots_mut();
        let is_one_step = admissions.iter().all(|slot| self.backend.is_one_step(slot.asked()));
        let (rested, mut ended): (Vec<_>, Vec<_>) = releases.iter_mut().partition(|slot| slot.asked().rest().is_some());
        let at_once = is_one_step && (B::RELEASES_AND_ADMITS_AT_ONCE || ended.is_empty());
        self.exchange(&mut ended, if at_once { &mut *admissions } else { &mut [] });
        let mut outage = ended.iter().find_map(|slot| slot.outage().cloned());
        if is_one_step && !at_once && outage.is_none() {
            self.exchange(&mut [], admissions);
        }
        // What was not decided in one step: its slots are still empty.
        answer_each(admissions, &mut outage, Admission::attempted, |admission| self.admit_apart(admission));
        let outage = outage.or_else(|| admissions.iter().find_map(|slot| slot.outage().cloned()));
        self.shorten(rested, outage);
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        let answers = self.extended(leases.iter().map(Slot::asked), term);
        leases.iter_mut().zip(answers).for_each(|(slot, answer)| slot.fill(answer));
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let look_up = |name: &MutexName| self.attempted("look up the holder of", name);
        let (attempted, found) = match names {
            Names::Exactly(name) => {
                let holder = self.backend.holder(name);
                (look_up(name), holder.map(|holder| holder.map(|holder| (name.clone(), holder)).into_iter().collect()))
            }
            Names::LeasesWithPrefix(prefix) => {
                (format!("list the leases in {}", self.backend.server()), self.backend.leases(prefix))
            }
        };
        let found: Vec<FoundEntry> = found.map_err(|failure| self.backend.error(attempted, failure))?;
        let held = |(name, holder): FoundEntry| match holder {
            Ok(holder) => Ok(Held::new(name, Some(holder))),
            // One entry of somebody else must not hide the others.
            Err(_) if matches!(names, Names::LeasesWithPrefix(_)) => Ok(Held::new(name, None)),
            Err(why) => Err(MutexError::unusable(look_up(&name), why)),
        };
        found.into_iter().map(held).collect()
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        let held = self.held(Names::Exactly(name))?.pop();
        let Some(holder) = held.and_then(Held::into_holder) else { return Ok(Broken::NotHeld) };
        // Only this holder is broken, however late the request arrives and however often.
        let held = OwnedName { name: name.clone(), owner: holder.owner() };
        let released = self.backend.release_and_admit(&[held], &[]).0.remove(0);
        let Released { was_ours, went_before } = released.map_err(|failure| self.failed("break", name, failure))?;
        Ok(Broken::if_held(was_ours || went_before))
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        self.backend.check()
    }
}

/// Makes a public store of its `ServerMutex`: all is forwarded to that.
macro_rules! forward_to_server_mutex {
    (impl EventMutex for $store:ident) => {
        $crate::store::event_mutex::delegate::delegate!(impl EventMutex for $store, |this| this.0);

        impl std::fmt::Debug for $store {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
pub(crate) use forward_to_server_mutex;
