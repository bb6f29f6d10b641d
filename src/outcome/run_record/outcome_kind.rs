//! The kinds of outcomes.

/// The kind of a run's outcome. `Display` shows the kind as a part of a sentence: `timed out`.
///
/// ```
/// use soloist::observe::OutcomeKind;
///
/// assert_eq!(OutcomeKind::TimedOut.keyword(), "timed_out");
/// assert_eq!(OutcomeKind::TimedOut.to_string(), "timed out");
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// The task succeeded.
    Succeeded,
    /// The task returned an error, or its command or future could not be started. Or its command ended with an exit
    /// code other than 0, or was ended by a signal.
    Failed,
    /// The task panicked.
    Panicked,
    /// The task took longer than its [`timeout`](crate::Event::timeout).
    TimedOut,
    /// The run was cancelled, and its task then ended with an error or an exit code other than 0.
    Cancelled,
    /// The task was not called: a `before` hook failed, or the lease was lost before the call.
    NotStarted,
}

impl OutcomeKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Succeeded, Self::Failed, Self::Panicked, Self::TimedOut, Self::Cancelled, Self::NotStarted];

    /// Returns the kind with this keyword.
    pub(crate) fn of_keyword(keyword: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|result| result.keyword() == keyword)
    }
}

keywords! {
    /// Returns the keyword that stores keep: `succeeded`, `failed`, `panicked`, `timed_out`, `cancelled` or
    /// `not_started`.
    OutcomeKind:
    Succeeded "succeeded" "succeeded",
    Failed "failed" "failed",
    Panicked "panicked" "panicked",
    TimedOut "timed_out" "timed out",
    Cancelled "cancelled" "was cancelled",
    NotStarted "not_started" "was not started",
}

/// Serializes the kind as its [keyword](OutcomeKind::keyword).
#[cfg(feature = "serde")]
impl serde::Serialize for OutcomeKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.keyword())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_back_by_its_keyword_and_no_other_word_is() {
        for result in OutcomeKind::ALL {
            assert_eq!(OutcomeKind::of_keyword(result.keyword()), Some(result));
        }
        for other in ["", "Succeeded", "succeeded ", "skipped"] {
            assert_eq!(OutcomeKind::of_keyword(other), None, "{other}");
        }
    }
}
