//! The reasons why a run is cancelled.

use std::fmt;

use crate::base::error::debug_as_display;

/// A reason why a run is cancelled.
///
/// ```
/// use soloist::{CancelReason, Event};
///
/// let event = Event::call("reports", |run| match run.cancel_reason() {
///     Some(CancelReason::LeaseLost) => println!("another run may have begun: nothing more may be written"),
///     Some(reason) => println!("stopping, because {reason}"),
///     None => println!("going on"),
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The run lost its lease: the lease was not renewed in time, or an operator broke it, or the store lost it. Another run
    /// may now be admitted while this one is running. A clone of a [`Run`](crate::Run) that outlives its run gets this reason,
    /// too, with or without a lease, and is woken if it waits.
    LeaseLost,
    /// The task took longer than its [`timeout`](crate::Event::timeout).
    TimedOut,
    /// The process is shutting down, after a signal or a call of [`Shutdown::trigger`](crate::Shutdown::trigger), and the
    /// [drain](crate::Shutdown::with_drain) is over.
    ShuttingDown,
    /// A later occurrence replaces the run, because the event has [`Overlap::Replace`](crate::Overlap::Replace).
    /// [`RunOutcome::asked_to_stop_by`](crate::RunOutcome::asked_to_stop_by) names the process that waits with that occurrence.
    Replaced,
    /// An operator frees the lease, as with the command `unlock` of the feature `cli`.
    /// [`RunOutcome::asked_to_stop_by`](crate::RunOutcome::asked_to_stop_by) names the operator's host and process.
    Unlocked,
}

impl CancelReason {
    /// Returns the keyword of the reason, which no version changes: `lease_lost`, `timed_out`, `shutting_down`, `replaced` or
    /// `unlocked`.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::LeaseLost => "lease_lost",
            Self::TimedOut => "timed_out",
            Self::ShuttingDown => "shutting_down",
            Self::Replaced => "replaced",
            Self::Unlocked => "unlocked",
        }
    }

    /// Returns whether another process asked for the lease. A task that stops for this reason has not failed.
    pub(crate) fn is_for_the_lease(self) -> bool {
        matches!(self, Self::Replaced | Self::Unlocked)
    }

    /// Returns whether a process or an operator asked for the stop. An error of the task is then logged as cancelled, not as
    /// failed.
    pub(crate) fn is_request(self) -> bool {
        self == Self::ShuttingDown || self.is_for_the_lease()
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseLost => "its lease was lost",
            Self::TimedOut => "it took longer than its timeout",
            Self::ShuttingDown => "the process is shutting down",
            Self::Replaced => "a later occurrence takes its place",
            Self::Unlocked => "an operator frees its lease",
        })
    }
}

/// The error of [`Run::check`](crate::Run::check) in a cancelled run, which a task passes on with `?`.
///
/// ```
/// use soloist::Event;
///
/// let event = Event::call("import", |run| {
///     for row in 0..1000 {
///         run.check()?;
///         println!("importing row {row}");
///     }
///     Ok(())
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the run was cancelled, because {reason}")]
pub struct Cancelled {
    reason: CancelReason,
}

debug_as_display!(Cancelled);

impl Cancelled {
    pub(crate) fn new(reason: CancelReason) -> Self {
        Self { reason }
    }

    /// Returns why the run was cancelled.
    pub fn reason(&self) -> CancelReason {
        self.reason
    }
}
