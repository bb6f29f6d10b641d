//! The term of a lease, and whether the lease is renewed.

use std::time::Duration;

use crate::base::error::debug_as_display;
use crate::time::clock::shown::ExactDuration;

/// The time for which a lease lasts without renewal: from 1 millisecond to 10 years.
///
/// ```
/// use std::time::Duration;
/// use soloist::Term;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let term = Term::new(Duration::from_secs(90))?;
/// assert_eq!(term.get(), Duration::from_secs(90));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(Duration);

impl Term {
    /// The shortest term: 1 millisecond, because some stores count no smaller unit.
    pub const MIN: Self = Self(Duration::from_millis(1));

    /// The longest term: ten years, so that no sum of a time and a term can overflow.
    pub const MAX: Self = Self(Duration::from_secs(3650 * 24 * 60 * 60));

    /// The default term of a lease that is renewed: 60 seconds. If a process crashes, its events are blocked for at
    /// most one term.
    pub const DEFAULT: Self = Self(Duration::from_secs(60));

    /// Makes the term of this length.
    ///
    /// # Errors
    ///
    /// The length is outside of [`MIN`](Self::MIN) to [`MAX`](Self::MAX). Zero is outside, too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Term;
    ///
    /// let error = Term::new(Duration::ZERO).unwrap_err();
    /// assert_eq!(error.to_string(), "a lease of 0s is too short or too long: use 1ms to ten years");
    /// ```
    pub fn new(length: Duration) -> Result<Self, InvalidTerm> {
        if (Self::MIN.get()..=Self::MAX.get()).contains(&length) {
            Ok(Self(length))
        } else {
            Err(InvalidTerm { length })
        }
    }

    /// Returns the length.
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// The error for a length that is shorter than [`Term::MIN`] or longer than [`Term::MAX`].
///
/// ```
/// use std::time::Duration;
/// use soloist::Term;
///
/// assert!(Term::new(Duration::ZERO).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lease of {} is too short or too long: use {} to ten years", ExactDuration(*length), ExactDuration(Term::MIN.get()))]
pub struct InvalidTerm {
    length: Duration,
}

debug_as_display!(InvalidTerm);

/// The shortest term of a renewed lease. With a shorter term, the renewals would keep the store busy, and any delay
/// could lose the lease.
pub(crate) const SHORTEST_RENEWED: Duration = Duration::from_millis(100);

/// The rule for the renewal of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    WhileItRuns,
    Never,
}
