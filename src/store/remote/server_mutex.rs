//! The mutexes on a server of any kind: what an answer means for the caller, and what is given back when it was lost.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::engine::{AddressOf, Ending, Engine, FoundEntry, Health, ReleaseRequest, Request};
use super::failure::Failure;
use super::server::{PendingRelease, Server};
use super::server_builder::Target;
use super::server_clock::difference_warning;
use super::server_url::ServerAddress;
use crate::base::error::MutexError;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{name::MutexName, owner::Owner, term::Term};
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, LeaseReturn};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::run_log::RunLog;
use crate::store::event_mutex::{broken_lease::Broken, slot::Slot, warning::StoreWarning};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The mutexes on a server. Its clones are handles of one server, whose last one goes in words.
pub(crate) struct ServerMutex<E: Engine>(Arc<Server<E>>);

impl<E: Engine> Clone for ServerMutex<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Engine> ServerMutex<E> {
    pub(crate) fn new(engine: E, target: Target<AddressOf<E>>) -> Self {
        Self(Arc::new(Server::new(engine, target)))
    }

    pub(crate) fn server(&self) -> &Server<E> {
        &self.0
    }

    pub(crate) fn address(&self) -> &AddressOf<E> {
        &self.server().target.address
    }

    pub(crate) fn engine(&self) -> &E {
        &self.server().engine
    }

    /// Reads which of these names are held, and by whom.
    fn held_of(&self, names: &[MutexName]) -> Result<Vec<Held>, MutexError> {
        let Some(first) = names.first() else { return Ok(Vec::new()) };
        let look_up = |name: &MutexName, failure| self.failed(format_args!("look up the holder of {name}"), failure);
        let found = self.server().ask(|attempt| self.engine().look(attempt, names));
        let held = |(name, holder): FoundEntry| match holder {
            Ok(holder) => Ok(Held::new(name, Some(holder))),
            Err(failure) => Err(look_up(&name, failure)),
        };
        found.map_err(|failure| look_up(first, failure))?.into_iter().map(held).collect()
    }

    /// Reads the server's answer to an admission, which was asked for `again` if an earlier attempt of the call may have been
    /// carried out. What may be ours without a run is released later.
    fn admitted(
        &self,
        admission: &Admission,
        answer: Result<Admitted, Failure>,
        again: bool,
    ) -> Result<Admitted, MutexError> {
        let may_be_ours = match &answer {
            Ok(Admitted::Granted(_)) => false,
            // The first attempt may have been granted and be over but for its claim, or may still be granted.
            Ok(_) => again,
            Err(failure) => again || failure.may_have_happened,
        };
        if may_be_ours {
            let now = Clock::system().moment();
            let latest = now.plus(2 * self.server().target.timeout);
            let from = if E::COMMITS_LATE { vec![now, latest] } else { vec![now] };
            for request in [admission.claim(), admission.lease()].into_iter().flatten() {
                let until = latest.plus(request.term().get());
                self.release_later(request.name(), request.owner(), &from, until);
            }
        }
        let attempted = || format!("admit {}", admission.name());
        match answer.map_err(|failure| self.failed(format_args!("{}", attempted()), failure))? {
            Admitted::LeaseTaken(Some(own)) | Admitted::ClaimTaken(Some(own))
                if again && own.owner() == admission.owner() =>
            {
                Err(MutexError::granted_too_late(attempted()))
            }
            admitted => Ok(admitted),
        }
    }

    /// Reads the server's answer to a release. A lease that may not have ended is released later, but not before its minimum hold
    /// is over.
    fn released(&self, asked: &LeaseReturn, answer: Result<bool, Failure>, again: bool) -> Result<bool, MutexError> {
        let (lease, now) = (asked.lease(), Clock::system().moment());
        match answer {
            // Nothing tells whether the first attempt has released what is not there after its deadline.
            Ok(was_ours) => Ok(was_ours && !(again && lease.deadline() <= now)),
            Err(failure) => {
                let from = now.plus(asked.rest().map_or(Duration::ZERO, Term::get));
                self.release_later(lease.name(), lease.owner(), &[from], from.plus(lease.term().get()));
                let verb = if asked.rest().is_some() { "extend" } else { "forget" };
                Err(self.failed(format_args!("{verb} {}", lease.name()), failure))
            }
        }
    }

    /// Releases what may be this owner's with a call that comes after each of these moments.
    fn release_later(&self, name: &MutexName, owner: Owner, from: &[Moment], until: Moment) {
        let release = ReleaseRequest { name: name.clone(), owner, ending: Ending::ForGood };
        let pending = |from: &Moment| PendingRelease { release: release.clone(), from: *from, until };
        self.server().release_later(from.iter().map(pending));
    }

    pub(crate) fn failed(&self, attempted: fmt::Arguments<'_>, failure: Failure) -> MutexError {
        self.engine().error(format!("{attempted} in {}", self.address()), failure)
    }
}

impl<E: Engine> fmt::Debug for ServerMutex<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([kind, name], server) = (self.engine().namespace(), self.address().to_string());
        f.debug_struct(E::STORE).field("server", &server).field(kind, &name).finish()
    }
}

impl<E: Engine> EventMutex for ServerMutex<E> {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        match Admission::of(request.clone()).ask(self)? {
            Admitted::Granted(grant) => Ok(Some(request.granted(grant.token()))),
            _ => Ok(None),
        }
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        let found = self.server().ask(|attempt| Ok(!self.engine().look(attempt, slice::from_ref(name))?.is_empty()));
        found.map_err(|failure| self.failed(format_args!("look at {name}"), failure))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        let mut batch = Batch::new();
        batch.release(lease.clone());
        self.carry_out(&mut batch);
        batch.releases()[0].answer().cloned().expect("each slot is filled")
    }

    fn describe(&self) -> Description {
        Description::of(&*self.0).with_scope(Scope::Fleet).with_extension()
    }

    fn carry_out(&self, batch: &mut Batch) {
        let (releases, admissions) = batch.slots_mut();
        let release = |slot: &Slot<LeaseReturn, bool>| {
            ReleaseRequest::of(slot.asked().lease(), slot.asked().rest().map_or(Ending::Now, Ending::After))
        };
        let asked: Vec<ReleaseRequest> = releases.iter().map(release).collect();
        let wanted: Vec<&Admission> = admissions.iter().map(Slot::asked).collect();
        let request = Request { releases: &asked, admissions: &wanted };
        let (answers, again) = self.server().carry_out(request);
        for (slot, answer) in admissions.iter_mut().zip(answers.admissions) {
            slot.fill(self.admitted(slot.asked(), answer, again));
        }
        for (slot, answer) in releases.iter_mut().zip(answers.releases) {
            slot.fill(self.released(slot.asked(), answer, again));
        }
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        let asked: Vec<ReleaseRequest> =
            leases.iter().map(|slot| ReleaseRequest::of(slot.asked(), Ending::After(term))).collect();
        let (answers, _) = self.server().carry_out(Request::releases(&asked));
        for (slot, answer) in leases.iter_mut().zip(answers.releases) {
            slot.fill(answer.map_err(|failure| self.failed(format_args!("extend {}", slot.asked().name()), failure)));
        }
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        match names {
            Names::Exactly(name) => self.held_of(slice::from_ref(name)),
            Names::Each(names) => self.held_of(names),
            Names::LeasesWithPrefix(prefix) => {
                let found = self.server().ask(|attempt| self.engine().leases(attempt, prefix));
                let found = found.map_err(|failure| self.failed(format_args!("list the leases"), failure))?;
                // One entry that can't be read must not hide the others.
                Ok(found.into_iter().map(|(name, holder)| Held::new(name, holder.ok())).collect())
            }
        }
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        let held = self.held(Names::Exactly(name))?.pop();
        let Some(holder) = held.and_then(Held::into_holder) else { return Ok(Broken::NotHeld) };
        // Only this holder is broken, however late the request arrives and however often.
        let release = ReleaseRequest { name: name.clone(), owner: holder.owner(), ending: Ending::Now };
        let (mut answers, _) = self.server().carry_out(Request::releases(&[release]));
        let was_held = answers.releases.remove(0);
        Ok(Broken::if_held(was_held.map_err(|failure| self.failed(format_args!("break {name}"), failure))?))
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let asked = Clock::system().now();
        let (server, engine) = (self.server(), self.engine());
        let health = server.ask(|attempt| engine.health(attempt));
        let heard = Clock::system().now();
        let failed = |failure| engine.error(format!("check {}", self.address()), failure);
        let Health { time, ahead, mut warnings } = health.map_err(failed)?;
        let instead = AddressOf::<E>::TLS;
        warnings.extend(self.address().is_overheard().then_some(StoreWarning::Plaintext { instead }));
        warnings.extend(time.and_then(|time| difference_warning(asked, time, heard)));
        warnings.extend(ahead.and_then(StoreWarning::of_grants_ahead));
        Ok(warnings)
    }

    fn run_log(&self) -> Option<&dyn RunLog> {
        Some(self)
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
