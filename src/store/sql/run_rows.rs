//! The log of runs in its table: the requests, the text of a row in statements, and its meaning in answers.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::engine::SqlEngine;
use super::row_key::event_key;
use super::session::{Session, TextRow, encoded, list, or_null, rows};
use crate::base::escape::decoded_text;
use crate::lease::{name::text::read_event_key_text, token::FencingToken};
use crate::outcome::run_record::numbered_record::NumberedRecord;
use crate::outcome::run_record::skip_count::{SkipCount, add_skips};
use crate::outcome::{
    run_record::outcome_kind::OutcomeKind,
    run_record::{RunEnd, RunRecord},
};
use crate::store::server::engine::{Attempt, instant};
use crate::store::server::failure::Failure;
use crate::store::server::server_run_log::{DroppedRuns, LogEngine};

impl<S: Session> LogEngine for SqlEngine<S> {
    fn runs(&self, attempt: &mut Attempt<S>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure> {
        let keys: BTreeMap<String, &str> = events.iter().map(|event| (event_key(event), *event)).collect();
        let rows = look_at_runs(attempt, keys.keys())?;
        Ok(rows.iter().filter_map(|row| record(keys.get(row.first()?.as_str())?, row)).collect())
    }

    fn log_runs(&self, attempt: &mut Attempt<S>, records: &[RunRecord]) -> Result<(), Failure> {
        rows(attempt, S::LOG_RUNS, &[("rows", &records.iter().map(row::<S>).collect::<Vec<_>>().join(", "))]).map(drop)
    }

    fn drop_runs(&self, attempt: &mut Attempt<S>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure> {
        rows(attempt, "DELETE FROM {runs} WHERE v1 AND ({which})", &[("which", &any_of(dropped))]).map(drop)
    }

    fn count_skips(&self, attempt: &mut Attempt<S>, event: &str, skips: &[SkipCount]) -> Result<(), Failure> {
        let event = event_key(event);
        let row = |skip: &SkipCount| {
            let latest = S::later(S::EPOCH, &skip.latest().timestamp_micros().to_string());
            let (reason, count) = (skip.reason(), skip.count());
            format!("('{event}', '{SKIPPED}{reason}', {latest}, '', 0, {latest}, {count}, TRUE)")
        };
        // One statement can't change a row twice. Two servers that write the rows in one order do not wait for each other.
        let mut numbers = Vec::new();
        add_skips(&mut numbers, skips);
        numbers.sort_unstable_by_key(SkipCount::reason);
        if numbers.is_empty() {
            return Ok(());
        }
        rows(attempt, S::COUNT_SKIPS, &[("rows", &numbers.iter().map(row).collect::<Vec<_>>().join(", "))]).map(drop)
    }

    fn skips(&self, attempt: &mut Attempt<S>, event: &str) -> Result<Vec<SkipCount>, Failure> {
        let rows = look_at_runs(attempt, [event_key(event)])?;
        Ok(rows.iter().filter_map(|row| skip_count(row)).collect())
    }

    fn logged_events(&self, attempt: &mut Attempt<S>) -> Result<Vec<String>, Failure> {
        let rows = rows(attempt, "SELECT DISTINCT event FROM {runs} WHERE v1", &[])?;
        Ok(rows.iter().filter_map(|row| read_event_key_text(row.first()?)).collect())
    }
}

/// Reads the rows of the log of runs for the events with these keys.
fn look_at_runs<S: Session>(
    attempt: &mut Attempt<S>,
    keys: impl IntoIterator<Item = impl Display>,
) -> Result<Vec<TextRow>, Failure> {
    rows(attempt, S::LOOK_AT_RUNS, &[("events", &list(keys))])
}

/// Returns the record of a row of this event, unless the row is damaged.
fn record(event: &str, row: &[String]) -> Option<NumberedRecord> {
    let [_, run, occurrence, host, pid, token, started, ended, result, error, attempts, number, _] = row else {
        return None;
    };
    let time = |micros: &str| micros.parse().ok().map(instant);
    let token = if token.is_empty() { None } else { Some(FencingToken::new(token.parse().ok()?)) };
    let started = RunRecord::started(event, run.parse().ok()?, time(occurrence)?, token, time(started)?)
        .on(&decoded_text(host)?, pid.parse().ok()?)
        .with_attempts(attempts.parse().ok()?);
    let record = if ended.is_empty() {
        started
    } else {
        started.ended(time(ended)?, OutcomeKind::of_keyword(result)?, Some(&decoded_text(error)?))
    };
    Some(NumberedRecord { number: number.parse().ok()?, record })
}

/// The beginning of the column `run` in a row that counts skipped occurrences. The reason of the skips follows. In the
/// other rows, this column has the id of a run.
const SKIPPED: &str = "skipped/";

/// Reads the number of skipped occurrences from a row, if it is a row for skips.
fn skip_count(row: &[String]) -> Option<SkipCount> {
    let [_, run, latest, .., count] = row else { return None };
    SkipCount::new(run.strip_prefix(SKIPPED)?, count.parse().ok()?, instant(latest.parse().ok()?))
}

/// Returns the condition of the statement that deletes these runs. A run that had no end when it was read is deleted
/// only if it still has no end.
fn any_of(dropped: &[DroppedRuns<'_>]) -> String {
    let which = dropped.iter().flat_map(|DroppedRuns { event, ended, not_ended }| {
        let event = event_key(event);
        [(ended, ""), (not_ended, " AND ended_at IS NULL")].map(|(runs, unless)| {
            (!runs.is_empty()).then(|| format!("(event = '{event}' AND run IN ({}){unless})", list(runs)))
        })
    });
    which.flatten().collect::<Vec<_>>().join(" OR ")
}

/// Returns the values of a record, in the order of the columns in `log_runs.sql`.
fn row<S: Session>(record: &RunRecord) -> String {
    let event = event_key(record.event());
    let run = record.id();
    let end = record.end();
    let at = |time: Option<chrono::DateTime<chrono::Utc>>| {
        S::later(S::EPOCH, &or_null(time.map(|time| time.timestamp_micros())))
    };
    let occurrence = at(Some(record.occurrence()));
    let host = encoded(&record.host_text());
    let pid = record.pid();
    let token = or_null(record.fencing_token().map(FencingToken::get));
    let (started, ended) = (at(Some(record.started_at())), at(end.map(RunEnd::at)));
    let result = or_null(end.map(|end| quoted(end.result().keyword())));
    let error = or_null(end.and_then(RunEnd::error).map(quoted));
    let attempts = record.attempts();
    format!(
        "('{event}', '{run}', {occurrence}, '{host}', {pid}, {token}, {started}, {ended}, {result}, {error}, {attempts}, TRUE)"
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", encoded(text))
}
