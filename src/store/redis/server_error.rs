//! The meaning of the errors of a Redis server: whether to ask again, whether anything was done, and advice.

use std::fmt;

use redis::ServerError;

use crate::store::remote::failure::{Failure, RefusalKind};

/// Errors that the server gives before a script starts, or at the first of its writes.
const BEFORE_ANY_WRITE: [&str; 15] = [
    "BUSY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOREPLICAS",
    "NOSCRIPT",
    "NOTOKEN",
    "OOM",
    "READONLY",
    "WRONGPASS",
    "WRONGTYPE",
];

/// How the words begin of a server that has as many clients as it may, and of one that does not know a command.
const NO_ROOM: &str = "max number of clients";
const UNKNOWN: &str = "unknown command";

/// The server answered with an error. A script is not undone that fails on its way, so that only an error from before
/// its first write says that nothing was done. A new connection brings the scripts with it, and the names of one request
/// that belong to different slots of a cluster are asked about slot by slot.
pub(super) fn refused(error: &ServerError) -> Failure {
    let code = error.code();
    // What follows are our own arguments, such as a script.
    let details = error.details().and_then(|details| details.split(", with args beginning").next()).unwrap_or_default();
    let is_full = details.starts_with(NO_ROOM);
    let kind = match code {
        "NOSCRIPT" | "CROSSSLOT" => RefusalKind::RetryAtOnce,
        "LOADING" => RefusalKind::RetryLater,
        _ if is_full => RefusalKind::RetryLater,
        _ => RefusalKind::Permanent,
    };
    let failure = Failure::refused(code, details, advice(error), kind);
    if BEFORE_ANY_WRITE.contains(&code) { failure.undone() } else { failure }
}

/// Whether the names of one request belong to different slots of a cluster.
pub(super) fn is_of_many_slots(failure: &Failure) -> bool {
    failure.code() == Some("CROSSSLOT")
}

/// Whether the server may answer otherwise about another name, which lies on another slot of a cluster.
pub(super) fn is_of_one_name(failure: &Failure) -> bool {
    matches!(failure.code(), Some("MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT"))
}

/// Whether it does not know what every server of this kind knows.
pub(super) fn is_unknown(error: &ServerError) -> bool {
    error.details().is_some_and(|details| details.starts_with(UNKNOWN))
}

/// What answers keeps no keys, and only watches those that do.
pub(super) fn is_a_sentinel() -> Failure {
    Failure::unusable("this is a Redis Sentinel: connect to the primary that it watches")
}

/// Whether somebody has put something else where the last token is kept.
pub(super) fn is_damaged(failure: &Failure) -> bool {
    failure.code() == Some("NOTOKEN")
}

/// By the server's clock, the request came when nobody waited for it any more, or before it was sent.
pub(super) fn too_late() -> Failure {
    let why = "the server did nothing, because by its clock the request came too late or too early: find out whether \
               something sets that clock";
    Failure::not_done(why, true)
}

/// The server answered what makes no sense here.
pub(super) fn not_understood(answer: impl fmt::Debug) -> Failure {
    Failure::not_understood(answer, "redis")
}

/// What to do about an answer whose own words don't say it.
fn advice(error: &ServerError) -> Option<&'static str> {
    // Before 7.0 a script's error carries the code inside of its own words.
    let says = |code: &str| {
        let in_details = |words: &str| error.details().is_some_and(|details| details.contains(words));
        // Since 7.0 a script is refused a command in words alone.
        let not_permitted = code == "NOPERM" && in_details("can't run this command");
        error.code() == code || in_details(&format!("-{code} ")) || not_permitted
    };
    let begins = |with: &str| error.details().is_some_and(|details| details.starts_with(with));
    if begins(NO_ROOM) {
        return Some("raise maxclients, or let fewer clients connect");
    }
    if begins(UNKNOWN) {
        return Some("is it a redis server, 6.2 or newer, and no proxy that passes only some commands on?");
    }
    let known = [
        ("NOAUTH", "put the user and the password into the url"),
        ("WRONGPASS", "the user or the password in the url is wrong"),
        ("NOPERM", "the documentation of RedisMutex lists what its user must be allowed"),
        ("READONLY", "this is a replica: connect to the primary"),
        ("OOM", "its memory is full: free some, raise maxmemory, or keep the mutexes on a server of their own"),
        ("LOADING", "it has just been started and reads its data"),
        ("MASTERDOWN", "this is a replica without its primary: connect to the primary"),
        ("MISCONF", "it can't save to its disk and is set to refuse writes until it can"),
        ("BUSY", "a script of another client blocks it: wait, or end it with SCRIPT KILL"),
        ("MOVED", "it is a node of a Redis Cluster, which is not supported: use a standalone Redis"),
        ("CLUSTERDOWN", "it is a node of a Redis Cluster, which is not supported: use a standalone Redis"),
    ];
    known.iter().find(|(code, _)| says(code)).map(|(_, advice)| *advice)
}
