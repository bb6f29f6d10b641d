//! The engine of a table: reads, admissions, releases and clean-ups on one connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::marker::PhantomData;
use std::mem;
use std::slice;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use chrono::DateTime;

use super::admission_plan::AdmissionPlan;
use super::row_key::RowKey;
use super::run_rows::{self, record};
use super::session::{Session, TextRow, list, told};
use super::snapshot::Snapshot;
use super::table_names::{TABLE, TableName, Tables, one_line};
use crate::base::error::MutexError;
use crate::lease::{name::MutexName, token::FencingToken};
use crate::observe::run_record::{RunRecord, numbered_record::NumberedRecord, skip_count::SkipCount};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::remote::engine::{
    Answers, Attempt, DroppedRuns, Ending, Engine, FoundEntry, Health, ReleaseRequest, Request,
};
use crate::store::remote::failure::Failure;
use crate::store::remote::server_clock::ServerClock;
use crate::time::clock::{Clock, random_below};

/// How many rows one statement of a purge deletes at most.
pub(super) const PURGED_AT_ONCE: usize = 500;

/// How often somebody may come first whom no look shows, or a deadlock be dissolved at our cost, before that is an error.
const TRIES: u32 = 10;

/// Whoever is beaten again waits before the next look, so that those who ask for the same don't do so in step: for up to four times
/// as long as the lost request took, which is longer the more there are, and for this long at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The token of a plan until its rows are written, and of somebody who did not have the turn to write any.
const NO_TOKEN: FencingToken = FencingToken::new(0);

/// The message where others were faster each time.
const CROWD: &str = "many ask for it at the same moment, and this one's turn did not come in time";

/// The message where others were faster each time, and no look showed the rows that they wrote.
const UNSEEN: &str = "others came first time and again, and no look showed what they wrote: does a proxy send reads to a \
                      replica?";

/// The engine of a table on a server of any kind.
pub(crate) struct SqlEngine<S: Session> {
    pub(super) name: TableName,
    /// The statements that make the tables, for people.
    pub(crate) schema: String,
    /// The server's clock, as it was read last.
    clock: Mutex<Option<ServerClock>>,
    session: PhantomData<fn(S)>,
}

/// A lock that could not be had, and how long it was waited for.
type Wait = (Failure, Duration);

impl<S: Session> SqlEngine<S> {
    pub(super) fn new(name: TableName) -> Self {
        let tables = Tables::new(name.as_str(), S::QUOTE, "");
        let schema = if name.as_str() == TABLE { S::SCHEMA.to_owned() } else { name.in_schema(S::SCHEMA, &tables) };
        Self { name, schema, clock: Mutex::default(), session: PhantomData }
    }

    pub(super) fn create_table(&self, attempt: &mut Attempt<S>) -> Result<(), Failure> {
        ask(attempt, |tables| self.name.in_schema(S::SCHEMA, tables))?;
        if let Some(strangers) = S::strangers(attempt.connection.tables()) {
            let found = ask(attempt, |_| strangers)?;
            if let Some(what) = told(&found, "stranger").first() {
                let advice = "drop the table while nothing runs, and create it again";
                return Err(Failure::unusable(what).advised(advice));
            }
        }
        // A table that was there already may lack columns.
        self.look_where(attempt, "FALSE")?;
        look_at_runs(attempt, [""]).map(drop)
    }

    fn look_at(&self, attempt: &mut Attempt<S>, keys: impl IntoIterator<Item: Display>) -> Result<Snapshot, Failure> {
        self.look_where(attempt, &format!("name IN ({})", list(keys)))
    }

    fn look_where(&self, attempt: &mut Attempt<S>, which: &str) -> Result<Snapshot, Failure> {
        let rows = ask(attempt, |tables| S::look(tables, which))?;
        let look = Snapshot::read(&rows).ok_or_else(|| Failure::not_understood(rows, S::KIND))?;
        self.set_clock(look.clock);
        Ok(look)
    }

    fn set_clock(&self, clock: ServerClock) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock);
    }

    /// Looks; and where a name that is asked for is held for longer than its term, because the server's clock was set back,
    /// lets it end one term from now. A live holder renews it before that.
    fn look_and_shorten(
        &self,
        attempt: &mut Attempt<S>,
        asked: &BTreeSet<RowKey>,
        excluding: &BTreeSet<RowKey>,
    ) -> Result<Snapshot, Failure> {
        let look = |attempt: &mut _| {
            self.look_at(attempt, asked.union(excluding)).map_err(|failure| failure.undone().of_the_store())
        };
        let first = look(attempt)?;
        let longer: Vec<&RowKey> = asked.iter().filter(|key| first.outlasts_its_term(key)).collect();
        if longer.is_empty() {
            return Ok(first);
        }
        let names = list(longer);
        ask(attempt, |tables| S::shorten(tables, &names)).map_err(Failure::undone)?;
        look(attempt)
    }

    /// Looks, and writes what follows from that, until nobody comes first.
    ///
    /// A lock that was waited for in vain may be that of a queue of our own kind: then somebody has got the name meanwhile,
    /// which answers the question, or its row has changed. Somebody's open transaction leaves it as it was.
    fn admit(
        &self,
        attempt: &mut Attempt<S>,
        admissions: &[&Admission],
    ) -> Result<Vec<Result<Admitted, Failure>>, Failure> {
        let until = attempt.until;
        let asked = admissions.iter().flat_map(|admission| [admission.claim(), admission.lease()]).flatten();
        let asked: BTreeSet<RowKey> = asked.map(|request| RowKey::of(request.name())).collect();
        let excluding = admissions.iter().flat_map(|admission| admission.excluded_by()).map(RowKey::of).collect();
        let (mut tries, mut last): (_, Option<(Snapshot, Option<Wait>)>) = (1, None);
        let (mut had_turn, mut was_beaten) = (true, false);
        loop {
            let look = self.look_and_shorten(attempt, &asked, &excluding)?;
            let plan = AdmissionPlan::new(admissions, &look, NO_TOKEN);
            if plan.rows.is_empty() {
                return Ok(plan.decisions);
            }
            let now = Clock::system().moment();
            match last.take() {
                Some((before, Some((failure, _)))) if look.is_as(&before) => return Err(failure),
                Some((_, Some((failure, took)))) if now.plus(took) >= until => return Err(failure.advised(CROWD)),
                Some((before, None)) => {
                    // A look that shows what others wrote is worth another try for as long as there is time.
                    tries = if look.is_as(&before) { tries + u32::from(had_turn) } else { 1 };
                    if tries > TRIES || now >= until {
                        return Err(Failure::beaten(if tries > TRIES { UNSEEN } else { CROWD }));
                    }
                }
                _ => {}
            }
            let began = Clock::system().moment();
            let (tables, rows) = (attempt.connection.tables(), plan.rows::<S>(&look, until));
            let admit = one_line(&S::admit(tables, &rows));
            // Each admission writes two rows at most. It deletes twice as many, so that the table shrinks.
            let clean_up = one_line(&S::clean_up(tables, &S::is_written(tables, &rows), 2 * plan.rows.len()));
            match attempt.connection.query_then(&admit, &clean_up, until) {
                Ok(rows) if count::<S>(&rows)? > 0 => {
                    return Ok(AdmissionPlan::new(admissions, &look, token::<S>(&rows)?).decisions);
                }
                Ok(rows) => (last, had_turn) = (Some((look, None)), token::<S>(&rows)? != NO_TOKEN),
                Err(failure) if failure.is_of_one_name() => {
                    last = Some((look, Some((failure, Clock::system().moment().since(began)))));
                    continue;
                }
                Err(failure) if !failure.is_conflict() || tries == TRIES => return Err(failure),
                Err(_) => tries += 1,
            }
            // The look after the first defeat shows who came first, as a rule.
            if mem::replace(&mut was_beaten, true) {
                let now = Clock::system().moment();
                let longest = LONGEST_PAUSE.min(until.since(now) / 4);
                thread::sleep(random_below(longest.min(4 * now.since(began))));
            }
        }
    }

    /// Lets what is ours end. Returns of each name whether it was ours. What ends at the same time does so at once.
    fn end(
        &self,
        attempt: &mut Attempt<S>,
        releases: &[ReleaseRequest],
    ) -> Result<Vec<Result<bool, Failure>>, Failure> {
        let asked: Vec<[String; 2]> =
            releases.iter().map(|release| [RowKey::of(&release.name).to_string(), release.owner.to_string()]).collect();
        let mut groups: BTreeMap<Ending, BTreeSet<&[String; 2]>> = BTreeMap::new();
        for (release, asked) in releases.iter().zip(&asked) {
            groups.entry(release.ending).or_default().insert(asked);
        }
        let (mut ended, mut is_begun) = (Vec::new(), false);
        for (ending, names) in groups {
            let names: Vec<&[String; 2]> = names.into_iter().collect();
            let rows = self.end_alike(attempt, ending, &names);
            ended.extend(rows.map_err(|failure| failure.perhaps_done(is_begun))?);
            is_begun = true;
        }
        let mut were_ours: Vec<bool> = asked.iter().map(|asked| ended.iter().any(|row| row == asked)).collect();
        if attempt.asked_before().is_some() && were_ours.contains(&false) {
            let look = self.look_at(attempt, asked.iter().map(|[key, _]| key))?;
            let ago = attempt.asked_before().unwrap_or_default(); // The look took time, too.
            for (was_ours, release) in were_ours.iter_mut().zip(releases) {
                // A lease that was to be extended is still there after an attempt that was carried out.
                let can_have_gone = !matches!(release.ending, Ending::After(_));
                *was_ours |= can_have_gone && look.was_held(release, ago);
            }
        }
        Ok(were_ours.into_iter().map(Ok).collect())
    }

    /// Ends these names in the same way. What is to end later does so only while the call lasts: a copy that comes late must not
    /// prolong what was shortened meanwhile.
    fn end_alike(
        &self,
        attempt: &mut Attempt<S>,
        ending: Ending,
        names: &[&[String; 2]],
    ) -> Result<Vec<TextRow>, Failure> {
        let ours = names.iter().map(|[key, owner]| format!("(name = '{key}' AND owner = '{owner}')"));
        let ours = ours.collect::<Vec<_>>().join(" OR ");
        let term = match ending {
            Ending::Now => return ask(attempt, |tables| S::end(tables, &ours, 0, [0, 0])),
            Ending::ForGood => return ask(attempt, |tables| S::end_for_good(tables, &ours, names)),
            Ending::After(term) => term.get().as_micros(),
        };
        let known = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = match known {
            Some(clock) => clock,
            None => self.look_at(attempt, names.iter().map(|[key, _]| key)).map_err(Failure::undone)?.clock,
        };
        let window = clock.window(attempt.until);
        let rows = ask(attempt, |tables| S::end(tables, &ours, term, window))?;
        let time = rows.last().and_then(|row| row.get(1)?.parse().ok());
        let time: i64 = time.ok_or_else(|| Failure::not_understood(&rows, S::KIND))?;
        self.set_clock(ServerClock::read(time));
        if (window[0]..=window[1]).contains(&time) { Ok(rows) } else { Err(Failure::too_late()) }
    }
}

impl<S: Session> Engine for SqlEngine<S> {
    const STORE: &'static str = S::STORE;
    const COMMITS_LATE: bool = true;

    type Connection = S;

    fn namespace(&self) -> [&str; 2] {
        ["table", self.name.as_str()]
    }

    fn carry_out(&self, attempt: &mut Attempt<S>, request: Request<'_>) -> Result<Answers, Failure> {
        let releases = together_or_alone(attempt, request.releases, |attempt, asked| self.end(attempt, asked))?;
        let admissions = together_or_alone(attempt, request.admissions, |attempt, asked| self.admit(attempt, asked));
        match admissions {
            // What was released stays so, whatever becomes of the admissions.
            Err(failure) if !releases.is_empty() => {
                Ok(Answers { releases, admissions: vec![Err(failure); request.admissions.len()] })
            }
            admissions => Ok(Answers { releases, admissions: admissions? }),
        }
    }

    fn look(&self, attempt: &mut Attempt<S>, names: &[MutexName]) -> Result<Vec<FoundEntry>, Failure> {
        let snapshot = self.look_at(attempt, names.iter().map(RowKey::of))?;
        Ok(names.iter().filter_map(|name| Some((name.clone(), snapshot.holder(name)?))).collect())
    }

    fn leases(&self, attempt: &mut Attempt<S>, prefix: &str) -> Result<Vec<FoundEntry>, Failure> {
        let pattern = RowKey::pattern_of_leases(prefix);
        Ok(self.look_where(attempt, &format!("name LIKE '{pattern}' ESCAPE '!'"))?.leases())
    }

    fn runs(&self, attempt: &mut Attempt<S>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure> {
        let keys: BTreeMap<Box<str>, &str> = events.iter().map(|event| (RowKey::of_event(event).0, *event)).collect();
        let rows = look_at_runs(attempt, keys.keys())?;
        Ok(rows.iter().filter_map(|row| record(keys.get(row.first()?.as_str())?, row)).collect())
    }

    fn log_runs(&self, attempt: &mut Attempt<S>, records: &[RunRecord]) -> Result<(), Failure> {
        ask(attempt, |tables| run_rows::write::<S>(tables, records)).map(drop)
    }

    fn drop_runs(&self, attempt: &mut Attempt<S>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure> {
        ask(attempt, |tables| run_rows::drop_runs(tables, dropped)).map(drop)
    }

    fn count_skips(&self, attempt: &mut Attempt<S>, event: &str, skips: &[SkipCount]) -> Result<(), Failure> {
        ask(attempt, |tables| run_rows::count_skips::<S>(tables, event, skips)).map(drop)
    }

    fn skips(&self, attempt: &mut Attempt<S>, event: &str) -> Result<Vec<SkipCount>, Failure> {
        let rows = look_at_runs(attempt, [RowKey::of_event(event)])?;
        Ok(rows.iter().filter_map(|row| run_rows::skip_count(row)).collect())
    }

    fn health(&self, attempt: &mut Attempt<S>) -> Result<Health, Failure> {
        self.look_where(attempt, "FALSE")?;
        let health = |tables: &Tables| S::health(tables, self.name.parts()) + &S::strangers(tables).unwrap_or_default();
        let health = ask(attempt, health)?;
        let micros = |what: &str| told(&health, what).first().and_then(|micros| micros.parse().ok());
        Ok(Health {
            time: micros("time").and_then(DateTime::from_timestamp_micros),
            ahead: micros("ahead").and_then(|ahead| u64::try_from(ahead).ok()).map(Duration::from_micros),
            warnings: S::warnings(&health),
        })
    }

    /// Adds the statements that make the table, if there is none or it has other columns.
    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        let name = self.name.as_str();
        let advice = match failure.code() {
            Some(code) if code == S::NO_TABLE => format!("create the table {name}"),
            Some(code) if S::OTHER_COLUMNS.contains(&code) => format!(
                "the table {name} or {name}_runs does not have the columns of the format v1: drop it while nothing runs, \
                 and create it again"
            ),
            _ => return failure.into_error(attempted),
        };
        let statements = one_line(&self.schema);
        failure.advised(format!("{advice}: call create_table(), or run {statements}")).into_error(attempted)
    }
}

/// Asks for all at once. If another transaction has locked one of them, asks for each alone, while there is time: that is no
/// trouble of the others.
fn together_or_alone<S, Q, A>(
    attempt: &mut Attempt<S>,
    asked: &[Q],
    ask: impl Fn(&mut Attempt<S>, &[Q]) -> Result<Vec<Result<A, Failure>>, Failure>,
) -> Result<Vec<Result<A, Failure>>, Failure> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let began = Clock::system().moment();
    let locked = match ask(attempt, asked) {
        Err(failure) if failure.is_of_one_name() => failure,
        answers => return answers,
    };
    attempt.until = attempt.call_until; // The connection is alive: no time is kept for another one.
    if locked.may_have_happened {
        attempt.began_before.get_or_insert(began);
    }
    let mut answers = Vec::with_capacity(asked.len());
    for one in asked {
        let is_time = asked.len() > 1 && !attempt.is_broken && Clock::system().moment() < attempt.until;
        match is_time.then(|| ask(attempt, slice::from_ref(one))) {
            None => answers.push(Err(locked.clone())),
            Some(Ok(answer)) => answers.extend(answer),
            Some(Err(failure)) if failure.is_of_one_name() => answers.push(Err(failure)),
            // It has waited for the lock until the end of the call.
            Some(Err(failure)) if failure.is_timeout() => {
                attempt.is_broken = true;
                answers.push(Err(locked.clone().perhaps_done(true)));
            }
            Some(Err(failure)) => return Err(failure.perhaps_done(true)),
        }
    }
    Ok(answers)
}

/// Deletes rows that have ended, but none that another transaction has locked. Returns how many.
pub(super) fn purge<S: Session>(attempt: &mut Attempt<S>) -> Result<u64, Failure> {
    count::<S>(&ask(attempt, |tables| S::clean_up(tables, "TRUE", PURGED_AT_ONCE))?)
}

/// Reads the log of the runs of the events with these keys.
fn look_at_runs<S: Session>(
    attempt: &mut Attempt<S>,
    keys: impl IntoIterator<Item = impl Display>,
) -> Result<Vec<TextRow>, Failure> {
    let events = list(keys);
    ask(attempt, |tables| S::look_at_runs(tables, &events))
}

/// Returns the number of rows that the statements wrote or deleted, which is the last that they return.
fn count<S: Session>(rows: &[TextRow]) -> Result<u64, Failure> {
    let count = rows.last().and_then(|row| row.first()?.parse().ok());
    count.ok_or_else(|| Failure::not_understood(rows, S::KIND))
}

/// Returns the token of the rows that an admission wrote, beside their number.
fn token<S: Session>(rows: &[TextRow]) -> Result<FencingToken, Failure> {
    let token = rows.last().and_then(|row| row.get(1)?.parse().ok());
    token.map(FencingToken::new).ok_or_else(|| Failure::not_understood(rows, S::KIND))
}

/// Sends statements, several times if another transaction is in the way.
fn ask<S: Session>(
    attempt: &mut Attempt<S>,
    statements: impl FnOnce(&Tables) -> String,
) -> Result<Vec<TextRow>, Failure> {
    let statements = one_line(&statements(attempt.connection.tables()));
    let mut tries = 1;
    loop {
        match attempt.connection.query(&statements, attempt.until) {
            Err(failure) if failure.is_conflict() && tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}
