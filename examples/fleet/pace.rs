//! The time of the fleet: a minute lasts a second.

use std::fmt;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, TimeDelta, Utc};

/// A time of the fleet: thousandths of a minute since it began, which are real milliseconds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct At(pub(crate) u32);

impl At {
    pub(crate) const MINUTE: u32 = 1000;

    pub(crate) fn minute(minute: u32) -> Self {
        Self(minute * Self::MINUTE)
    }

    /// Returns the difference between the two times as they are shown.
    pub(crate) fn after(self, earlier: Self) -> Self {
        Self((self.0 / 100).saturating_sub(earlier.0 / 100) * 100)
    }
}

impl fmt::Display for At {
    /// Minutes, with one decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / Self::MINUTE, self.0 % Self::MINUTE / 100)
    }
}

/// The clock that the processes of a fleet share, because they are told when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Since 1970.
    began: Duration,
}

impl Pace {
    /// Makes the time of a fleet that begins in half a second, when its workers run.
    pub(crate) fn new() -> Self {
        Self::begun_at(millis(since_1970() + Duration::from_millis(500)))
    }

    /// Makes the time of a fleet that began so many milliseconds after 1970.
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

    /// Returns the minute as the schedule sees it. No earlier fleet used it on this store: its claims live long.
    pub(crate) fn instant(self, minute: u32) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(i64::from(minute) + self.first())
    }

    /// Returns the minute of an instant that the schedule saw.
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
