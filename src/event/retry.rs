//! Retries: how often and after which time a failed task is started again.

use std::fmt;
use std::time::Duration;

use super::add_error::{AddErrorKind, Refusal, checked_term};
use crate::time::clock::shown::HumanDuration;

/// The retries of a failed task, for [`Event::retry`](crate::Event::retry): how many, after which delay, and whether
/// the delay doubles.
///
/// ```
/// use std::time::Duration;
/// use soloist::Retry;
///
/// // After 10, 20 and 40 seconds.
/// let retry = Retry::times(3).after(Duration::from_secs(10)).doubling();
/// assert_eq!(retry.to_string(), "retry 3, after 10.0 s, doubling");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "retries have no effect until they are passed to `Event::retry`"]
pub struct Retry {
    times: u32,
    after: Option<Duration>,
    doubles: bool,
}

/// The highest number of retries of a run.
pub(crate) const MOST_RETRIES: u32 = 1000;

impl Retry {
    /// Makes a policy with at most this many retries, from 1 to 1,000. A retry starts a failed task again.
    /// [`after`](Self::after) must set the delay.
    pub fn times(times: u32) -> Self {
        Self { times, after: None, doubles: false }
    }

    /// Sets the delay from the end of a failed attempt to the start of the next attempt, from 1 millisecond to ten
    /// years.
    pub fn after(self, delay: Duration) -> Self {
        Self { after: Some(delay), ..self }
    }

    /// Makes each further delay twice as long as the previous delay.
    pub fn doubling(self) -> Self {
        Self { doubles: true, ..self }
    }

    /// Returns the delay after the attempt with the number `attempt`. The first attempt has the number 1. `None`: no
    /// further attempt follows.
    pub(crate) fn delay_after(&self, attempt: u32) -> Option<Duration> {
        let factor = if self.doubles { 2_u32.saturating_pow(attempt.saturating_sub(1)) } else { 1 };
        self.after.filter(|_| attempt <= self.times).map(|delay| delay.saturating_mul(factor))
    }

    /// Checks the number of retries and the delay, and returns the delay before the first retry.
    pub(super) fn checked_delay(&self) -> Result<Duration, Refusal> {
        if !(1..=MOST_RETRIES).contains(&self.times) {
            let message = format_args!("`Retry::times({})`: use 1 to {MOST_RETRIES}", self.times);
            return Err(AddErrorKind::OutOfRange.because(message));
        }
        let delay = self.after.ok_or_else(|| {
            AddErrorKind::Missing.because(
                "its `retry(..)` has no delay between two attempts: write \
                 `Retry::times(3).after(Duration::from_secs(10))`",
            )
        })?;
        checked_term("after", delay).map(|_| delay)
    }
}

/// Shows the retries as in [`Definition::protections`](crate::observe::Definition::protections):
/// `retry 3, after 10.0 s, doubling`.
impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "retry {}", self.times)?;
        if let Some(delay) = self.after {
            write!(f, ", after {}", HumanDuration(delay))?;
        }
        f.write_str(if self.doubles { ", doubling" } else { "" })
    }
}
