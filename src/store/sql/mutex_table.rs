//! A table of mutexes on a server: reads, admissions, releases and clean-ups on one connection.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::thread;
use std::time::Duration;

use super::admission_plan::AdmissionPlan;
use super::clean_up::{BATCH, KEPT_SECONDS};
use super::driver_runtime::outside_any_runtime;
use super::row_key::RowKey;
use super::session::{Session, TextRow};
use super::snapshot::Snapshot;
use super::statements::{Statements, TableName, list};
use crate::store::remote::failure::{Failure, RefusalKind};
use crate::store::remote::server::{Attempt, PooledConnection, Server};
use crate::store::{event_mutex::admission::Admission, remote::owned_name::OwnedName};
use crate::store::{remote::pending_release::PendingRelease, remote::server_mutex::Released};
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, random_below};

/// How often somebody may come first whom no look shows, or a deadlock be dissolved at our cost, before that is an error.
const TRIES: usize = 10;

/// How long somebody who was beaten waits at most, so that those who ask for the same don't do so in step.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// The message where others were faster each time.
const CROWD: &str = "many ask for it at the same moment, and this one's turn did not come in time";

/// The message where others were faster each time, and no look showed the rows that they wrote.
const UNSEEN: &str = "others came first time and again, and no look showed what they wrote: does a proxy send reads to a \
                      replica?";

pub(super) struct MutexTable<S: Session> {
    pub(super) server: Server<S>,
    pub(super) name: TableName,
    pub(super) statements: Statements,
}

/// For how many seconds a clean-up waits for a row that somebody's transaction has. Meanwhile others wait for those that it
/// has.
#[derive(Clone, Copy)]
enum LockWait {
    None = 0,
    ASecond = 1,
}

/// A lock that was not to be had.
struct Wait {
    failure: Failure,
    /// The look before it.
    look: Snapshot,
    took: Duration,
}

/// What is asked and heard on one connection.
pub(super) type Exchange<'a, S, T> = &'a (dyn Fn(&mut PooledConnection<S>, Attempt) -> Result<T, Failure> + Sync);

impl<S: Session> MutexTable<S> {
    pub(super) fn new(server: Server<S>, name: TableName) -> Self {
        Self { server, statements: Statements::new(&S::DIALECT, &name), name }
    }

    /// Lets `ask` ask the server, again where that may help, and in a runtime of the application's own from
    /// another thread.
    pub(super) fn ask<T: Send>(&self, ask: Exchange<'_, S, T>) -> Result<T, Failure> {
        let answer = outside_any_runtime(|| self.server.ask(ask));
        answer.unwrap_or_else(|error| Err(Failure::not_asked(error)))
    }

    /// Asks these statements, which may be carried out twice.
    pub(super) fn ask_for(&self, statements: &str) -> Result<Vec<TextRow>, Failure> {
        self.ask(&|pooled, attempt| patiently(pooled, statements, attempt.until))
    }

    pub(super) fn look<'k>(
        &self,
        pooled: &mut PooledConnection<S>,
        keys: impl IntoIterator<Item = &'k RowKey>,
        until: Moment,
    ) -> Result<Snapshot, Failure> {
        self.look_where(pooled, &format!("name IN ({})", list(keys)), until)
    }

    /// Looks at the leases of all mutexes whose names begin with `prefix`.
    pub(super) fn look_at_leases(
        &self,
        pooled: &mut PooledConnection<S>,
        prefix: &str,
        until: Moment,
    ) -> Result<Snapshot, Failure> {
        let pattern = RowKey::pattern_of_leases(prefix);
        self.look_where(pooled, &format!("name LIKE '{pattern}' ESCAPE '!'"), until)
    }

    fn look_where(&self, pooled: &mut PooledConnection<S>, which: &str, until: Moment) -> Result<Snapshot, Failure> {
        let rows = patiently(pooled, &self.statements.look.with(&[("which", &which)]), until)?;
        Snapshot::read(&rows).ok_or_else(|| Failure::not_understood(rows, S::DIALECT.kind))
    }

    /// Looks; and where a name that is asked for is held for longer than its term, because the server's clock was set back,
    /// lets it end one term from now. A live holder renews it before that.
    fn look_and_shorten(
        &self,
        pooled: &mut PooledConnection<S>,
        asked: &BTreeSet<RowKey>,
        excluding: &BTreeSet<RowKey>,
        until: Moment,
    ) -> Result<Snapshot, Failure> {
        let look = |pooled: &mut PooledConnection<S>| {
            self.look(pooled, asked.union(excluding), until).map_err(|failure| failure.undone().of_all())
        };
        let first = look(pooled)?;
        let longer: Vec<&RowKey> = asked.iter().filter(|key| first.outlasts_its_term(key)).collect();
        if longer.is_empty() {
            return Ok(first);
        }
        let shorten = self.statements.shorten.with(&[("names", &list(longer))]);
        patiently(pooled, &shorten, until).map_err(Failure::undone)?;
        look(pooled)
    }

    /// Looks, and writes what follows from that, until nobody comes first.
    ///
    /// A lock that was waited for in vain may be that of a queue of our own kind: then somebody has got the name meanwhile,
    /// which answers the question, or its row has changed. Somebody's open transaction leaves it as it was.
    pub(super) fn admit(
        &self,
        pooled: &mut PooledConnection<S>,
        admissions: &[&Admission],
        until: Moment,
    ) -> Result<AdmissionPlan, Failure> {
        let asked = admissions.iter().flat_map(|admission| [admission.claim(), admission.lease()]).flatten();
        let asked: BTreeSet<RowKey> = asked.map(|request| RowKey::of(request.name())).collect();
        let excluding = admissions.iter().filter_map(|admission| admission.excluded_by()).map(RowKey::of).collect();
        let (mut tries, mut wait, mut beaten): (_, Option<Wait>, Option<Snapshot>) = (1, None, None);
        loop {
            let look = self.look_and_shorten(pooled, &asked, &excluding, until)?;
            let plan = AdmissionPlan::new(admissions, &look);
            if plan.rows.is_empty() {
                return Ok(plan);
            }
            if let Some(before) = beaten.take() {
                // A look that shows what others wrote is worth another try for as long as there is time.
                tries = if look.is_as(&before) { tries + 1 } else { 1 };
                if tries > TRIES || Clock::system().moment() >= until {
                    let why = if tries > TRIES { UNSEEN } else { CROWD };
                    return Err(Failure::not_done(why, false));
                }
                thread::sleep(random_below(LONGEST_PAUSE));
            }
            if let Some(Wait { failure, look: before, took }) = wait.take() {
                if look.is_as(&before) {
                    return Err(failure);
                }
                if Clock::system().moment().plus(took) >= until {
                    return Err(failure.advised(CROWD.to_owned()));
                }
            }
            let began = Clock::system().moment();
            match pooled.connection.query(&plan.statements(&self.statements, look.clock.at(until)), until) {
                Ok(rows) if count::<S>(&rows)? > 0 => return Ok(plan),
                Ok(_) => beaten = Some(look),
                Err(failure) if failure.is_locked() => {
                    wait = Some(Wait { failure, look, took: Clock::system().moment().since(began) });
                }
                Err(failure) if failure.refusal_kind() != Some(RefusalKind::RetryAtOnce) || tries == TRIES => {
                    return Err(failure);
                }
                Err(_) => tries += 1,
            }
        }
    }

    /// Lets what is ours end so many microseconds from now, in a call that `began` then: what it was.
    pub(super) fn end(
        &self,
        pooled: &mut PooledConnection<S>,
        held: &[OwnedName],
        micros: u128,
        began: Moment,
        attempt: Attempt,
    ) -> Result<Vec<Released>, Failure> {
        let ours = self.end_ours(pooled, held, micros, attempt.until)?;
        if !attempt.again || !ours.contains(&false) {
            return Ok(ours.into_iter().map(|was_ours| Released { was_ours, went_before: false }).collect());
        }
        let keys: Vec<RowKey> = held.iter().map(|held| RowKey::of(&held.name)).collect();
        let look = self.look(pooled, &keys, attempt.until)?;
        let ago = Clock::system().moment().since(began);
        let ended = |(was_ours, (key, held)): (bool, (&RowKey, &OwnedName))| Released {
            was_ours,
            went_before: !was_ours && look.was_held(key, held.owner, ago),
        };
        Ok(ours.into_iter().zip(keys.iter().zip(held)).map(ended).collect())
    }

    fn end_ours(
        &self,
        pooled: &mut PooledConnection<S>,
        held: &[OwnedName],
        micros: u128,
        until: Moment,
    ) -> Result<Vec<bool>, Failure> {
        let asked = keys_and_owners(held);
        let mut in_order: Vec<&(RowKey, String)> = asked.iter().collect();
        in_order.sort();
        let ours = in_order.iter().map(|(key, owner)| format!("(name = '{key}' AND owner = '{owner}')"));
        let ours = ours.collect::<Vec<_>>().join(" OR ");
        let rows = patiently(pooled, &self.statements.end.with(&[("ours", &ours), ("micros", &micros)]), until)?;
        let was_ours = |(key, owner): &(RowKey, String)| {
            rows.iter().any(|row| matches!(&row[..], [name, of] if name == key.as_str() && of == owner))
        };
        Ok(asked.iter().map(was_ours).collect())
    }

    pub(super) fn release_pending(
        &self,
        pooled: &mut PooledConnection<S>,
        releases: &[PendingRelease],
        until: Moment,
    ) -> Result<(), Failure> {
        if releases.is_empty() {
            return Ok(());
        }
        let held: Vec<OwnedName> = releases.iter().map(|release| release.held.clone()).collect();
        let Some(give_back) = &self.statements.give_back else {
            return self.end_ours(pooled, &held, 0, until).map(drop);
        };
        let mut names = keys_and_owners(&held);
        names.sort();
        names.dedup();
        let each = names.iter().map(|(key, owner)| give_back.with(&[("name", key), ("owner", owner)]));
        patiently(pooled, &each.collect::<Vec<_>>().join(" "), until).map(drop)
    }

    /// Deletes rows that have ended, at most a batch of them; how many that were.
    pub(super) fn clean_up(&self) -> Result<u64, Failure> {
        count::<S>(&self.ask_for(&self.clean_up_with(LockWait::ASecond))?)
    }

    /// The same on a connection that nobody needs. `None`: there is none.
    pub(super) fn clean_up_on_idle(&self) -> Option<Result<u64, Failure>> {
        let statements = self.clean_up_with(LockWait::None);
        let answer = self.server.ask_on_idle(|pooled, attempt| patiently(pooled, &statements, attempt.until))?;
        Some(answer.and_then(|rows| count::<S>(&rows)))
    }

    fn clean_up_with(&self, patience: LockWait) -> String {
        let places: [(&str, &dyn Display); 3] =
            [("kept", &KEPT_SECONDS), ("batch", &BATCH), ("patience", &(patience as u8))];
        self.statements.clean_up.with(&places)
    }
}

fn keys_and_owners(held: &[OwnedName]) -> Vec<(RowKey, String)> {
    held.iter().map(|held| (RowKey::of(&held.name), held.owner.to_string())).collect()
}

/// The number of rows that the statements wrote or deleted, which is the last that they return.
fn count<S: Session>(rows: &[TextRow]) -> Result<u64, Failure> {
    let count = rows.last().and_then(|row| row.first()?.parse().ok());
    count.ok_or_else(|| Failure::not_understood(rows, S::DIALECT.kind))
}

/// A connection goes where it can be left in words.
impl<S: Session> Drop for MutexTable<S> {
    fn drop(&mut self) {
        let idle = self.server.take_idle();
        let _ = outside_any_runtime(|| drop(idle)); // Where no thread can be started, it goes without a word.
    }
}

/// Asks until nobody comes in between.
fn patiently<S: Session>(
    pooled: &mut PooledConnection<S>,
    statements: &str,
    until: Moment,
) -> Result<Vec<TextRow>, Failure> {
    let mut tries = 1;
    loop {
        match pooled.connection.query(statements, until) {
            Err(failure) if failure.refusal_kind() == Some(RefusalKind::RetryAtOnce) && tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}
