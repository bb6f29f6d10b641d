//! The meaning of the errors of a PostgreSQL server: whether to ask again, whether anything was done, and advice.

use std::error::Error;
use std::io;

use tokio_postgres::error::DbError;

use crate::store::remote::failure::{Failure, RefusalKind, understood};

/// What went wrong with statements that were sent.
pub(super) fn failed(error: &tokio_postgres::Error) -> Failure {
    match error.as_db_error() {
        Some(refusal) => refused(refusal),
        None => Failure::unanswered(io_error(error)),
    }
}

/// What kept a connection from coming about.
pub(super) fn not_connected(error: &tokio_postgres::Error) -> Failure {
    match error.as_db_error() {
        Some(refusal) => refused(refusal).undone(),
        None => Failure::not_asked(io_error(error)),
    }
}

fn io_error(error: &tokio_postgres::Error) -> io::Error {
    if error.is_closed() {
        return io::ErrorKind::UnexpectedEof.into();
    }
    match error.source() {
        Some(source) => match source.downcast_ref::<io::Error>() {
            Some(cause) => understood(cause, "postgres"),
            None => io::Error::new(io::ErrorKind::InvalidData, format!("{error}: {source}")),
        },
        None => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
    }
}

/// What the server says instead of an answer. Its transaction is undone then; only of one that it was at when somebody
/// ended it, nobody knows.
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>)
fn refused(error: &DbError) -> Failure {
    let code = error.code().code();
    let kind = match code {
        // A unique key was taken; two transactions were in each other's way, or each waited for the other; somebody else
        // makes or upgrades the same table.
        "23505" | "40001" | "40P01" | "42P07" | "42701" | "42710" => RefusalKind::RetryAtOnce,
        "55P03" => RefusalKind::Locked,
        // There are as many connections as there may be; it is being shut down, or started.
        "53300" | "57P01" | "57P02" | "57P03" => RefusalKind::RetryLater,
        _ => RefusalKind::Permanent,
    };
    let failure = Failure::refused(code, error.message(), advice(code), kind);
    let ended_on_its_way = ["08", "57", "58", "XX"].iter().any(|class| code.starts_with(class)) && code != "57014";
    if ended_on_its_way { failure } else { failure.undone() }
}

fn advice(code: &str) -> Option<&'static str> {
    Some(match code {
        "25006" => "it takes no writes: connect to the primary, and to a database that is not read-only",
        "28000" | "28P01" => {
            "the user or the password in the url is wrong, or pg_hba.conf lets nobody in from here, or not \
             without TLS"
        }
        "3D000" => "create the database, or name another in the url",
        "42501" => "the documentation of PostgresMutex lists what its user must be allowed",
        "53300" => "raise max_connections, or let fewer clients connect",
        "55P03" => "somebody's open transaction has locked it: look into pg_stat_activity",
        "57014" => "it took longer than the store's timeout, or somebody cancelled it",
        "57P03" => "it has just been started, or is being shut down",
        _ => return None,
    })
}
