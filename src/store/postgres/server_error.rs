//! The meaning of the errors of a PostgreSQL server: whether to ask again, whether anything was done, and advice.

use std::error::Error;
use std::io;

use tokio_postgres::error::DbError;

use crate::store::remote::failure::{Failure, RefusalKind, understood};

/// What went wrong: with statements that were sent, or before there was a connection.
pub(super) fn failed(error: &tokio_postgres::Error) -> Failure {
    if let Some(refusal) = error.as_db_error() {
        return refused(refusal);
    }
    let cause = error.source();
    Failure::unanswered(match cause.and_then(|cause| cause.downcast_ref()) {
        _ if error.is_closed() => io::ErrorKind::UnexpectedEof.into(),
        Some(cause) => understood(cause, "postgres"),
        None => {
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            io::Error::new(io::ErrorKind::InvalidData, format!("{error}{cause}"))
        }
    })
}

/// What the server says instead of an answer. Its transaction is undone then; only of one that it was at when somebody
/// ended it, nobody knows.
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>)
fn refused(error: &DbError) -> Failure {
    let code = error.code().code();
    let (kind, advice) = meaning(code);
    let failure = Failure::refused(code, error.message(), Some(advice), kind);
    let ended_on_its_way = ["08", "57", "58", "XX"].iter().any(|class| code.starts_with(class)) && code != "57014";
    if ended_on_its_way { failure } else { failure.undone() }
}

/// What comes of asking again, and advice, if there is any.
fn meaning(code: &str) -> (RefusalKind, &'static str) {
    use RefusalKind::{Locked, Permanent, RetryAtOnce, RetryLater};

    let wrong_login = "the user or the password in the url is wrong, or pg_hba.conf lets nobody in from here, or not \
                       without TLS";
    match code {
        // A unique key was taken; two transactions were in each other's way, or each waited for the other; somebody else
        // makes the same table.
        "23505" | "40001" | "40P01" | "42P07" | "42710" => (RetryAtOnce, ""),
        "55P03" => (Locked, "somebody's open transaction has locked it: look into pg_stat_activity"),
        "53300" => (RetryLater, "raise max_connections, or let fewer clients connect"),
        "57P03" => (RetryLater, "it has just been started, or is being shut down"),
        "57P01" | "57P02" => (RetryLater, ""), // It is being shut down.
        "25006" => (Permanent, "it takes no writes: connect to the primary, and to a database that is not read-only"),
        "28000" | "28P01" => (Permanent, wrong_login),
        "3D000" => (Permanent, "create the database, or name another in the url"),
        "42501" => (Permanent, "the documentation of PostgresMutex lists what its user must be allowed"),
        "57014" => (Permanent, "it took longer than the store's timeout, or somebody cancelled it"),
        _ => (Permanent, ""),
    }
}
