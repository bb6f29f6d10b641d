//! Releases, admissions and looks, carried out by the scripts on a Redis server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::cmd;

use super::client::{Client, Heard, Inquiry};
use super::health;
use super::script::{self, Decision};
use super::server_error::{is_damaged, is_of_one_name, not_understood};
use crate::base::error::MutexError;
use crate::lease::{holder::Holder, name::MutexName, term::Term};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::remote::server_clock::difference_warning;
use crate::store::remote::server_mutex::{Backend, Decided, EachAnswer, Released};
use crate::store::{event_mutex::warning::StoreWarning, remote::failure::Failure, remote::owned_name::OwnedName};
use crate::store::{remote::pending_release::PendingReleases, remote::server_clock::ServerClock};
use crate::time::{clock::Clock, clock::moment::Moment};

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
        let _ = self.ask(&cmd("PING")); // What is pending goes before it; the answer to it is of no interest.
    }

    fn is_one_step(admission: &Admission) -> bool {
        match (admission.lease(), admission.claim()) {
            (Some(lease), Some(claim)) => {
                lease.name().mutex() == claim.name().mutex() && lease.owner() == claim.owner()
            }
            _ => true,
        }
    }

    fn release_and_admit(
        self: &Arc<Self>,
        held: &[OwnedName],
        admissions: &[Admission],
    ) -> (EachAnswer<Released>, EachAnswer<Decided>) {
        let began = Clock::system().moment();
        let release = Inquiry {
            names: held.iter().map(|held| &held.name).collect(),
            call: Box::new(|chunk, _, _| script::release(chunk.iter().map(|at| &held[*at]), &self.prefix)),
            meaning: script::released,
        };
        let admit = |chunk: &[usize], clock: ServerClock, until: Moment| {
            // On a cluster there is one name in each call.
            let of_first = || self.prefix.token_key_of(admissions[chunk[0]].name());
            let token = if self.is_cluster() { of_first() } else { self.prefix.token_key() };
            script::admit(chunk.iter().map(|at| &admissions[*at]), token, &self.prefix, clock, until)
        };
        let names = admissions.iter().map(Admission::name).collect();
        let admit = Inquiry { names, call: Box::new(admit), meaning: script::decisions };
        let Heard { first, second, again, second_again } = self.ask_in_turn(&release, &admit);

        let ago = Clock::system().moment().since(began);
        let released = first.into_iter().map(|answer| Ok(answer?.released(again, ago)));
        let decided = second
            .into_iter()
            .zip(admissions)
            .map(|(decision, admission)| Ok(Decided { decision: decided(decision?, admission)?, again: second_again }));
        (released.collect(), decided.collect())
    }

    fn extend(self: &Arc<Self>, held: &[OwnedName], term: Term) -> EachAnswer<bool> {
        let call = |chunk: &[usize], clock: ServerClock, until: Moment| {
            script::extend(chunk.iter().map(|at| &held[*at]), term, &self.prefix, clock, until)
        };
        let names = held.iter().map(|held| &held.name).collect();
        let inquiry = Inquiry { names, call: Box::new(call), meaning: script::extended };
        self.ask_in_turn(&inquiry, &Inquiry::about_nothing()).first
    }

    fn holder(self: &Arc<Self>, name: &MutexName) -> Result<Option<Result<Holder, String>>, Failure> {
        script::looked(self.ask(&script::look(self.prefix.key(name)))?)
    }

    fn exists(self: &Arc<Self>, name: &MutexName) -> Result<bool, Failure> {
        script::flag(self.ask(cmd("EXISTS").arg(self.prefix.key(name)))?)
    }

    fn check(self: &Arc<Self>) -> Result<Vec<StoreWarning>, MutexError> {
        warnings(self).map_err(|failure| failure.into_error(format!("check {}", self.server)))
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

fn decided(decision: Decision, admission: &Admission) -> Result<Result<Admitted, String>, Failure> {
    let token = match decision {
        Decision::LeaseTaken(holder) => return Ok(Ok(Admitted::LeaseTaken(Some(holder)))),
        Decision::ClaimTaken(holder) => return Ok(Ok(Admitted::ClaimTaken(Some(holder)))),
        Decision::Foreign(what) => return Ok(Err(what)),
        Decision::GrantedBefore(holder) if holder.owner() != admission.owner() => return Err(not_understood(holder)),
        Decision::GrantedBefore(holder) => holder.token(),
        Decision::Granted(token) => token,
    };
    Ok(Ok(Admitted::Granted(admission.granted(token))))
}

fn warnings(client: &Arc<Client>) -> Result<Vec<StoreWarning>, Failure> {
    let asked = Clock::system().now();
    let mut answers = client.ask_each(&[cmd("TIME"), cmd("INFO")])?;
    let heard = Clock::system().now();
    let info = answers.pop().unwrap_or_default();
    let time = script::time(answers.pop().unwrap_or_default())?;
    let mut warnings = health::warnings(&info)?;
    warnings.extend(difference_warning(asked, time, heard));
    if client.server.target.address.is_overheard() {
        warnings.push(StoreWarning::Plaintext { instead: "rediss://" });
    }
    // On a cluster it has no such key, or another node has it.
    let last = client.ask(cmd("GET").arg(client.prefix.token_key())).ok();
    let ahead = last.as_ref().and_then(script::last_grant).and_then(|last| (last - time).to_std().ok());
    warnings.extend(ahead.and_then(StoreWarning::of_grants_ahead));
    Ok(warnings)
}
