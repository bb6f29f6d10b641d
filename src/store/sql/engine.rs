//! The engine of a table: reads, admissions, releases and clean-ups on one connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::marker::PhantomData;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use chrono::DateTime;

use super::admission_plan::AdmissionPlan;
use super::row_key::RowKey;
use super::run_rows::{self, record};
use super::session::{Session, told};
use super::snapshot::Snapshot;
use super::statements::{Call, PLACES, Statement, Statements, TableName, TextRow, Values, list};
use crate::base::{error::MutexError, escape::Quoted};
use crate::lease::{name::MutexName, token::FencingToken};
use crate::observe::run_record::{RunRecord, numbered_record::NumberedRecord, skip_count::SkipCount};
use crate::store::event_mutex::admission::Admission;
use crate::store::remote::engine::{
    Answers, Asked, Decision, DroppedRuns, Ending, Engine, FoundEntry, Health, ReleaseRequest, Released, ServerTurn,
};
use crate::store::remote::failure::{Failure, RefusalKind};
use crate::store::remote::housekeeper::BATCH;
use crate::store::remote::server_clock::ServerClock;
use crate::time::clock::{Clock, moment::Moment, random_below};

/// How long a row stays after it has ended, in seconds: longer than any call lasts, so that whoever has looked at it and
/// writes finds it, and is told if it was somebody else's in between.
const KEPT_SECONDS: u64 = 90;

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

/// The format of the rows, which each of them says.
const FORMAT: &str = "v1";

/// The engine of a table on a server of any kind.
pub(crate) struct SqlEngine<S: Session> {
    pub(super) name: TableName,
    pub(crate) statements: Statements,
    /// The server's clock, as it was read last.
    clock: Mutex<Option<ServerClock>>,
    session: PhantomData<fn(S)>,
}

/// A lock that was not to be had, and how long somebody waited for it.
type Wait = (Failure, Duration);

impl<S: Session> SqlEngine<S> {
    pub(super) fn new(name: TableName) -> Self {
        let statements = Statements::new(&S::DIALECT, &name);
        Self { name, statements, clock: Mutex::default(), session: PhantomData }
    }

    pub(super) fn create_table(&self, turn: &mut ServerTurn<S>) -> Result<(), Failure> {
        patiently(turn, &self.statements.create.with(&[]))?;
        if !self.statements.strangers.is_empty() {
            let found = patiently(turn, &self.statements.strangers.with(&[]))?;
            if let Some(what) = told(&found, "stranger").first() {
                let advice = "drop the table while nothing runs, and create it again";
                return Err(Failure::unusable(what).advised(advice));
            }
        }
        // A table that was there already may lack columns.
        self.look_where(turn, "FALSE")?;
        self.look_at_runs(turn, [""]).map(drop)
    }

    /// Deletes rows that have ended, at most a batch of them; how many that were. For a row that somebody's transaction has
    /// it waits so many seconds. Meanwhile others wait for those that it has.
    pub(super) fn purge(&self, turn: &mut ServerTurn<S>, seconds: u8) -> Result<u64, Failure> {
        let places: [(&str, &dyn Display); 3] = [("kept", &KEPT_SECONDS), ("batch", &BATCH), ("patience", &seconds)];
        count::<S>(&patiently(turn, &self.statements.clean_up.with(&places))?)
    }

    fn look_at(&self, turn: &mut ServerTurn<S>, keys: impl IntoIterator<Item: Display>) -> Result<Snapshot, Failure> {
        let mut keys: Vec<String> = keys.into_iter().map(|key| key.to_string()).collect();
        // As many as there are places, so that it is the same statement for most.
        keys.resize(keys.len().max(PLACES), keys.first().cloned().unwrap_or_default());
        let mut values = Values::default();
        let which = format!("name IN ({})", values.texts(keys));
        let call = Call { statements: self.statements.look.with(&[("which", &which)]), values };
        self.snapshot(&until_nobody_is_in_between(turn, |session, until| session.call(&call, until))?)
    }

    fn look_where(&self, turn: &mut ServerTurn<S>, which: &str) -> Result<Snapshot, Failure> {
        self.snapshot(&patiently(turn, &self.statements.look.with(&[("which", &which)]))?)
    }

    /// Reads the log of the runs of the events with these keys.
    fn look_at_runs(
        &self,
        turn: &mut ServerTurn<S>,
        keys: impl IntoIterator<Item = impl Display>,
    ) -> Result<Vec<TextRow>, Failure> {
        let rows = patiently(turn, &self.statements.look_at_runs.with(&[("events", &list(keys))]))?;
        expect_known(&rows).map(|()| rows)
    }

    /// Reads the rows of a look.
    fn snapshot(&self, rows: &[TextRow]) -> Result<Snapshot, Failure> {
        expect_known(rows)?;
        let look = Snapshot::read(rows).ok_or_else(|| Failure::not_understood(rows, S::DIALECT.kind))?;
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
        turn: &mut ServerTurn<S>,
        asked: &BTreeSet<RowKey>,
        excluding: &BTreeSet<RowKey>,
    ) -> Result<Snapshot, Failure> {
        let look =
            |turn: &mut _| self.look_at(turn, asked.union(excluding)).map_err(|failure| failure.undone().of_all());
        let first = look(turn)?;
        let longer: Vec<&RowKey> = asked.iter().filter(|key| first.outlasts_its_term(key)).collect();
        if longer.is_empty() {
            return Ok(first);
        }
        let shorten = self.statements.shorten.with(&[("names", &list(longer))]);
        patiently(turn, &shorten).map_err(Failure::undone)?;
        look(turn)
    }

    /// Looks, and writes what follows from that, until nobody comes first.
    ///
    /// A lock that was waited for in vain may be that of a queue of our own kind: then somebody has got the name meanwhile,
    /// which answers the question, or its row has changed. Somebody's open transaction leaves it as it was.
    fn admit(
        &self,
        turn: &mut ServerTurn<S>,
        admissions: &[&Admission],
    ) -> Result<Vec<Decision>, Failure> {
        let until = turn.attempt.until;
        let asked = admissions.iter().flat_map(|admission| [admission.claim(), admission.lease()]).flatten();
        let asked: BTreeSet<RowKey> = asked.map(|request| RowKey::of(request.name())).collect();
        let excluding = admissions.iter().flat_map(|admission| admission.excluded_by()).map(RowKey::of).collect();
        let (mut tries, mut last): (_, Option<(Snapshot, Option<Wait>)>) = (1, None);
        let (mut had_turn, mut was_beaten) = (true, false);
        loop {
            let look = self.look_and_shorten(turn, &asked, &excluding)?;
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
                        return Err(Failure::not_done(if tries > TRIES { UNSEEN } else { CROWD }, false));
                    }
                }
                _ => {}
            }
            let began = Clock::system().moment();
            match turn.connection.call(&plan.statements(&self.statements, &look, until), until) {
                Ok(rows) if count::<S>(&rows)? > 0 => {
                    return Ok(AdmissionPlan::new(admissions, &look, token::<S>(&rows)?).decisions);
                }
                Ok(rows) => (last, had_turn) = (Some((look, None)), token::<S>(&rows)? != NO_TOKEN),
                Err(failure) if failure.is_locked() => {
                    last = Some((look, Some((failure, Clock::system().moment().since(began)))));
                    continue;
                }
                Err(failure) if failure.refusal_kind() != Some(RefusalKind::RetryAtOnce) || tries == TRIES => {
                    return Err(failure);
                }
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

    /// Lets what is ours end: what it was. What ends at the same time does so at once.
    fn end(&self, turn: &mut ServerTurn<S>, releases: &[ReleaseRequest]) -> Result<Vec<Released>, Failure> {
        let asked: Vec<[String; 2]> =
            releases.iter().map(|release| [RowKey::of(&release.name).to_string(), release.owner.to_string()]).collect();
        let mut groups: BTreeMap<Ending, BTreeSet<&[String; 2]>> = BTreeMap::new();
        for (release, asked) in releases.iter().zip(&asked) {
            groups.entry(release.ending).or_default().insert(asked);
        }
        let (mut ended, mut is_begun) = (Vec::new(), false);
        for (ending, group) in groups {
            let rows = self.end_alike(turn, ending, &group);
            ended.extend(rows.map_err(|failure| failure.perhaps_done(is_begun))?);
            is_begun = true;
        }
        let was_ours = |asked: &[String; 2]| ended.iter().any(|row| row == asked);
        let answer = |asked| Released { was_ours: was_ours(asked), went_before: false };
        let mut answers: Vec<Released> = asked.iter().map(answer).collect();
        if turn.attempt.again && !answers.iter().all(|answer| answer.was_ours) {
            let look = self.look_at(turn, asked.iter().map(|[key, _]| key))?;
            let ago = turn.attempt.asked_before().unwrap_or_default(); // The look took time, too.
            for (answer, release) in answers.iter_mut().zip(releases) {
                answer.went_before = !answer.was_ours && look.was_held(release, ago);
            }
        }
        Ok(answers)
    }

    /// Ends these names in the same way. What is to end later does so only while somebody waits for the answer: a copy that
    /// comes late must not prolong what was shortened meanwhile.
    fn end_alike(
        &self,
        turn: &mut ServerTurn<S>,
        ending: Ending,
        names: &BTreeSet<&[String; 2]>,
    ) -> Result<Vec<TextRow>, Failure> {
        let Ending::After(_) = ending else { return patiently(turn, &self.end_statements(ending, names, [0, 0])) };
        let known = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = match known {
            Some(clock) => clock,
            None => self.look_at(turn, names.iter().map(|[key, _]| key)).map_err(Failure::undone)?.clock,
        };
        let window = clock.window(turn.attempt.until);
        let rows = patiently(turn, &self.end_statements(ending, names, window))?;
        let time = rows.last().and_then(|row| row.get(1)?.parse().ok());
        let time: i64 = time.ok_or_else(|| Failure::not_understood(&rows, S::DIALECT.kind))?;
        self.set_clock(ServerClock::read(time));
        if (window[0]..=window[1]).contains(&time) { Ok(rows) } else { Err(Failure::too_late()) }
    }

    fn end_statements(&self, ending: Ending, names: &BTreeSet<&[String; 2]>, [asked, until]: [i64; 2]) -> String {
        let each = |text: &dyn Fn(&[String; 2]) -> String, between| {
            names.iter().map(|one| text(one)).collect::<Vec<_>>().join(between)
        };
        let give_back = &self.statements.give_back;
        if ending == Ending::ForGood && !give_back.is_empty() {
            return each(&|[key, owner]| give_back.with(&[("name", key), ("owner", owner)]), " ");
        }
        let micros = if let Ending::After(term) = ending { term.get().as_micros() } else { 0 };
        let ours = each(&|[key, owner]| format!("(name = '{key}' AND owner = '{owner}')"), " OR ");
        self.statements.end.with(&[("ours", &ours), ("micros", &micros), ("asked", &asked), ("until", &until)])
    }
}

impl<S: Session> Engine for SqlEngine<S> {
    const STORE: &'static str = S::DIALECT.store;
    const RELEASES_AND_ADMITS_AT_ONCE: bool = false;
    const ACTS_LATE: bool = true;
    const CLEANS_UP: bool = true;

    type Connection = S;

    fn namespace(&self) -> [&str; 2] {
        ["table", self.name.as_str()]
    }

    fn carry_out(&self, turn: &mut ServerTurn<S>, asked: Asked<'_>) -> Result<Answers, Failure> {
        let Asked { releases, admissions } = asked;
        let released = self.end(turn, releases)?;
        let decided = if admissions.is_empty() { Vec::new() } else { self.admit(turn, admissions)? };
        Ok((released.into_iter().map(Ok).collect(), decided.into_iter().map(Ok).collect()))
    }

    fn look(&self, turn: &mut ServerTurn<S>, names: &[MutexName]) -> Result<Vec<FoundEntry>, Failure> {
        let snapshot = self.look_at(turn, names.iter().map(RowKey::of))?;
        Ok(names.iter().filter_map(|name| Some((name.clone(), snapshot.holder(name)?))).collect())
    }

    fn leases(&self, turn: &mut ServerTurn<S>, prefix: &str) -> Result<Vec<FoundEntry>, Failure> {
        let pattern = RowKey::pattern_of_leases(prefix);
        Ok(self.look_where(turn, &format!("name LIKE '{pattern}' ESCAPE '!'"))?.leases())
    }

    fn runs(&self, turn: &mut ServerTurn<S>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure> {
        let keys: BTreeMap<Box<str>, &str> = events.iter().map(|event| (RowKey::of_event(event).0, *event)).collect();
        let rows = self.look_at_runs(turn, keys.keys())?;
        Ok(rows.iter().filter_map(|row| record(keys.get(row.first()?.as_str())?, row)).collect())
    }

    fn log_runs(&self, turn: &mut ServerTurn<S>, records: &[RunRecord]) -> Result<(), Failure> {
        patiently(turn, &run_rows::write(&self.statements, records)).map(drop)
    }

    fn drop_runs(&self, turn: &mut ServerTurn<S>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure> {
        patiently(turn, &run_rows::drop_runs(&self.statements, dropped)).map(drop)
    }

    fn count_skips(&self, turn: &mut ServerTurn<S>, event: &str, skips: &[SkipCount]) -> Result<(), Failure> {
        patiently(turn, &run_rows::count_skips(&self.statements, event, skips)).map(drop)
    }

    fn skips(&self, turn: &mut ServerTurn<S>, event: &str) -> Result<Vec<SkipCount>, Failure> {
        let rows = self.look_at_runs(turn, [RowKey::of_event(event)])?;
        Ok(rows.iter().filter_map(|row| run_rows::skip_count(row)).collect())
    }

    fn health(&self, turn: &mut ServerTurn<S>) -> Result<Health, Failure> {
        self.look_where(turn, "FALSE")?;
        let (schema, name) = self.name.parts();
        let health = self.statements.health.with(&[("schema", &schema), ("table", &name)]);
        let health = patiently(turn, &(health + &self.statements.strangers.with(&[])))?;
        let micros = |what: &str| told(&health, what).first().and_then(|micros| micros.parse().ok());
        Ok(Health {
            time: micros("time").and_then(DateTime::from_timestamp_micros),
            ahead: micros("ahead").and_then(|ahead| u64::try_from(ahead).ok()).map(Duration::from_micros),
            warnings: (S::DIALECT.warnings)(&health),
        })
    }

    fn clean_up(&self, turn: &mut ServerTurn<S>) -> Result<u64, Failure> {
        self.purge(turn, 0)
    }

    /// Adds the statements that make the table, if there is none or it has other columns.
    fn error(&self, attempted: String, failure: Failure) -> MutexError {
        let name = self.name.as_str();
        let advice = match failure.code() {
            Some(code) if code == S::DIALECT.no_table => format!("create the table {name}"),
            Some(code) if S::DIALECT.other_columns.contains(&code) => format!(
                "the table {name} or {name}_runs does not have the columns of the format {FORMAT}: drop it while nothing \
                 runs, and create it again"
            ),
            _ => return failure.into_error(attempted),
        };
        let statements = Statement::one_line(&self.statements.schema).with(&[]);
        failure.advised(format!("{advice}: call create_table(), or run {statements}")).into_error(attempted)
    }
}

/// Refuses rows of a format that this version does not know. Each row ends with its format; the row with the server's time has
/// no second column.
fn expect_known(rows: &[TextRow]) -> Result<(), Failure> {
    let said = |row: &&TextRow| row.get(1).is_some_and(|second| !second.is_empty());
    let unknown = rows.iter().filter(said).find(|row| row.last().is_some_and(|format| format != FORMAT));
    let Some([name, .., format]) = unknown.map(Vec::as_slice) else { return Ok(()) };
    let what = format!(
        "the row of {} has the format {}, and this version of soloist knows {FORMAT} alone",
        Quoted::new(name),
        Quoted::new(format)
    );
    Err(Failure::unusable(&what).advised("update this program, or give it a table of its own"))
}

/// The number of rows that the statements wrote or deleted, which is the last that they return.
fn count<S: Session>(rows: &[TextRow]) -> Result<u64, Failure> {
    let count = rows.last().and_then(|row| row.first()?.parse().ok());
    count.ok_or_else(|| Failure::not_understood(rows, S::DIALECT.kind))
}

/// The token of the rows that an admission wrote, beside their number.
fn token<S: Session>(rows: &[TextRow]) -> Result<FencingToken, Failure> {
    let token = rows.last().and_then(|row| row.get(1)?.parse().ok());
    token.map(FencingToken::new).ok_or_else(|| Failure::not_understood(rows, S::DIALECT.kind))
}

fn patiently<S: Session>(turn: &mut ServerTurn<S>, statements: &str) -> Result<Vec<TextRow>, Failure> {
    until_nobody_is_in_between(turn, |session, until| session.query(statements, until))
}

fn until_nobody_is_in_between<S: Session>(
    turn: &mut ServerTurn<S>,
    mut ask: impl FnMut(&mut S, Moment) -> Result<Vec<TextRow>, Failure>,
) -> Result<Vec<TextRow>, Failure> {
    let mut tries = 1;
    loop {
        match ask(&mut turn.connection, turn.attempt.until) {
            Err(failure) if failure.refusal_kind() == Some(RefusalKind::RetryAtOnce) && tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}
