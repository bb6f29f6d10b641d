//! Errors of stores, which say what the reader can do next.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::escape::OneLine;

/// Any error, as closures that use `?` return it.
///
/// ```
/// let error: soloist::BoxError = "the disk is full".into();
/// assert_eq!(error.to_string(), "the disk is full");
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a store gave no answer of use. It never means "held by another": that is an answer.
///
/// `Display` says what was attempted and why it failed, in one line. As with [`std::io::Error`], the cause itself is
/// [`get_ref`](Self::get_ref), and [`source`](Error::source) is what stands behind the cause, so that a printer of the whole
/// chain says nothing twice.
///
/// ```
/// use soloist::MutexError;
///
/// let error = MutexError::unavailable("create lease/reports", "connection refused");
/// assert!(error.is_unavailable());
/// assert_eq!(error.to_string(), "could not create lease/reports: connection refused");
/// assert!(std::error::Error::source(&error).is_none());
/// ```
#[derive(Clone)]
pub struct MutexError(
    /// Behind a pointer, because it is the rare part of the answers that it is in.
    Arc<Trouble>,
);

#[derive(Clone)]
struct Trouble {
    kind: MutexErrorKind,
    concerns: Concerns,
    attempted: Arc<str>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

/// What sort of a [`MutexError`] it is.
///
/// ```
/// use soloist::store::MutexErrorKind;
/// use soloist::MutexError;
///
/// assert_eq!(MutexError::unsupported("extend a lease").kind(), MutexErrorKind::Unsupported);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MutexErrorKind {
    /// There was no answer: the store could not be reached, or not in time. It may be back in a moment.
    Unavailable,
    /// The store answered that it will not: a wrong password, a missing permission or table, no room, no writes. Somebody
    /// has to do something about the store, or about how it is reached.
    Refused,
    /// What the store keeps or says can't be used: an entry that is damaged or locked, or answers that make no sense.
    Unusable,
    /// The store has no way of doing this, now or later.
    Unsupported,
}

/// The extent of an error: one name, or the store as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concerns {
    OneName,
    TheStore,
}

impl MutexError {
    /// The store as a whole gave no answer. `attempted` completes "could not …" and names the mutex.
    ///
    /// ```
    /// let error = soloist::MutexError::unavailable("look at lease/reports", "timed out");
    /// assert_eq!(error.to_string(), "could not look at lease/reports: timed out");
    /// ```
    pub fn unavailable(attempted: impl Into<Arc<str>>, cause: impl Into<BoxError>) -> Self {
        Self::new(MutexErrorKind::Unavailable, Concerns::TheStore, attempted, cause)
    }

    /// The store as a whole answered that it will not. `attempted` completes "could not …" and names the mutex.
    pub fn refused(attempted: impl Into<Arc<str>>, cause: impl Into<BoxError>) -> Self {
        Self::new(MutexErrorKind::Refused, Concerns::TheStore, attempted, cause)
    }

    /// What the store keeps under this one name can't be used; other names are as good as ever. `attempted` completes
    /// "could not …" and names the mutex.
    pub fn unusable(attempted: impl Into<Arc<str>>, cause: impl Into<BoxError>) -> Self {
        Self::new(MutexErrorKind::Unusable, Concerns::OneName, attempted, cause)
    }

    /// The store has no way of doing this. `what` completes "this store can't …".
    pub fn unsupported(what: impl Into<Arc<str>>) -> Self {
        let (kind, concerns) = (MutexErrorKind::Unsupported, Concerns::OneName);
        Self(Arc::new(Trouble { kind, concerns, attempted: what.into(), cause: None }))
    }

    pub(crate) fn new(
        kind: MutexErrorKind,
        concerns: Concerns,
        attempted: impl Into<Arc<str>>,
        cause: impl Into<BoxError>,
    ) -> Self {
        Self(Arc::new(Trouble { kind, concerns, attempted: attempted.into(), cause: Some(cause.into().into()) }))
    }

    /// The store's own code panicked, which says nothing of other names.
    pub(crate) fn panicked(attempted: impl Into<Arc<str>>, message: &str) -> Self {
        Self::unusable(attempted, format!("the store panicked: {message}"))
    }

    /// The store granted it, when the term was over already.
    pub(crate) fn granted_too_late(attempted: impl Into<Arc<str>>) -> Self {
        let why = "its term was over before the answer came; choose one that is longer than the store's time-out";
        Self::unusable(attempted, why)
    }

    /// The store was not asked, because it had just said this to somebody else.
    pub(crate) fn not_asked_again(attempted: impl Into<Arc<str>>, first: &Self) -> Self {
        Self::new(first.0.kind, first.0.concerns, attempted, NotAskedAgain(first.clone()))
    }

    /// What sort of error it is.
    pub fn kind(&self) -> MutexErrorKind {
        self.0.kind
    }

    /// Whether it is about the store as a whole, whatever its kind: asking for another name now would be in vain too, so a
    /// tick does not ask this store again for a while.
    pub fn is_outage(&self) -> bool {
        self.0.concerns == Concerns::TheStore
    }

    /// Whether there was no answer. Asking again later may help.
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == MutexErrorKind::Unavailable
    }

    /// Whether the store answered that it will not. Somebody has to change its settings, or how it is reached.
    pub fn is_refused(&self) -> bool {
        self.0.kind == MutexErrorKind::Refused
    }

    /// Whether what the store keeps or says can't be used. Somebody has to look at it.
    pub fn is_unusable(&self) -> bool {
        self.0.kind == MutexErrorKind::Unusable
    }

    /// Whether the store will never be able to do this.
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == MutexErrorKind::Unsupported
    }

    /// The cause, as the store gave it.
    ///
    /// ```
    /// use std::io;
    ///
    /// let error = soloist::MutexError::unavailable("ask", io::Error::from(io::ErrorKind::TimedOut));
    /// let cause = error.get_ref().unwrap().downcast_ref::<io::Error>().unwrap();
    /// assert_eq!(cause.kind(), io::ErrorKind::TimedOut);
    /// ```
    pub fn get_ref(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.0.cause.as_deref()
    }

    /// What it says of the store, as the beginning of a sentence.
    pub(crate) fn headline(&self) -> &'static str {
        match self.0.kind {
            MutexErrorKind::Unavailable => "the store did not answer",
            MutexErrorKind::Refused => "the store refused",
            MutexErrorKind::Unusable | MutexErrorKind::Unsupported => "the store could not be used",
        }
    }
}

/// Compares the kind and the text.
impl PartialEq for MutexError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind(), self.is_outage()) == (other.kind(), other.is_outage()) && self.to_string() == other.to_string()
    }
}

impl Eq for MutexError {}

impl fmt::Display for MutexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempted = OneLine(&self.0.attempted);
        match &self.0.cause {
            Some(cause) => write!(f, "could not {attempted}: {}", OneLine(cause)),
            None => write!(f, "this store can't {attempted}"),
        }
    }
}

impl Error for MutexError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.cause.as_ref()?.source()
    }
}

/// What is wrong with the options that a store was to be opened with: its URL, a prefix, a time-out, a certificate. It
/// shows no user, no password and no key.
///
/// ```
/// # #[cfg(feature = "redis")] {
/// let error = soloist::RedisMutex::new("redis:/cache").unwrap_err();
/// assert_eq!(error.to_string(), "the url of a redis server has no host, as in redis://host:6379");
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct InvalidOptions {
    what: Box<str>,
}

impl InvalidOptions {
    #[cfg(feature = "server")]
    pub(crate) fn new(what: impl Into<Box<str>>) -> Self {
        Self { what: what.into() }
    }
}

/// Why a store is spared a question.
#[derive(Debug)]
struct NotAskedAgain(MutexError);

impl fmt::Display for NotAskedAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store was not asked again; a moment ago: {}", self.0)
    }
}

impl Error for NotAskedAgain {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Shows an error to developers as to everybody else: an error that `main` returns, or that is unwrapped, is printed by
/// its `Debug`, and what it says is for people.
macro_rules! debug_as_display {
    ($($error:ty),*) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", $crate::base::escape::Chain(self))
            }
        }
    )*};
}
pub(crate) use debug_as_display;

/// A public error that is a message and no more.
macro_rules! message_error {
    ($(#[$doc:meta])* pub struct $error:ident;) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, thiserror::Error)]
        #[error("{0}")]
        pub struct $error(Box<str>);

        impl From<String> for $error {
            fn from(message: String) -> Self {
                Self(message.into())
            }
        }

        $crate::base::error::debug_as_display!($error);
    };
}
pub(crate) use message_error;

debug_as_display!(MutexError, InvalidOptions);
