//! The replies of a Redis server that are errors: whether to retry, whether anything was done, and advice. Also the
//! replies that make no sense.

use redis::{FromRedisValue, ServerError, Value, from_redis_value_ref};

use crate::base::error::MutexErrorKind;
use crate::store::server::failure::{AskAgain, Failure};

/// The codes of errors that the server returns before the first write of a script, so that nothing was changed. Each
/// has the next step for the user, or `None` if the server's message says enough.
const BEFORE_ANY_WRITE: [(&str, Option<&str>); 16] = [
    ("ASK", Some(MOVING)),
    ("BUSY", Some("a script of another client blocks the server: wait, or end the script with SCRIPT KILL")),
    ("CLUSTERDOWN", Some("no node serves a part of the cluster: wait until a replica takes over")),
    ("LOADING", Some("it has just been started and reads its data")),
    ("MASTERDOWN", Some("this is a replica without its primary: connect to the primary")),
    ("MISCONF", Some("it can't save to its disk and is set to refuse writes until it can")),
    ("MOVED", Some(CLUSTER)),
    ("NOAUTH", Some("put the user and the password into the url")),
    ("NOREPLICAS", None),
    ("NOSCRIPT", None),
    ("NOTOKEN", None),
    (
        OUT_OF_MEMORY,
        Some("its memory is full: free some, raise maxmemory, or keep the mutexes on a server of their own"),
    ),
    ("READONLY", Some("it is a replica: connect to the primary, or wait if a failover is under way")),
    ("TRYAGAIN", Some(MOVING)),
    ("WRONGPASS", Some("the user or the password in the url is wrong")),
    ("WRONGTYPE", None),
];

/// The code of the error for a write while the server's memory is full.
pub(super) const OUT_OF_MEMORY: &str = "OOM";

const CLUSTER: &str = "another node of a Redis Cluster has the keys: redis+cluster:// in the url finds it";

const MOVING: &str =
    "the slot of the keys is being moved to another node of the cluster: nothing is granted until the move is over";

/// The rights that a user needs. The documentation of `RedisMutex` lists them, too.
const RIGHTS: &str = "give the user these rights: `ACL SETUSER USER ~{soloist}:* +@connection +evalsha +script|load +time +mget \
                      +set +del +pttl +pexpire`, with the prefix of the store for `soloist`; a log of runs needs \
                      `+hgetall +hget +hmget +hset +hincrby +hdel`, `check` `+info`, and `locks` `+scan`";

/// The beginning of the error of a server that has too many clients.
const NO_ROOM: &str = "max number of clients";

/// The beginning of the error for a command that the server does not know.
const UNKNOWN: &str = "unknown command";

/// Returns the failure of a request that the server answered with an error. If the server returned the error before the
/// first write, the failure says that nothing was done. Otherwise, it says that the request may have been carried out
/// in part: a script that fails halfway does not undo its writes.
pub(super) fn refused(error: &ServerError) -> Failure {
    // The server's text ends with the arguments of the command, which can be a whole script. This part is cut off.
    let details = error.details().and_then(|details| details.split(", with args beginning").next()).unwrap_or_default();
    let code = code_of(error);
    let retry = match code {
        "LATE" => return Failure::too_late(),
        "ASK" | "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "TRYAGAIN" => AskAgain::Later,
        "MOVED" | "READONLY" | "UNBLOCKED" => AskAgain::Now, // After a failover, another connection leads to another server.
        _ if details.starts_with(NO_ROOM) => AskAgain::Later,
        _ => AskAgain::Never,
    };
    let mut failure = Failure::refused(code, details, advice(code, details), retry);
    if code == "NOTOKEN" {
        failure.kind = MutexErrorKind::Unusable; // The value at the key of the last token is no token.
    }
    if BEFORE_ANY_WRITE.iter().any(|(known, _)| *known == code) { failure.undone() } else { failure }
}

/// Returns the code of an error. Before Redis 7.0, the error of a command in a script begins with the place in the script,
/// as in `@user_script: 97: -OOM command not allowed`.
pub(super) fn code_of(error: &ServerError) -> &str {
    let of_script = error.details().filter(|_| error.code().starts_with("@user_script"));
    let of_command = of_script.and_then(|details| details.split_once(" -")?.1.split(' ').next());
    of_command.unwrap_or_else(|| error.code())
}

/// Returns whether the server refused the command as unknown.
pub(super) fn is_unknown(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.details().is_some_and(|details| details.starts_with(UNKNOWN)))
}

/// Returns the failure of a reply that is an error or makes no sense.
pub(super) fn unexpected(answer: &Value) -> Failure {
    if let Value::ServerError(error) = answer { refused(error) } else { Failure::not_understood(answer, "redis") }
}

/// Returns a failure if the reply is an error.
pub(super) fn unless_refused(answer: &Value) -> Result<(), Failure> {
    match answer {
        Value::ServerError(error) => Err(refused(error)),
        _ => Ok(()),
    }
}

/// Converts a reply, or returns the failure of a reply that is an error or makes no sense.
pub(super) fn read<T: FromRedisValue>(answer: &Value) -> Result<T, Failure> {
    from_redis_value_ref(answer).map_err(|_| unexpected(answer))
}

/// Returns the next step for the user, or `None` if the error's message says enough.
fn advice(code: &str, details: &str) -> Option<&'static str> {
    // Before Redis 7.0, the error of a script has its code inside the text. In later versions, if the user lacks the
    // right to a command in a script, only the text says so, not the code.
    let says = |known: &str| code == known || details.contains(&format!("-{known} "));
    if details.starts_with(NO_ROOM) {
        Some("raise maxclients, or let fewer clients connect")
    } else if details.starts_with(UNKNOWN) || details.starts_with("AUTH <password> called") {
        Some(
            "is it a redis server, 6.2 or newer? a Sentinel needs redis+sentinel://HOST/NAME; a proxy that refuses commands can't be used",
        )
    } else if says("NOPERM") || details.contains("can't run this command") {
        Some(RIGHTS)
    } else {
        BEFORE_ANY_WRITE.iter().find(|(known, _)| says(known)).and_then(|(_, advice)| *advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_command_in_a_script_has_one_meaning_on_each_version() {
        for said in ["-OOM command not allowed\r\n", "-@user_script: 97: -OOM command not allowed\r\n"] {
            let reply = redis::parse_redis_value(said.as_bytes()).expect("a reply");
            let Value::ServerError(error) = reply else { panic!("{reply:?}") };
            assert_eq!((code_of(&error), refused(&error).may_have_happened), (OUT_OF_MEMORY, false), "{said}");
        }
    }
}
