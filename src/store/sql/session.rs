//! The trait `Session`: a connection to an SQL server of any kind, with the statements in its dialect.

use std::time::Duration;

use super::table_names::Tables;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::server::{failure::Failure, server_builder::Target, server_url::ServerAddress};
use crate::time::clock::moment::Moment;

/// The columns of one row, as text.
pub(crate) type TextRow = Vec<String>;

/// A connection to one kind of SQL server, with the statements in its dialect.
///
/// The statements stand in files, which explain their places. All texts in them are plain ASCII without quotes, and stand between
/// quotes as they are.
pub(crate) trait Session: Sized + Send + 'static {
    type Address: ServerAddress;

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

    /// Connects and logs in. A failure says that nothing was asked.
    fn open(target: &Target<Self::Address>, until: Moment) -> Result<Self, Failure>;

    /// Returns whether the connection has ended while it was idle.
    fn is_closed(&mut self) -> bool;

    /// Returns the expression for an instant so many microseconds later.
    fn later(instant: &str, micros: &str) -> String;

    fn tables(&self) -> &Tables;

    /// Sends statements, which are carried out all or not at all, and reads all rows by `until`. After a conflict or a lock timeout
    /// the session can be used again.
    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure>;

    fn look(tables: &Tables, which: &str) -> String;
    fn shorten(tables: &Tables, names: &str) -> String;
    fn admit(tables: &Tables, asked: &AskedRows) -> String;
    fn end(tables: &Tables, ours: &str, micros: u128, window: [i64; 2]) -> String;
    /// Returns the statements that release these names, each with its owner, and revoke the owners.
    fn revoke(tables: &Tables, ours: &str, names: &[&[String; 2]]) -> String;
    fn clean_up(tables: &Tables, batch: usize) -> String;
    fn health(tables: &Tables, name: (&str, &str)) -> String;
    /// Returns the statement that finds other users who can run code with the rights of all users of the tables. It needs no right.
    fn strangers(tables: &Tables) -> Option<String>;
    fn look_at_runs(tables: &Tables, events: &str) -> String;
    fn log_runs(tables: &Tables, rows: &str) -> String;
    fn count_skips(tables: &Tables, event: &str, run: &str, latest: i64, count: u64) -> String;

    /// Returns the warnings about a server and a table with this `health`.
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

/// Returns the values of a field of `health`: the second columns of the rows that have the field in the first.
pub(crate) fn values_of<'a>(health: &'a [TextRow], what: &str) -> Vec<&'a str> {
    let rows = health.iter().filter(|row| row.first().is_some_and(|first| first == what));
    rows.filter_map(|row| row.get(1).map(String::as_str)).collect()
}

/// Returns plain texts between quotes, with commas between them; or `NULL` for none, which contains nothing.
pub(super) fn list(texts: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("'{text}'")).collect();
    if texts.is_empty() { "NULL".to_owned() } else { texts.join(", ") }
}

/// Returns the longest wait of a statement for a row that another transaction has locked: so short that the server's error arrives
/// within an attempt.
pub(crate) fn lock_timeout(timeout: Duration) -> Duration {
    timeout / 4
}

/// Defines the statements with equal places in each dialect, from the files beside the caller's.
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
