//! A point in time on the monotonic clock.

use std::time::Duration;

/// A point in time on the monotonic clock. A moment can only be compared with another moment of the same process.
///
/// ```
/// use std::time::Duration;
///
/// let now = soloist::time::Clock::system().moment();
/// assert_eq!(now.plus(Duration::from_secs(5)).since(now), Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub(super) u64);

impl Moment {
    /// Makes the moment `since_start` after the start of the clock. The nanoseconds have room for 584 years.
    pub(super) fn at(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns this moment plus the duration `later`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let now = soloist::time::Clock::system().moment();
    /// assert!(now.plus(Duration::from_millis(1)) > now);
    /// ```
    #[must_use = "a moment is not changed in place"]
    pub fn plus(self, later: Duration) -> Self {
        Self(self.0.saturating_add(Self::at(later).0))
    }

    /// Returns the time since `earlier`, or zero if this moment is not after `earlier`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let now = soloist::time::Clock::system().moment();
    /// assert_eq!(now.since(now.plus(Duration::from_secs(1))), Duration::ZERO);
    /// ```
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns this moment minus the duration `earlier`.
    pub(crate) fn minus(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(Self::at(earlier).0))
    }

    /// Returns the moment as a number of 62 bits, which have room for 146 years.
    pub(crate) fn to_bits(self) -> u64 {
        self.0.min(Self::NEVER.0)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The first moment, which has always passed.
    pub(crate) const BEGINNING: Self = Self(0);

    /// A moment that never comes.
    pub(crate) const NEVER: Self = Self(u64::MAX >> 2);
}
