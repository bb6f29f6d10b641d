//! The search for clock changes of a zone. It compares the offsets of the zone at several times. Times are seconds
//! since 1970.

use std::ops::Range;

#[cfg(feature = "cli")]
use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};

use super::Zone;

/// The distance between two times of the search: a day. The search misses no change, because no zone has kept an offset
/// for less than six days.
pub(super) const STRIDE: i64 = 24 * 3600;

/// A change of a zone's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The first second that has the new offset.
    pub(crate) at: i64,
    /// The offsets from UTC before and after the change, in seconds.
    pub(crate) before: i64,
    pub(crate) after: i64,
}

impl Zone {
    /// Returns the clock change that is nearest to second `from`, between `from` and `to`: the first second with the
    /// new offset. `to` can be earlier than `from`.
    pub(crate) fn nearest_change(&self, from: i64, to: i64) -> Option<i64> {
        if !self.has_changes() {
            return None;
        }
        let offset = self.seconds_ahead_at(from);
        let mut same = from;
        while same != to {
            let next = same + (to - same).clamp(-STRIDE, STRIDE);
            if self.seconds_ahead_at(next) != offset {
                return Some(self.change_between(same.min(next), same.max(next)).at);
            }
            same = next;
        }
        None
    }

    /// Returns the first instant at which the clocks of the zone show `civil`. If the clocks skip that time, returns
    /// the instant at which they would have shown it without the change.
    #[cfg(feature = "cli")]
    pub(crate) fn first_showing(&self, civil: NaiveDateTime) -> DateTime<Utc> {
        let as_utc = civil.and_utc();
        let offsets = [-1, 1].map(|days| self.offset_at(as_utc + TimeDelta::days(days)));
        let instants = offsets.map(|offset| as_utc - TimeDelta::seconds(offset.local_minus_utc().into()));
        let shows = |instant: &&DateTime<Utc>| self.at(**instant).naive_local() == civil;
        *instants.iter().filter(shows).min().unwrap_or(&instants[0])
    }

    /// Returns the clock change after second `from` and up to second `to`. There must be exactly one change.
    pub(crate) fn change_between(&self, from: i64, to: i64) -> Change {
        let (before, after) = (self.seconds_ahead_at(from), self.seconds_ahead_at(to));
        let mut old = from;
        let mut at = to;
        while at - old > 1 {
            let middle = old + (at - old) / 2;
            *(if self.seconds_ahead_at(middle) == before { &mut old } else { &mut at }) = middle;
        }
        Change { at, before, after }
    }
}

impl Change {
    /// Returns the second at which the first new minute begins after the change. A new minute is a minute that the
    /// clocks have not shown before.
    pub(crate) fn first_new_minute(self) -> i64 {
        let new = self.at + (self.before - self.after).max(0);
        new + (-new - self.after).rem_euclid(60)
    }

    /// Returns the civil seconds that the change has skipped, from the beginning of the first whole minute. `None`: the
    /// change has skipped no time.
    pub(crate) fn skipped(self) -> Option<Range<i64>> {
        let (first, end) = (self.at + self.before, self.at + self.after);
        (first < end).then(|| first + (-first).rem_euclid(60)..end)
    }
}
