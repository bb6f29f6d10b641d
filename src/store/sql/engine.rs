//! The requests to a table on one connection: reads, admissions and releases.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::admit::admit;
use super::row_key::row_key;
use super::session::{Session, TextRow, last_number, list, rows, send, values_of};
use super::snapshot::Snapshot;
use super::table_names::{TABLE, Tables, check_name, split_name};
use crate::base::error::InvalidOptions;
use crate::store::event_mutex::held::Names;
use crate::store::server::engine::{Answers, Attempt, End, EndRequest, Engine, FoundEntry, Health, Request};
use crate::store::server::failure::Failure;
use crate::store::server::server_builder::Target;
use crate::time::clock::{Clock, moment::Moment};

/// The engine of a table on any kind of SQL server.
pub(crate) struct SqlEngine<S: Session> {
    pub(super) target: Target<S::Address>,
    /// The statements that create the tables, for users.
    pub(crate) schema: String,
    /// The index at which the next call begins if it ends leases one by one. The last such call had no time for the lease
    /// at this index. So rows that stay locked do not keep the same leases from their renewal each time.
    next_end: AtomicUsize,
}

impl<S: Session> SqlEngine<S> {
    pub(crate) fn new(target: Target<S::Address>) -> Result<Self, InvalidOptions> {
        let name = &target.namespace;
        check_name(name)?;
        let renamed = || Tables::new(name, S::QUOTE, "").in_schema(S::SCHEMA);
        let schema = if name == TABLE { S::SCHEMA.to_owned() } else { renamed() };
        Ok(Self { target, schema, next_end: AtomicUsize::new(0) })
    }
}

impl<S: Session> Engine for SqlEngine<S> {
    const COMMITS_LATE: bool = true;

    type Address = S::Address;
    type Connection = S;

    fn target(&self) -> &Target<S::Address> {
        &self.target
    }

    fn open(&self, until: Moment) -> Result<S, Failure> {
        S::open(&self.target, until)
    }

    fn carry_out(&self, attempt: &mut Attempt<S>, request: Request<'_>) -> Result<Answers, Failure> {
        let ends = together_or_alone(attempt, request.ends, &self.next_end, end)?;
        let first = AtomicUsize::new(0);
        let admissions = together_or_alone(attempt, request.admissions, &first, admit);
        match admissions {
            // A retry of the failed admissions must not end the leases again.
            Err(failure) if !ends.is_empty() => {
                Ok(Answers { ends, admissions: vec![Err(failure); request.admissions.len()] })
            }
            admissions => Ok(Answers { ends, admissions: admissions? }),
        }
    }

    fn held(&self, attempt: &mut Attempt<S>, names: Names<'_>) -> Result<Vec<FoundEntry>, Failure> {
        if let Names::Each(each) = names {
            let snapshot = Snapshot::of_keys(attempt, each.iter().map(row_key))?;
            return Ok(each.iter().filter_map(|name| Some((name.clone(), snapshot.holder(name)?))).collect());
        }
        let beginning = names.beginning_of_keys().replace('!', "!!").replace('%', "!%").replace('_', "!_");
        Ok(Snapshot::take(attempt, &format!("name LIKE '{beginning}%' ESCAPE '!'"))?.listed(names))
    }

    fn health(&self, attempt: &mut Attempt<S>) -> Result<Health, Failure> {
        let look = Snapshot::take(attempt, "FALSE")?;
        let (schema, table) = split_name(&self.target.namespace);
        let statements = format!("{}\n{}", S::HEALTH, S::STRANGERS);
        let health = rows(attempt, &statements, &[("schema", &schema), ("table", &table)])?;
        let ahead = values_of(&health, "ahead").first().and_then(|micros| micros.parse().ok());
        let (time, ahead) = (look.clock.time(), ahead.map(Duration::from_micros));
        let skips_trial = values_of(&health, "replica") == ["true"] || !values_of(&health, "stranger").is_empty();
        Ok(Health { time, ahead, skips_trial, warnings: (S::WARNINGS)(&health) })
    }

    fn try_clean_up(&self, attempt: &mut Attempt<S>) -> Result<(), Failure> {
        rows(attempt, S::CLEAN_UP, &[("batch", &0)]).map(drop)
    }
}

pub(super) fn create_table<S: Session>(attempt: &mut Attempt<S>) -> Result<(), Failure> {
    let schema = attempt.connection.tables().in_schema(S::SCHEMA);
    let found = rows(attempt, &format!("{schema}\n{}", S::STRANGERS), &[])?;
    if let Some(what) = values_of(&found, "stranger").first() {
        let advice = "drop the table while nothing runs, and create it again";
        return Err(Failure::unusable(what).advised(advice));
    }
    // A table that existed already was not altered, and may lack columns. So both tables are read: a missing column
    // is an error.
    Snapshot::take(attempt, "FALSE")?;
    rows(attempt, S::LOOK_AT_RUNS, &[("events", &list([""]))]).map(drop)
}

/// Ends leases. All leases that end at the same time are ended by one statement. Returns for each lease whether its
/// owner held it.
fn end<S: Session>(attempt: &mut Attempt<S>, requests: &[EndRequest]) -> Result<Vec<Result<bool, Failure>>, Failure> {
    let asked: Vec<[String; 2]> =
        requests.iter().map(|request| [row_key(&request.name), request.owner.to_string()]).collect();
    let mut groups: BTreeMap<End, BTreeSet<&[String; 2]>> = BTreeMap::new();
    for (request, asked) in requests.iter().zip(&asked) {
        groups.entry(request.end).or_default().insert(asked);
    }
    let mut ended = Vec::new();
    let mut is_begun = false;
    for (end, names) in groups {
        let names: Vec<&[String; 2]> = names.into_iter().collect();
        let rows = end_alike(attempt, end, &names);
        ended.extend(rows.map_err(|failure| failure.perhaps_done(is_begun))?);
        is_begun = true;
    }
    let ended: BTreeSet<&[String]> = ended.iter().map(Vec::as_slice).collect();
    let mut were_ours: Vec<bool> = asked.iter().map(|asked| ended.contains(&asked[..])).collect();
    if let Some(asked_since) = attempt.asked_since
        && were_ours.contains(&false)
    {
        let look = Snapshot::of_keys(attempt, asked.iter().map(|[key, _]| key))?;
        let ago = Clock::system().moment().since(asked_since); // The read took time, too.
        for (was_ours, request) in were_ours.iter_mut().zip(requests) {
            // Of these requests, only a release frees a name. So only an earlier attempt of a release can be the
            // reason why the owner no longer holds the name.
            let may_be_gone = !matches!(request.end, End::After(_));
            *was_ours |= may_be_gone && look.may_have_been_held(request, ago);
        }
    }
    Ok(were_ours.into_iter().map(Ok).collect())
}

/// Ends these leases by one statement. A renewal or a minimum hold moves the deadlines only if the statement is
/// carried out within the window of the call. Otherwise a late copy of the statement could prolong a lease that was
/// shortened meanwhile. The window begins at the server's time, which is read first.
fn end_alike<S: Session>(attempt: &mut Attempt<S>, end: End, names: &[&[String; 2]]) -> Result<Vec<TextRow>, Failure> {
    let ours = names.iter().map(|[key, owner]| format!("(name = '{key}' AND owner = '{owner}')"));
    let ours = ours.collect::<Vec<_>>().join(" OR ");
    let term = match (end, S::REVOKE) {
        (End::NowAndRevoked, Some(revoke)) => {
            let tables = attempt.connection.tables();
            let each = names.iter().map(|[name, owner]| tables.fill(revoke, &[("name", name), ("owner", owner)]));
            let statements: String = each.collect();
            return send(attempt, &statements);
        }
        (End::Now | End::NowAndRevoked, _) => {
            return rows(attempt, S::END, &[("ours", &ours), ("micros", &0), ("asked", &0), ("until", &0)]);
        }
        (End::After(term), _) => term.get().as_micros(),
    };
    let clock = Snapshot::take(attempt, "FALSE").map_err(Failure::undone)?.clock;
    let (asked, until) = (clock.micros, clock.at(attempt.until));
    let rows = rows(attempt, S::END, &[("ours", &ours), ("micros", &term), ("asked", &asked), ("until", &until)])?;
    let time: i64 = last_number::<S, _>(&rows, 1)?;
    if (asked..=until).contains(&time) { Ok(rows) } else { Err(Failure::too_late()) }
}

/// Decides all requests together. If another transaction has locked one of the rows, decides each request separately,
/// from the index `first` on, as long as the call has time. Sets `first` to the request for which there was no time.
/// Without this second step, one locked row would make all requests fail.
fn together_or_alone<S, Q, A>(
    attempt: &mut Attempt<S>,
    asked: &[Q],
    first: &AtomicUsize,
    decide: impl Fn(&mut Attempt<S>, &[Q]) -> Result<Vec<Result<A, Failure>>, Failure>,
) -> Result<Vec<Result<A, Failure>>, Failure> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    if attempt.is_broken {
        return Err(Failure::not_asked(io::ErrorKind::TimedOut.into())); // The call's time is over.
    }
    let began = Clock::system().moment();
    let locked = match decide(attempt, asked) {
        Err(failure) if failure.is_of_one_name() => failure,
        answers => return answers,
    };
    attempt.until = attempt.call_until; // The connection works, so no time is kept for another.
    if locked.may_have_happened {
        attempt.asked_since.get_or_insert(began);
    }
    let start = first.load(Ordering::Relaxed) % asked.len();
    let mut answers = Vec::with_capacity(asked.len());
    let mut reached = 0;
    for one in asked[start..].iter().chain(&asked[..start]) {
        let is_time = asked.len() > 1 && !attempt.is_broken && Clock::system().moment() < attempt.until;
        reached += usize::from(is_time);
        match is_time.then(|| decide(attempt, slice::from_ref(one))) {
            None => answers.push(Err(locked.clone())),
            Some(Ok(answer)) => answers.extend(answer),
            Some(Err(failure)) if failure.is_of_one_name() => answers.push(Err(failure)),
            // The request waited for the lock until the end of the call.
            Some(Err(failure)) if failure.is_timeout() => {
                attempt.is_broken = true;
                answers.push(Err(locked.clone().perhaps_done(true)));
            }
            Some(Err(failure)) => return Err(failure.perhaps_done(true)),
        }
    }
    if asked.len() > 1 {
        first.store(if reached < asked.len() { start + reached } else { 0 }, Ordering::Relaxed);
    }
    answers.rotate_right(start);
    Ok(answers)
}
