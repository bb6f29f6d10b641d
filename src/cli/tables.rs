//! Tables, and times as people read them.

use std::io::{self, IsTerminal};

use chrono::{DateTime, Utc};
use comfy_table::{ContentArrangement, Table, presets};

use crate::time::clock::shown::HumanDuration;
use crate::time::zone::Zone;

/// A table that fits the terminal. Elsewhere it is as wide as it needs to be, so that `grep` and `awk` find whole rows.
pub(super) fn table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(heads.iter().map(|head| head.to_uppercase()));
    if io::stdout().is_terminal()
        && let Some((width, _)) = terminal_size::terminal_size()
    {
        table.set_width(width.0).set_content_arrangement(ContentArrangement::Dynamic);
    }
    let last = heads.len().saturating_sub(1);
    table.column_iter_mut().enumerate().for_each(|(number, column)| {
        column.set_padding((0, if number == last { 0 } else { 2 }));
    });
    for row in rows {
        table.add_row(row);
    }
    table.trim_fmt()
}

/// The same, or this text if there are no rows.
pub(super) fn table_or(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>, empty: &str) -> String {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() { empty.to_owned() } else { table(heads, rows) }
}

/// An instant on the clock of a zone, and how far it is from now: `2026-03-01 02:30 CET, in 1 h 5 min`.
pub(super) fn time(at: DateTime<Utc>, zone: &Zone, now: DateTime<Utc>) -> String {
    let distance = HumanDuration((at - now).abs().to_std().unwrap_or_default());
    let relative = if at < now { format!("{distance} ago") } else { format!("in {distance}") };
    format!("{}, {relative}", time_of(at, zone))
}

/// The same without the distance. Seconds only where there are any.
pub(super) fn time_of(at: DateTime<Utc>, zone: &Zone) -> String {
    let seconds = if at.timestamp() % 60 == 0 { "" } else { ":%S" };
    format!("{} {}", zone.at(at).format(&format!("%F %H:%M{seconds}")), zone.abbreviation_at(at))
}
