//! The meaning of the errors of a Redis server: whether to ask again, whether anything was done, and advice.

use std::fmt;

use redis::{ServerError, Value};

use crate::base::error::{Concerns, MutexError, MutexErrorKind};
use crate::store::remote::failure::{Failure, Retry};

/// The codes of errors that the server gives before a script starts, or at the first of its writes; and the user's next
/// step, where the server's own words don't say it.
const BEFORE_ANY_WRITE: [(&str, Option<&str>); 15] = [
    ("BUSY", Some("a script of another client blocks it: wait, or end it with SCRIPT KILL")),
    ("CLUSTERDOWN", Some(CLUSTER)),
    ("CROSSSLOT", None),
    ("LOADING", Some("it has just been started and reads its data")),
    ("MASTERDOWN", Some("this is a replica without its primary: connect to the primary")),
    ("MISCONF", Some("it can't save to its disk and is set to refuse writes until it can")),
    ("MOVED", Some(CLUSTER)),
    ("NOAUTH", Some("put the user and the password into the url")),
    ("NOREPLICAS", None),
    ("NOSCRIPT", None),
    ("NOTOKEN", None),
    ("OOM", Some("its memory is full: free some, raise maxmemory, or keep the mutexes on a server of their own")),
    ("READONLY", Some("this is a replica: connect to the primary")),
    ("WRONGPASS", Some("the user or the password in the url is wrong")),
    ("WRONGTYPE", None),
];

const CLUSTER: &str = "it is a node of a Redis Cluster, which is not supported: use a standalone Redis";

/// How the words begin of a server that has as many clients as it may, and of one that does not know a command.
const NO_ROOM: &str = "max number of clients";
const UNKNOWN: &str = "unknown command";

/// The server answered with an error. A script is not undone that fails on its way, so that only an error from before
/// its first write says that nothing was done. The names of one request that belong to different slots of a cluster are
/// asked about slot by slot.
pub(super) fn refused(error: &ServerError) -> Failure {
    // What follows are our own arguments, such as a script.
    let details = error.details().and_then(|details| details.split(", with args beginning").next()).unwrap_or_default();
    let retry = match error.code() {
        "LATE" => return Failure::too_late(),
        "CROSSSLOT" => Retry::Now,
        "BUSY" | "LOADING" => Retry::Later,
        _ if details.starts_with(NO_ROOM) => Retry::Later,
        _ => Retry::Never,
    };
    let failure = Failure::refused(error.code(), details, advice(error.code(), details), retry);
    if BEFORE_ANY_WRITE.iter().any(|(code, _)| *code == error.code()) { failure.undone() } else { failure }
}

/// Whether the names of one request belong to different slots of a cluster.
pub(super) fn is_of_many_slots(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "CROSSSLOT")
}

/// Whether the server does not have the script that was called: it was restarted, or told to forget its scripts.
pub(super) fn is_missing_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// Whether the server does not know what every server of this kind knows.
pub(super) fn is_unknown(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.details().is_some_and(|details| details.starts_with(UNKNOWN)))
}

pub(super) fn error(attempted: String, mut failure: Failure) -> MutexError {
    match failure.code() {
        // Another client has put something else where the last token is kept.
        Some("NOTOKEN") => failure.kind = MutexErrorKind::Unusable,
        // Another name may lie on another slot of a cluster, of which the server may say something else.
        Some("MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT") => failure.about = Concerns::OneName,
        _ => {}
    }
    failure.into_error(attempted)
}

/// The server answered what makes no sense here.
pub(super) fn not_understood(answer: impl fmt::Debug) -> Failure {
    Failure::not_understood(answer, "redis")
}

/// What to do about an answer whose own words don't say it.
fn advice(code: &str, details: &str) -> Option<&'static str> {
    // Before 7.0 a script's error carries the code inside of its own words; since then it is refused a command in words alone.
    let says = |known: &str| code == known || details.contains(&format!("-{known} "));
    if details.starts_with(NO_ROOM) {
        Some("raise maxclients, or let fewer clients connect")
    } else if details.starts_with(UNKNOWN) {
        Some("is it a redis server, 6.2 or newer, and no proxy that passes only some commands on?")
    } else if says("NOPERM") || details.contains("can't run this command") {
        Some("the documentation of RedisMutex lists what its user must be allowed")
    } else {
        BEFORE_ANY_WRITE.iter().find(|(known, _)| says(known)).and_then(|(_, advice)| *advice)
    }
}
