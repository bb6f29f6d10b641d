//! The faults of tasks, hooks and commands: errors, panics and exit statuses.

use std::error::Error;
use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;

use super::cancel::{CancelReason, Cancelled};
use super::command_exit::Exited;
use crate::base::error::BoxError;
use crate::base::escape::{Chain, Lines};

/// The reason why a task, a hook or a command failed.
///
/// ```
/// use soloist::observe::Fault;
///
/// assert_eq!(Fault::Panicked("out of range".into()).to_string(), "panicked: out of range");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Fault {
    /// The task or the hook returned this error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// The task or the hook panicked with this message.
    Panicked(Arc<str>),
    /// The command exited with a code other than 0, or was ended by a signal that its scheduler did not send.
    Exited(ExitStatus),
}

impl Fault {
    /// Returns why the run was cancelled, if the task ended with the error [`Cancelled`].
    /// [`Run::check`](crate::Run::check) returns this error.
    pub(crate) fn cancellation(&self) -> Option<CancelReason> {
        let Self::Failed(error) = self else { return None };
        let error = error.downcast_ref::<NotStarted>().map_or(&**error, |NotStarted(why)| &**why);
        error.downcast_ref::<Cancelled>().map(Cancelled::reason)
    }

    /// Returns whether the task was started and then ended by itself. A task that was cancelled, or that its runtime
    /// dropped, did not end by itself.
    pub(crate) fn is_of_the_task(&self) -> bool {
        let was_dropped = matches!(self, Self::Failed(error) if error.is::<TaskDropped>());
        !was_dropped && !self.is_not_started() && self.cancellation().is_none()
    }

    /// Returns the fault of a task that could not be started because of `error`.
    pub(crate) fn not_started(error: impl Into<BoxError>) -> Self {
        Self::Failed(Arc::new(NotStarted(error.into())))
    }

    /// Returns whether the task could not be started.
    pub(crate) fn is_not_started(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is::<NotStarted>())
    }
}

/// Compares two errors by their texts, because error types need not implement `PartialEq`.
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
            // The application's error type writes this text, which can have control characters: escape them.
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

/// The error of a future that its runtime dropped before the future was ready.
#[derive(Debug, thiserror::Error)]
#[error("the runtime of the event ended, or dropped the task: keep the runtime until the schedule has ended")]
pub(crate) struct TaskDropped;

/// The failure of one hook of a run.
///
/// ```
/// # use soloist::{Event, Schedule, Verdict};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let schedule = Schedule::in_process();
/// schedule.add(Event::call("reports", |_| {}).every_minute().then(|_, _| Err("nobody to notify".into())))?;
/// let entry = schedule.run_event("reports", chrono::Utc::now())?;
/// let Verdict::Ran(outcome) = entry.verdict() else { unreachable!("nothing refuses it") };
/// assert_eq!(outcome.hook_failures()[0].to_string(), "`then` hook 1 failed: nobody to notify");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFailure {
    pub(crate) hook: Hook,
    pub(crate) number: usize,
    pub(crate) fault: Fault,
}

impl HookFailure {
    /// Returns the kind of the hook.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Returns the number of the hook. The hooks of one kind are counted from 1, in the order in which they were added
    /// to the event.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the fault of the hook.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` hook {} {}", self.hook, self.number, self.fault)
    }
}

/// The kinds of hooks, by the method of [`Event`](crate::Event) that adds them.
///
/// ```
/// assert_eq!(soloist::observe::Hook::OnSuccess.to_string(), "on_success");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hook {
    /// A hook of [`Event::before`](crate::Event::before).
    Before,
    /// A hook of [`Event::then`](crate::Event::then).
    Then,
    /// A hook of [`Event::on_success`](crate::Event::on_success).
    OnSuccess,
    /// A hook of [`Event::on_failure`](crate::Event::on_failure).
    OnFailure,
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::Then => "then",
            Self::OnSuccess => "on_success",
            Self::OnFailure => "on_failure",
        })
    }
}
