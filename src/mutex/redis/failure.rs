//! Why there is no answer, or none of use.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::ServerError;

/// Why there is no answer, and whether what was asked may have been done all the same.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    cause: Cause,
    unanswered: bool,
}

#[derive(Clone, Debug)]
enum Cause {
    Io(Arc<io::Error>),
    TimedOut(Option<Duration>),
    Refused(ServerError),
    TooLate,
    NotUnderstood(Box<str>),
}

/// Errors that the server gives before a script starts, or at the first of its writes.
const BEFORE_ANY_WRITE: [&str; 14] = [
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
    "OOM",
    "READONLY",
    "WRONGPASS",
    "WRONGTYPE",
];

impl Failure {
    /// No connection came about, so nothing was asked.
    pub(super) fn not_asked(error: io::Error) -> Self {
        Self { cause: Cause::of(error), unanswered: false }
    }

    /// What was sent may have been carried out, or not.
    pub(super) fn unanswered(error: io::Error) -> Self {
        Self { cause: Cause::of(error), unanswered: true }
    }

    /// The server answered what makes no sense here.
    pub(super) fn not_understood(answer: impl fmt::Debug) -> Self {
        let shown: String = format!("{answer:?}").chars().take(80).collect();
        Self { cause: Cause::NotUnderstood(shown.into()), unanswered: true }
    }

    /// The server answered with an error. A script is not undone that fails on its way, so that only an error from before
    /// its first write says that nothing was done.
    pub(super) fn refused(error: ServerError) -> Self {
        let unanswered = !BEFORE_ANY_WRITE.contains(&error.code());
        Self { cause: Cause::Refused(error), unanswered }
    }

    /// The same, of a question that nothing was asked with.
    pub(super) fn while_connecting(self) -> Self {
        Self { unanswered: false, ..self }
    }

    /// The server got the request when nobody waited for it any more by its clock, and did nothing.
    pub(super) fn too_late() -> Self {
        Self { cause: Cause::TooLate, unanswered: false }
    }

    pub(super) fn may_have_been_done(&self) -> bool {
        self.unanswered
    }

    /// Whether the names of one request belong to different slots of a cluster.
    pub(super) fn is_of_many_slots(&self) -> bool {
        matches!(&self.cause, Cause::Refused(error) if error.code() == "CROSSSLOT")
    }

    /// Whether the same question is worth another connection. One that was at rest may have been out of order, or
    /// belong to a server that is not the right one any more; after one that was just made, a second one helps if that
    /// broke, `NOSCRIPT` because it brings the scripts, `CROSSSLOT` because it is asked slot by slot, and where clocks had
    /// drifted apart because it compares them anew.
    pub(super) fn may_pass_on_another(&self, was_fresh: bool) -> bool {
        let helps = match &self.cause {
            Cause::Refused(error) => matches!(error.code(), "NOSCRIPT" | "CROSSSLOT"),
            Cause::TooLate => true,
            Cause::Io(_) | Cause::TimedOut(_) | Cause::NotUnderstood(_) => self.unanswered,
        };
        !was_fresh || helps
    }

    /// This failure of a request, of which something may have been done, if `done`, apart from what it says.
    pub(super) fn perhaps_done(self, done: bool) -> Self {
        Self { unanswered: self.unanswered || done, ..self }
    }

    /// This failure, after another one on the way to the same answer.
    pub(super) fn after(self, earlier: &Self) -> Self {
        Self { unanswered: self.unanswered || earlier.unanswered, ..self }
    }

    /// The same, with the time in it that was given in all.
    pub(super) fn within(self, timeout: Duration) -> Self {
        let cause = match self.cause {
            Cause::TimedOut(_) => Cause::TimedOut(Some(timeout)),
            cause => cause,
        };
        Self { cause, ..self }
    }
}

impl Cause {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::TimedOut(None),
            _ => Self::Io(Arc::new(error)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("the server closed the connection before it answered")
            }
            Cause::Io(error) => error.fmt(f),
            Cause::TimedOut(None) => f.write_str("no answer in time"),
            Cause::TimedOut(Some(timeout)) => write!(f, "no answer within {timeout:?}"),
            Cause::TooLate => f.write_str("the server's clock says that the request came too late; does it step?"),
            Cause::NotUnderstood(answer) => write!(f, "the answer makes no sense: {answer}; is it a redis server?"),
            Cause::Refused(error) => {
                write!(f, "the server answered {}", error.code())?;
                if let Some(details) = error.details() {
                    write!(f, " {details}")?;
                }
                match advice(error) {
                    Some(advice) => write!(f, "; {advice}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Failure {}

/// What to do about an answer whose own words don't say it.
fn advice(error: &ServerError) -> Option<&'static str> {
    // Before 7.0 a script's error carries the code inside of its own words.
    let says = |code: &str| {
        let in_details = |words: &str| error.details().is_some_and(|details| details.contains(words));
        // Since 7.0 a script is refused a command in words alone.
        let not_permitted = code == "NOPERM" && in_details("can't run this command");
        error.code() == code || in_details(&format!("-{code} ")) || not_permitted
    };
    let known = [
        ("NOAUTH", "put the user and the password into the url"),
        ("WRONGPASS", "the user or the password in the url is wrong"),
        ("NOPERM", "the documentation of RedisMutex lists what its user must be allowed"),
        ("READONLY", "this is a replica: connect to the primary"),
        ("OOM", "its memory is full: raise maxmemory, or keep the mutexes on a server of their own"),
        ("LOADING", "it has just been started and reads its data"),
        ("MASTERDOWN", "this is a replica without its primary: connect to the primary"),
        ("MISCONF", "it can't save to its disk and is set to refuse writes until it can"),
        ("BUSY", "somebody's script keeps it busy"),
        ("MOVED", "this is one of several nodes of a cluster, which are not followed: use a server of its own"),
        ("CLUSTERDOWN", "it is a node of a cluster that serves nobody"),
    ];
    known.iter().find(|(code, _)| says(code)).map(|(_, advice)| *advice)
}
