//! The meaning of the errors of a PostgreSQL server: whether to retry, whether anything was done, and advice.

use std::error::Error;
use std::io;

use tokio_postgres::error::DbError;

use crate::store::server::failure::{AskAgain, Failure, makes_no_sense, understood};
use crate::store::sql::{NO_TABLE, NO_TOKEN, OTHER_COLUMNS, RIGHTS};

/// The error code for a row that another transaction has locked.
const LOCK_TIMEOUT: &str = "55P03";

/// The driver's error for a server that is not the primary, or for a database that is read-only.
const NO_WRITES: &str = "database does not allow writes";

const TAKES_NO_WRITES: &str = "it takes no writes: connect to the primary, and to a database that is not read-only";

/// Returns the failure of statements that were sent, or of an attempt to connect.
pub(super) fn failed(error: &tokio_postgres::Error) -> Failure {
    if let Some(refusal) = error.as_db_error() {
        return refused(refusal);
    }
    let cause = error.source();
    // With `target_session_attrs=read-write`, the driver refuses a standby. During a failover, the standby becomes the
    // primary, or a primary comes back at another host.
    if let Some(standby) = cause.map(ToString::to_string).filter(|cause| cause == NO_WRITES) {
        return Failure::unavailable(standby, AskAgain::Later).advised(TAKES_NO_WRITES);
    }
    Failure::unanswered(match cause.and_then(|cause| cause.downcast_ref()) {
        _ if error.is_closed() => io::ErrorKind::UnexpectedEof.into(),
        Some(cause) => understood(cause, "postgres"),
        None if error.to_string() == "unexpected message from server" => {
            io::Error::new(io::ErrorKind::InvalidData, makes_no_sense(&error.to_string(), "postgres"))
        }
        None => {
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            io::Error::new(io::ErrorKind::InvalidData, format!("{error}{cause}"))
        }
    })
}

/// Returns the failure for an error reply. The failure says that nothing was changed, because an error undoes the
/// transaction. Only if the server or the connection ended, the commit may have come first.
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>)
fn refused(error: &DbError) -> Failure {
    let code = error.code().code();
    let (retry, advice) = meaning(code);
    let failure = Failure::refused(code, error.message(), Some(advice), retry);
    let failure = if code == LOCK_TIMEOUT { failure.of_one_name() } else { failure };
    let ended_on_its_way = ["08", "57", "58", "XX"].iter().any(|class| code.starts_with(class)) && code != "57014";
    if ended_on_its_way { failure } else { failure.undone() }
}

/// Returns whether and when to retry, and advice, which is empty if there is none.
fn meaning(code: &str) -> (AskAgain, &'static str) {
    use AskAgain::{Later, Never, Now};

    let wrong_login = "the user or the password in the url is wrong, or pg_hba.conf lets no client in from here, or only \
                       with TLS";
    match code {
        // A unique key was taken, two transactions conflicted or waited for each other, or another process is creating
        // the table.
        "23505" | "40001" | "40P01" | "42P07" | "42710" => (Now, ""),
        LOCK_TIMEOUT => (Never, "an open transaction has locked the row of this name: look into pg_stat_activity"),
        "53300" => (Later, "raise max_connections, or let fewer clients connect"),
        "57P03" => (Later, "it has just been started, or is being shut down"),
        "57P01" | "57P02" => (Later, ""), // The server is shutting down.
        "25006" => (Never, TAKES_NO_WRITES),
        "28000" | "28P01" => (Never, wrong_login),
        "3D000" => (Never, "create the database, or name another in the url"),
        "42501" => (Never, RIGHTS),
        "42P01" => (Never, NO_TABLE),
        "42703" | "23502" => (Never, OTHER_COLUMNS),
        "22003" => (Never, NO_TOKEN),
        "57014" => (Never, "it took longer than the store's timeout, or it was cancelled"),
        _ => (Never, ""),
    }
}
