//! The span of time in which an event is due.

use chrono::{DateTime, Timelike, Utc};

use crate::time::clock::instant_of;

/// The seconds from `from` on, and before `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    from: i64,
    until: i64,
}

impl Span {
    pub(crate) const ALWAYS: Self = Self { from: i64::MIN, until: i64::MAX };

    /// Makes a span. Rounds its limits up to whole seconds, because occurrences are whole seconds.
    pub(crate) fn new(from: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>) -> Self {
        let whole = |at: DateTime<Utc>| at.timestamp() + i64::from(at.nanosecond() != 0);
        Self { from: from.map_or(i64::MIN, whole), until: until.map_or(i64::MAX, whole) }
    }

    /// Makes the span of one second.
    pub(crate) const fn second(second: i64) -> Self {
        Self { from: second, until: second + 1 }
    }

    /// Returns the only second of the span. `None`: the span does not have exactly one second.
    pub(crate) fn only(self) -> Option<i64> {
        (self.from.checked_add(1) == Some(self.until)).then_some(self.from)
    }

    pub(crate) fn includes(self, second: i64) -> bool {
        self.from <= second && second < self.until
    }

    /// Returns whether the span has ended at `second`. Always `false` for the span of a single instant (`at`), because
    /// that occurrence can be caught up at any later time.
    pub(crate) fn is_over_at(self, second: i64) -> bool {
        self.only().is_none() && self.until <= second
    }

    /// Returns `second`, or the first second of the span if that is later.
    pub(crate) fn not_before(self, second: i64) -> i64 {
        second.max(self.from)
    }

    /// Returns the limits of the span in words, `from ..` and `until ..`. `written` formats an instant.
    pub(crate) fn in_words(self, written: impl Fn(DateTime<Utc>) -> String) -> impl Iterator<Item = String> {
        let ends = [("from", self.from, i64::MIN), ("until", self.until, i64::MAX)];
        let is_set = ends.into_iter().filter(|(_, at, open)| at != open);
        is_set.map(move |(word, at, _)| format!("{word} {}", written(instant_of(at))))
    }
}
