//! The instants in civil minutes of one zone: the first from a second on.

use std::fmt;
use std::ops::Range;

use super::civil_times::CivilTimes;
use super::search::first_due;
use crate::time::crontab::field_set::{Field, FieldSet, InField};
use crate::time::{zone::Zone, zone::changes::Change};

/// No zone has had two offsets that are further apart: a day, when a zone crossed the date line, and an hour or two of
/// daylight saving.
const REACH: i64 = 26 * 3600;

/// The minutes of one or more timetables with equal properties, between the years 1970 and 2100.
#[derive(Clone, Copy)]
pub(crate) struct Occurrences<'a> {
    pub(crate) times: &'a [CivilTimes],
    pub(crate) zone: &'a Zone,
    /// Whether each time of the day comes once, even if the clocks skip or repeat it.
    pub(crate) once: bool,
    pub(crate) seconds: Seconds,
}

/// The seconds of each minute, at least one: bit n stands for the second n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(u64);

impl Seconds {
    /// The start of the minute.
    pub(crate) const START: Self = Self(1);

    /// Makes the set of these seconds from 0 to 59. `None`: the set is empty.
    #[cfg(feature = "cron")]
    pub(crate) fn new(seconds: impl IntoIterator<Item = u32>) -> Option<Self> {
        let bits = seconds.into_iter().fold(0, |bits, second| bits | 1 << second);
        (bits != 0).then_some(Self(bits))
    }

    fn last(self) -> i64 {
        self.0.ilog2().into()
    }

    /// Returns the first of them from `second` on.
    pub(crate) fn at_or_after(self, second: i64) -> Option<i64> {
        let rest = self.0 & u64::MAX.checked_shl(u32::try_from(second.max(0)).ok()?)?;
        (rest != 0).then(|| rest.trailing_zeros().into())
    }

    /// Returns the shortest time between two of these seconds. `None`: there is only one. If `next_minute`, the next
    /// minute may be due, too.
    pub(crate) fn shortest_interval(self, next_minute: bool) -> Option<u32> {
        let seconds = u128::from(self.0) | if next_minute { u128::from(self.0) << 60 } else { 0 };
        (1..60).find(|interval| seconds & seconds >> interval != 0)
    }
}

/// `0-59/5`, as a field of a schedule.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Seconds can be shown like the minutes of an hour, because both are from 0 to 59.
        InField(Field::Minute, FieldSet { bits: self.0.into(), star: false }).fmt(f)
    }
}

impl Occurrences<'_> {
    /// Returns the first one at second `from` or after.
    pub(crate) fn at_or_after(self, from: i64) -> Option<i64> {
        let minute = self.minute_at_or_after(from - self.seconds.last())?;
        Some(minute + self.seconds.at_or_after(from - minute)?)
    }

    /// Returns the first minute that begins at second `from` or after.
    fn minute_at_or_after(self, mut from: i64) -> Option<i64> {
        loop {
            if let Some(change) = self.small_change(from) {
                let resumed = change.first_new_minute();
                if from <= resumed && self.make_up_for(change) {
                    return Some(resumed);
                }
                from = from.max(resumed);
            }
            let offset = self.zone.seconds_ahead_at(from);
            let found = first_due(self.times, from + offset)? - offset;
            // Two instants may have the same offset although it changed in between. That matters only near `from`,
            // where an earlier time may come again, and near `found`, whose time may have come already.
            let near = found - from <= 2 * REACH;
            if let Some(change) = self.zone.nearest_change(from, if near { found } else { from + REACH }) {
                from = change;
            } else if near {
                return Some(found);
            } else {
                from = found - REACH;
            }
        }
    }

    // The rule for times that come once. Minutes that the clocks show again are not due. The times that a change
    // skipped are due in the first new minute after it.

    /// Returns the clock change around this second, if the change decides which times are due.
    pub(crate) fn small_change(self, second: i64) -> Option<Change> {
        if self.once { self.zone.small_change(second) } else { None }
    }

    /// Returns whether the change skipped a time of these timetables.
    fn make_up_for(self, change: Change) -> bool {
        let has_time_in = |times: Range<i64>| first_due(self.times, times.start).is_some_and(|time| time < times.end);
        change.skipped().is_some_and(has_time_in)
    }
}
