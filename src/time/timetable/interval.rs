//! Instants at equal distances in real time. Clock changes do not move them.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::time::clock::instant_of;

/// The intervals that `every` accepts: from a second to ten years.
pub(crate) const INTERVALS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3_650 * 24 * 60 * 60);

const MINUTE: i64 = 60;

/// The instants `anchor + k × every`, for all whole numbers `k`, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    anchor: i64,
    every: i64,
}

impl Interval {
    /// Makes the interval. `every` must be at least a second.
    pub(crate) const fn new(anchor: i64, every: i64) -> Self {
        Self { anchor, every }
    }

    /// Returns the first instant of the interval at `second` or after.
    pub(crate) fn at_or_after(self, second: i64) -> i64 {
        second + (self.anchor - second).rem_euclid(self.every)
    }

    /// Returns whether ticks at the start of each minute would miss some of the instants.
    pub(crate) const fn needs_seconds(self) -> bool {
        self.every % MINUTE != 0
    }

    /// Returns the interval in words, such as `every 90 minutes`. Adds the anchor, unless the anchor is the default.
    pub(crate) fn in_words(self, written: impl Fn(DateTime<Utc>) -> String) -> String {
        match self.anchor {
            0 => format!("every {self}"),
            anchor => format!("every {self} counted from {}", written(instant_of(anchor))),
        }
    }

    /// Returns the time from one instant to the next, at most an hour.
    pub(crate) fn period(self) -> Duration {
        const HOUR: u64 = 60 * 60;
        Duration::from_secs(self.every.unsigned_abs().min(HOUR))
    }
}

/// Shows the interval in the largest unit that divides it: `90 minutes`.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, length) = match self.every {
            every if every % 3600 == 0 => ("hour", 3600),
            every if every % MINUTE == 0 => ("minute", MINUTE),
            _ => ("second", 1),
        };
        match self.every / length {
            1 => f.write_str(unit),
            many => write!(f, "{many} {unit}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_as_far_from_the_anchor_as_they_should_be() {
        let interval = Interval::new(100, 7);
        let next = [99, 100, 101, -1].map(|second| interval.at_or_after(second));
        assert_eq!(next, [100, 100, 107, 2]);
    }
}
