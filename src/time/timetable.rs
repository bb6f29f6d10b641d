//! A crontab in a zone: which instants those are, forwards and backwards.
//!
//! An event is due at an instant when the clocks of its zone then show a time that its crontab names. Of a time that a
//! change of the clocks leaves out or repeats, its [`ClockChange`] says whether it comes.

use std::fmt;
use std::iter;
use std::ops::Range;
use std::time::Duration;

use chrono::{DateTime, Timelike, Utc};
use cron::Schedule;

use super::crontab::{Crontab, Field, Set};
use super::tick::Fields;
use super::zone::Zone;

pub(crate) mod clock_change;
pub(crate) mod seconds;
pub(crate) mod windows;

use clock_change::ClockChange;
use clock_change::Passage;
use seconds::Seconds;
use windows::Windows;

/// No two offsets that one zone has had, or that tables foresee, are further apart: a day, when it moved to the other
/// side of the date line, and an hour or two of daylight saving.
const REACH: i64 = 26 * 3600;

const DAY: i64 = 24 * 3600;

/// The first civil second that the `cron` crate knows, 1970-01-01 00:00, and the first that it does not, 2101-01-01.
const KNOWN: Range<i64> = 0..4_133_980_800;

/// The times of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timetable {
    pub(crate) crontab: Crontab,
    pub(crate) seconds: Seconds,
    pub(crate) zone: Zone,
    pub(crate) clock_change: ClockChange,
}

impl Timetable {
    /// Whether each of its times of the day comes once, whatever the clocks show.
    pub(crate) fn comes_once(&self) -> bool {
        let once = match self.clock_change {
            ClockChange::AsCron => self.crontab.is_at_fixed_times(),
            ClockChange::Once => true,
            ClockChange::AsShown => false,
        };
        once && self.zone.has_changes()
    }

    /// The shortest time between two of its occurrences, as clocks show them; an hour, if that is longer.
    pub(crate) fn period(&self) -> Duration {
        let seconds = match self.seconds.interval() {
            60 => self.crontab.shortest_interval() * 60,
            interval => interval,
        };
        Duration::from_secs(seconds.into())
    }

    /// The first occurrence after `after`, between the years 1970 and 2100.
    pub(crate) fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.next_of(&self.civil_times(), after)
    }

    /// The occurrences after `after` at which these windows are open, one by one, between the years 1970 and 2100.
    pub(crate) fn upcoming(
        self,
        after: DateTime<Utc>,
        windows: Windows,
    ) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        let civil = self.civil_times();
        let mut last = after;
        iter::from_fn(move || {
            loop {
                let time = self.next_of(&civil, last)?;
                match windows.closed_for(self.zone.at(time).time()) {
                    0 => {
                        last = time;
                        return Some(time);
                    }
                    minutes => last = self.last_second_closed(time, minutes)?,
                }
            }
        })
    }

    /// The second before the windows may be open again, which are closed in the minute of `time` and so many minutes from
    /// there; or before the clocks change, since they may be open then.
    fn last_second_closed(&self, time: DateTime<Utc>, minutes: u32) -> Option<DateTime<Utc>> {
        let second = time.timestamp();
        let into_minute = i64::from(self.zone.at(time).second());
        let opens = second - into_minute + i64::from(minutes) * 60;
        let change = if self.zone.has_changes() { self.zone.first_change(second, opens) } else { None };
        DateTime::from_timestamp(change.unwrap_or(opens) - 1, 0)
    }

    fn civil_times(&self) -> CivilTimes {
        CivilTimes::of(&self.crontab, self.seconds)
    }

    fn next_of(&self, civil: &CivilTimes, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        // Occurrences are whole seconds; from here on, the first one at `from` or later is looked for.
        let mut from = after.timestamp() + 1;
        loop {
            if let Some(passage) = self.passage(from) {
                let resumed = passage.resumed();
                if from <= resumed && passage.left_out().is_some_and(|times| civil.has_any_in(&times)) {
                    return DateTime::from_timestamp(resumed, 0);
                }
                from = from.max(resumed);
            }
            let offset = self.zone.seconds_ahead_at(from);
            let found = civil.at_or_after(from + offset)? - offset;
            // Between two instants at which the offset is the same it may have been another one for a while. That
            // matters only within reach of `from`, where a time before it may come again, and of `found`, where its
            // own time may have come already.
            let near = found - from <= 2 * REACH;
            if let Some(change) = self.zone.first_change(from, if near { found } else { from + REACH }) {
                from = change;
            } else if near {
                return DateTime::from_timestamp(found, 0);
            } else {
                from = found - REACH;
            }
        }
    }

    /// The last occurrence before `before`, between the years 1970 and 2100.
    pub(crate) fn previous(&self, before: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.at_or_before(before.timestamp() - i64::from(before.timestamp_subsec_nanos() == 0))
    }

    /// The last occurrence at `now` or before, between the years 1970 and 2100.
    pub(crate) fn latest(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.at_or_before(now.timestamp())
    }

    /// The mirror image of [`next`](Self::next).
    fn at_or_before(&self, mut until: i64) -> Option<DateTime<Utc>> {
        let civil = self.civil_times();
        loop {
            let offset = self.zone.seconds_ahead_at(until);
            let found = civil.at_or_before(until + offset)? - offset;
            if let Some(passage) = self.passage(until).filter(|passage| found < passage.resumed()) {
                let resumed = passage.resumed();
                if resumed <= until && passage.left_out().is_some_and(|times| civil.has_any_in(&times)) {
                    return DateTime::from_timestamp(resumed, 0);
                }
                until = passage.eve();
                continue;
            }
            let near = until - found <= 2 * REACH;
            if let Some(change) = self.zone.last_change(if near { found } else { until - REACH }, until) {
                until = self.passage(change).map_or(change - 1, Passage::resumed).min(until);
            } else if !near {
                until = found + REACH;
            } else if self.passage(found).is_some_and(|passage| found < passage.resumed()) {
                until = found;
            } else {
                return DateTime::from_timestamp(found, 0);
            }
        }
    }

    /// The change of the clocks that matters to an event whose times come once.
    fn passage(&self, second: i64) -> Option<Passage> {
        if self.comes_once() { Passage::around(&self.zone, second) } else { None }
    }
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crontab, seconds, zone, clock_change } = self;
        write!(f, "{crontab} {zone}")?;
        if *seconds != Seconds::FIRST {
            write!(f, " at {}", numbered(seconds.numbers()))?;
        }
        match clock_change {
            ClockChange::AsCron => Ok(()),
            ClockChange::Once => f.write_str(" once"),
            ClockChange::AsShown => f.write_str(" as shown"),
        }
    }
}

impl Crontab {
    /// The first instant after `after` at which this crontab is due in `zone`, with its clock changes as cronie takes
    /// them: [`ClockChange::AsCron`]. `None` if there is none between the years 1970 and 2100.
    ///
    /// ```
    /// use soloist::{Crontab, Zone};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let nightly: Crontab = "30 2 * * *".parse()?;
    /// let noon = "2026-03-01T12:00:00Z".parse()?;
    /// let next = nightly.next(noon, &"Europe/Berlin".parse()?).expect("there is a tomorrow");
    /// assert_eq!(next.to_string(), "2026-03-02 01:30:00 UTC");
    /// # Ok(())
    /// # }
    /// ```
    pub fn next(&self, after: DateTime<Utc>, zone: &Zone) -> Option<DateTime<Utc>> {
        self.at_the_minute(zone).next(after)
    }

    /// The last instant before `before` at which this crontab was due in `zone`, with its clock changes as cronie takes
    /// them: [`ClockChange::AsCron`]. `None` if there is none between the years 1970 and 2100.
    ///
    /// ```
    /// use soloist::{Crontab, Zone};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let nightly: Crontab = "30 2 * * *".parse()?;
    /// let noon = "2026-03-01T12:00:00Z".parse()?;
    /// let last = nightly.previous(noon, &Zone::UTC).expect("there was a night");
    /// assert_eq!(last.to_string(), "2026-03-01 02:30:00 UTC");
    /// # Ok(())
    /// # }
    /// ```
    pub fn previous(&self, before: DateTime<Utc>, zone: &Zone) -> Option<DateTime<Utc>> {
        self.at_the_minute(zone).previous(before)
    }

    fn at_the_minute(&self, zone: &Zone) -> Timetable {
        let (crontab, zone) = (*self, zone.clone());
        Timetable { crontab, seconds: Seconds::FIRST, zone, clock_change: ClockChange::default() }
    }
}

/// The times of a crontab in a place where clocks never change, as the `cron` crate finds them: in civil seconds, that
/// is as if they were UTC, since the crate loses its way where clocks do change.
struct CivilTimes {
    first: Schedule,
    /// The crate knows only days of which both fields say yes. Where either may, there are two lists of times.
    second: Option<Schedule>,
    /// The crate knows no last day of a month: the days that may be one are in its lists, and the crontab says which are.
    whose_last_day: Option<Crontab>,
}

impl CivilTimes {
    fn of(crontab: &Crontab, seconds: Seconds) -> Self {
        let mut day_of_month = crontab.get(Field::DayOfMonth);
        let day_of_week = crontab.get(Field::DayOfWeek);
        let whose_last_day = day_of_month.has_last_day().then_some(*crontab);
        if whose_last_day.is_some() {
            day_of_month = day_of_month.without_last_day().with(Set::range(28, 31));
        }
        let schedule = |day_of_month, day_of_week| schedule(crontab, seconds, day_of_month, day_of_week);
        let (first, second) = if crontab.days_must_both_match() {
            (schedule(day_of_month, day_of_week), None)
        } else {
            let on_day_of_week = schedule(Set::every(Field::DayOfMonth), day_of_week);
            (schedule(day_of_month, Set::every(Field::DayOfWeek)), Some(on_day_of_week))
        };
        Self { first, second, whose_last_day }
    }

    fn has_any_in(&self, seconds: &Range<i64>) -> bool {
        self.at_or_after(seconds.start).is_some_and(|time| time < seconds.end)
    }

    fn at_or_after(&self, mut second: i64) -> Option<i64> {
        loop {
            let time = self.listed_at_or_after(second)?;
            if self.is_on_its_day(time) {
                return Some(time);
            }
            second = (time.div_euclid(DAY) + 1) * DAY;
        }
    }

    fn at_or_before(&self, mut second: i64) -> Option<i64> {
        loop {
            let time = self.listed_at_or_before(second)?;
            if self.is_on_its_day(time) {
                return Some(time);
            }
            second = time.div_euclid(DAY) * DAY - 1;
        }
    }

    fn is_on_its_day(&self, time: i64) -> bool {
        let Some(crontab) = self.whose_last_day else { return true };
        civil(time).is_some_and(|time| crontab.meets_day(&Fields::of(time, &Zone::UTC)))
    }

    fn listed_at_or_after(&self, second: i64) -> Option<i64> {
        // At the ends of the years that it knows the crate starts from a year that it does not know, or panics.
        let after = civil(second.max(KNOWN.start) - 1).filter(|_| second < KNOWN.end)?;
        let next = |schedule: &Schedule| schedule.after(&after).next();
        let times = [next(&self.first), self.second.as_ref().and_then(next)];
        times.into_iter().flatten().min().map(|time| time.timestamp())
    }

    fn listed_at_or_before(&self, second: i64) -> Option<i64> {
        let before = civil(second.min(KNOWN.end - 1) + 1).filter(|_| second >= KNOWN.start)?;
        let previous = |schedule: &Schedule| schedule.after(&before).next_back();
        let times = [previous(&self.first), self.second.as_ref().and_then(previous)];
        times.into_iter().flatten().max().map(|time| time.timestamp())
    }
}

fn civil(second: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(second, 0)
}

/// The crate's six fields, with seconds, and days of the week from 1.
fn schedule(crontab: &Crontab, seconds: Seconds, day_of_month: Set, day_of_week: Set) -> Schedule {
    let list = |set: Set, field: Field, shift: u32| -> String {
        if set.is_all_of(field) {
            return "*".into();
        }
        numbered(set.numbers().map(|number| number + shift))
    };
    let text = format!(
        "{} {} {} {} {} {}",
        numbered(seconds.numbers()),
        list(crontab.get(Field::Minute), Field::Minute, 0),
        list(crontab.get(Field::Hour), Field::Hour, 0),
        list(day_of_month, Field::DayOfMonth, 0),
        list(crontab.get(Field::Month), Field::Month, 0),
        list(day_of_week, Field::DayOfWeek, 1),
    );
    text.parse().expect("lists of numbers within their ranges are what the crate reads")
}

fn numbered(numbers: impl Iterator<Item = u32>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
