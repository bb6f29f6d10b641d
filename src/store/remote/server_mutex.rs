//! The mutexes on a server of any kind: what an answer means for the caller, and what is given back when it was lost.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::engine::{
    AddressOf, Asked, Ending, Engine, FoundEntry, Health, ReleaseRequest, Released, ServerTurn,
};
use super::failure::Failure;
use super::housekeeper::PendingRelease;
use super::server::{Decided, Server};
use super::server_builder::Target;
use super::server_clock::difference_warning;
use super::server_url::ServerAddress;
use crate::base::error::MutexError;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{name::MutexName, owner::Owner, term::Term};
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::admit_in_steps;
use crate::store::event_mutex::batch::{Batch, LeaseReturn};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::run_log::RunLog;
use crate::store::event_mutex::{broken_lease::Broken, slot::Slot, warning::StoreWarning};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The longest time for which a release that the server did not answer is tried again.
const RELEASE_RETRIED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The mutexes on a server. Its clones are handles of one client.
pub(crate) struct ServerMutex<E: Engine>(Arc<Client<E>>);

/// What all handles have in common. It goes with the last of them.
struct Client<E: Engine>(Arc<Server<E>>);

impl<E: Engine> Drop for Client<E> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<E: Engine> Clone for ServerMutex<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Engine> ServerMutex<E> {
    pub(crate) fn new(engine: E, target: Target<AddressOf<E>>) -> Self {
        Self(Arc::new(Client(Arc::new(Server::new(engine, target)))))
    }

    pub(crate) fn server(&self) -> &Arc<Server<E>> {
        &self.0.0
    }

    pub(crate) fn address(&self) -> &AddressOf<E> {
        &self.server().target.address
    }

    pub(crate) fn engine(&self) -> &E {
        &self.server().engine
    }

    /// Lets these end, now or after their rest, and decides on these admissions, each of which is one step. What may not have
    /// ended is released later.
    fn exchange(
        &self,
        returns: &mut [Slot<LeaseReturn, bool>],
        admissions: &mut [Slot<Admission, Admitted>],
    ) {
        let release = |slot: &Slot<LeaseReturn, bool>| {
            ReleaseRequest::of(slot.asked().lease(), slot.asked().rest().map_or(Ending::Now, Ending::After))
        };
        let releases: Vec<ReleaseRequest> = returns.iter().map(release).collect();
        let asked: Vec<&Admission> = admissions.iter().map(Slot::asked).collect();
        let (ended, decided) = self.server().carry_out(Asked { releases: &releases, admissions: &asked });
        for (slot, decided) in admissions.iter_mut().zip(decided) {
            slot.fill(self.admitted(slot.asked(), decided));
        }
        for (slot, answer) in returns.iter_mut().zip(ended) {
            let (lease, has_rest) = (slot.asked().lease(), slot.asked().rest().is_some());
            // What is to rest is still there after an attempt that was carried out.
            let can_have_gone = !has_rest && Clock::system().moment() < lease.deadline();
            let answer = match answer {
                Ok(Released { was_ours, went_before }) => Ok(was_ours || (went_before && can_have_gone)),
                Err(failure) => {
                    self.release_later(slot.asked());
                    let verb = if has_rest { "extend" } else { "forget" };
                    Err(self.failed(format_args!("{verb} {}", lease.name()), failure))
                }
            };
            slot.fill(answer);
        }
    }

    /// Decides on one admission of a batch in which the lease and the claim of some admission have two owners.
    fn admit_apart(&self, admission: &Admission) -> Result<Admitted, MutexError> {
        if admission.is_of_one_owner() { admission.ask(self) } else { admit_in_steps(self, admission) }
    }

    /// Reads which of these names are held, and by whom.
    fn held_of(&self, names: &[MutexName]) -> Result<Vec<Held>, MutexError> {
        let Some(first) = names.first() else { return Ok(Vec::new()) };
        let found = self.ask(|turn| self.engine().look(turn, names));
        let found = found.map_err(|failure| self.failed(format_args!("look up the holder of {first}"), failure))?;
        let held = |(name, holder): FoundEntry| match holder {
            Ok(holder) => Ok(Held::new(name, Some(holder))),
            Err(why) => Err(self.unusable(format_args!("look up the holder of {name}"), why)),
        };
        found.into_iter().map(held).collect()
    }

    fn admitted(&self, admission: &Admission, decided: Result<Decided, Failure>) -> Result<Admitted, MutexError> {
        let may_be_ours = match &decided {
            // The first attempt may have been granted and be over but for its claim, or may still be granted.
            Ok((Ok(Admitted::Granted(_)) | Err(_), _)) => false,
            Ok((_, again)) => *again,
            Err(failure) => failure.may_have_been_done(),
        };
        if may_be_ours {
            let now = Clock::system().moment();
            let latest = now.plus(2 * self.server().target.timeout);
            let from: &[Moment] = if E::ACTS_LATE { &[now, latest] } else { &[now] };
            for request in [admission.claim(), admission.lease()].into_iter().flatten() {
                let (name, owner, until) = (request.name(), request.owner(), latest.plus(request.term().get()));
                self.release_between(name, owner, from, until);
            }
        }
        let (decision, again) =
            decided.map_err(|failure| self.failed(format_args!("admit {}", admission.name()), failure))?;
        match decision.map_err(|why| self.unusable(format_args!("admit {}", admission.name()), why))? {
            Admitted::LeaseTaken(Some(own)) | Admitted::ClaimTaken(Some(own))
                if again && own.owner() == admission.owner() =>
            {
                Err(MutexError::granted_too_late(format!("admit {}", admission.name())))
            }
            decision => Ok(decision),
        }
    }

    /// Releases a lease whose release got no answer, as soon as the server answers, but not before its rest is over.
    fn release_later(&self, asked: &LeaseReturn) {
        let from = Clock::system().moment().plus(asked.rest().map_or(Duration::ZERO, Term::get));
        // It may have been extended, so that only the server knows when it ends.
        let until = from.plus(RELEASE_RETRIED_FOR);
        self.release_between(asked.lease().name(), asked.lease().owner(), &[from], until);
    }

    /// Releases what may be this owner's as soon as the server answers, at each of these moments or after it.
    fn release_between(&self, name: &MutexName, owner: Owner, from: &[Moment], until: Moment) {
        let release = ReleaseRequest { name: name.clone(), owner, ending: Ending::ForGood };
        let pending = |from: &Moment| PendingRelease { release: release.clone(), from: *from, until };
        self.server().add_pending(from.iter().map(pending));
    }

    pub(super) fn ask<T: Send>(
        &self,
        exchange: impl FnMut(&mut ServerTurn<E::Connection>) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        self.server().ask(self.server().first_attempt(), exchange)
    }

    pub(crate) fn failed(&self, attempted: fmt::Arguments<'_>, failure: Failure) -> MutexError {
        self.engine().error(format!("{attempted} in {}", self.address()), failure)
    }

    fn unusable(&self, attempted: fmt::Arguments<'_>, why: String) -> MutexError {
        MutexError::unusable(format!("{attempted} in {}", self.address()), why)
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
        let found = self.ask(|turn| Ok(!self.engine().look(turn, slice::from_ref(name))?.is_empty()));
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
        let is_one_step = admissions.iter().all(|slot| slot.asked().is_of_one_owner());
        let at_once = is_one_step && (E::RELEASES_AND_ADMITS_AT_ONCE || releases.is_empty());
        self.exchange(releases, if at_once { &mut *admissions } else { &mut [] });
        let mut outage = releases.iter().find_map(|slot| slot.outage().cloned());
        if is_one_step && !at_once && outage.is_none() {
            self.exchange(&mut [], admissions);
        }
        // What was not decided in one step: its slots are still empty.
        batch.admit_each(&mut outage, |admission| self.admit_apart(admission));
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        let releases: Vec<ReleaseRequest> =
            leases.iter().map(|slot| ReleaseRequest::of(slot.asked(), Ending::After(term))).collect();
        let (extended, _) = self.server().carry_out(Asked::releases(&releases));
        for (slot, answer) in leases.iter_mut().zip(extended) {
            let answer = answer.map(|extended| extended.was_ours);
            slot.fill(answer.map_err(|failure| self.failed(format_args!("extend {}", slot.asked().name()), failure)));
        }
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        match names {
            Names::Exactly(name) => self.held_of(slice::from_ref(name)),
            Names::Each(names) => self.held_of(names),
            Names::LeasesWithPrefix(prefix) => {
                let found = self.ask(|turn| self.engine().leases(turn, prefix));
                let found = found.map_err(|failure| self.failed(format_args!("list the leases"), failure))?;
                // One entry of somebody else must not hide the others.
                Ok(found.into_iter().map(|(name, holder)| Held::new(name, holder.ok())).collect())
            }
        }
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        let held = self.held(Names::Exactly(name))?.pop();
        let Some(holder) = held.and_then(Held::into_holder) else { return Ok(Broken::NotHeld) };
        // Only this holder is broken, however late the request arrives and however often.
        let release = ReleaseRequest { name: name.clone(), owner: holder.owner(), ending: Ending::Now };
        let released = self.server().carry_out(Asked::releases(&[release])).0.remove(0);
        let Released { was_ours, went_before } =
            released.map_err(|failure| self.failed(format_args!("break {name}"), failure))?;
        Ok(Broken::if_held(was_ours || went_before))
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let asked = Clock::system().now();
        let (server, engine) = (self.server(), self.engine());
        let health = server.ask_this_alone(server.first_attempt(), |turn| engine.health(turn));
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
