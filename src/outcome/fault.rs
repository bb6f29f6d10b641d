//! What went wrong in a task, a hook or a command: an error, a panic, an exit status.

use std::error::Error;
use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;

use super::cancel::{CancelReason, Cancelled};
use super::command_exit::Exited;
use crate::base::escape::{Chain, Lines};
use crate::base::{catch_panic::contain, error::BoxError};

/// What somebody's code did instead of succeeding.
///
/// ```
/// use soloist::observe::Fault;
///
/// assert_eq!(Fault::Panicked("out of range".into()).to_string(), "panicked: out of range");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Fault {
    /// It returned this error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// It panicked with this message.
    Panicked(Arc<str>),
    /// It is a command, and ended with another status than 0, or by a signal that was not ours.
    Exited(ExitStatus),
}

impl Fault {
    /// Returns why the run was cancelled, if this is what [`Run::check`](crate::Run::check) said, and the task passed on.
    pub(crate) fn cancellation(&self) -> Option<CancelReason> {
        let Self::Failed(error) = self else { return None };
        let error = error.downcast_ref::<NotStarted>().map_or(&**error, |NotStarted(why)| &**why);
        error.downcast_ref::<Cancelled>().map(Cancelled::reason)
    }

    /// Returns the fault of a task that could not be started, for this reason.
    pub(crate) fn not_started(error: impl Into<BoxError>) -> Self {
        Self::Failed(Arc::new(NotStarted(error.into())))
    }

    /// Returns whether this kept a task from being started.
    pub(crate) fn is_not_started(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is::<NotStarted>())
    }
}

/// Compares errors by their text.
impl PartialEq for Fault {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failed(error), Self::Failed(other)) => Chain(&**error).to_string() == Chain(&**other).to_string(),
            (Self::Panicked(message), Self::Panicked(other)) => message == other,
            (Self::Exited(status), Self::Exited(other)) => status == other,
            _ => false,
        }
    }
}

impl Eq for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "failed: {}", Chain(&**error)),
            Self::Panicked(message) => write!(f, "panicked: {}", Lines(message)),
            Self::Exited(status) => Exited(*status).fmt(f),
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // How an error shows itself to developers is its own code too.
            Self::Failed(error) => {
                f.debug_tuple("Failed").field(&format_args!("{}", Lines(format_args!("{error:?}")))).finish()
            }
            Self::Panicked(message) => f.debug_tuple("Panicked").field(message).finish(),
            Self::Exited(status) => f.debug_tuple("Exited").field(status).finish(),
        }
    }
}

/// The error of a task that could not be started.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct NotStarted(BoxError);

/// Runs a task or a hook: an error and a panic are both a fault of it, and of nobody else.
pub(crate) fn attempt(code: impl FnOnce() -> Result<(), BoxError>) -> Result<(), Fault> {
    match contain(code) {
        Ok(outcome) => outcome.map_err(|error| Fault::Failed(error.into())),
        Err(message) => Err(Fault::Panicked(message)),
    }
}
