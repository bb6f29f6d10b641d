//! The time of the fleet: a minute lasts a second.

use std::fmt;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, TimeDelta, Utc};

/// A time of the fleet: the thousandths of a minute since the fleet began. Each lasts a real millisecond.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct At(pub(crate) u32);

impl At {
    pub(crate) const MINUTE: u32 = 1000;

    pub(crate) fn minute(minute: u32) -> Self {
        Self(minute * Self::MINUTE)
    }

    /// Returns the time from `earlier` to this time. Both times are first cut to tenths of a minute, so that the
    /// difference agrees with the two times as they are printed.
    pub(crate) fn after(self, earlier: Self) -> Self {
        Self((self.0 / 100).saturating_sub(earlier.0 / 100) * 100)
    }
}

impl fmt::Display for At {
    /// Writes the minutes with one decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / Self::MINUTE, self.0 % Self::MINUTE / 100)
    }
}

/// The clock of a fleet. Each process gets the time at which the fleet began, so all clocks agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The time from the beginning of 1970 to the beginning of the fleet.
    began: Duration,
}

impl Pace {
    /// Makes the clock of a fleet that begins in half a second. By then, the workers are running.
    pub(crate) fn new() -> Self {
        Self::begun_at(millis(since_1970() + Duration::from_millis(500)))
    }

    /// Makes the clock of a fleet that began `millis` after the beginning of 1970.
    pub(crate) fn begun_at(millis: u64) -> Self {
        Self { began: Duration::from_millis(millis) }
    }

    pub(crate) fn began(self) -> u64 {
        millis(self.began)
    }

    pub(crate) fn now(self) -> At {
        At(u32::try_from(since_1970().saturating_sub(self.began).as_millis()).unwrap_or(u32::MAX))
    }

    pub(crate) fn wait_for(self, at: At) {
        thread::sleep((self.began + Duration::from_millis(at.0.into())).saturating_sub(since_1970()));
    }

    /// Returns the instant that the schedule gets as the time of a minute. Each fleet has other instants, because the
    /// store still has the claims of earlier fleets.
    pub(crate) fn instant(self, minute: u32) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(i64::from(minute) + self.first())
    }

    /// Returns the minute of the fleet for an occurrence of the schedule.
    pub(crate) fn minute(self, instant: DateTime<Utc>) -> u32 {
        u32::try_from(instant.timestamp() / 60 - self.first()).unwrap_or(0)
    }

    fn first(self) -> i64 {
        i64::try_from(self.began.as_secs()).unwrap_or(i64::MAX) - 1_700_000_000
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
