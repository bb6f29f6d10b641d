//! The failure of a request to a server.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::base::error::{Concerns, MutexError, MutexErrorKind};
use crate::base::escape::OneLine;
use crate::time::clock::shown::ExactDuration;

const NO_ANSWER: &str = "no answer in time";

/// The advice on a certificate that is refused.
const UNTRUSTED: &str = "the authority that signed the server's certificate is not trusted here: pass the authority's \
                         certificate to `root_certificates(..)` of the builder, or install it on this machine";

/// The failure of a request that got no useful answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: MutexErrorKind,
    pub(crate) about: Concerns,
    pub(crate) retry: AskAgain,
    /// Whether the server may have carried out the request, or a part of it.
    pub(crate) may_have_happened: bool,
    said: Cow<'static, str>,
    /// The error code of the server's refusal.
    code: Option<Box<str>>,
    /// The next step for the user, if the server's message does not name it.
    advice: Option<&'static str>,
    /// The kind of the connection's error.
    io: Option<io::ErrorKind>,
}

/// The kind of retry that follows a failure on a new connection. A failure on an idle connection can be retried more
/// often: see the table at `Server::attempts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskAgain {
    Never,
    /// An immediate retry: one on another connection, or several after a conflict of two transactions.
    Now,
    /// Retries after pauses, until the deadline: the server has no room for another connection, or is starting or
    /// stopping.
    Later,
}

impl Failure {
    /// Returns a failure of the store as a whole. The failure says that the server has not carried out the request.
    fn new(kind: MutexErrorKind, retry: AskAgain, said: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            about: Concerns::TheStore,
            retry,
            may_have_happened: false,
            said: said.into(),
            code: None,
            advice: None,
            io: None,
        }
    }

    /// Returns the failure of a request without a reply.
    #[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
    pub(crate) fn unanswered(error: io::Error) -> Self {
        use io::ErrorKind::{InvalidData, PermissionDenied, TimedOut, UnexpectedEof};

        let kind = match error.kind() {
            InvalidData | PermissionDenied => MutexErrorKind::Unusable,
            _ => MutexErrorKind::Unavailable,
        };
        let said = match error.kind() {
            TimedOut => NO_ANSWER.into(),
            UnexpectedEof if error.get_ref().is_none() => "the server closed the connection before it answered".into(),
            _ => error.to_string(),
        };
        let is_untrusted = ["UnknownIssuer", "BadSignature"].iter().any(|reason| said.contains(reason));
        let advice = is_untrusted.then_some(UNTRUSTED);
        Self { may_have_happened: true, io: Some(error.kind()), advice, ..Self::new(kind, AskAgain::Now, said) }
    }

    /// Returns the failure of an attempt to connect: no request was sent. If the port or the connection was closed, the
    /// failure says to retry, because the server may be starting or stopping, or may have too many clients.
    pub(crate) fn not_asked(error: io::Error) -> Self {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, NotFound};

        let is_away = matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | NotFound)
            || is_hung_up(error.kind());
        let retry = if is_away { AskAgain::Later } else { AskAgain::Never };
        Self { retry, may_have_happened: false, ..Self::unanswered(error) }
    }

    /// Returns the failure of an answer that makes no sense; `kind` is the kind of server that was expected, as in "redis".
    pub(crate) fn not_understood(answer: impl fmt::Debug, kind: &str) -> Self {
        let said = makes_no_sense(&on_one_line(&format!("{answer:?}"), 80), kind);
        Self { may_have_happened: true, ..Self::new(MutexErrorKind::Unusable, AskAgain::Now, said) }
    }

    /// Returns the failure of a store whose contents can't be used or trusted.
    pub(crate) fn unusable(what: &str) -> Self {
        Self::new(MutexErrorKind::Unusable, AskAgain::Never, on_one_line(what, 1_000))
    }

    /// Returns the failure of one name whose entry can't be read.
    pub(crate) fn unreadable(what: &str) -> Self {
        Self::unusable(what).of_one_name()
    }

    /// Returns the failure of a request that the server answered with an error. A part of it may have been carried out.
    pub(crate) fn refused(code: &str, details: &str, advice: Option<&'static str>, retry: AskAgain) -> Self {
        let (code, details) = (on_one_line(code, 80), on_one_line(details, 1_000));
        let said = format!("the server answered {code} {details}").trim_end().to_owned();
        let (code, advice) = (Some(code.into()), advice.filter(|advice| !advice.is_empty()));
        Self { may_have_happened: true, code, advice, ..Self::new(MutexErrorKind::Refused, retry, said) }
    }

    /// Returns the failure of a request that came at a wrong time. By the server's clock, the request came after its
    /// deadline, or was sent in the future.
    pub(crate) fn too_late() -> Self {
        let what = "the server did nothing, because by its clock the request was sent in the future, or came after its \
                    deadline: if that happens again, find out what sets that clock";
        Self::new(MutexErrorKind::Unavailable, AskAgain::Now, what)
    }

    /// Returns the failure of several servers that together could not carry out a request.
    #[cfg(any(feature = "redis", feature = "postgres"))]
    pub(crate) fn unavailable(what: impl Into<Cow<'static, str>>, retry: AskAgain) -> Self {
        Self::new(MutexErrorKind::Unavailable, retry, what)
    }

    /// Marks this failure: the request changed nothing.
    pub(crate) fn undone(self) -> Self {
        Self { may_have_happened: false, ..self }
    }

    /// Marks this failure if `perhaps` is true: the server may have carried out the request.
    pub(crate) fn perhaps_done(self, perhaps: bool) -> Self {
        Self { may_have_happened: self.may_have_happened || perhaps, ..self }
    }

    /// Limits this failure to one name: the connection and the other names can still be used.
    pub(crate) fn of_one_name(self) -> Self {
        Self { kind: MutexErrorKind::Unusable, about: Concerns::OneName, ..self }
    }

    /// Returns this failure as a failure of the store as a whole.
    #[cfg(feature = "sql")]
    pub(crate) fn of_the_store(self) -> Self {
        let kind = if self.is_of_one_name() { MutexErrorKind::Refused } else { self.kind };
        Self { kind, about: Concerns::TheStore, ..self }
    }

    /// Returns this failure with advice.
    pub(crate) fn advised(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }

    /// Returns this failure as the failure of a login. If the server did not answer or closed the connection, the text
    /// names the likely reasons. `setting` is the server's setting that limits the number of clients.
    pub(crate) fn while_connecting(self, setting: &str) -> Self {
        let Some(kind) = self.io else { return self.undone() };
        let failure = Self::not_asked(io::Error::new(kind, self.said.into_owned()));
        let said = if kind == io::ErrorKind::TimedOut {
            format!("{NO_ANSWER} while connecting: check the host, the port, and whether the server uses TLS")
        } else if is_hung_up(kind) {
            format!(
                "the server closed the connection before it answered: it has no room for another client ({setting}), or is \
                 a proxy without a server behind it, or another kind of server: check the port"
            )
        } else {
            return failure;
        };
        Self { said: said.into(), ..failure }
    }

    /// Returns `before` if it is the error reply of a server, because such a reply says more than a broken connection.
    /// Otherwise, returns `failure`. The returned failure says to retry after a pause if one of the two failures says so.
    /// `before` and `failure` come from two attempts, or from two of a store's servers.
    pub(crate) fn more_telling(before: Option<Self>, failure: Self) -> Self {
        let is_away =
            [before.as_ref(), Some(&failure)].into_iter().flatten().any(|failure| failure.retry == AskAgain::Later);
        let mut said = before.filter(|before| before.code().is_some()).unwrap_or(failure);
        said.retry = if is_away { AskAgain::Later } else { said.retry };
        said
    }

    /// Returns this failure with the name of the server in its text, because the store has several servers.
    #[cfg(feature = "redis")]
    pub(crate) fn of_server(self, server: &str) -> Self {
        Self { said: format!("{server}: {}", self.said).into(), ..self }
    }

    pub(crate) fn is_of_one_name(&self) -> bool {
        self.about == Concerns::OneName
    }

    /// Returns whether two transactions conflicted. If so, the request changed nothing, and an immediate retry may
    /// succeed.
    #[cfg(feature = "sql")]
    pub(crate) fn is_conflict(&self) -> bool {
        self.retry == AskAgain::Now && self.code.is_some()
    }

    /// Returns the error code of the server's refusal.
    pub(crate) fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    pub(crate) fn is_timeout(&self) -> bool {
        self.io == Some(io::ErrorKind::TimedOut)
    }

    /// Returns this failure as the failure of a whole call. The text of a timeout then names the time limit of the
    /// call.
    pub(crate) fn within(mut self, timeout: Duration) -> Self {
        if self.is_timeout() {
            self.said = self.said.replace(NO_ANSWER, &format!("no answer within {}", ExactDuration(timeout))).into();
        }
        self
    }

    pub(crate) fn into_error(self, attempted: String) -> MutexError {
        MutexError::new(self.kind, self.about, attempted, self)
    }
}

fn is_hung_up(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};

    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Converts an error of a driver. If the driver did not understand the reply, the text asks whether the server is of
/// this `kind`.
#[cfg(feature = "sql")]
pub(crate) fn understood(error: &io::Error, kind: &str) -> io::Error {
    use io::ErrorKind::{InvalidData, InvalidInput, Other};

    #[cfg(feature = "server-tls")]
    let is_of_tls = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()).is_some();
    #[cfg(not(feature = "server-tls"))]
    let is_of_tls = false;
    match error.kind() {
        InvalidData | InvalidInput | Other if !is_of_tls => {
            io::Error::new(InvalidData, makes_no_sense(&error.to_string(), kind))
        }
        same => io::Error::new(same, error.to_string()),
    }
}

/// Returns the text for an answer that breaks the protocol; `kind` is the expected kind of server, as in "redis".
pub(crate) fn makes_no_sense(answer: &str, kind: &str) -> String {
    format!("the answer makes no sense: {answer}; is it a {kind} server?")
}

/// Returns the first `most` characters of a server's message, escaped so that they fit on one line of a log.
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
        assert_eq!(on_one_line("\nab", 2), r"\na", "an escaped character counts as one");
    }
}
