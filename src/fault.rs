//! What goes wrong in somebody else's code stays within it.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::cancel::Cancelled;
use crate::error::{BoxError, Chain};

/// What somebody's code did instead of succeeding.
///
/// ```
/// use soloist::Fault;
///
/// assert_eq!(Fault::Panicked("out of range".into()).to_string(), "panicked: out of range");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It returned this error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// It panicked with this message.
    Panicked(Arc<str>),
}

impl Fault {
    /// Whether it is what [`Run::check`](crate::Run::check) said, and the task passed on.
    pub(crate) fn is_cancellation(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is::<Cancelled>())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "failed: {}", Chain(&**error)),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
        }
    }
}

/// Runs a task or a hook: an error and a panic are both a fault of it, and of nobody else.
pub(crate) fn attempt(code: impl FnOnce() -> Result<(), BoxError>) -> Result<(), Fault> {
    match contain(code) {
        Ok(outcome) => outcome.map_err(|error| Fault::Failed(error.into())),
        Err(message) => Err(Fault::Panicked(message)),
    }
}

/// Runs somebody's code and goes on, with its result or with the message of its panic.
pub(crate) fn contain<T>(code: impl FnOnce() -> T) -> Result<T, Arc<str>> {
    // Unwind safety: what the code left half-done is its own; nothing of ours is borrowed mutably by it.
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("with something that is not a text").into();
        // A payload may panic when it is dropped: what comes of that is leaked, so that it ends here.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
        message
    })
}
