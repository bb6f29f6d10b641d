//! Tables, and the text of times.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use chrono::{DateTime, Utc};
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::base::escape::Named;
use crate::schedule::history::logged_run::{LoggedRun, RunState};
use crate::schedule::history::status::Status;
use crate::time::clock::shown::{HumanDuration, for_people};

/// The length up to which a word is never broken, even if the table gets wider than the terminal.
const LONGEST_WORD: u16 = 24;

/// Returns a table that fits the terminal. Without a terminal, the table is as wide as it needs to be, so that `grep`
/// and `awk` find whole rows. A terminal gets colours, unless `NO_COLOR` is set: see <https://no-color.org>. Without
/// rows, returns the text `empty`.
pub(super) fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>, empty: &str) -> String {
    let rows: Vec<Vec<Cell>> = rows.into_iter().collect();
    if rows.is_empty() {
        return empty.to_owned();
    }
    let longest_word = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(Cell::content);
        let words = cells.flat_map(|cell| cell.split_whitespace().map(|word| word.chars().count()).collect::<Vec<_>>());
        u16::try_from(words.max().unwrap_or(0)).unwrap_or(LONGEST_WORD).min(LONGEST_WORD)
    };
    let longest_words: Vec<u16> = (0..heads.len()).map(longest_word).collect();
    let mut table = Table::new();
    let head = |head: &&str| Cell::new(head.to_uppercase()).add_attribute(Attribute::Bold);
    table.load_preset(presets::NOTHING).set_header(heads.iter().map(head));
    let is_terminal = io::stdout().is_terminal();
    if is_terminal && let Some((width, _)) = terminal_size::terminal_size() {
        table.set_width(width.0).set_content_arrangement(ContentArrangement::Dynamic);
    }
    if !is_terminal || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        table.force_no_tty();
    }
    let last = heads.len().saturating_sub(1);
    table.column_iter_mut().enumerate().for_each(|(number, column)| {
        let padding = if number == last { 0 } else { 2 };
        column.set_padding((0, padding));
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(longest_words[number] + padding)));
    });
    for row in rows {
        table.add_row(row);
    }
    table.trim_fmt()
}

/// Joins the parts of a cell: below one another on a terminal, or else on one line.
pub(super) fn lines(parts: &[String]) -> String {
    parts.join(if io::stdout().is_terminal() { "\n" } else { "; " })
}

/// Returns a cell that is green for `Some(true)`, red for `Some(false)`, and without a colour for `None`.
pub(super) fn marked(text: String, is_well: Option<bool>) -> Cell {
    let cell = Cell::new(text);
    match is_well {
        None => cell,
        Some(is_well) => cell.fg(if is_well { Color::Green } else { Color::Red }),
    }
}

/// Returns a text and a judgement. The text is the result of the run, or its state if the run has not ended. The
/// judgement is `Some(true)` for a success or a running run, and `Some(false)` for any other result or a run that is
/// presumed dead. It is `None` for other states.
pub(super) fn how_it_ended(run: &LoggedRun) -> (String, Option<bool>) {
    let record = run.record();
    let (mut ended, is_well) = match (record.end(), run.state()) {
        (Some(end), _) => (end.result().to_string(), Some(record.is_success())),
        (None, RunState::Running) => ("running".to_owned(), Some(true)),
        (None, RunState::PresumedDead) => ("presumed dead".to_owned(), Some(false)),
        (None, _) => ("unknown".to_owned(), None),
    };
    if record.attempts() > 1 {
        let _ = write!(ended, " in {} attempts", record.attempts());
    }
    if record.is_backfill() {
        let _ = write!(ended, ", backfill of {}", for_people(record.occurrence()));
    }
    (ended, is_well)
}

/// Returns a time with its distance from now: `2026-03-01 02:30:00 UTC, in 1 h 5 min`.
pub(super) fn time(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let distance = HumanDuration((at - now).abs().to_std().unwrap_or_default());
    let relative = if at < now { format!("{distance} ago") } else { format!("in {distance}") };
    format!("{}, {relative}", for_people(at))
}

/// Returns the time when an event starts, and its occurrence if that is another time:
/// `2026-03-01 02:35:47 UTC, in 5 min 0 s, for 2026-03-01 02:30:00 UTC`.
pub(super) fn start_time(at: DateTime<Utc>, occurrence: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let start = time(at, now);
    if at == occurrence { start } else { format!("{start}, for {}", for_people(occurrence)) }
}

/// Returns a line for each event that has another timetable on another server.
pub(super) fn other_timetables(status: &Status) -> impl Iterator<Item = String> {
    status.events.iter().filter_map(|event| {
        let other = event.other_timetable.as_ref()?;
        Some(format!("{} has another timetable on {}: {}", Named(&event.name), other.server, other.timetable))
    })
}
