//! The trait `Session`, a connection to an SQL server of any kind, and where that is.

use std::time::Duration;

use super::statements::{Call, Dialect, TextRow};
use crate::store::remote::{engine::ServerConnection, failure::Failure};
use crate::time::clock::moment::Moment;

/// One connection to a server.
pub(crate) trait Session: ServerConnection {
    const DIALECT: Dialect;

    /// Has the statements carried out, all or none, and hears the rows of all of them, one behind the other. It ends at
    /// `until`, however little is missing. A refusal that may pass leaves the session as it was.
    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure>;

    /// The same for statements that are prepared where they are asked for often on this connection.
    fn call(&mut self, call: &Call, until: Moment) -> Result<Vec<TextRow>, Failure>;
}

/// What `health` tells of this: the second column of each row that has it in the first.
pub(crate) fn told<'a>(health: &'a [TextRow], what: &str) -> Vec<&'a str> {
    let rows = health.iter().filter(|row| row.first().is_some_and(|first| first == what));
    rows.filter_map(|row| row.get(1).map(String::as_str)).collect()
}

/// The longest time that a statement waits for a row that another transaction has locked: so much less than a call may last
/// on a connection that was idle, that the server says so in time.
pub(crate) fn lock_timeout(timeout: Duration) -> Duration {
    timeout / 4
}
