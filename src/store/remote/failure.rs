//! The failure of a request to a server: its cause, whether the request may have been done, and whether to try again.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::base::{error::MutexError, escape::OneLine};

/// Why there is no answer, and whether what was asked may have been done all the same.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    cause: Cause,
    said: Cow<'static, str>,
    /// The server's own name for why it refused, and the user's next step where its words don't say it.
    code: Box<str>,
    advice: Option<Cow<'static, str>>,
    unanswered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Nobody serves at the address: its port or socket is closed.
    NobodyListens,
    /// The other end has ended the connection.
    HungUp,
    Io,
    TimedOut,
    /// The server's answer in the place of what it was asked for.
    Refused(RefusalKind),
    /// Nothing was done, and another attempt may do it.
    NotDone {
        is_outage: bool,
    },
    /// What was answered is of no use, or whoever answers can't be trusted.
    Unusable,
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
    fn new(cause: Cause, said: impl Into<Cow<'static, str>>, unanswered: bool) -> Self {
        Self { cause, said: said.into(), code: Box::default(), advice: None, unanswered }
    }

    /// No connection came about, so nothing was asked.
    pub(crate) fn not_asked(error: io::Error) -> Self {
        Self::unanswered(error).undone()
    }

    /// What was sent may have been carried out, or not.
    #[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
    pub(crate) fn unanswered(error: io::Error) -> Self {
        use io::ErrorKind as Kind;

        let cause = match error.kind() {
            Kind::TimedOut => Cause::TimedOut,
            Kind::InvalidData | Kind::PermissionDenied => Cause::Unusable,
            Kind::BrokenPipe | Kind::ConnectionAborted | Kind::ConnectionReset | Kind::UnexpectedEof => Cause::HungUp,
            Kind::ConnectionRefused | Kind::NotFound => Cause::NobodyListens,
            _ => Cause::Io,
        };
        let said = match error.kind() {
            Kind::TimedOut => "no answer in time".into(),
            Kind::UnexpectedEof if error.get_ref().is_none() => {
                "the server closed the connection before it answered".into()
            }
            _ => error.to_string(),
        };
        Self::new(cause, said, true)
    }

    /// The server answered what makes no sense here; `kind` is what it should be, as in "redis".
    pub(crate) fn not_understood(answer: impl fmt::Debug, kind: &str) -> Self {
        Self::new(Cause::Unusable, makes_no_sense(&on_one_line(&format!("{answer:?}"), 80), kind), true)
    }

    /// What the server holds is of no use, or can't be trusted.
    pub(crate) fn unusable(what: &str) -> Self {
        Self::new(Cause::Unusable, on_one_line(what, 1_000), false)
    }

    /// The server answered with an error; what it was asked for has perhaps been done, or part of it.
    pub(crate) fn refused(code: &str, details: &str, advice: Option<&'static str>, kind: RefusalKind) -> Self {
        let (code, details) = (on_one_line(code, 80), on_one_line(details, 1_000));
        let said = format!("the server answered {code} {details}").trim_end().to_owned();
        let (code, advice) = (code.into(), advice.filter(|advice| !advice.is_empty()).map(Cow::Borrowed));
        Self { code, advice, ..Self::new(Cause::Refused(kind), said, true) }
    }

    /// The same, where nothing can have been done.
    pub(crate) fn undone(self) -> Self {
        Self { unanswered: false, ..self }
    }

    /// Nothing was done, and another attempt may do it.
    pub(crate) fn not_done(why: &'static str, is_outage: bool) -> Self {
        Self::new(Cause::NotDone { is_outage }, why, false)
    }

    /// Nothing was done, because by the server's clock the request came when nobody waited for it any more, or before it was
    /// sent.
    pub(crate) fn too_late() -> Self {
        let what = "the server did nothing, because by its clock the request came too late or too early: find out whether \
                    something sets that clock";
        Self::not_done(what, true)
    }

    pub(crate) fn may_have_been_done(&self) -> bool {
        self.unanswered
    }

    /// The server's own name for why it refused, if it did.
    pub(crate) fn code(&self) -> Option<&str> {
        self.refusal_kind().map(|_| &*self.code)
    }

    /// The same, and what to do about it.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn advised(self, advice: impl Into<Cow<'static, str>>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// The same, where what is locked is not one name, but all of them.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn of_all(self) -> Self {
        let cause = if self.is_locked() { Cause::Refused(RefusalKind::Permanent) } else { self.cause };
        Self { cause, ..self }
    }

    /// What comes of asking again, where the server refused.
    pub(crate) fn refusal_kind(&self) -> Option<RefusalKind> {
        if let Cause::Refused(kind) = self.cause { Some(kind) } else { None }
    }

    /// Whether somebody else's transaction has it: the connection is as it was, and another would hear the same.
    pub(crate) fn is_locked(&self) -> bool {
        self.refusal_kind() == Some(RefusalKind::Locked)
    }

    pub(crate) fn is_timeout(&self) -> bool {
        self.cause == Cause::TimedOut
    }

    /// The same; and what may be the matter, where a connection was closed before it was one. `setting` is how many clients
    /// the server takes.
    pub(crate) fn while_connecting(self, setting: &str) -> Self {
        if self.cause != Cause::HungUp {
            return self;
        }
        let what = format!(
            "the server closed the connection before it answered: it has no room for another client ({setting}), or is \
             a proxy without a server behind it"
        );
        Self::new(Cause::HungUp, what, self.unanswered)
    }

    /// What it is to whoever asked: no answer, a refusal, or nothing of use.
    pub(crate) fn into_error(self, attempted: String) -> MutexError {
        match self.cause {
            Cause::Refused(RefusalKind::Locked) | Cause::NotDone { is_outage: false } => {
                MutexError::unusable(attempted, self)
            }
            Cause::Refused(_) => MutexError::refused(attempted, self),
            Cause::Unusable => MutexError::unusable(attempted, self).of_the_store(),
            _ => MutexError::unavailable(attempted, self),
        }
    }

    /// Whether the same question is worth another attempt. A connection that was idle may have been out of order, or
    /// belong to a server that is not the right one any more; after one that was just made, a second one helps if that
    /// broke, if the refusal says so, and where clocks had drifted apart because it compares them anew. A server that
    /// starts, stops, or has too many clients closes its port, or the connection before anything was asked.
    pub(crate) fn retry(&self, was_fresh: bool) -> Retry {
        let helps = match self.cause {
            Cause::Refused(RefusalKind::RetryLater) => return Retry::AfterPause,
            Cause::NobodyListens | Cause::HungUp if was_fresh && !self.unanswered => return Retry::AfterPause,
            Cause::Refused(kind) => kind == RefusalKind::RetryAtOnce,
            Cause::NotDone { .. } => true,
            _ => self.unanswered,
        };
        if helps || (!was_fresh && !self.is_locked()) { Retry::OnNewConnection } else { Retry::Never }
    }

    /// This failure of a request, of which something may have been done, if `done`, apart from what it says.
    pub(crate) fn perhaps_done(self, done: bool) -> Self {
        Self { unanswered: self.unanswered || done, ..self }
    }

    /// The same, with the time in it that was given in all.
    pub(crate) fn within(self, timeout: Duration) -> Self {
        let said = if self.is_timeout() { format!("no answer within {timeout:?}").into() } else { self.said.clone() };
        Self { said, ..self }
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
        match &self.advice {
            Some(advice) => write!(f, "{}; {advice}", self.said),
            None => f.write_str(&self.said),
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
