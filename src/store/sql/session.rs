//! The trait `Session`: a connection to an SQL server of any kind, and the statements in its dialect.

use std::time::Duration;

use super::table_names::Tables;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::remote::{engine::ServerConnection, failure::Failure};
use crate::time::clock::moment::Moment;

/// The columns of one row, as text.
pub(crate) type TextRow = Vec<String>;

/// A connection to one kind of server, and its dialect.
///
/// The statements stand in files, which say what their places are for. All texts in them are plain ASCII without quotes: they
/// stand between quotes as they are.
pub(crate) trait Session: ServerConnection {
    /// The kind of server, as in "is it a mysql server?", and the name of the store.
    const KIND: &'static str;
    const STORE: &'static str;
    /// The character around a table's name.
    const QUOTE: char;
    /// The statements that make the tables of the default name.
    const SCHEMA: &'static str;
    /// The code for a missing table, and those for a table of other columns.
    const NO_TABLE: &'static str;
    const OTHER_COLUMNS: &'static [&'static str];
    /// The server's time, the first instant of 1970, and the token of an admission, as expressions.
    const NOW: &'static str;
    const EPOCH: &'static str;
    const TOKEN: &'static str;

    /// Returns the expression for an instant so many microseconds later.
    fn later(instant: &str, micros: &str) -> String;

    fn tables(&self) -> &Tables;

    /// Sends statements, of which all are carried out or none, and reads all rows, by `until`. A refusal that may pass leaves the
    /// session as it was.
    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure>;

    /// Sends an admission and, in the same round trip, statements that follow its commit. If those fail, nothing else does. Returns
    /// the rows of the admission.
    fn query_then(&mut self, admission: &str, then: &str, until: Moment) -> Result<Vec<TextRow>, Failure>;

    fn look(tables: &Tables, which: &str) -> String;
    fn shorten(tables: &Tables, names: &str) -> String;
    fn admit(tables: &Tables, asked: &AskedRows) -> String;
    /// Returns a condition behind the commit of an admission: whether it wrote its rows.
    fn is_written(tables: &Tables, asked: &AskedRows) -> String;
    fn end(tables: &Tables, ours: &str, micros: u128, window: [i64; 2]) -> String;
    /// Ends names of owners that are granted nothing more; each has a key and an owner.
    fn end_for_good(tables: &Tables, ours: &str, names: &[&[String; 2]]) -> String;
    fn clean_up(tables: &Tables, condition: &str, batch: usize) -> String;
    fn health(tables: &Tables, name: (&str, &str)) -> String;
    /// Returns the statement that finds strangers who can run code with the rights of all who use the tables. It needs no right.
    fn strangers(tables: &Tables) -> Option<String>;
    fn look_at_runs(tables: &Tables, events: &str) -> String;
    fn log_runs(tables: &Tables, rows: &str) -> String;
    fn count_skips(tables: &Tables, event: &str, run: &str, latest: i64, count: u64) -> String;

    /// Returns the warnings about a server and a table whose `health` says so.
    fn warnings(health: &[TextRow]) -> Vec<StoreWarning>;
}

/// The rows that an admission writes, in the order of their names, and the names that exclude them.
pub(crate) struct AskedRows {
    pub(crate) rows: String,
    pub(crate) names: String,
    pub(crate) excluding: String,
    pub(crate) owners: String,
    /// The server's times between which they are written, in microseconds.
    pub(crate) window: [i64; 2],
}

/// Returns what `health` tells of this: the second column of each row that has it in the first.
pub(crate) fn told<'a>(health: &'a [TextRow], what: &str) -> Vec<&'a str> {
    let rows = health.iter().filter(|row| row.first().is_some_and(|first| first == what));
    rows.filter_map(|row| row.get(1).map(String::as_str)).collect()
}

/// Returns plain texts between quotes, with commas between them, or `NULL` for none: nothing is in that.
pub(super) fn list(texts: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("'{text}'")).collect();
    if texts.is_empty() { "NULL".to_owned() } else { texts.join(", ") }
}

/// The longest time that a statement waits for a row that another transaction has locked: so much less than a call may last
/// on a connection that was idle, that the server says so in time.
pub(crate) fn lock_timeout(timeout: Duration) -> Duration {
    timeout / 4
}

/// Defines the statements that have the same places in each dialect, from the files beside the one that says this.
macro_rules! statements_of_this_dialect {
    () => {
        fn look(tables: &Tables, which: &str) -> String {
            format!(include_str!("statements/look.sql"), mutexes = tables.mutexes, which = which)
        }

        fn shorten(tables: &Tables, names: &str) -> String {
            format!(include_str!("statements/shorten.sql"), mutexes = tables.mutexes, names = names)
        }

        fn admit(tables: &Tables, asked: &AskedRows) -> String {
            let AskedRows { rows, names, excluding, owners, window: [looked, until] } = asked;
            format!(
                include_str!("statements/admit.sql"),
                mutexes = tables.mutexes,
                rows = rows,
                names = names,
                excluding = excluding,
                owners = owners,
                looked = looked,
                until = until,
            )
        }

        fn end(tables: &Tables, ours: &str, micros: u128, [asked, until]: [i64; 2]) -> String {
            format!(
                include_str!("statements/end.sql"),
                mutexes = tables.mutexes,
                ours = ours,
                micros = micros,
                asked = asked,
                until = until,
            )
        }

        fn look_at_runs(tables: &Tables, events: &str) -> String {
            format!(include_str!("statements/look_at_runs.sql"), runs = tables.runs, events = events)
        }

        fn log_runs(tables: &Tables, rows: &str) -> String {
            format!(include_str!("statements/log_runs.sql"), runs = tables.runs, rows = rows)
        }

        fn count_skips(tables: &Tables, event: &str, run: &str, latest: i64, count: u64) -> String {
            format!(
                include_str!("statements/count_skips.sql"),
                runs = tables.runs,
                event = event,
                run = run,
                latest = latest,
                count = count,
            )
        }
    };
}
pub(crate) use statements_of_this_dialect;
