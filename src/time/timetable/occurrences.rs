//! The search for the first occurrence from a given second on, for civil times in one zone.

use std::fmt;
use std::ops::Range;

use super::civil_times::CivilTimes;
use super::search::first_due;
use crate::time::crontab::field_set::{Field, FieldSet, InField};
use crate::time::{zone::Zone, zone::changes::Change};

/// The largest difference between two offsets of a zone, in seconds. A zone that crossed the date line moved by a day.
/// Daylight saving adds two hours at most.
const REACH: i64 = 26 * 3600;

/// The occurrences of one or more timetables, between the years 1970 and 2100. The timetables differ only in their
/// `times`.
#[derive(Clone, Copy)]
pub(crate) struct Occurrences<'a> {
    pub(crate) times: &'a [CivilTimes],
    pub(crate) zone: &'a Zone,
    /// Whether each time of the day comes exactly once, even if the clocks skip or repeat that time.
    pub(crate) once: bool,
    pub(crate) seconds: Seconds,
}

/// The seconds of a minute at which an event is due. The set is not empty. Bit n stands for the second n.
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

    /// Returns the smallest number of the set that is `second` or larger. `None`: all numbers of the set are smaller.
    pub(crate) fn at_or_after(self, second: i64) -> Option<i64> {
        let rest = self.0 & u64::MAX.checked_shl(u32::try_from(second.max(0)).ok()?)?;
        (rest != 0).then(|| rest.trailing_zeros().into())
    }

    /// Returns the shortest time between two seconds of the set. If `next_minute`, the seconds of the next minute
    /// count, too. `None`: there is only one second.
    pub(crate) fn shortest_interval(self, next_minute: bool) -> Option<u32> {
        let seconds = u128::from(self.0) | if next_minute { u128::from(self.0) << 60 } else { 0 };
        (1..60).find(|interval| seconds & seconds >> interval != 0)
    }
}

/// Writes `0-59/5`, as in a field of a crontab.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Seconds can be shown like the minutes of an hour, because both are from 0 to 59.
        InField(Field::Minute, FieldSet { bits: self.0.into(), star: false }).fmt(f)
    }
}

impl Occurrences<'_> {
    /// Returns the first occurrence at second `from` or after.
    pub(crate) fn at_or_after(self, from: i64) -> Option<i64> {
        let minute = self.minute_at_or_after(from - self.seconds.last())?;
        Some(minute + self.seconds.at_or_after(from - minute)?)
    }

    /// Returns the first due minute that begins at second `from` or after.
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
            // Two instants can have equal offsets although the clocks were changed in between. Such a change matters
            // only in two places. Near `from`, an earlier time can come again. Near `found`, the time of `found` may
            // have come already.
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

    // The next two functions implement the rule for times that come once. Minutes that the clocks repeat are not due.
    // Times that a change has skipped are due in the first new minute after the change.

    /// Returns the clock change around this second, if the change decides which times are due.
    pub(crate) fn small_change(self, second: i64) -> Option<Change> {
        if self.once { self.zone.small_change(second) } else { None }
    }

    /// Returns whether the change has skipped a time of these timetables. Then the event is due right after the change.
    fn make_up_for(self, change: Change) -> bool {
        let has_time_in = |times: Range<i64>| first_due(self.times, times.start).is_some_and(|time| time < times.end);
        change.skipped().is_some_and(has_time_in)
    }
}
