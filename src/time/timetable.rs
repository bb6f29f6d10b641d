//! The timetable of an event, with searches for its occurrences forwards and backwards.
//!
//! The [`CivilTimes`] are minutes on the clocks of the event's zone. The event is due at its [`Seconds`] of each of
//! these minutes. If the event has an [`Interval`], it is due at those instants of the interval that are in one of
//! these minutes. If the clocks skip or repeat a time, the [`ClockChange`] decides whether that time counts.
//!
//! An occurrence is an instant at which the event is due. Each occurrence starts after a delay, which the [`Jitter`] of
//! the event decides.

use std::fmt::Write as _;
use std::iter;
use std::ops::{Range, RangeInclusive};
use std::slice;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Timelike, Utc};

use super::clock::{instant_of, shown::ExactDuration};
use super::crontab::Crontab;
use super::crontab::civil_minute::CivilMinute;
use super::crontab::civil_times::{CivilTimes, Years};
use super::{tick::Tick, zone::Zone};

pub(crate) mod clock_change;
pub(crate) mod interval;
pub(crate) mod jitter;
pub(crate) mod occurrences;
pub(crate) mod span;
pub(crate) mod windows;

use clock_change::ClockChange;
use interval::Interval;
use jitter::Jitter;
use occurrences::{Occurrences, Seconds};
use span::Span;
use windows::Windows;

/// The years from 1970 to 2100, in seconds. Other times are not searched.
const KNOWN: Range<i64> = 0..47_847 * DAY;

const DAY: i64 = 24 * 60 * 60;

/// The times of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timetable {
    pub(crate) times: CivilTimes,
    pub(crate) seconds: Seconds,
    pub(crate) interval: Option<Interval>,
    pub(crate) zone: Zone,
    pub(crate) clock_change: ClockChange,
    pub(crate) span: Span,
    pub(crate) jitter: Jitter,
    /// The windows in which a run may start. Only the methods that mention windows heed them.
    pub(crate) windows: Windows,
}

impl Timetable {
    /// Returns the timetable of a crontab in UTC.
    pub(crate) const fn of(crontab: Crontab) -> Self {
        let times = CivilTimes::of(crontab);
        Self {
            times,
            seconds: Seconds::START,
            interval: None,
            zone: Zone::UTC,
            clock_change: ClockChange::AsCron,
            span: Span::ALWAYS,
            jitter: Jitter::NONE,
            windows: Windows(Vec::new()),
        }
    }

    /// Returns whether each time of the day comes exactly once, even if the clocks skip or repeat that time.
    pub(crate) fn comes_once(&self) -> bool {
        self.clock_change.is_once(&self.times.crontab) && self.interval.is_none() && self.zone.has_changes()
    }

    /// Returns the shortest time between two occurrences, or an hour if all occurrences are farther apart. Clock
    /// changes do not count.
    pub(crate) fn period(&self) -> Duration {
        let minutes = || {
            let minutes = self.times.crontab.shortest_interval();
            Duration::from_secs(self.seconds.shortest_interval(minutes == 1).unwrap_or(minutes * 60).into())
        };
        self.interval.map_or_else(minutes, Interval::period)
    }

    /// Returns the first occurrence after `after`, between the years 1970 and 2100.
    pub(crate) fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let found = self.at_or_after(self.span.not_before(after.timestamp() + 1))?;
        self.span.includes(found).then(|| instant_of(found))
    }

    fn at_or_after(&self, mut from: i64) -> Option<i64> {
        let Some(interval) = self.interval else { return self.minutes().at_or_after(from) };
        loop {
            let at = Some(interval.at_or_after(from.max(KNOWN.start))).filter(|at| KNOWN.contains(at))?;
            if self.is_in_its_minutes(at) {
                return Some(at);
            }
            from = self.minutes().at_or_after(at)?;
        }
    }

    /// Returns the last occurrence before `before`, between the years 1970 and 2100.
    pub(crate) fn previous(&self, before: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.last_up_to(before.timestamp() - i64::from(before.timestamp_subsec_nanos() == 0))
    }

    /// Returns the last occurrence at second `until` or before. The search goes back twice as far each time, until it
    /// finds an occurrence. Then a binary search finds the last occurrence.
    fn last_up_to(&self, until: i64) -> Option<DateTime<Utc>> {
        let first_from = |second: i64| {
            let first = self.next(instant_of(second - 1))?.timestamp();
            (first <= until).then_some(first)
        };
        let mut reach = self.period().as_secs().cast_signed();
        let mut last = loop {
            match first_from(until - reach) {
                Some(first) => break first,
                None if until - reach < KNOWN.start - DAY => return None,
                None => reach *= 2,
            }
        };
        let mut none_from = until + 1;
        while last + 1 < none_from {
            let middle = last + 1 + (none_from - last - 1) / 2;
            match first_from(middle) {
                Some(later) => last = later,
                None => none_from = middle,
            }
        }
        Some(instant_of(last))
    }

    /// Returns the instant at which `occurrence` starts: the occurrence plus its delay.
    pub(crate) fn start_of(&self, occurrence: DateTime<Utc>) -> DateTime<Utc> {
        let delay = TimeDelta::seconds(self.jitter.of(occurrence.timestamp()));
        occurrence.checked_add_signed(delay).unwrap_or(occurrence)
    }

    /// Returns the occurrences that start in these seconds, oldest first.
    pub(crate) fn starting_in(&self, seconds: RangeInclusive<i64>) -> impl Iterator<Item = DateTime<Utc>> {
        let (begin, end) = (*seconds.start(), *seconds.end());
        let first = self.next(instant_of(begin - self.jitter.longest().as_secs().cast_signed() - 1));
        let occurrences = iter::successors(first, |occurrence| self.next(*occurrence));
        let occurrences = occurrences.take_while(move |occurrence| occurrence.timestamp() <= end);
        occurrences.filter(move |occurrence| seconds.contains(&self.start_of(*occurrence).timestamp()))
    }

    /// Returns the first start in these seconds. After a clock change, occurrences can be closer together than the
    /// jitter is long. Then a later occurrence can start before an earlier one.
    pub(crate) fn first_start_in(&self, seconds: RangeInclusive<i64>) -> Option<DateTime<Utc>> {
        let mut starts = self.starting_in(seconds);
        let first = starts.next().map(|occurrence| self.start_of(occurrence))?;
        let later = starts.take_while(|occurrence| *occurrence < first).map(|occurrence| self.start_of(occurrence));
        Some(later.fold(first, DateTime::min))
    }

    /// Returns the tick for `occurrence`. The time of the tick is `now` minus the delay of the occurrence. So filters
    /// decide as they would without the delay, and the lateness of the tick counts from the delayed start.
    pub(crate) fn tick(&self, now: DateTime<Utc>, occurrence: DateTime<Utc>) -> Tick {
        let delay = self.start_of(occurrence) - occurrence;
        Tick::at(now.checked_sub_signed(delay).unwrap_or(now), &self.zone).with_occurrence(occurrence, &self.zone)
    }

    /// Returns the first occurrence after `after` inside the windows, between the years 1970 and 2100. If the windows
    /// are closed at all times of the crontab, returns `None`, even if a clock change moves an occurrence into a
    /// window.
    pub(crate) fn next_open(&self, mut after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let time_of_day = |from| self.times.crontab.time_of_day(from);
        if !iter::successors(time_of_day(0), |time| time_of_day(time + 1)).any(|time| self.windows.are_open_in(time)) {
            return None;
        }
        loop {
            let time = self.next(after)?;
            match self.windows.closed_for(self.zone.at(time).time()) {
                0 => return Some(time),
                minutes => after = self.last_second_closed(time, minutes),
            }
        }
    }

    /// Returns the last occurrence from `earliest` to `latest` inside the windows.
    pub(crate) fn last_open(&self, earliest: DateTime<Utc>, latest: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut second = latest.timestamp();
        while second >= earliest.timestamp() {
            let local = self.zone.at(instant_of(second)).time();
            if !self.windows.are_open_at(local) {
                second -= i64::from(local.second()) + 1; // the end of the minute before
                continue;
            }
            let occurrence = self.last_up_to(second).filter(|occurrence| *occurrence >= earliest)?;
            if self.windows.are_open_at(self.zone.at(occurrence).time()) {
                return Some(occurrence);
            }
            second = occurrence.timestamp();
        }
        None
    }

    /// Returns the last second before the windows can be open again. Without a clock change, the windows open `minutes`
    /// minutes after the start of the minute of `time`. If the clocks change before that, the windows can open at the
    /// change.
    fn last_second_closed(&self, time: DateTime<Utc>, minutes: u32) -> DateTime<Utc> {
        let second = time.timestamp();
        let into_minute = i64::from(self.zone.at(time).second());
        let opens = second - into_minute + i64::from(minutes) * 60;
        let change = self.zone.nearest_change(second, opens);
        instant_of(change.unwrap_or(opens) - 1)
    }

    /// Returns the occurrences after `after` inside the windows, one by one, between the years 1970 and 2100.
    pub(crate) fn upcoming(self, after: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        let mut last = after;
        iter::from_fn(move || {
            last = self.next_open(last)?;
            Some(last)
        })
    }

    /// Returns whether a tick at `now` catches up missed occurrences. For an event with `at`, always; for any other
    /// event, only if `now` is in the span.
    pub(crate) fn makes_up_at(&self, now: DateTime<Utc>) -> bool {
        self.span.only().is_some() || self.span.includes(now.timestamp())
    }

    fn is_in_its_minutes(&self, second: i64) -> bool {
        self.times.include(&CivilMinute::of(&self.zone.at(instant_of(second))))
    }

    fn minutes(&self) -> Occurrences<'_> {
        Occurrences {
            times: slice::from_ref(&self.times),
            zone: &self.zone,
            once: self.comes_once(),
            seconds: self.seconds,
        }
    }

    /// Describes in plain English when the event is due. The text also has the zone, and the rule for clock changes if
    /// this rule is not the default. The marker of an event that catches up has this text. So if the text changes, the
    /// event counts as new.
    pub(crate) fn in_words_and_zone(&self) -> String {
        let rule = match self.clock_change {
            ClockChange::AsCron => "",
            ClockChange::Once => ", once",
            ClockChange::AsShown => ", as shown",
        };
        format!("{}, {}{rule}", self.in_words(), self.zone)
    }

    /// Describes in words when the event is due, on the clocks of its zone.
    pub(crate) fn in_words(&self) -> String {
        let shown = |at: DateTime<Utc>| {
            let seconds = if at.timestamp() % 60 == 0 { "" } else { ":%S" };
            self.zone.at(at).format(&format!("%Y-%m-%d %H:%M{seconds}")).to_string()
        };
        let only = self.span.only().filter(|_| self.interval.is_some());
        let mut words = if let Some(at) = only {
            format!("once, at {}", shown(instant_of(at)))
        } else {
            let every = self.interval.map(|interval| interval.in_words(shown));
            let mut words = self.times.crontab.in_words(every, &self.times.cycle.to_string());
            if self.seconds != Seconds::START {
                let _ = write!(words, ", at the seconds {}", self.seconds);
            }
            if self.times.years != Years::ALL {
                let _ = write!(words, ", {}", self.times.years);
            }
            words
        };
        for end in self.span.in_words(shown).filter(|_| only.is_none()) {
            let _ = write!(words, ", {end}");
        }
        if self.jitter != Jitter::NONE {
            let _ = write!(words, ", plus a jitter of {} at most", ExactDuration(self.jitter.longest()));
        }
        words
    }
}

impl Crontab {
    /// Returns the first instant after `after` when this crontab is due in `zone`, with the rule of cronie for clock
    /// changes: [`ClockChange::AsCron`]. `None`: there is no such instant between the years 1970 and 2100.
    ///
    /// ```
    /// use soloist::time::Crontab;
    /// use soloist::Zone;
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

    /// Returns the last instant before `before` when this crontab was due in `zone`, with the rule of cronie for clock
    /// changes: [`ClockChange::AsCron`]. `None`: there is no such instant between the years 1970 and 2100.
    ///
    /// ```
    /// use soloist::time::Crontab;
    /// use soloist::Zone;
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
        Timetable { zone: zone.clone(), ..Timetable::of(*self) }
    }
}

#[cfg(test)]
mod tests;
