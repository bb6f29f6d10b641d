//! How a run ended, in one word.

/// How a run ended, in one word: [`RunOutcome::result`](crate::RunOutcome::result) says it.
///
/// ```
/// use soloist::RunResult;
///
/// assert_eq!(RunResult::TimedOut.keyword(), "timed_out");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunResult {
    /// The task returned without an error.
    Succeeded,
    /// It returned an error, or its command failed.
    Failed,
    /// It panicked.
    Panicked,
    /// It took longer than its timeout.
    TimedOut,
    /// It was told to stop for another reason, and did not succeed.
    Cancelled,
    /// A `before` hook failed, or the lease was lost before.
    NotStarted,
}

impl RunResult {
    /// In their order.
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 6] =
        [Self::Succeeded, Self::Failed, Self::Panicked, Self::TimedOut, Self::Cancelled, Self::NotStarted];

    /// As one lower-case word, the same in every version: `succeeded`, `failed`, `panicked`, `timed_out`, `cancelled`,
    /// `not_started`.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::NotStarted => "not_started",
        }
    }
}

/// As its [keyword](RunResult::keyword).
#[cfg(feature = "serde")]
impl serde::Serialize for RunResult {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.keyword())
    }
}
