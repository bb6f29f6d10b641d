//! The trait `Session`, a connection to an SQL server of any kind, and its `Dialect`.

use chrono::{DateTime, Utc};

use crate::store::{event_mutex::warning::StoreWarning, remote::failure::Failure, remote::server::Connect};
use crate::time::clock::moment::Moment;

/// What one row says, column by column, as text.
pub(crate) type TextRow = Vec<String>;

/// One connection to a server.
pub(crate) trait Session: Connect<Target: Send + Sync> + Send + 'static {
    const DIALECT: Dialect;

    /// Has the statements carried out, all or none, and hears the rows of all of them, one behind the other. It ends at
    /// `until`, however little is missing. A refusal that may pass leaves the session as it was.
    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure>;

    /// What to write behind the URL for TLS, where what is said may be read on its way.
    fn plaintext(target: &Self::Target) -> Option<&'static str>;

    /// The server's time, which `health` tells as well.
    fn time(health: &[TextRow]) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_micros(told(health, "time").first()?.parse().ok()?)
    }
}

/// What `health` tells of this: the second column of each row that has it in the first.
pub(crate) fn told<'a>(health: &'a [TextRow], what: &str) -> Vec<&'a str> {
    let rows = health.iter().filter(|row| row.first().is_some_and(|first| first == what));
    rows.filter_map(|row| row.get(1).map(String::as_str)).collect()
}

/// What is said to a server of one kind. All statements are about a table that is called `soloist_mutexes`.
pub(crate) struct Dialect {
    /// What it is called, as in "is it a mysql server?".
    pub(crate) kind: &'static str,
    /// What the store is called.
    pub(crate) store: &'static str,
    /// What stands around a table's name.
    pub(crate) quote: char,
    /// Makes the table.
    pub(crate) schema: &'static str,
    pub(crate) look: &'static str,
    /// Lets what would be held for longer than its term end one term from now.
    pub(crate) shorten: &'static str,
    pub(crate) admit: &'static str,
    /// One of the rows that `admit` writes.
    pub(crate) row: &'static str,
    pub(crate) end: &'static str,
    /// Lets one name end, also where the transaction that acquired it is not at its end; `end` does where there is none.
    pub(crate) give_back: Option<&'static str>,
    pub(crate) clean_up: &'static str,
    pub(crate) health: &'static str,
    /// What is to be said of a server and a table of which `health` tells so.
    pub(crate) warnings: fn(&[TextRow]) -> Vec<StoreWarning>,
    /// The codes that say that there is no such table, or that it lacks a column.
    pub(crate) no_table: &'static [&'static str],
}
