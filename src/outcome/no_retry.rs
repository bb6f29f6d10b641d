//! The reasons why a failed run was not retried, although it had attempts left.

use super::cancel::CancelReason;

/// A reason why a failed task was not [retried](crate::Event::retry), although it had attempts left. `Display` shows
/// the reason as a part of a sentence: `the process is shutting down`.
///
/// ```
/// use soloist::observe::NoRetry;
///
/// assert_eq!(NoRetry::NextOccurrence.keyword(), "next_occurrence");
/// assert_eq!(NoRetry::NextOccurrence.to_string(), "its next occurrence comes first");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoRetry {
    /// The next occurrence of the event would have been due before the retry.
    NextOccurrence,
    /// The retry would have begun outside of a window of the event; see [`Event::between`](crate::Event::between).
    OutsideWindow,
    /// The retry would have begun after the event's [`until`](crate::Event::until).
    Over,
    /// The run's [`timeout`](crate::Event::timeout) was over, or would have been over before the retry.
    TimedOut,
    /// The lease was lost during the wait, or its fixed term would have been over before the retry.
    LeaseOver,
    /// The process began to shut down.
    ShuttingDown,
    /// The schedule or the event was paused.
    Paused,
    /// A later occurrence replaces the run; see [`Overlap::Replace`](crate::Overlap::Replace).
    Replaced,
    /// An operator wants to free the lease.
    Unlocked,
}

/// Converts the reason of a cancellation that prevents a retry.
impl From<CancelReason> for NoRetry {
    fn from(reason: CancelReason) -> Self {
        match reason {
            CancelReason::LeaseLost => Self::LeaseOver,
            CancelReason::TimedOut => Self::TimedOut,
            CancelReason::ShuttingDown => Self::ShuttingDown,
            CancelReason::Replaced => Self::Replaced,
            CancelReason::Unlocked => Self::Unlocked,
        }
    }
}

keywords! {
    /// Returns the keyword of the reason: `next_occurrence`, `outside_window`, `over`, `timed_out`, `lease_over`,
    /// `shutting_down`, `paused`, `replaced` or `unlocked`. No version of this library changes a keyword.
    NoRetry:
    NextOccurrence "next_occurrence" "its next occurrence comes first",
    OutsideWindow "outside_window" "its window is closed at the time of the retry",
    Over "over" "its `until` is over before the retry",
    TimedOut "timed_out" "its timeout is over before the retry",
    LeaseOver "lease_over" "its lease is over before the retry",
    ShuttingDown "shutting_down" "the process is shutting down",
    Paused "paused" "it is paused",
    Replaced "replaced" "a later occurrence takes its place",
    Unlocked "unlocked" "an operator frees its lease",
}
