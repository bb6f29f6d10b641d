//! Why a pattern makes no periods.

use std::fmt;
use std::time::Duration;

use super::LONGEST_TEXT;
use crate::base::error::debug_as_display;
use crate::base::escape::Quoted;

/// A [`Period::pattern`](crate::Period::pattern) that tells no periods apart.
///
/// ```
/// use std::time::Duration;
/// use soloist::{AddErrorKind, Event, Period, Schedule};
///
/// let nightly = Event::call("backup", |_| {}).daily().once_per(Period::pattern("night", Duration::from_secs(36_000)));
/// let error = Schedule::in_process().add(nightly).unwrap_err();
/// let AddErrorKind::Period(error) = error.kind() else { panic!("{error}") };
/// assert!(error.to_string().starts_with("`night` is not a pattern of periods: it has no part of the time in it"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct InvalidPeriod {
    pattern: Quoted,
    problem: Problem,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    Malformed,
    Constant,
    Text { chars: usize },
    Length { at_most: Duration },
}

impl InvalidPeriod {
    pub(super) fn new(pattern: &str, problem: Problem) -> Self {
        Self { pattern: Quoted::new(pattern), problem }
    }
}

debug_as_display!(InvalidPeriod);

impl fmt::Display for InvalidPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, problem } = self;
        match problem {
            Problem::Malformed => write!(
                f,
                "{pattern} is not a pattern of periods: it has a `%` that `chrono` does not know, write one such as \
                 `%Y-%m-%d %p`"
            ),
            Problem::Constant => write!(
                f,
                "{pattern} is not a pattern of periods: it has no part of the time in it, write one such as \
                 `%Y-%m-%d %p`"
            ),
            Problem::Text { chars } => write!(
                f,
                "{pattern} is not a pattern of periods: its text has {chars} characters, and 1 to {LONGEST_TEXT} are \
                 allowed"
            ),
            Problem::Length { at_most } => {
                write!(f, "periods of {pattern} that last {at_most:?} at most are outside of a minute to nine years")
            }
        }
    }
}

impl std::error::Error for InvalidPeriod {}
