//! The mutexes on a server of any kind: what an answer means for the caller, and what is given back when it was lost.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::failure::Failure;
use super::owned_name::OwnedName;
use super::pending_release::{PendingRelease, PendingReleases};
use crate::base::error::MutexError;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, store_id::StoreId, term::Term};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::{Answers, EventMutex, Scope, admit_each, release_before_admit};
use crate::store::{event_mutex::broken_lease::Broken, event_mutex::warning::StoreWarning};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest time for which a release that the server did not answer is tried again.
const RELEASE_RETRIED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// One answer for each name that the server was asked about.
pub(crate) type EachAnswer<T> = Vec<Result<T, Failure>>;

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
    fn is_one_step(admission: &Admission) -> bool;

    /// Gives names back, and then decides on admissions, each of which is one step. There is one answer for each.
    fn release_and_admit(
        self: &Arc<Self>,
        held: &[OwnedName],
        admissions: &[Admission],
    ) -> (EachAnswer<Released>, EachAnswer<Decided>);

    /// Lets names end one term from now; whether each was its owner's.
    fn extend(self: &Arc<Self>, held: &[OwnedName], term: Term) -> EachAnswer<bool>;

    /// Who holds a name. A text says why the entry of the name can't be read.
    fn holder(self: &Arc<Self>, name: &MutexName) -> Result<Option<Result<Holder, String>>, Failure>;

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

    fn release_and_admit(&self, leases: &[Lease], admissions: &[Admission]) -> (Answers<bool>, Answers<Admitted>) {
        let held: Vec<OwnedName> = leases.iter().map(OwnedName::of).collect();
        let (released, decided) = self.backend.release_and_admit(&held, admissions);
        (self.released(leases, released), self.admitted(admissions, decided))
    }

    fn released(&self, leases: &[Lease], answers: EachAnswer<Released>) -> Answers<bool> {
        let now = Clock::system().moment();
        self.release_later(leases, &answers, now);
        let answer = |(answer, lease): (Result<Released, Failure>, &Lease)| match answer {
            Ok(Released { was_ours, went_before }) => Ok(was_ours || (went_before && now < lease.deadline())),
            Err(failure) => Err(self.failed("forget", lease.name(), failure)),
        };
        answers.into_iter().zip(leases).map(answer).collect()
    }

    fn admitted(&self, admissions: &[Admission], answers: EachAnswer<Decided>) -> Answers<Admitted> {
        let may_be_ours = |(_, decided): &(&Admission, &Result<Decided, Failure>)| match decided {
            // The first attempt may have been granted and be over but for its claim, or may still be granted.
            Ok(Decided { decision: Ok(Admitted::LeaseTaken(_) | Admitted::ClaimTaken(_)), again }) => *again,
            Ok(_) => false,
            Err(failure) => failure.may_have_been_done(),
        };
        let perhaps_ours = admissions.iter().zip(&answers).filter(may_be_ours);
        self.add_pending(perhaps_ours.flat_map(|(admission, _)| self.releases_of(admission)).collect());
        let answer = |(decided, admission): (Result<Decided, Failure>, &Admission)| {
            let decided = decided.map_err(|failure| self.failed("admit", admission.name(), failure))?;
            decided.decision.map_err(|why| MutexError::unusable(self.attempted("admit", admission.name()), why))
        };
        answers.into_iter().zip(admissions).map(answer).collect()
    }

    fn extended(&self, leases: &[Lease], answers: EachAnswer<bool>) -> Answers<bool> {
        let answer = |(answer, lease): (Result<bool, Failure>, &Lease)| {
            answer.map_err(|failure| self.failed("extend", lease.name(), failure))
        };
        answers.into_iter().zip(leases).map(answer).collect()
    }

    fn extend_all(&self, leases: &[Lease], term: Term) -> EachAnswer<bool> {
        let held: Vec<OwnedName> = leases.iter().map(OwnedName::of).collect();
        self.backend.extend(&held, term)
    }

    /// The releases of an admission whose answer was lost.
    fn releases_of(&self, admission: &Admission) -> Vec<PendingRelease> {
        let now = Clock::system().moment();
        let latest = now.plus(2 * self.backend.timeout());
        let from: &[Moment] = if B::ACTS_LATE { &[now, latest] } else { &[now] };
        let requests = [admission.claim(), admission.lease()].into_iter().flatten();
        let release = |request: &LeaseRequest, from| {
            let held = OwnedName::of_request(request);
            PendingRelease { held, from, until: latest.plus(request.term().get()) }
        };
        requests.flat_map(|request| from.iter().map(move |from| release(request, *from))).collect()
    }

    /// Releases those that got no answer as soon as the server answers, but not before `from`.
    fn release_later<T>(&self, leases: &[Lease], answers: &[Result<T, Failure>], from: Moment) {
        let failed = leases.iter().zip(answers).filter(|(_, answer)| answer.is_err());
        // It may have been extended, so that only the server knows when it ends.
        let until = from.plus(RELEASE_RETRIED_FOR);
        self.add_pending(failed.map(|(lease, _)| PendingRelease { held: OwnedName::of(lease), from, until }).collect());
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
        let admission = if request.name().is_claim() { Admission::claim_only } else { Admission::lease_only };
        match self.admit(&[admission(request.clone())]).remove(0)? {
            Admitted::Granted(grant) => Ok(Some(request.granted(grant.token()))),
            Admitted::LeaseTaken(_) | Admitted::ClaimTaken(_) => Ok(None),
        }
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.backend.exists(name).map_err(|failure| self.failed("look at", name, failure))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.release(slice::from_ref(lease)).remove(0)
    }

    fn scope(&self) -> Scope {
        Scope::Fleet
    }

    fn identity(&self) -> StoreId {
        StoreId::of(&*self.backend)
    }

    fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
        if admissions.iter().all(B::is_one_step) {
            return self.release_and_admit(&[], admissions).1;
        }
        admit_each(self, admissions)
    }

    fn release(&self, leases: &[Lease]) -> Answers<bool> {
        self.release_and_admit(leases, &[]).0
    }

    fn release_then_admit(&self, ended: &[Lease], admissions: &[Admission]) -> (Answers<bool>, Answers<Admitted>) {
        if B::RELEASES_AND_ADMITS_AT_ONCE && admissions.iter().all(B::is_one_step) {
            return self.release_and_admit(ended, admissions);
        }
        release_before_admit(self, ended, admissions)
    }

    fn can_extend(&self) -> bool {
        true
    }

    fn extend(&self, leases: &[Lease], term: Term) -> Answers<bool> {
        self.extended(leases, self.extend_all(leases, term))
    }

    fn release_after(&self, leases: &[Lease], rest: Term) -> Answers<bool> {
        let from = Clock::system().moment().plus(rest.get());
        let answers = self.extend_all(leases, rest);
        self.release_later(leases, &answers, from);
        self.extended(leases, answers)
    }

    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        let verb = "look up the holder of";
        let holder = self.backend.holder(name).map_err(|failure| self.failed(verb, name, failure))?;
        holder.transpose().map_err(|why| MutexError::unusable(self.attempted(verb, name), why))
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        let Some(holder) = self.holder(name)? else { return Ok(Broken::NotHeld) };
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
