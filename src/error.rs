//! What can go wrong, said so that the reader knows what to do next.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::escape::{Lines, OneLine, steers_or_hides};

/// Any error, as closures that use `?` return it.
///
/// ```
/// let error: soloist::BoxError = "the disk is full".into();
/// assert_eq!(error.to_string(), "the disk is full");
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a store gave no answer. It never means "held by another": that is an answer.
///
/// ```
/// use soloist::MutexError;
///
/// let error = MutexError::unavailable("create lease/reports", "connection refused");
/// assert!(error.is_unavailable());
/// assert_eq!(error.to_string(), "could not create lease/reports");
/// assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "connection refused");
/// ```
#[derive(Clone)]
pub struct MutexError {
    kind: MutexErrorKind,
    attempted: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What sort of a [`MutexError`] it is.
///
/// ```
/// use soloist::{MutexError, MutexErrorKind};
///
/// assert_eq!(MutexError::unsupported("extend a lease").kind(), MutexErrorKind::Unsupported);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MutexErrorKind {
    /// The store as a whole gave no answer: it could not be reached, or not in time. Asking it for another name now would
    /// be in vain too, so a tick does not ask it again.
    Unavailable,
    /// What the store keeps under this name, or says of it, can't be used. Other names have nothing to do with it.
    Unusable,
    /// The store has no way of doing this, now or later.
    Unsupported,
}

impl MutexError {
    /// The store as a whole could not be asked. `attempted` completes "could not …" and names the mutex.
    ///
    /// ```
    /// let error = soloist::MutexError::unavailable("look at lease/reports", "timed out");
    /// assert_eq!(error.to_string(), "could not look at lease/reports");
    /// ```
    pub fn unavailable(attempted: impl Into<Arc<str>>, source: impl Into<BoxError>) -> Self {
        let source: BoxError = source.into();
        Self { kind: MutexErrorKind::Unavailable, attempted: attempted.into(), source: Some(source.into()) }
    }

    /// What the store keeps under this one name can't be used; other names are as good as ever. `attempted` completes
    /// "could not …" and names the mutex.
    ///
    /// ```
    /// let error = soloist::MutexError::unusable("create lease/reports", "it is a list, not a lease");
    /// assert!(error.is_unusable() && !error.is_unavailable());
    /// assert_eq!(error.to_string(), "could not create lease/reports");
    /// ```
    pub fn unusable(attempted: impl Into<Arc<str>>, source: impl Into<BoxError>) -> Self {
        Self { kind: MutexErrorKind::Unusable, ..Self::unavailable(attempted, source) }
    }

    /// The store has no way of doing this. `what` completes "this store can't …".
    ///
    /// ```
    /// let error = soloist::MutexError::unsupported("break a lease");
    /// assert_eq!(error.to_string(), "this store can't break a lease");
    /// ```
    pub fn unsupported(what: impl Into<Arc<str>>) -> Self {
        Self { kind: MutexErrorKind::Unsupported, attempted: what.into(), source: None }
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
        Self::unavailable(attempted, NotAskedAgain(first.clone()))
    }

    /// What sort of error it is.
    ///
    /// ```
    /// # use soloist::{MutexError, MutexErrorKind};
    /// assert_eq!(MutexError::unavailable("ask", "no answer").kind(), MutexErrorKind::Unavailable);
    /// ```
    pub fn kind(&self) -> MutexErrorKind {
        self.kind
    }

    /// Whether the store as a whole gave no answer. Asking again later may help.
    ///
    /// ```
    /// # use soloist::MutexError;
    /// assert!(MutexError::unavailable("ask", "no answer").is_unavailable());
    /// ```
    pub fn is_unavailable(&self) -> bool {
        self.kind == MutexErrorKind::Unavailable
    }

    /// Whether it is about this one name. Somebody has to look at what the store keeps under it.
    ///
    /// ```
    /// # use soloist::MutexError;
    /// assert!(MutexError::unusable("create lease/reports", "it is a list, not a lease").is_unusable());
    /// ```
    pub fn is_unusable(&self) -> bool {
        self.kind == MutexErrorKind::Unusable
    }

    /// Whether the store will never be able to do this.
    ///
    /// ```
    /// # use soloist::MutexError;
    /// assert!(MutexError::unsupported("extend a lease").is_unsupported());
    /// ```
    pub fn is_unsupported(&self) -> bool {
        self.kind == MutexErrorKind::Unsupported
    }
}

impl fmt::Display for MutexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            MutexErrorKind::Unavailable | MutexErrorKind::Unusable => {
                write!(f, "could not {}", OneLine(&self.attempted))
            }
            MutexErrorKind::Unsupported => write!(f, "this store can't {}", OneLine(&self.attempted)),
        }
    }
}

impl Error for MutexError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
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
    #[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
    pub(crate) fn new(what: impl Into<Box<str>>) -> Self {
        Self { what: what.into() }
    }
}

/// Why a store is spared a question.
#[derive(Debug, thiserror::Error)]
#[error("the store was not asked again, because it gave no answer a moment ago")]
struct NotAskedAgain(#[source] MutexError);

/// Shows an error to developers as to everybody else: an error that `main` returns, or that is unwrapped, is printed by
/// its `Debug`, and what it says is for people.
macro_rules! debug_as_display {
    ($($error:ty),*) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", $crate::error::Chain(self))
            }
        }
    )*};
}
pub(crate) use debug_as_display;

debug_as_display!(MutexError, InvalidOptions);

/// An error and what caused it: `could not create lease/reports: permission denied`. Their texts are others', and are
/// escaped.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Lines(self.0).fmt(f)?;
        let mut error = self.0;
        while let Some(source) = error.source() {
            write!(f, ": {}", Lines(source))?;
            error = source;
        }
        Ok(())
    }
}

/// Somebody's text between backticks, on one line, shortened where it is long. Owned, since errors outlive texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quoted(Box<str>);

impl Quoted {
    const MAX_CHARS: usize = 60;

    /// Reads no more of `text` than is quoted.
    pub(crate) fn new(text: &str) -> Self {
        let mut quoted = String::from("`");
        for (at, char) in text.chars().enumerate() {
            if at == Self::MAX_CHARS {
                quoted.push('…');
                break;
            }
            // A no-break space looks like a space.
            if steers_or_hides(char) || (char.is_whitespace() && char != ' ') {
                quoted.extend(char.escape_debug());
            } else {
                quoted.push(char);
            }
        }
        quoted.push('`');
        Self(quoted.into())
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of an event on one line, without quotes as long as it needs none.
pub(crate) struct Named<'a>(pub(crate) &'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_odd = |char: char| steers_or_hides(char) || char.is_whitespace();
        if self.0.chars().count() > Quoted::MAX_CHARS || self.0.contains(is_odd) {
            Quoted::new(self.0).fmt(f)
        } else {
            f.write_str(self.0)
        }
    }
}
