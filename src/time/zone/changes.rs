//! When the clocks of a zone change: found by asking how far ahead of UTC they are, in seconds since 1970.

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

    /// The one change after second `from` and up to second `to`, whose offsets differ.
    pub(super) fn between(seconds_ahead_at: impl Fn(i64) -> i64, from: i64, to: i64) -> Self {
        let (before, after) = (seconds_ahead_at(from), seconds_ahead_at(to));
        let (mut old, mut at) = (from, to);
        while at - old > 1 {
            let middle = old + (at - old) / 2;
            *(if seconds_ahead_at(middle) == before { &mut old } else { &mut at }) = middle;
        }
        Self { at, before, after }
    }

    /// The change that is nearest to second `from` on the way to second `to`, which may be the earlier one.
    pub(super) fn nearest(seconds_ahead_at: impl Fn(i64) -> i64, from: i64, to: i64) -> Option<Self> {
        let offset = seconds_ahead_at(from);
        let mut same = from;
        while same != to {
            let next = same + (to - same).clamp(-STRIDE, STRIDE);
            if seconds_ahead_at(next) != offset {
                return Some(Self::between(seconds_ahead_at, same.min(next), same.max(next)));
            }
            same = next;
        }
        None
    }
}
