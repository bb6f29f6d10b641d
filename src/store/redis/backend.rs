//! Releases, admissions and looks, carried out by the scripts on a Redis server.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::connection::Connection;
use super::conversation::{CHUNK, Conversation, is_one_step};
use super::keys::Prefix;
use super::server_error::{is_damaged, is_of_one_name, not_understood};
use super::{health, script};
use crate::base::error::MutexError;
use crate::lease::{holder::Holder, name::MutexName, term::Term};
use crate::store::event_mutex::admission::Admission;
use crate::store::remote::server_clock::difference_warning;
use crate::store::remote::server_mutex::{Backend, Decided, EachAnswer, FoundEntry, Released};
use crate::store::{event_mutex::warning::StoreWarning, remote::failure::Failure, remote::owned_name::OwnedName};
use crate::store::{remote::pending_release::PendingReleases, remote::server::Server};
use crate::time::clock::Clock;

/// The client of a Redis server, which all handles of a store share.
pub(super) struct Client {
    server: Server<Connection>,
    prefix: Prefix,
    pending: PendingReleases,
    /// Whether the server was seen to be a node of a cluster, which takes the keys of one slot at a time.
    by_slot: AtomicBool,
}

impl Client {
    pub(super) fn new(server: Server<Connection>, prefix: Prefix) -> Self {
        Self { server, prefix, pending: PendingReleases::default(), by_slot: AtomicBool::new(false) }
    }

    fn conversation(&self) -> Conversation<'_> {
        Conversation::new(&self.prefix, &self.pending, self.by_slot.load(Ordering::Relaxed))
    }

    /// Lets go of what is held, for good or for a term, and then asks for admissions, all at once.
    fn carry_out(
        self: &Arc<Self>,
        held: &[OwnedName],
        term: Option<Term>,
        admissions: &[&Admission],
    ) -> (EachAnswer<Released>, EachAnswer<Decided>) {
        if held.is_empty() && admissions.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut conversation = self.conversation().about(held, term, admissions);
        let decided = self.server.ask(|pooled, attempt| conversation.carry_out(pooled, attempt));
        self.pending.attend(self, Self::send_pending);
        self.by_slot.fetch_or(conversation.by_slot, Ordering::Relaxed);
        conversation.answers(decided)
    }

    /// Asks one command, which changes nothing.
    fn look(self: &Arc<Self>, command: Cmd) -> Result<Value, Failure> {
        self.look_at_each(&[command])?.pop().ok_or_else(|| not_understood("nothing"))
    }

    /// Asks commands that change nothing, all at once.
    fn look_at_each(self: &Arc<Self>, commands: &[Cmd]) -> Result<Vec<Value>, Failure> {
        let answers = self.server.ask(self.conversation().look(commands));
        self.pending.attend(self, Self::send_pending);
        answers
    }

    fn warnings(self: &Arc<Self>) -> Result<Vec<StoreWarning>, Failure> {
        let asked = Clock::system().now();
        let mut answers = self.look_at_each(&[cmd("TIME"), cmd("INFO")])?;
        let heard = Clock::system().now();
        let info = answers.pop().unwrap_or_default();
        let time = script::time(answers.pop().unwrap_or_default())?;
        let mut warnings = health::warnings(&info)?;
        warnings.extend(difference_warning(asked, time, heard));
        if self.server.target.address.is_overheard() {
            warnings.push(StoreWarning::Plaintext { instead: "rediss://" });
        }
        // On a cluster it has no such key, or another node has it.
        let last = self.look(script::of_key("GET", self.prefix.token_key())).ok();
        let ahead = last.as_ref().and_then(script::last_grant).and_then(|last| (last - time).to_std().ok());
        warnings.extend(ahead.and_then(StoreWarning::of_grants_ahead));
        Ok(warnings)
    }
}

/// A process that ends goes through here, so that it tries once more to give back what it may hold.
impl Drop for Client {
    fn drop(&mut self) {
        if self.pending.is_due() {
            // Nobody is left to be told how that goes: a name that stays expires.
            let _ = self.server.ask(self.conversation().look(&[]));
        }
    }
}

impl Backend for Client {
    const RELEASES_AND_ADMITS_AT_ONCE: bool = true;

    /// The scripts do nothing for those who don't wait any more.
    const ACTS_LATE: bool = false;

    fn server(&self) -> &dyn fmt::Display {
        &self.server
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisMutex")
            .field("server", &self.server.to_string())
            .field("prefix", &self.prefix.as_str())
            .finish()
    }

    fn timeout(&self) -> Duration {
        self.server.timeout
    }

    fn pending(&self) -> &PendingReleases {
        &self.pending
    }

    fn send_pending(self: &Arc<Self>) {
        if self.pending.is_due() {
            let _ = self.look_at_each(&[]); // It is tried again.
        }
    }

    fn is_one_step(&self, admission: &Admission) -> bool {
        is_one_step(admission, self.by_slot.load(Ordering::Relaxed))
    }

    fn release_and_admit(
        self: &Arc<Self>,
        held: &[OwnedName],
        admissions: &[&Admission],
    ) -> (EachAnswer<Released>, EachAnswer<Decided>) {
        self.carry_out(held, None, admissions)
    }

    fn extend(self: &Arc<Self>, held: &[OwnedName], term: Term) -> EachAnswer<bool> {
        let (extended, _) = self.carry_out(held, Some(term), &[]);
        extended.into_iter().map(|extended| Ok(extended?.was_ours)).collect()
    }

    fn holder(self: &Arc<Self>, name: &MutexName) -> Result<Option<Result<Holder, String>>, Failure> {
        script::looked(self.look(script::look(self.prefix.key(name)))?)
    }

    fn leases(self: &Arc<Self>, prefix: &str) -> Result<Vec<FoundEntry>, Failure> {
        let until = Clock::system().moment().plus(self.server.timeout);
        let pattern = self.prefix.pattern_of_leases(prefix);
        let (mut names, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let (next, keys) = script::scanned(self.look(script::scan(&cursor, &pattern))?)?;
            names.extend(keys.iter().filter_map(|key| self.prefix.lease_at(key)));
            if next == "0" {
                break;
            }
            if Clock::system().moment() >= until {
                return Err(Failure::unanswered(io::ErrorKind::TimedOut.into()).within(self.server.timeout));
            }
            cursor = next;
        }
        let names: Vec<MutexName> = names.into_iter().collect();
        let mut leases = Vec::new();
        for names in names.chunks(CHUNK) {
            let looks: Vec<Cmd> = names.iter().map(|name| script::look(self.prefix.key(name))).collect();
            for (name, answer) in names.iter().zip(self.look_at_each(&looks)?) {
                leases.extend(script::looked(answer)?.map(|holder| (name.clone(), holder)));
            }
        }
        Ok(leases)
    }

    fn exists(self: &Arc<Self>, name: &MutexName) -> Result<bool, Failure> {
        script::flag(self.look(script::of_key("EXISTS", self.prefix.key(name)))?)
    }

    fn check(self: &Arc<Self>) -> Result<Vec<StoreWarning>, MutexError> {
        self.warnings().map_err(|failure| failure.into_error(format!("check {}", self.server)))
    }

    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        if is_damaged(&failure) {
            MutexError::unusable(attempted, failure).of_the_store()
        } else if is_of_one_name(&failure) {
            failure.into_error(attempted).of_one_name()
        } else {
            failure.into_error(attempted)
        }
    }
}
