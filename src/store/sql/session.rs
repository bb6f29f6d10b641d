//! The trait `Session`: a connection to an SQL server of any kind, with the statements in its dialect.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::table_names::Tables;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::server::engine::Attempt;
use crate::store::server::{failure::Failure, server_builder::Target, server_url::ServerAddress};
use crate::time::clock::moment::Moment;

/// The most attempts of a request, if its transaction conflicts with another transaction each time. An admission has more
/// attempts.
const TRIES: u32 = 10;

/// The bytes that need escapes between quotes. Spaces stay, because people read these texts.
const NOT_PLAIN: &AsciiSet = &CONTROLS.add(b'%').add(b'\'').add(b'\\');

/// The columns of one row, as text.
pub(crate) type TextRow = Vec<String>;

/// A connection to one kind of SQL server, with the statements in its dialect.
///
/// All texts that are put into the statements are plain ASCII without `'` and `\`, because all other bytes are written
/// as `%XX`. So these texts need no escapes between quotes.
pub(crate) trait Session: Sized + Send + 'static {
    type Address: ServerAddress;

    /// The character around a table's name.
    const QUOTE: char;
    /// The statements that create the tables with the default name.
    const SCHEMA: &'static str;
    /// The expression for the server's time.
    const NOW: &'static str;
    /// The expression for the first instant of 1970.
    const EPOCH: &'static str;
    /// The expression for the token of the rows that an admission writes.
    const TOKEN: &'static str;

    /// The statements. Their files explain the placeholders.
    const LOOK: &'static str;
    const SHORTEN: &'static str;
    const ADMIT: &'static str;
    const END: &'static str;
    /// The statement that releases one name, and revokes its owner: a late copy of the owner's admission is granted
    /// nothing. `None`: `END` revokes the owner.
    const REVOKE: Option<&'static str>;
    const CLEAN_UP: &'static str;
    const HEALTH: &'static str;
    /// The statement that finds other users who can run code with the rights of all users of the tables. The statement
    /// needs no rights on the tables. It is empty for a kind of server on which no user can run such code.
    const STRANGERS: &'static str;
    /// The function that returns the warnings about a server and a table, from the rows that `HEALTH` returns.
    const WARNINGS: fn(&[TextRow]) -> Vec<StoreWarning>;
    const LOOK_AT_RUNS: &'static str;
    const LOG_RUNS: &'static str;
    const COUNT_SKIPS: &'static str;

    /// Connects and logs in. If this fails, no request was carried out, and the failure says so.
    fn open(target: &Target<Self::Address>, until: Moment) -> Result<Self, Failure>;

    /// Returns the expression for an instant that is `micros` microseconds later.
    fn later(instant: &str, micros: &str) -> String;

    fn tables(&self) -> &Tables;

    /// Sends statements, and reads all their rows by `until`. Either all statements are carried out, or none. After a
    /// conflict or a lock timeout, the session can be used again.
    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure>;
}

/// Reads a number from this column of the last row that statements return.
pub(super) fn last_number<S: Session, N: FromStr>(rows: &[TextRow], column: usize) -> Result<N, Failure> {
    let number = rows.last().and_then(|row| row.get(column)?.parse().ok());
    number.ok_or_else(|| Failure::not_understood(rows, S::Address::KIND))
}

/// Sends statements, with these values in place of their placeholders.
pub(super) fn rows<S: Session>(
    attempt: &mut Attempt<S>,
    statements: &str,
    values: &[(&str, &dyn Display)],
) -> Result<Vec<TextRow>, Failure> {
    let statements = attempt.connection.tables().fill(statements, values);
    send(attempt, &statements)
}

/// Sends statements, and retries after a conflict with another transaction.
pub(super) fn send<S: Session>(attempt: &mut Attempt<S>, statements: &str) -> Result<Vec<TextRow>, Failure> {
    let mut tries = 1;
    loop {
        match attempt.connection.query(statements, attempt.until) {
            Err(failure) if failure.is_conflict() && tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}

/// Returns the values of a field of `health`: the second columns of the rows whose first column is `what`.
pub(crate) fn values_of<'a>(health: &'a [TextRow], what: &str) -> Vec<&'a str> {
    let rows = health.iter().filter(|row| row.first().is_some_and(|first| first == what));
    rows.filter_map(|row| row.get(1).map(String::as_str)).collect()
}

/// Returns the warning that the table is wrong; `what` is the reason. With such a table, names may be mixed up or
/// granted twice.
pub(crate) fn wrong_table(what: &str) -> StoreWarning {
    StoreWarning::new(format_args!(
        "the table is wrong: {what}; drop it while nothing runs, and create it with create_table() or `soloist create-table`"
    ))
}

/// Returns plain texts in quotes, with commas between them. Without texts, returns `NULL`, because `IN (NULL)` matches
/// nothing.
pub(super) fn list(texts: impl IntoIterator<Item = impl Display>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("'{text}'")).collect();
    if texts.is_empty() { "NULL".to_owned() } else { texts.join(", ") }
}

/// Returns the text of a value for a statement, or `NULL` for none.
pub(super) fn or_null(value: Option<impl Display>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

/// Encodes a text for a column that people read.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_PLAIN).to_string()
}

/// Returns the longest wait of a statement for a row that another transaction has locked. The wait is short, so that
/// the server's error arrives within an attempt.
pub(crate) fn lock_timeout(timeout: Duration) -> Duration {
    timeout / 4
}
