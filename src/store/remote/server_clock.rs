//! The clock of a server, as last heard.

use chrono::{DateTime, Utc};

use crate::time::{clock::Clock, clock::moment::Moment};

/// What a server's clock showed, and when it had been heard: later than it was read, so that its time is never taken
/// for later than it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    micros: i64,
    heard: Moment,
}

/// How far two clocks drift apart between two calls at most, in microseconds, while neither is set.
#[cfg(feature = "redis")]
const CLOCKS_DRIFT: i64 = 1_000_000;

impl ServerClock {
    pub(crate) fn read(micros: i64) -> Self {
        Self { micros, heard: Clock::system().moment() }
    }

    /// The server's time at a moment of ours, in microseconds.
    pub(crate) fn at(self, moment: Moment) -> i64 {
        let later = i64::try_from(moment.since(self.heard).as_micros()).unwrap_or(i64::MAX);
        self.micros.saturating_add(later)
    }

    /// The earliest time, in microseconds, that the server's clock can show now, unless it was set back since it was
    /// read.
    #[cfg(feature = "redis")]
    pub(crate) fn at_least(self) -> i64 {
        self.at(Clock::system().moment()).saturating_sub(CLOCKS_DRIFT)
    }

    #[cfg(feature = "redis")]
    pub(crate) fn now(self) -> DateTime<Utc> {
        instant(self.at(Clock::system().moment()))
    }
}

pub(crate) fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or(DateTime::UNIX_EPOCH)
}
