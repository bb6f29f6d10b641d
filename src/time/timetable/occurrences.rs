//! The instants at which civil minutes of one zone begin: the first from a second on, and the last up to one.

use std::ops::Range;

use super::civil_times::CivilTimes;
use super::search::nearest_due;
use crate::time::{zone::Zone, zone::changes::Change};

/// No two offsets that one zone has had, or that tables foresee, are further apart: a day, when it moved to the other
/// side of the date line, and an hour or two of daylight saving.
const REACH: i64 = 26 * 3600;

/// The minutes of one or more timetables that are read alike, between the years 1970 and 2100.
#[derive(Clone, Copy)]
pub(crate) struct Occurrences<'a> {
    pub(crate) times: &'a [CivilTimes],
    pub(crate) zone: &'a Zone,
    /// Whether each time of the day comes once, whatever the clocks show.
    pub(crate) once: bool,
}

impl Occurrences<'_> {
    /// Returns the first one at second `from` or after.
    pub(crate) fn at_or_after(self, mut from: i64) -> Option<i64> {
        loop {
            if let Some(change) = self.small_change(from) {
                let resumed = change.first_new_minute();
                if from <= resumed && change.skipped().is_some_and(|times| self.has_civil_time_in(&times)) {
                    return Some(resumed);
                }
                from = from.max(resumed);
            }
            let offset = self.zone.seconds_ahead_at(from);
            let found = self.civil_at_or_after(from + offset)? - offset;
            // Between two instants at which the offset is the same it may have been another one for a while. That
            // matters only within reach of `from`, where a time before it may come again, and of `found`, where its
            // own time may have come already.
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

    /// Returns the last occurrence at second `until` or before: the mirror image of [`at_or_after`](Self::at_or_after).
    pub(crate) fn at_or_before(self, mut until: i64) -> Option<i64> {
        loop {
            let offset = self.zone.seconds_ahead_at(until);
            let found = self.civil_at_or_before(until + offset)? - offset;
            if let Some(change) = self.small_change(until).filter(|change| found < change.first_new_minute()) {
                let resumed = change.first_new_minute();
                if resumed <= until && change.skipped().is_some_and(|times| self.has_civil_time_in(&times)) {
                    return Some(resumed);
                }
                until = change.at - 1;
                continue;
            }
            let near = until - found <= 2 * REACH;
            if let Some(change) = self.zone.nearest_change(until, if near { found } else { until - REACH }) {
                until = self.small_change(change).map_or(change - 1, Change::first_new_minute).min(until);
            } else if !near {
                until = found + REACH;
            } else if self.small_change(found).is_some_and(|change| found < change.first_new_minute()) {
                until = found;
            } else {
                return Some(found);
            }
        }
    }

    /// Returns the change around this second, if it decides what is due.
    pub(crate) fn small_change(self, second: i64) -> Option<Change> {
        if self.once { self.zone.small_change(second) } else { None }
    }

    // From here on seconds are civil: of a place whose clocks show UTC and never change.

    pub(crate) fn has_civil_time_in(self, seconds: &Range<i64>) -> bool {
        self.civil_at_or_after(seconds.start).is_some_and(|time| time < seconds.end)
    }

    fn civil_at_or_after(self, second: i64) -> Option<i64> {
        Some(nearest_due::<true>(self.times, second.div_euclid(60) + i64::from(second.rem_euclid(60) != 0))? * 60)
    }

    fn civil_at_or_before(self, second: i64) -> Option<i64> {
        Some(nearest_due::<false>(self.times, second.div_euclid(60))? * 60)
    }
}
