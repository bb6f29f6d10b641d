//! The rows of the log of runs: what they say, and the statements that write and drop them.

use std::fmt::Display;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::row_key::RowKey;
use super::statements::{Statements, list};
use crate::lease::token::FencingToken;
use crate::observe::run_record::log_change::LogChange;
use crate::observe::run_record::{RunEnd, RunRecord, run_result::RunResult};
use crate::store::remote::server_clock::instant;

/// What would end a text between quotes, or be encoded otherwise. Spaces stay, since people read these texts.
const NOT_PLAIN: &AsciiSet = &CONTROLS.add(b'%').add(b'\'').add(b'\\');

pub(super) const NULL: &str = "NULL";

/// The record of a row of this event. `None`: somebody else has written it, or a newer version.
pub(super) fn record(event: &str, row: &[String]) -> Option<RunRecord> {
    let [_, run, occurrence, host, pid, token, started, ended, result, error] = row else { return None };
    let time = |micros: &str| micros.parse().ok().map(instant);
    let token = if token.is_empty() { None } else { Some(FencingToken::new(token.parse().ok()?)) };
    let record = RunRecord::started(event, run.parse().ok()?, time(occurrence)?, token, time(started)?)
        .on(&decoded(host)?, pid.parse().ok()?);
    if ended.is_empty() {
        return Some(record);
    }
    Some(record.ended(time(ended)?, RunResult::of_keyword(result)?, Some(&decoded(error)?)))
}

/// The statements that make these changes.
pub(super) fn statements(statements: &Statements, changes: &[LogChange<'_>]) -> String {
    let rows = changes.iter().flat_map(|change| {
        let event = RowKey::of_event(change.event);
        change.written.iter().map(move |record| row(statements, &event, record))
    });
    let rows: Vec<String> = rows.collect();
    let dropped = |change: &LogChange<'_>, with_an_end: bool| {
        let (event, runs) = (RowKey::of_event(change.event), change.dropped_ids(with_an_end));
        let unless = if with_an_end { "" } else { " AND ended_at IS NULL" };
        (!runs.is_empty()).then(|| format!("(event = '{event}' AND run IN ({}){unless})", list(runs)))
    };
    let which = changes.iter().flat_map(|change| [true, false].into_iter().filter_map(|ended| dropped(change, ended)));
    let which: Vec<String> = which.collect();
    let mut all = String::new();
    if !rows.is_empty() {
        all += &statements.log_runs.with(&[("rows", &rows.join(", "))]);
    }
    if !which.is_empty() {
        all += &statements.drop_runs.with(&[("which", &which.join(" OR "))]);
    }
    all
}

fn row(statements: &Statements, event: &RowKey, record: &RunRecord) -> String {
    let (end, run) = (record.end(), record.id());
    let micros = |time: chrono::DateTime<chrono::Utc>| time.timestamp_micros();
    statements.run_row.with(&[
        ("event", event),
        ("run", &run),
        ("occurrence", &micros(record.occurrence())),
        ("host", &encoded(record.host())),
        ("pid", &record.pid()),
        ("token", &or_null(record.fencing_token().map(FencingToken::get))),
        ("started", &micros(record.started_at())),
        ("ended", &or_null(end.map(|end| micros(end.at())))),
        ("result", &or_null(end.map(|end| quoted(end.result().keyword())))),
        ("error", &or_null(end.and_then(RunEnd::error).map(quoted))),
    ])
}

fn or_null(value: Option<impl Display>) -> String {
    value.map_or_else(|| NULL.to_owned(), |value| value.to_string())
}

fn quoted(text: &str) -> String {
    format!("'{}'", encoded(text))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_PLAIN).to_string()
}

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}
