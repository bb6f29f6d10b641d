//! What the stores on a server that speaks SQL have in common. They differ in how they connect and in their statements.
//!
//! Scope: the fleet that is connected to the server. Clock: the server's. A crash leaves a lease for the rest of its term
//! at most, and a claim until it expires.
//!
//! Each name is a row of one table, which stays when it has ended, until it is taken over or cleaned away. A row that was
//! released says so, and stays free when the server's clock is set back. A row says its term, too: a gate that finds one
//! held for longer than that lets it end one term later. Both columns name the token that they are about, because earlier
//! versions take a row over and leave them as they are.
//!
//! An admission looks at its rows first, and locks nothing; whoever loses has written nothing. What is free is written in one
//! transaction, all names of all admissions, in their order: each row is inserted, or takes the place of one that has ended
//! and has a lower token. Whoever wrote none of them was beaten, and looks again. Whoever wrote some and not others must not
//! commit: before that, the statements try to insert a second time each row that is not as we asked for it, which a primary
//! key refuses. So nobody who lost commits anything, whatever the isolation level is, and no count of affected rows is relied
//! on. On PostgreSQL those who ask for the same names queue, so that they are beaten without an error.
//!
//! Tokens are the larger of the server's time in microseconds and one more than the highest in the table; the row that has
//! that is never cleaned away.
//!
//! An admission names a window of the server's time, in which somebody waits for its answer; outside it commits nothing.
//! An answer that is lost on a connection is asked for once more on another by the same owner, who is known again. What may
//! be ours after all is given back as soon as the server answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::event_mutex::{Answers, EventMutex, Scope};
use crate::base::error::MutexError;
use crate::lease::holder::Holder;
use crate::lease::name::MutexName;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::store_id::StoreId;
use crate::lease::term::Term;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::admit_each;
use crate::store::event_mutex::broken_lease::Broken;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::remote::failure::Failure;
use crate::store::remote::held::Held;
use crate::store::remote::owed::Debt;
use crate::store::remote::server::Server;
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;

mod clean_up;
mod client;
mod key;
mod look;
pub(crate) mod options;
mod plan;
pub(crate) mod session;
mod table;
pub(crate) mod text;
pub(crate) mod waiting;

use client::{Client, Decided};
use options::TableOptions;
use session::{Session, told};
use table::{Ended, Table};
use text::TableName;

/// For how long a release that the server did not answer is tried again at most.
const RELEASE_OWED: Duration = Duration::from_secs(24 * 60 * 60);

/// The mutexes in a table, for whichever kind of server.
pub(super) struct SqlMutex<S: Session> {
    client: Arc<Client<S>>,
}

impl<S: Session> Clone for SqlMutex<S> {
    fn clone(&self) -> Self {
        Self { client: Arc::clone(&self.client) }
    }
}

impl<S: Session> SqlMutex<S> {
    pub(super) fn new(target: S::Target, options: TableOptions) -> Self {
        let server = Server::new(target, options.timeout);
        Self { client: Arc::new(Client::new(Table::new(server, options.table))) }
    }

    pub(super) fn server(&self) -> &Server<S> {
        &self.client.table.server
    }

    pub(super) fn table(&self) -> &TableName {
        &self.client.table.name
    }

    /// The statements that make the table.
    pub(super) fn schema(&self) -> &str {
        &self.client.table.texts.schema
    }

    pub(super) fn create_table(&self) -> Result<(), MutexError> {
        let table = &self.client.table;
        let made = table.ask_for(&table.texts.create.with(&[]));
        made.map(drop).map_err(|failure| self.of_the_table("create", failure))
    }

    /// Deletes what has ended, batch by batch; how many rows that were.
    pub(super) fn purge(&self) -> Result<u64, MutexError> {
        let mut purged = 0;
        loop {
            let deleted = self.client.table.clean_up().map_err(|failure| self.of_the_table("purge", failure))?;
            purged += deleted;
            if deleted < clean_up::BATCH {
                return Ok(purged);
            }
        }
    }

    fn admit_at_once(&self, admissions: &[Admission]) -> Answers<Admitted> {
        let decisions = self.client.admit(admissions);
        let may_be_ours = |(_, decided): &(&Admission, &Result<Decided, Failure>)| match decided {
            // What was asked the first time may have been granted and be over but for its claim, or may still be granted.
            Ok(Decided { decision: Ok(Admitted::LeaseTaken(_) | Admitted::ClaimTaken(_)), again }) => *again,
            Ok(_) => false,
            Err(failure) => failure.may_have_been_done(),
        };
        let perhaps_ours = admissions.iter().zip(&decisions).filter(may_be_ours);
        self.client.owe(perhaps_ours.flat_map(|(admission, _)| self.debts(admission)).collect());
        let answer = |(decided, admission): (Result<Decided, Failure>, &Admission)| match decided
            .map_err(|failure| self.failed("admit", admission.name(), failure))?
            .decision
        {
            Ok(admitted) => Ok(admitted),
            Err(foreign) => Err(MutexError::unusable(self.attempted("admit", admission.name()), foreign)),
        };
        decisions.into_iter().zip(admissions).map(answer).collect()
    }

    /// What may be ours of an admission of which an answer was lost, and until when at the latest. The server may still be at
    /// work on it, for as long as a call lasts, so that it is given back a second time after that.
    fn debts(&self, admission: &Admission) -> Vec<Debt> {
        let now = Clock::system().moment();
        let at_rest = now.plus(2 * self.server().timeout);
        let requests = [admission.claim(), admission.lease()].into_iter().flatten();
        let each = requests.flat_map(move |request| {
            [now, at_rest].map(|from| Debt {
                held: Held { name: request.name().clone(), owner: request.owner() },
                from,
                until: at_rest.plus(request.term().get()),
            })
        });
        each.collect()
    }

    fn released(&self, leases: &[Lease], answers: Vec<Result<Ended, Failure>>) -> Answers<bool> {
        let now = Clock::system().moment();
        self.owe_what_failed(leases, &answers, now);
        let answer = |(answer, lease): (Result<Ended, Failure>, &Lease)| match answer {
            Ok(Ended { was_ours, went_before }) => Ok(was_ours || (went_before && now < lease.deadline())),
            Err(failure) => Err(self.failed("forget", lease.name(), failure)),
        };
        answers.into_iter().zip(leases).map(answer).collect()
    }

    /// What could not be given back is, as soon as the server answers, but not before `from`.
    fn owe_what_failed(&self, leases: &[Lease], answers: &[Result<Ended, Failure>], from: Moment) {
        let left = leases.iter().zip(answers).filter(|(_, answer)| answer.is_err());
        // It may have been extended, so that only the server knows when it ends.
        let until = from.plus(RELEASE_OWED);
        self.client.owe(left.map(|(lease, _)| Debt { held: Held::of(lease), from, until }).collect());
    }

    fn end_all(&self, leases: &[Lease], rest: Duration) -> Vec<Result<Ended, Failure>> {
        let held: Vec<Held> = leases.iter().map(Held::of).collect();
        if held.is_empty() { Vec::new() } else { self.client.end(&held, rest.as_micros()) }
    }

    fn extended(&self, leases: &[Lease], answers: Vec<Result<Ended, Failure>>) -> Answers<bool> {
        let answer = |(answer, lease): (Result<Ended, Failure>, &Lease)| {
            answer.map(|ended| ended.was_ours).map_err(|failure| self.failed("extend", lease.name(), failure))
        };
        answers.into_iter().zip(leases).map(answer).collect()
    }

    fn attempted(&self, verb: &str, name: &MutexName) -> String {
        format!("{verb} {name} in {}", self.server())
    }

    fn failed(&self, verb: &str, name: &MutexName, failure: Failure) -> MutexError {
        self.explained(failure).while_trying_to(self.attempted(verb, name))
    }

    fn of_the_table(&self, verb: &str, failure: Failure) -> MutexError {
        self.explained(failure).while_trying_to(format!("{verb} the table {} in {}", self.table(), self.server()))
    }

    /// The same; and what makes the table, or brings it up to date, if that is what is wrong.
    fn explained(&self, failure: Failure) -> Failure {
        if failure.code().is_some_and(|code| S::DIALECT.no_table.contains(&code)) {
            return failure.advised(format!(
                "create or upgrade the table {}: call create_table(), or run {}",
                self.table(),
                self.client.table.texts.create.with(&[])
            ));
        }
        failure
    }
}

impl<S: Session> fmt::Debug for SqlMutex<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(S::DIALECT.store)
            .field("server", &self.server().to_string())
            .field("table", &self.table().to_string())
            .finish()
    }
}

impl<S: Session> EventMutex for SqlMutex<S> {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        let admission = if request.name().is_claim() { Admission::claim_only } else { Admission::lease_only };
        match self.admit_at_once(&[admission(request.clone())]).remove(0)? {
            Admitted::Granted(grant) => Ok(Some(request.granted(grant.token()))),
            Admitted::LeaseTaken(_) | Admitted::ClaimTaken(_) => Ok(None),
        }
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        let look = self.client.look(name).map_err(|failure| self.failed("look at", name, failure))?;
        Ok(look.holder(name).is_some())
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.release(std::slice::from_ref(lease)).remove(0)
    }

    fn scope(&self) -> Scope {
        Scope::Fleet
    }

    fn identity(&self) -> StoreId {
        StoreId::of(&*self.client)
    }

    fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
        let of_one_owner = |admission: &Admission| match (admission.lease(), admission.claim()) {
            (Some(lease), Some(claim)) => lease.owner() == claim.owner(),
            _ => true,
        };
        match admissions {
            [] => Vec::new(),
            _ if admissions.iter().all(of_one_owner) => self.admit_at_once(admissions),
            _ => admit_each(self, admissions),
        }
    }

    fn release(&self, leases: &[Lease]) -> Answers<bool> {
        self.released(leases, self.end_all(leases, Duration::ZERO))
    }

    fn can_extend(&self) -> bool {
        true
    }

    fn extend(&self, leases: &[Lease], term: Term) -> Answers<bool> {
        self.extended(leases, self.end_all(leases, term.get()))
    }

    fn release_after(&self, leases: &[Lease], rest: Term) -> Answers<bool> {
        let from = Clock::system().moment().plus(rest.get());
        let answers = self.end_all(leases, rest.get());
        self.owe_what_failed(leases, &answers, from);
        self.extended(leases, answers)
    }

    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        let verb = "look up the holder of";
        let look = self.client.look(name).map_err(|failure| self.failed(verb, name, failure))?;
        let unusable = |foreign| MutexError::unusable(self.attempted(verb, name), foreign);
        look.holder(name).transpose().map_err(unusable)
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        let Some(holder) = self.holder(name)? else { return Ok(Broken::NotHeld) };
        // Only this holder is broken, however late the request arrives and however often.
        let held = Held { name: name.clone(), owner: holder.owner() };
        let ended = self.client.end(&[held], 0).remove(0).map_err(|failure| self.failed("break", name, failure))?;
        Ok(Broken::if_held(ended.was_ours || ended.went_before))
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let table = &self.client.table;
        let asked = Clock::system().now();
        let (schema, name) = table.name.parts();
        let health = table.ask_for(&table.texts.health.with(&[("schema", &schema), ("table", &name)]));
        let heard = Clock::system().now();
        let health = health.map_err(|failure| self.of_the_table("check", failure))?;
        let mut warnings = S::warnings(&health);
        warnings.extend(S::plaintext(&table.server.target).map(|instead| StoreWarning::Plaintext { instead }));
        if let Some(time) = S::time(&health) {
            let apart = (asked - time).max(time - heard).to_std().unwrap_or_default();
            warnings.extend(StoreWarning::of_clocks(apart));
        }
        let ahead = told(&health, "ahead").first().and_then(|micros| micros.parse().ok());
        warnings.extend(ahead.map(Duration::from_micros).and_then(StoreWarning::of_grants_ahead));
        Ok(warnings)
    }
}
