//! The clock of a server: its last known time, and the warning if it differs from the clock of this host.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::store::event_mutex::warning::StoreWarning;
use crate::time::clock::{Clock, LITTLE_STEP, moment::Moment, shown::HumanDuration};

/// A time of a server's clock, and the moment when it arrived here. The server read its clock before that moment, so
/// [`at`](Self::at) never returns a time that is later than the server's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerClock {
    pub(crate) micros: i64,
    heard: Moment,
}

impl ServerClock {
    /// Makes the clock from the server's time in microseconds, which has just arrived.
    pub(crate) fn read(micros: i64) -> Self {
        Self { micros, heard: Clock::system().moment() }
    }

    /// Returns the last known time.
    pub(crate) fn time(self) -> DateTime<Utc> {
        instant(self.micros)
    }

    /// Returns the server's time, in microseconds, at a moment of this host.
    pub(crate) fn at(self, moment: Moment) -> i64 {
        let later = i64::try_from(moment.since(self.heard).as_micros()).unwrap_or(i64::MAX);
        self.micros.saturating_add(later)
    }

    /// Returns the beginning and the end of the window, in the server's time in microseconds, of a request that is sent
    /// at `now` and answered by `until`.
    pub(crate) fn window(self, now: Moment, until: Moment) -> [i64; 2] {
        [self.at(now).saturating_sub(CLOCKS_DRIFT).max(0), self.at(until)]
    }
}

/// The most by which the server's clock and this host's clock drift apart between two calls, in microseconds. A clock
/// that is set can jump further.
const CLOCKS_DRIFT: i64 = 1_000_000;

/// The greatest difference between two clocks that count as synchronised.
const CLOCKS_DIFFER: Duration = Duration::from_secs(10);

/// Returns a warning if the server's `time` lies far before `asked` or far after `heard`. This host sent the request at
/// `asked`, and got the reply at `heard`.
pub(crate) fn difference_warning(
    asked: DateTime<Utc>,
    time: DateTime<Utc>,
    heard: DateTime<Utc>,
) -> Option<StoreWarning> {
    let by = (asked - time).max(time - heard).to_std().unwrap_or_default();
    let text = format_args!(
        "the clocks of the server and of this host differ by {:.1} s: synchronise both with NTP",
        by.as_secs_f64()
    );
    (by > CLOCKS_DIFFER).then(|| StoreWarning::new(text))
}

/// Returns a warning if the server's clock was set back. `ahead` is the time from now, by the server's clock, until the
/// latest grant. A small `ahead` gives no warning, because it comes from a usual correction of the clock.
pub(crate) fn set_back_warning(ahead: Duration) -> Option<StoreWarning> {
    let text = format_args!(
        "the server's clock was set back by {} or more: the lease of a dead process blocks its event for one more term, from \
         the next tick that asks for it; find out what set the clock; if the clock is wrong now, correct it while nothing runs",
        HumanDuration(ahead)
    );
    (ahead > LITTLE_STEP).then(|| StoreWarning::new(text))
}

pub(crate) fn instant(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or(DateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_that_is_a_little_ahead_is_no_warning() {
        assert_eq!(set_back_warning(Duration::from_secs(1)), None);
        assert_eq!(
            set_back_warning(Duration::from_secs(23 * 3600)).unwrap().to_string(),
            "the server's clock was set back by 23 h 0 min or more: the lease of a dead process blocks its event for one more \
             term, from the next tick that asks for it; find out what set the clock; if the clock is wrong now, correct it while \
             nothing runs"
        );
    }

    #[test]
    fn a_clock_that_differs_by_more_than_ten_seconds_is_warned_of() {
        let at = |seconds: i64| DateTime::from_timestamp(1_772_366_400 + seconds, 0).unwrap();
        for (asked, time, heard) in [(0, 10, 0), (10, 0, 10), (0, 5, 10), (0, 0, 60)] {
            assert_eq!(difference_warning(at(asked), at(time), at(heard)), None);
        }
        for (asked, time, heard) in [(0, 12, 1), (11, 0, 15)] {
            let warning = difference_warning(at(asked), at(time), at(heard)).unwrap().to_string();
            let said = "the clocks of the server and of this host differ by 11.0 s: synchronise both with NTP";
            assert_eq!(warning, said);
        }
    }
}
