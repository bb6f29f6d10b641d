//! The instants at which crontabs of one zone are due: the first after an instant, and the last before one.

use std::ops::Range;

use chrono::{DateTime, Timelike, Utc};

use super::search::nearest_due;
use super::seconds::Seconds;
use super::windows::Windows;
use crate::time::{crontab::Crontab, zone::Zone, zone::changes::Change};

/// No two offsets that one zone has had, or that tables foresee, are further apart: a day, when it moved to the other
/// side of the date line, and an hour or two of daylight saving.
const REACH: i64 = 26 * 3600;

/// The occurrences of one or more crontabs that are read alike, between the years 1970 and 2100.
#[derive(Clone, Copy)]
pub(crate) struct Occurrences<'a> {
    pub(crate) crontabs: &'a [Crontab],
    pub(crate) seconds: Seconds,
    pub(crate) zone: &'a Zone,
    /// Whether each time of the day comes once, whatever the clocks show.
    pub(crate) once: bool,
}

impl Occurrences<'_> {
    /// The first one after `after`.
    pub(crate) fn next(self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        // Occurrences are whole seconds; from here on, the first one at `from` or later is looked for.
        let mut from = after.timestamp() + 1;
        loop {
            if let Some(change) = self.small_change(from) {
                let resumed = change.first_new_minute();
                if from <= resumed && change.skipped().is_some_and(|times| self.has_civil_time_in(&times)) {
                    return DateTime::from_timestamp(resumed, 0);
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
                return DateTime::from_timestamp(found, 0);
            } else {
                from = found - REACH;
            }
        }
    }

    /// The first one after `after` at which these windows are open.
    pub(crate) fn next_in(self, windows: &Windows, mut after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        loop {
            let time = self.next(after)?;
            match windows.closed_for(self.zone.at(time).time()) {
                0 => return Some(time),
                minutes => after = self.last_second_closed(time, minutes)?,
            }
        }
    }

    /// The second before the windows may be open again, which are closed in the minute of `time` and so many minutes from
    /// there; or before the clocks change, since they may be open then.
    fn last_second_closed(self, time: DateTime<Utc>, minutes: u32) -> Option<DateTime<Utc>> {
        let second = time.timestamp();
        let into_minute = i64::from(self.zone.at(time).second());
        let opens = second - into_minute + i64::from(minutes) * 60;
        let change = self.zone.nearest_change(second, opens);
        DateTime::from_timestamp(change.unwrap_or(opens) - 1, 0)
    }

    /// The last one at second `until` or before: the mirror image of [`next`](Self::next).
    pub(crate) fn at_or_before(self, mut until: i64) -> Option<DateTime<Utc>> {
        loop {
            let offset = self.zone.seconds_ahead_at(until);
            let found = self.civil_at_or_before(until + offset)? - offset;
            if let Some(change) = self.small_change(until).filter(|change| found < change.first_new_minute()) {
                let resumed = change.first_new_minute();
                if resumed <= until && change.skipped().is_some_and(|times| self.has_civil_time_in(&times)) {
                    return DateTime::from_timestamp(resumed, 0);
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
                return DateTime::from_timestamp(found, 0);
            }
        }
    }

    /// The change of the clocks around `second` that matters to times that come once.
    /// The change around this second, if it decides what is due.
    pub(crate) fn small_change(self, second: i64) -> Option<Change> {
        if self.once { self.zone.small_change(second) } else { None }
    }

    // From here on seconds are civil: of a place whose clocks show UTC and never change.

    pub(crate) fn has_civil_time_in(self, seconds: &Range<i64>) -> bool {
        self.civil_at_or_after(seconds.start).is_some_and(|time| time < seconds.end)
    }

    fn civil_at_or_after(self, second: i64) -> Option<i64> {
        let (minute, second) = minute_and_second(second);
        let in_this_minute = self.seconds.at_or_after(second);
        let found = nearest_due::<true>(self.crontabs, minute + i64::from(in_this_minute.is_none()))?;
        let second = in_this_minute.filter(|_| found == minute).unwrap_or_default();
        Some(found * 60 + i64::from(second))
    }

    fn civil_at_or_before(self, second: i64) -> Option<i64> {
        let (minute, second) = minute_and_second(second);
        let found = nearest_due::<false>(self.crontabs, minute)?;
        let second = self.seconds.at_or_before(if found == minute { second } else { 59 });
        Some(found * 60 + i64::from(second))
    }
}

fn minute_and_second(second: i64) -> (i64, u32) {
    let in_minute = u32::try_from(second.rem_euclid(60)).expect("it is from 0 to 59");
    (second.div_euclid(60), in_minute)
}
