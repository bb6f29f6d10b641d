//! The meaning of the errors of a MySQL server: whether to retry, whether anything was done, and advice.

use std::io;

use mysql_async::{Error, IoError, ServerError};

use crate::store::server::failure::{AskAgain, Failure, understood};
use crate::store::sql::{NO_TABLE, NO_TOKEN, OTHER_COLUMNS, RIGHTS};

/// The error code for a row that another transaction has locked.
const LOCK_TIMEOUT: u16 = 1205;

/// Returns the failure of statements that were sent, or of an attempt to connect.
pub(super) fn failed(error: Error) -> Failure {
    Failure::unanswered(match error {
        Error::Server(refusal) => return refused(&refusal),
        // The driver's text for a closed connection is dropped, so that `Failure::unanswered` writes the text that all
        // stores share.
        Error::Io(IoError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => error.kind().into(),
        Error::Io(IoError::Io(error)) => understood(&error, "mysql"),
        Error::Driver(mysql_async::DriverError::ConnectionClosed) => io::ErrorKind::UnexpectedEof.into(),
        Error::Driver(error @ mysql_async::DriverError::NoClientSslFlagFromServer) => {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        }
        Error::Driver(error) => understood(&io::Error::other(error.to_string()), "mysql"),
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    })
}

/// Returns the failure for an error reply. The failure says that nothing was changed, because an error comes before the
/// commit. Only if the server ended the connection or the statement, the commit may have come first.
/// (<https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>)
fn refused(error: &ServerError) -> Failure {
    let (retry, advice) = meaning(error.code, &error.message);
    let failure = Failure::refused(&error.code.to_string(), &error.message, Some(advice), retry);
    let failure = if error.code == LOCK_TIMEOUT { failure.of_one_name() } else { failure };
    // With these codes, the server is going down, or the statement or the connection was killed.
    let ended_on_its_way = matches!(error.code, 1053 | 1077 | 1078 | 1079 | 1080 | 1317 | 1927 | 3169 | 4031);
    if ended_on_its_way { failure } else { failure.undone() }
}

/// Returns whether and when to retry, and advice, which is empty if there is none.
fn meaning(code: u16, message: &str) -> (AskAgain, &'static str) {
    use AskAgain::{Later, Never, Now};

    let many_of_this_user = "raise the user's connection limit, or let fewer clients connect as that user";
    match code {
        // A unique key was taken, or two transactions conflicted or waited for each other.
        1020 | 1062 | 1213 | 1614 => (Now, ""),
        LOCK_TIMEOUT => {
            (Never, "an open transaction has locked the row of this name: look into information_schema.innodb_trx")
        }
        1053 => (Later, ""), // The server is shutting down.
        1040 => (Later, "raise max_connections, or let fewer clients connect"),
        1203 => (Later, many_of_this_user),
        1226 if message.contains("max_user_connections") => (Later, many_of_this_user),
        1226 => (Never, many_of_this_user),
        1044 => (Never, "there is no such database, or the user in the url may not use it"),
        1142 | 1143 | 1227 => (Never, RIGHTS),
        1146 => (Never, NO_TABLE),
        1054 | 1364 => (Never, OTHER_COLUMNS),
        1690 => (Never, NO_TOKEN),
        1045 => {
            (Never, "the user or the password in the url is wrong, or the server wants TLS: write ?ssl-mode=REQUIRED")
        }
        1049 => (Never, "create the database, or name another in the url"),
        3159 => (Never, "the server wants TLS: write ?ssl-mode=REQUIRED"),
        1290 | 1792 | 1836 => (Never, "it takes no writes: connect to the primary"),
        1366 | 1406 => (Never, "a column of the table is not as MysqlMutex::SCHEMA has it"),
        _ => (Never, ""),
    }
}
