//! When the clocks of a zone change, in seconds since 1970.

use chrono::{DateTime, Utc};

use super::Zone;

/// Shorter than the shortest time for which a zone kept an offset.
const STRIDE: i64 = 6 * 3600;

/// A change of a zone's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The first second that has the new offset.
    pub(crate) at: i64,
    /// How many seconds ahead of UTC the clocks were until then, and are from then on.
    pub(crate) before: i64,
    pub(crate) after: i64,
}

impl Change {
    /// By how many seconds the clocks were set forward; back, where it is negative.
    pub(crate) fn by(self) -> i64 {
        self.after - self.before
    }

    /// The first second from `second` on at which a minute begins on the clocks as they are after the change.
    pub(crate) fn minute_at_or_after(self, second: i64) -> i64 {
        second + (-second - self.after).rem_euclid(60)
    }
}

impl Zone {
    /// The first second in `from..=to` that has another offset than `from`.
    pub(crate) fn first_change(&self, from: i64, to: i64) -> Option<i64> {
        let offset = self.seconds_ahead_at(from);
        let mut same = from;
        while same < to {
            let at = to.min(same + STRIDE);
            if self.seconds_ahead_at(at) != offset {
                return Some(self.change_between(same, at));
            }
            same = at;
        }
        None
    }

    /// The first second of the offset that `to` has, where that is not the one of `from`.
    pub(crate) fn last_change(&self, from: i64, to: i64) -> Option<i64> {
        let offset = self.seconds_ahead_at(to);
        let mut same = to;
        while same > from {
            let at = from.max(same - STRIDE);
            if self.seconds_ahead_at(at) != offset {
                return Some(self.change_between(at, same));
            }
            same = at;
        }
        None
    }

    /// The change in the `span` seconds up to `second`, of which there is one at the most: a span is not longer than a
    /// zone keeps an offset.
    pub(crate) fn change_within(&self, span: i64, second: i64) -> Option<Change> {
        if !self.has_changes() {
            return None;
        }
        let (before, after) = (self.seconds_ahead_at(second - span), self.seconds_ahead_at(second));
        (before != after).then(|| Change { at: self.change_between(second - span, second), before, after })
    }

    /// The one change between two seconds whose offsets differ: the first second that has the later one.
    fn change_between(&self, mut before: i64, mut after: i64) -> i64 {
        let offset = self.seconds_ahead_at(before);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if self.seconds_ahead_at(middle) == offset {
                before = middle;
            } else {
                after = middle;
            }
        }
        after
    }

    /// How far ahead of UTC its clocks are, in seconds. Beyond the ends of time the offset there goes on.
    pub(crate) fn seconds_ahead_at(&self, second: i64) -> i64 {
        let end = if second < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
        let instant = DateTime::from_timestamp(second, 0).unwrap_or(end);
        i64::from(self.offset_at(instant).local_minus_utc())
    }
}
