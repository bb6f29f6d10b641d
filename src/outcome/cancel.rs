//! Why a run should stop.

use std::fmt;

use crate::base::error::debug_as_display;

/// A reason why a run should stop.
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
    /// The lease is not this run's any more: it was not renewed in time, or somebody broke it, or the store lost it. So
    /// another run may be admitted beside this one. A clone of a [`Run`](crate::Run) that outlives its run sees this
    /// too, with or without a lease, and is woken if it waits.
    LeaseLost,
    /// The task took longer than its [`timeout`](crate::Event::timeout).
    TimedOut,
    /// The process is about to end: a signal asked it to, or somebody called [`Shutdown::trigger`](crate::Shutdown::trigger),
    /// and the [drain](crate::Shutdown::with_drain) is over.
    ShuttingDown,
    /// A later occurrence takes its place, because the event says [`Overlap::Replace`](crate::Overlap::Replace).
    /// [`RunOutcome::asked_to_stop_by`](crate::RunOutcome::asked_to_stop_by) tells who waits with it.
    Replaced,
    /// An operator frees the lease, as with the command `unlock` of the feature `cli`.
    /// [`RunOutcome::asked_to_stop_by`](crate::RunOutcome::asked_to_stop_by) tells on which host.
    Unlocked,
}

impl CancelReason {
    /// Returns the reason as one lower-case word, the same in every version: `lease_lost`, `timed_out`,
    /// `shutting_down`, `replaced`, `unlocked`.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::LeaseLost => "lease_lost",
            Self::TimedOut => "timed_out",
            Self::ShuttingDown => "shutting_down",
            Self::Replaced => "replaced",
            Self::Unlocked => "unlocked",
        }
    }

    /// Returns whether somebody else asked for its lease, so that a task that stops does what it should.
    pub(crate) fn gave_way(self) -> bool {
        matches!(self, Self::Replaced | Self::Unlocked)
    }

    /// Returns whether somebody wanted it to stop, so that a task that returns an error then is no failure of its own.
    pub(crate) fn is_wanted(self) -> bool {
        self == Self::ShuttingDown || self.gave_way()
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

/// The run was cancelled: what [`Run::check`](crate::Run::check) says, for a task to pass on with `?`.
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

    /// Why.
    pub fn reason(&self) -> CancelReason {
        self.reason
    }
}
