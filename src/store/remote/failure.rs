//! The failure of a request to a server: its cause, whether the request may have been done, and whether to try again.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{error::MutexError, escape::OneLine};

/// Why there is no answer, and whether what was asked may have been done all the same.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    cause: Cause,
    unanswered: bool,
}

#[derive(Clone, Debug)]
enum Cause {
    Io(Arc<io::Error>),
    TimedOut(Option<Duration>),
    Refused(Refusal),
    /// Nothing was done, and another attempt may do it.
    NotDone {
        why: &'static str,
        is_outage: bool,
    },
    /// What was answered is of no use, or whoever answers can't be trusted.
    Unusable(Box<str>),
}

/// The server's answer in the place of what it was asked for.
#[derive(Clone, Debug)]
struct Refusal {
    code: Box<str>,
    details: Box<str>,
    /// The user's next step, where the server's own words don't say it.
    advice: Option<Cow<'static, str>>,
    kind: RefusalKind,
}

/// What comes of asking a server again that refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// The same.
    Permanent,
    /// Perhaps something else, at once, also where the connection had just been made.
    RetryAtOnce,
    /// Something else within seconds: the server has no room for another connection, or is being started or shut down.
    RetryLater,
    /// Somebody else's transaction has it, for as long as that lasts.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    Locked,
}

/// Whether it is worth asking again, after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    Never,
    /// At once.
    OnNewConnection,
    AfterPause,
}

impl Failure {
    /// No connection came about, so nothing was asked.
    pub(crate) fn not_asked(error: io::Error) -> Self {
        Self { cause: Cause::of(error), unanswered: false }
    }

    /// What was sent may have been carried out, or not.
    pub(crate) fn unanswered(error: io::Error) -> Self {
        Self { cause: Cause::of(error), unanswered: true }
    }

    /// The server answered what makes no sense here; `kind` is what it should be, as in "redis".
    pub(crate) fn not_understood(answer: impl fmt::Debug, kind: &str) -> Self {
        let what = makes_no_sense(&on_one_line(&format!("{answer:?}"), 80), kind);
        Self { cause: Cause::Unusable(what.into()), unanswered: true }
    }

    /// Nothing was asked, because what answers is of no use.
    #[cfg(feature = "redis")]
    pub(crate) fn unusable(why: &str) -> Self {
        Self { cause: Cause::Unusable(why.into()), unanswered: false }
    }

    /// The server answered with an error; what it was asked for has perhaps been done, or part of it.
    pub(crate) fn refused(code: &str, details: &str, advice: Option<&'static str>, kind: RefusalKind) -> Self {
        let (code, details) = (on_one_line(code, 80).into(), on_one_line(details, 1_000).into());
        let refusal = Refusal { code, details, advice: advice.map(Cow::Borrowed), kind };
        Self { cause: Cause::Refused(refusal), unanswered: true }
    }

    /// The same, where nothing can have been done.
    pub(crate) fn undone(self) -> Self {
        Self { unanswered: false, ..self }
    }

    /// Nothing was done, and another attempt may do it.
    pub(crate) fn not_done(why: &'static str, is_outage: bool) -> Self {
        Self { cause: Cause::NotDone { why, is_outage }, unanswered: false }
    }

    pub(crate) fn may_have_been_done(&self) -> bool {
        self.unanswered
    }

    /// The server's own name for why it refused, if it did.
    pub(crate) fn code(&self) -> Option<&str> {
        match &self.cause {
            Cause::Refused(refusal) => Some(&refusal.code),
            _ => None,
        }
    }

    /// The same, and what to do about it.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn advised(mut self, advice: String) -> Self {
        if let Cause::Refused(refusal) = &mut self.cause {
            refusal.advice = Some(advice.into());
        }
        self
    }

    /// The same, where what is locked is not one name, but all of them.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn of_all(mut self) -> Self {
        if let Cause::Refused(refusal) = &mut self.cause {
            refusal.kind = RefusalKind::Permanent;
        }
        self
    }

    /// What comes of asking again, where the server refused.
    pub(crate) fn refusal_kind(&self) -> Option<RefusalKind> {
        match &self.cause {
            Cause::Refused(refusal) => Some(refusal.kind),
            _ => None,
        }
    }

    /// Whether somebody else's transaction has it: the connection is as it was, and another would hear the same.
    pub(crate) fn is_locked(&self) -> bool {
        match self.refusal_kind() {
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Some(RefusalKind::Locked) => true,
            _ => false,
        }
    }

    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self.cause, Cause::TimedOut(_))
    }

    /// The same; and what may be the matter, where a connection was closed before it was one. `setting` is how many clients
    /// the server takes.
    pub(crate) fn while_connecting(self, setting: &str) -> Self {
        let what = || {
            format!(
                "the server closed the connection before it answered: it has no room for another client ({setting}), \
                 or is a proxy without a server behind it"
            )
        };
        match self.cause {
            Cause::Io(error) if has_hung_up(&error) => {
                Self { cause: Cause::Io(Arc::new(io::Error::new(error.kind(), what()))), ..self }
            }
            _ => self,
        }
    }

    /// What it is to whoever asked: no answer, a refusal, or nothing of use.
    pub(crate) fn into_error(self, attempted: String) -> MutexError {
        match &self.cause {
            Cause::Refused(_) if self.is_locked() => MutexError::unusable(attempted, self),
            Cause::Refused(_) => MutexError::refused(attempted, self),
            Cause::Unusable(_) => MutexError::unusable(attempted, self).of_the_store(),
            Cause::NotDone { is_outage: false, .. } => MutexError::unusable(attempted, self),
            _ => MutexError::unavailable(attempted, self),
        }
    }

    /// Whether the same question is worth another attempt. A connection that was idle may have been out of order, or
    /// belong to a server that is not the right one any more; after one that was just made, a second one helps if that
    /// broke, if the refusal says so, and where clocks had drifted apart because it compares them anew.
    pub(crate) fn retry(&self, was_fresh: bool) -> Retry {
        let helps = match &self.cause {
            Cause::Refused(refusal) if refusal.kind == RefusalKind::RetryLater => return Retry::AfterPause,
            Cause::Refused(refusal) => refusal.kind == RefusalKind::RetryAtOnce,
            Cause::Io(error) if was_fresh && !self.unanswered && nobody_listens(error) => return Retry::AfterPause,
            Cause::NotDone { .. } => true,
            Cause::Io(_) | Cause::TimedOut(_) | Cause::Unusable(_) => self.unanswered,
        };
        if helps || (!was_fresh && !self.is_locked()) { Retry::OnNewConnection } else { Retry::Never }
    }

    /// This failure of a request, of which something may have been done, if `done`, apart from what it says.
    pub(crate) fn perhaps_done(self, done: bool) -> Self {
        Self { unanswered: self.unanswered || done, ..self }
    }

    /// The same, with the time in it that was given in all.
    pub(crate) fn within(self, timeout: Duration) -> Self {
        let cause = match self.cause {
            Cause::TimedOut(_) => Cause::TimedOut(Some(timeout)),
            cause => cause,
        };
        Self { cause, ..self }
    }
}

/// Whether nobody serves at the address: its port or socket is closed, or the connection broke before anything was
/// asked. A server that starts, stops, or has too many clients does that.
fn nobody_listens(error: &io::Error) -> bool {
    has_hung_up(error) || matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Whether the other end has ended the connection.
fn has_hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};

    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

impl Cause {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::TimedOut(None),
            io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied => Self::Unusable(error.to_string().into()),
            _ => Self::Io(Arc::new(error)),
        }
    }
}

/// The same error; with a question, if it is a driver's of what makes no sense to it.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn understood(error: &io::Error, kind: &str) -> io::Error {
    use io::ErrorKind::{InvalidData, InvalidInput, Other};

    #[cfg(any(feature = "mysql-tls", feature = "postgres-tls"))]
    let is_of_tls = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()).is_some();
    #[cfg(not(any(feature = "mysql-tls", feature = "postgres-tls")))]
    let is_of_tls = false;
    match error.kind() {
        InvalidData | InvalidInput | Other if !is_of_tls => {
            io::Error::new(InvalidData, makes_no_sense(&error.to_string(), kind))
        }
        same => io::Error::new(same, error.to_string()),
    }
}

/// An answer that is none of the protocol; `kind` is the kind of server that was expected, as in "redis".
pub(crate) fn makes_no_sense(answer: &str, kind: &str) -> String {
    format!("the answer makes no sense: {answer}; is it a {kind} server?")
}

/// So many characters of what a server said, none of which hides or breaks the line of a log.
fn on_one_line(said: &str, most: usize) -> String {
    OneLine(said.chars().take(most).collect::<String>()).to_string()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof && error.get_ref().is_none() => {
                f.write_str("the server closed the connection before it answered")
            }
            Cause::Io(error) => error.fmt(f),
            Cause::TimedOut(None) => f.write_str("no answer in time"),
            Cause::TimedOut(Some(timeout)) => write!(f, "no answer within {timeout:?}"),
            Cause::NotDone { why, .. } => f.write_str(why),
            Cause::Unusable(what) => f.write_str(what),
            Cause::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {}", self.code)?;
        if !self.details.is_empty() {
            write!(f, " {}", self.details)?;
        }
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_said_is_cut_by_its_characters() {
        assert_eq!(on_one_line("Größe", 3), "Grö");
        assert_eq!(on_one_line("\nab", 2), r"\na", "what is escaped counts as one");
    }
}
