//! The client of a table: the pending releases that go before each request, and requests one by one where a row is locked.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::admission_plan::AdmissionPlan;
use super::clean_up::CleanUp;
use super::mutex_table::{Exchange, MutexTable};
use super::row_key::RowKey;
use super::session::{Session, told};
use crate::base::error::MutexError;
use crate::lease::{holder::Holder, name::MutexName, term::Term};
use crate::store::remote::pending_release::{PendingRelease, PendingReleases};
use crate::store::remote::server::{Attempt, PooledConnection};
use crate::store::remote::server_clock::difference_warning;
use crate::store::remote::server_mutex::{Backend, Decided, EachAnswer, FoundEntry, Released};
use crate::store::{event_mutex::admission::Admission, event_mutex::warning::StoreWarning, remote::failure::Failure};
use crate::store::{remote::owned_name::OwnedName, remote::per_process::PerProcess};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The time until a release of a row that another transaction had locked is sent again.
const LATER: Duration = Duration::from_secs(5);

pub(crate) struct TableClient<S: Session> {
    pub(super) table: Arc<MutexTable<S>>,
    pending: PendingReleases,
    clean_up: PerProcess<CleanUp>,
}

impl<S: Session> TableClient<S> {
    pub(super) fn new(table: MutexTable<S>) -> Self {
        Self { table: Arc::new(table), pending: PendingReleases::default(), clean_up: PerProcess::default() }
    }

    /// Decides on admissions, all at once; or, where somebody's transaction has one of them, on each alone.
    fn admit(self: &Arc<Self>, admissions: &[&Admission]) -> EachAnswer<Decided> {
        if admissions.is_empty() {
            return Vec::new();
        }
        let until = Clock::system().moment().plus(self.table.server.timeout);
        match self.ask(&|pooled, attempt| Ok((self.table.admit(pooled, admissions, attempt.until)?, attempt.again))) {
            Ok((AdmissionPlan { decisions, rows, .. }, again)) => {
                if !rows.is_empty() {
                    let table = Arc::clone(&self.table);
                    self.clean_up.get().now_and_then(rows.len(), move || table.clean_up_on_idle());
                }
                decisions.into_iter().map(|decision| Ok(Decided { decision, again })).collect()
            }
            Err(failure) => {
                let mut answers = each_alone(admissions, &failure, until, |admission| self.admit(admission));
                // Before it was asked for alone, it was together with the others.
                if failure.may_have_been_done() {
                    for answer in &mut answers {
                        match answer {
                            Ok(decided) => decided.again = true,
                            Err(alone) => *alone = alone.clone().perhaps_done(true),
                        }
                    }
                }
                answers
            }
        }
    }

    /// Lets what is ours end so many microseconds from now, all at once; or, where somebody's transaction has one of the
    /// names, each alone.
    fn end(self: &Arc<Self>, held: &[OwnedName], micros: u128) -> EachAnswer<Released> {
        if held.is_empty() { Vec::new() } else { self.end_since(Clock::system().moment(), false, held, micros) }
    }

    /// The same in a call that began then, and in which it may have been done before.
    fn end_since(
        self: &Arc<Self>,
        began: Moment,
        before: bool,
        held: &[OwnedName],
        micros: u128,
    ) -> EachAnswer<Released> {
        let ended = self.ask(&|pooled, Attempt { until, again }| {
            self.table.end(pooled, held, micros, began, Attempt { until, again: again || before })
        });
        match ended {
            Ok(ended) => ended.into_iter().map(Ok).collect(),
            Err(failure) => {
                let before = before || failure.may_have_been_done();
                let until = began.plus(self.table.server.timeout);
                each_alone(held, &failure, until, |held| self.end_since(began, before, held, micros))
            }
        }
    }

    /// Asks, after what is pending was sent.
    fn ask<T: Send>(self: &Arc<Self>, ask: Exchange<'_, S, T>) -> Result<T, Failure> {
        self.table.ask(&|pooled, attempt| {
            self.release_pending(pooled, attempt).map_err(Failure::undone)?;
            ask(pooled, attempt)
        })
    }

    /// Sends what is pending. A row that another transaction has locked stays pending, and is in nobody's way meanwhile.
    fn release_pending(self: &Arc<Self>, pooled: &mut PooledConnection<S>, attempt: Attempt) -> Result<(), Failure> {
        let releases = self.pending.take();
        let failure = match self.table.release_pending(pooled, &releases, attempt.until) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        let is_locked = failure.is_locked();
        self.add_pending(if is_locked { postponed(releases) } else { releases });
        if is_locked { Ok(()) } else { Err(failure) }
    }

    /// The same where nobody waits for it, so that there is time to ask for each row apart.
    fn release_each_pending(
        self: &Arc<Self>,
        pooled: &mut PooledConnection<S>,
        attempt: Attempt,
    ) -> Result<(), Failure> {
        let mut releases = self.pending.take();
        match self.table.release_pending(pooled, &releases, attempt.until) {
            Err(failure) if failure.is_locked() => {}
            Ok(()) => return Ok(()),
            Err(failure) => {
                self.add_pending(releases);
                return Err(failure);
            }
        }
        while let Some(release) = releases.pop() {
            match self.table.release_pending(pooled, slice::from_ref(&release), attempt.until) {
                Err(failure) if failure.is_locked() => self.add_pending(postponed(vec![release])),
                Ok(()) => {}
                Err(failure) => {
                    releases.push(release);
                    self.add_pending(postponed(releases));
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    fn add_pending(self: &Arc<Self>, releases: Vec<PendingRelease>) {
        self.pending.add(releases, self, Self::send_pending);
    }

    pub(super) fn error_of_table(&self, verb: &str, failure: Failure) -> MutexError {
        self.error(format!("{verb} the table {} in {}", self.table.name, self.table.server), failure)
    }
}

impl<S: Session> Backend for TableClient<S> {
    const RELEASES_AND_ADMITS_AT_ONCE: bool = false;

    const ACTS_LATE: bool = true;

    fn server(&self) -> &dyn fmt::Display {
        &self.table.server
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(S::DIALECT.store)
            .field("server", &self.table.server.to_string())
            .field("table", &self.table.name.to_string())
            .finish()
    }

    fn timeout(&self) -> Duration {
        self.table.server.timeout
    }

    fn pending(&self) -> &PendingReleases {
        &self.pending
    }

    fn send_pending(self: &Arc<Self>) {
        let _ = self.table.ask(&|pooled, attempt| self.release_each_pending(pooled, attempt)); // It is tried again.
    }

    fn is_one_step(&self, admission: &Admission) -> bool {
        match (admission.lease(), admission.claim()) {
            (Some(lease), Some(claim)) => lease.owner() == claim.owner(),
            _ => true,
        }
    }

    fn release_and_admit(
        self: &Arc<Self>,
        held: &[OwnedName],
        admissions: &[&Admission],
    ) -> (EachAnswer<Released>, EachAnswer<Decided>) {
        (self.end(held, 0), self.admit(admissions))
    }

    fn extend(self: &Arc<Self>, held: &[OwnedName], term: Term) -> EachAnswer<bool> {
        self.end(held, term.get().as_micros()).into_iter().map(|ended| Ok(ended?.was_ours)).collect()
    }

    fn holder(self: &Arc<Self>, name: &MutexName) -> Result<Option<Result<Holder, String>>, Failure> {
        let keys = [RowKey::of(name)];
        Ok(self.ask(&|pooled, attempt| self.table.look(pooled, &keys, attempt.until))?.holder(name))
    }

    fn leases(self: &Arc<Self>, prefix: &str) -> Result<Vec<FoundEntry>, Failure> {
        Ok(self.ask(&|pooled, attempt| self.table.look_at_leases(pooled, prefix, attempt.until))?.leases())
    }

    fn check(self: &Arc<Self>) -> Result<Vec<StoreWarning>, MutexError> {
        let table = &self.table;
        let asked = Clock::system().now();
        let (schema, name) = table.name.parts();
        let health = table.ask_for(&table.statements.health.with(&[("schema", &schema), ("table", &name)]));
        let heard = Clock::system().now();
        let health = health.map_err(|failure| self.error_of_table("check", failure))?;
        let mut warnings = (S::DIALECT.warnings)(&health);
        warnings.extend(S::plaintext(&table.server.target).map(|instead| StoreWarning::Plaintext { instead }));
        if let Some(time) = S::time(&health) {
            warnings.extend(difference_warning(asked, time, heard));
        }
        let ahead = told(&health, "ahead").first().and_then(|micros| micros.parse().ok());
        warnings.extend(ahead.map(Duration::from_micros).and_then(StoreWarning::of_grants_ahead));
        Ok(warnings)
    }

    /// With the statements that make the table, or bring it up to date, if that is what is wrong.
    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        let is_of_the_table = failure.code().is_some_and(|code| S::DIALECT.no_table.contains(&code));
        if !is_of_the_table {
            return failure.into_error(attempted);
        }
        let (name, statements) = (&self.table.name, self.table.statements.create.with(&[]));
        let advice = format!("create or upgrade the table {name}: call create_table(), or run {statements}");
        failure.advised(advice).into_error(attempted)
    }
}

/// What somebody's transaction has is no trouble of the others that were asked for at once, as long as there is time.
fn each_alone<Q, A>(
    asked: &[Q],
    failure: &Failure,
    until: Moment,
    ask: impl Fn(&[Q]) -> EachAnswer<A>,
) -> EachAnswer<A> {
    let alone = |one: &Q| match asked {
        [_, _, ..] if failure.is_locked() && Clock::system().moment() < until => ask(slice::from_ref(one)).remove(0),
        _ => Err(failure.clone()),
    };
    asked.iter().map(alone).collect()
}

fn postponed(releases: Vec<PendingRelease>) -> Vec<PendingRelease> {
    let from = Clock::system().moment().plus(LATER);
    releases.into_iter().map(|release| PendingRelease { from, ..release }).collect()
}

/// A process that ends goes through here, so that it tries once more to give back what it may hold.
impl<S: Session> Drop for TableClient<S> {
    fn drop(&mut self) {
        self.clean_up.get().finish();
        let releases = self.pending.take();
        if !releases.is_empty() {
            // Nobody is left to be told how that goes: a name that stays expires.
            let _ = self.table.ask(&|pooled, attempt| self.table.release_pending(pooled, &releases, attempt.until));
        }
    }
}
