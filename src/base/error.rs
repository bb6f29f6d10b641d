//! The errors of stores and of their options.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::catch_panic::contain;
use super::escape::{Chain, OneLine};

/// An error of any type: the error type of closures that use `?`.
///
/// ```
/// let error: soloist::BoxError = "the disk is full".into();
/// assert_eq!(error.to_string(), "the disk is full");
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An error of a store: the store gave no usable answer. "Held by another owner" is an answer, and never an error.
///
/// `Display` writes the attempt and the cause on one line. [`get_ref`](Self::get_ref) returns this cause. As in
/// [`std::io::Error`], [`source`](Error::source) skips the cause, and returns the source of the cause. So no cause is
/// printed twice if you print the error and all its sources.
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
    /// Behind a pointer, so that a `Result` with this error stays small.
    Arc<ErrorParts>,
);

#[derive(Clone)]
struct ErrorParts {
    kind: MutexErrorKind,
    concerns: Concerns,
    attempted: Arc<str>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of a [`MutexError`].
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
    /// The store could not be reached, or did not answer in time. A later request may succeed.
    Unavailable,
    /// The store refused the request, for example because of a wrong password, a missing permission or table, a full
    /// disk, or a read-only state. An operator has to change the store, or the settings of the connection.
    Refused,
    /// An entry is damaged or locked, or an answer of the store makes no sense.
    Unusable,
    /// The store does not support this operation.
    Unsupported,
}

/// The extent of an error: one name, or the store as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concerns {
    OneName,
    TheStore,
}

impl MutexError {
    /// Makes the error of a store that did not answer. Requests for other names would fail, too. `attempted` continues
    /// "could not …", and names the mutex.
    ///
    /// ```
    /// let error = soloist::MutexError::unavailable("read lease/reports", "timed out");
    /// assert_eq!(error.to_string(), "could not read lease/reports: timed out");
    /// ```
    pub fn unavailable(attempted: impl Into<Arc<str>>, cause: impl Into<BoxError>) -> Self {
        Self::new(MutexErrorKind::Unavailable, Concerns::TheStore, attempted, cause)
    }

    /// Makes the error of a store that refused the request. Requests for other names would be refused, too. `attempted`
    /// continues "could not …", and names the mutex.
    pub fn refused(attempted: impl Into<Arc<str>>, cause: impl Into<BoxError>) -> Self {
        Self::new(MutexErrorKind::Refused, Concerns::TheStore, attempted, cause)
    }

    /// Makes the error of an entry that can't be used. The entries of other names are not affected. `attempted`
    /// continues "could not …", and names the mutex.
    pub fn unusable(attempted: impl Into<Arc<str>>, cause: impl Into<BoxError>) -> Self {
        Self::new(MutexErrorKind::Unusable, Concerns::OneName, attempted, cause)
    }

    /// Makes the error of a store that does not support an operation. `what` continues "this store can't …".
    pub fn unsupported(what: impl Into<Arc<str>>) -> Self {
        let (kind, concerns) = (MutexErrorKind::Unsupported, Concerns::OneName);
        Self(Arc::new(ErrorParts { kind, concerns, attempted: what.into(), cause: None }))
    }

    pub(crate) fn new(
        kind: MutexErrorKind,
        concerns: Concerns,
        attempted: impl Into<Arc<str>>,
        cause: impl Into<BoxError>,
    ) -> Self {
        Self(Arc::new(ErrorParts { kind, concerns, attempted: attempted.into(), cause: Some(cause.into().into()) }))
    }

    /// Makes the error of a store whose code panicked. Requests for other names may still work.
    pub(crate) fn panicked(attempted: impl Into<Arc<str>>, message: &str) -> Self {
        Self::unusable(attempted, format!("the store panicked: {message}"))
    }

    /// Makes the error of a grant that arrived after its deadline.
    pub(crate) fn granted_too_late(attempted: impl Into<Arc<str>>) -> Self {
        let why = "the store answered after the term of the lease was over; choose a term that is longer than the store's timeout";
        Self::unusable(attempted, why)
    }

    /// Makes the error of a request that was not sent, because an earlier request failed with the error `first`.
    pub(crate) fn not_asked_again(attempted: impl Into<Arc<str>>, first: &Self) -> Self {
        let why = format!("the store was not asked again, because an earlier request failed: {}", Chain(first));
        Self::new(first.0.kind, first.0.concerns, attempted, why)
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> MutexErrorKind {
        self.0.kind
    }

    /// Returns whether the error concerns the store as a whole. A request for another name would fail, too, so ticks
    /// send this store no requests for a while.
    pub fn is_outage(&self) -> bool {
        self.0.concerns == Concerns::TheStore
    }

    /// Returns whether the store did not answer. A later request may succeed.
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == MutexErrorKind::Unavailable
    }

    /// Returns whether the store refused the request. An operator has to change the store, or the settings of the
    /// connection.
    pub fn is_refused(&self) -> bool {
        self.0.kind == MutexErrorKind::Refused
    }

    /// Returns whether an entry or an answer of the store can't be used. An operator has to check the entry.
    pub fn is_unusable(&self) -> bool {
        self.0.kind == MutexErrorKind::Unusable
    }

    /// Returns whether the store does not support the operation.
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == MutexErrorKind::Unsupported
    }

    /// Returns the cause that the store gave. An error of the kind `Unsupported` has no cause.
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

    /// Returns the next step as the last words of a message, if the store did not answer. The causes of other errors
    /// have their own next steps.
    pub(crate) fn next_step(&self) -> &'static str {
        if self.is_unavailable() { "; test the store with `soloist check`" } else { "" }
    }

    /// Returns the fault of the store as the first words of a message.
    pub(crate) fn headline(&self) -> &'static str {
        match self.0.kind {
            MutexErrorKind::Unavailable => "the store did not answer",
            MutexErrorKind::Refused => "the store refused",
            MutexErrorKind::Unusable | MutexErrorKind::Unsupported => "the store could not be used",
        }
    }
}

/// Compares the kind, the extent and the text.
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

/// An error in the options of a store: in its URL, a prefix, a timeout or a certificate. The message shows no user
/// name, no password and no key.
///
/// ```
/// # #[cfg(feature = "redis")] {
/// let error = soloist::RedisMutex::new("redis:/cache").unwrap_err();
/// let message = "the url of a redis server is not well-formed: write redis://user:password@host:6379/0";
/// assert_eq!(error.to_string(), message);
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

/// Implements `Debug` with the text of `Display`, followed by the sources. Rust prints `Debug` if `main` returns an
/// error, or if an error is unwrapped.
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

debug_as_display!(MutexError, InvalidOptions);

/// Asks a store. A panic of the store becomes an error, with the text that `attempted` returns.
pub(crate) fn ask_store<T>(
    attempted: impl FnOnce() -> String,
    ask: impl FnOnce() -> Result<T, MutexError>,
) -> Result<T, MutexError> {
    contain(ask).unwrap_or_else(|message| Err(MutexError::panicked(attempted(), &message)))
}

/// Returns the answer of a store. If the store does not support the request, returns an empty answer.
pub(crate) fn if_supported<T: Default>(answer: Result<T, MutexError>) -> Result<T, MutexError> {
    match answer {
        Err(error) if error.is_unsupported() => Ok(T::default()),
        answer => answer,
    }
}
