//! The reasons why a run is cancelled.

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
    /// The run lost its lease: the lease was not renewed in time, an operator broke the lease, or the store lost the
    /// lease. Another run can now be admitted while this run is still running. A clone of a [`Run`](crate::Run) can
    /// exist for longer than the run. After the end of the run, the clone is cancelled for this reason, too, even if
    /// the run had no lease. So a clone that waits for a cancellation does not wait forever.
    LeaseLost,
    /// The task took longer than its [`timeout`](crate::Event::timeout).
    TimedOut,
    /// The process is shutting down, after a signal or a call of [`Shutdown::trigger`](crate::Shutdown::trigger), and
    /// the [drain](crate::Shutdown::with_drain) is over.
    ShuttingDown,
    /// A later occurrence replaces the run, because the event has [`Overlap::Replace`](crate::Overlap::Replace).
    /// [`RunOutcome::asked_to_stop_by`](crate::RunOutcome::asked_to_stop_by) returns the process that waits to start
    /// the later occurrence.
    Replaced,
    /// An operator wants to free the lease, for example with the command `unlock` of the feature `cli`.
    /// [`RunOutcome::asked_to_stop_by`](crate::RunOutcome::asked_to_stop_by) returns the operator's host and process.
    Unlocked,
}

impl CancelReason {
    /// Returns whether another process or an operator wants the lease. A task that stops for such a reason has not
    /// failed.
    pub(crate) fn is_for_the_lease(self) -> bool {
        matches!(self, Self::Replaced | Self::Unlocked)
    }

    /// Returns whether the run was asked to stop: by a shutdown, for a later occurrence, or by an operator. If so, an
    /// error of the task is logged as a cancellation, and not as a failure.
    pub(crate) fn is_request(self) -> bool {
        self == Self::ShuttingDown || self.is_for_the_lease()
    }
}

keywords! {
    /// Returns the keyword of the reason: `lease_lost`, `timed_out`, `shutting_down`, `replaced` or `unlocked`. No
    /// version of this library changes a keyword.
    CancelReason:
    LeaseLost "lease_lost" "its lease was lost",
    TimedOut "timed_out" "it took longer than its timeout",
    ShuttingDown "shutting_down" "the process is shutting down",
    Replaced "replaced" "a later occurrence takes its place",
    Unlocked "unlocked" "an operator frees its lease",
}

/// The error that [`Run::check`](crate::Run::check) returns in a cancelled run. A task returns it with `?`.
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
