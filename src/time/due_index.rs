//! An index of the timetables of a schedule. It finds the events that are due at an instant, and the next due time. The
//! timetables are next to each other in memory, so that a search is fast.

use std::ops::RangeInclusive;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};

use super::clock::instant_of;
use super::timetable::Timetable;
use super::{tick::Tick, zone::Zone};
use crate::time::crontab::{Crontab, civil_minute::CivilMinute, civil_times::CivilTimes, field_set::Field};
use crate::time::timetable::occurrences::{Occurrences, Seconds};
use crate::time::timetable::{interval::Interval, jitter::Jitter, span::Span};

/// The timetables of a schedule's events. Each timetable has the index of its event.
#[derive(Clone, Debug, Default)]
pub(crate) struct DueIndex {
    groups: Vec<Group>,
    singles: Vec<SingleEvent>,
}

/// Events with plain crontabs that share one zone and one rule for clock changes. The civil time of the zone is
/// computed once for the whole group.
#[derive(Clone, Debug)]
struct Group {
    zone: Zone,
    /// Whether each time of the day comes exactly once, even if the clocks skip or repeat that time.
    once: bool,
    /// The [`week_bits`] for each entry of `times`. They are stored apart from `times`, because they are small, and a
    /// tick often needs nothing else: for most events, they show that the event is not due.
    week_bits: Vec<[u64; 2]>,
    times: Vec<CivilTimes>,
    /// The index of the event for each entry of `times`.
    events: Vec<usize>,
}

/// An event with windows, a span, seconds, an interval or a jitter. The occurrences of each such event are searched
/// separately.
#[derive(Clone, Debug)]
struct SingleEvent {
    event: usize,
    timetable: Timetable,
    /// Whether ticks at the start of each minute would miss some starts of the event.
    has_seconds: bool,
    /// The number of seconds that a tick without a previous tick looks back. Used only if `has_seconds`.
    looks_back: i64,
    quiet: Quiet,
}

/// A range of seconds in which the event does not start. The last search found this range. Most ticks are in this
/// range, and need no search. One atomic number has both the first and the last second. So if another thread stores a
/// new range, a tick never reads the first second of one range and the last second of the other.
#[derive(Debug)]
struct Quiet(AtomicU64);

impl Quiet {
    /// How many seconds a search looks ahead.
    const LONGEST: i64 = 24 * 60 * 60;

    fn covers(&self, first: i64, last: i64) -> bool {
        let known = self.0.load(Ordering::Relaxed);
        (known >> 32).cast_signed() <= first && last <= (known & u64::from(u32::MAX)).cast_signed()
    }

    fn set(&self, first: i64, last: i64) {
        if let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last)) {
            self.0.store(u64::from(first) << 32 | u64::from(last), Ordering::Relaxed);
        }
    }
}

impl Default for Quiet {
    /// Returns an empty range: the first second is after the last second.
    fn default() -> Self {
        Self(AtomicU64::new(1 << 32))
    }
}

impl Clone for Quiet {
    /// Returns an empty range, so that the clone searches again.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl DueIndex {
    pub(crate) fn push(&mut self, event: usize, timetable: &Timetable) {
        let Timetable { times, seconds, interval, zone, span, jitter, windows, .. } = timetable;
        let is_plain = *seconds == Seconds::START
            && interval.is_none()
            && *span == Span::ALWAYS
            && *jitter == Jitter::NONE
            && windows.0.is_empty();
        if !is_plain {
            self.singles.push(SingleEvent::new(event, timetable.clone()));
            return;
        }
        let once = timetable.comes_once();
        let at = self.groups.iter().position(|group| group.zone == *zone && group.once == once).unwrap_or_else(|| {
            self.groups.push(Group {
                zone: zone.clone(),
                once,
                week_bits: Vec::new(),
                times: Vec::new(),
                events: Vec::new(),
            });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        group.week_bits.push(week_bits_of(&times.crontab));
        group.times.push(*times);
        group.events.push(event);
    }

    /// Returns the first occurrence after `after`, between the years 1970 and 2100. The events of
    /// [`singles`](Self::singles) are not searched.
    pub(crate) fn next_of_groups(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next = self.groups.iter().filter_map(|group| group.minutes().at_or_after(after.timestamp() + 1));
        next.min().map(instant_of)
    }

    /// Returns the events that are in no group. The occurrences of each of these events are searched separately.
    pub(crate) fn singles(&self) -> impl Iterator<Item = usize> {
        self.singles.iter().map(|single| single.event)
    }

    /// Returns the events that start in the tick at `now`, if the previous tick was at `since`. The events are in
    /// insertion order. Each event has a `Tick` with the time in its zone and with its occurrence. An event with a
    /// jitter can appear several times, with its oldest occurrence first. If no event starts, nothing is allocated.
    pub(crate) fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>) -> Vec<(usize, Tick)> {
        let mut due = Vec::new();
        for group in &self.groups {
            group.due(now, since, &mut due);
        }
        for single in &self.singles {
            single.due(now, since, |tick| due.push((single.event, tick)));
        }
        if due.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            due.sort_by_key(|(event, _)| *event);
        }
        due
    }

    /// Returns the first instant after `now` at which an event can be due, at the latest the start of the next minute.
    pub(crate) fn next_look(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let groups = self.groups.iter().map(|group| Tick::at(now, &group.zone).next_minute());
        groups.chain(self.singles.iter().map(|single| single.next_look(now))).min()
    }
}

impl Group {
    fn minutes(&self) -> Occurrences<'_> {
        Occurrences { times: &self.times, zone: &self.zone, once: self.once, seconds: Seconds::START }
    }

    /// Adds the events of the group that are due, in insertion order.
    fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>, due: &mut Vec<(usize, Tick)>) {
        let tick = Tick::at(now, &self.zone);
        let minute = tick.occurrence();
        if minute <= since {
            return;
        }
        if self.once && self.zone.small_change(now.timestamp()).is_some() {
            let is_due = |at: &usize| self.is_due_near_change(*at, minute.timestamp());
            due.extend((0..self.times.len()).filter(is_due).map(|at| (self.events[at], tick)));
            return;
        }
        // On the first and the last day that chrono knows, there may be no local time. Then nothing is due.
        let (utc, offset) = (now.naive_utc(), *tick.local().offset());
        let Some(now) = utc.checked_add_offset(offset).map(|civil| CivilMinute::of(&civil)) else { return };
        let [minute, hour_and_day] = week_bits(now.bits);
        for (at, [minutes, hours_and_days]) in self.week_bits.iter().enumerate() {
            let may_be_due = minutes & minute != 0 && hours_and_days & hour_and_day == hour_and_day;
            if may_be_due && self.times[at].include(&now) {
                due.push((self.events[at], tick));
            }
        }
    }

    /// Returns whether the entry `at` of `times` is due in this minute, in the hours after a clock change. Searches the
    /// occurrences, because the change may have skipped or repeated some times.
    #[cold]
    fn is_due_near_change(&self, at: usize, minute: i64) -> bool {
        let its_own = Occurrences { times: slice::from_ref(&self.times[at]), ..self.minutes() };
        its_own.at_or_after(minute) == Some(minute)
    }
}

/// Returns the minutes in one number, and the hours and the days of the week in another. `bits` are the bits of each field
/// of a crontab.
fn week_bits([minutes, hours, _, _, weekdays]: [u128; 5]) -> [u64; 2] {
    [minutes, hours | (weekdays & ALL_WEEK) << 24]
        .map(|bits| bits.try_into().expect("an hour has 60 minutes, a day 24 hours, and a week 7 days"))
}

const ALL_WEEK: u128 = 0b111_1111;

/// Returns the times of the week at which a crontab can be due. A day of the month, or an item such as `5L`, can be any
/// day of the week.
fn week_bits_of(crontab: &Crontab) -> [u64; 2] {
    let mut bits = Field::ALL.map(|field| crontab.get(field).bits);
    if !crontab.days_must_both_match() || bits[4] > ALL_WEEK {
        bits[4] = ALL_WEEK;
    }
    week_bits(bits)
}

impl SingleEvent {
    fn new(event: usize, timetable: Timetable) -> Self {
        let has_jitter = timetable.jitter != Jitter::NONE;
        let period = timetable.period().as_secs().cast_signed();
        let needs_seconds =
            timetable.seconds != Seconds::START || timetable.interval.is_some_and(Interval::needs_seconds);
        let has_seconds = if has_jitter { period < 60 } else { needs_seconds };
        // For an interval, a tick without a previous tick looks back less than one interval. So the tick can find only
        // the latest instant of the interval. If the crontab excludes that instant, the tick finds no occurrence.
        let looks_back = if timetable.interval.is_some() && !has_jitter { period.min(60) - 1 } else { 59 };
        Self { event, timetable, has_seconds, looks_back, quiet: Quiet::default() }
    }

    /// Returns the seconds of the tick at `now`, if the previous tick was at `since`. Occurrences that start in these
    /// seconds belong to the tick.
    ///
    /// Without a previous tick, these seconds depend on the event:
    ///
    /// - An event with seconds: `now`, and the `looks_back` seconds before `now`.
    /// - An event without a jitter: the minute of `now`, up to `now`.
    /// - An event with a jitter: the 60 seconds up to the start of the minute of `now`. So ticks that come once a
    ///   minute, at any second, find each start once.
    fn seconds(&self, now: DateTime<Utc>, since: DateTime<Utc>) -> RangeInclusive<i64> {
        let second = now.timestamp();
        if since != DateTime::<Utc>::MIN_UTC {
            return since.timestamp() + 1..=second;
        }
        // The times of an interval are minutes of UTC, even if the zone's minutes begin at other seconds.
        let zone = if self.timetable.interval.is_some() { &Zone::UTC } else { &self.timetable.zone };
        let minute = Tick::at(now, zone).occurrence().timestamp();
        match self.timetable.jitter {
            _ if self.has_seconds => second - self.looks_back..=second,
            Jitter::NONE => minute..=second,
            _ => minute - 59..=minute,
        }
    }

    /// Calls `found` for the starts of the event that belong to the tick at `now`: for all these starts if the event
    /// has a jitter and is due at most once a minute; otherwise only for the latest start. The argument is a tick with
    /// the occurrence of the start.
    fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>, mut found: impl FnMut(Tick)) {
        // The function `seconds` returns no second before this one.
        let earliest = if since == DateTime::<Utc>::MIN_UTC { now.timestamp() - 118 } else { since.timestamp() + 1 };
        if self.first_start(earliest, now.timestamp()).is_none() {
            return;
        }
        let starts = self.timetable.starting_in(self.seconds(now, since));
        let mut found = |occurrence| found(self.timetable.tick(now, occurrence));
        if self.has_seconds || self.timetable.jitter == Jitter::NONE {
            if let Some(latest) = starts.last() {
                found(latest);
            }
        } else {
            starts.for_each(found);
        }
    }

    /// Returns the first start of the event in the seconds from `first` to `last`, including both. If the stored
    /// seconds do not show that there is no start, searches a day ahead and stores the result.
    fn first_start(&self, first: i64, last: i64) -> Option<DateTime<Utc>> {
        if self.quiet.covers(first, last) {
            return None;
        }
        let until = last + Quiet::LONGEST;
        let next = self.timetable.first_start_in(first..=until);
        // The rules of the machine's own zone can change at any time, so no result is stored.
        if self.timetable.zone != Zone::local() {
            self.quiet.set(first, next.map_or(until, |next| next.timestamp() - 1));
        }
        next.filter(|next| next.timestamp() <= last)
    }

    /// Returns the first instant after `now` at which the event starts, or the beginning of the next minute if that is
    /// earlier.
    fn next_look(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let next_minute = Tick::at(now, &Zone::UTC).next_minute();
        self.first_start(now.timestamp() + 1, next_minute.timestamp()).unwrap_or(next_minute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::timetable::clock_change::ClockChange;

    impl DueIndex {
        pub(crate) fn of<'a>(timetables: impl IntoIterator<Item = &'a Timetable>) -> Self {
            let mut index = Self::default();
            for (event, timetable) in timetables.into_iter().enumerate() {
                index.push(event, timetable);
            }
            index
        }
    }

    const BEGINNING: DateTime<Utc> = DateTime::<Utc>::MIN_UTC;

    #[test]
    fn seconds_without_a_start_are_those_that_were_searched_and_no_others() {
        let quiet = Quiet::default();
        assert!(!quiet.covers(0, 0) && !quiet.covers(-118, 0), "nothing was searched");
        quiet.set(100, 200);
        assert!(quiet.covers(100, 200) && quiet.covers(150, 160));
        assert!(!quiet.covers(99, 150) && !quiet.covers(150, 201));
        quiet.set(-1, 300);
        assert!(!quiet.covers(150, 300), "a time before 1970 is not kept");
        assert!(!quiet.clone().covers(150, 160), "a changed schedule searches anew");
    }

    #[test]
    fn what_is_due_is_found_in_the_order_in_which_it_was_added() {
        let mut random = fastrand::Rng::with_seed(24);
        let now = "2026-03-13T09:00:07Z".parse().unwrap();
        let zones = ["UTC", "+05:45", "-03:00"];
        for zones in [&zones[..1], &zones[..]] {
            for length in [0, 1, 63, 64, 65, 1_000] {
                let timetable = |_| {
                    let minute = ["*", "0", "45", "1"][random.usize(..4)];
                    let days =
                        ["* * *", "13 * *", "1 * fri", "13 * mon", "*/2 * mon", "* 4 *", "* * fri#2", "* * mon#2"];
                    let days = days[random.usize(..days.len())];
                    let crontab = format!("{minute} * {days}").parse().unwrap();
                    let zone = zones[random.usize(..zones.len())].parse().unwrap();
                    Timetable { zone, ..Timetable::of(crontab) }
                };
                let timetables: Vec<Timetable> = (0..length).map(timetable).collect();
                let found: Vec<usize> =
                    DueIndex::of(&timetables).due(now, BEGINNING).into_iter().map(|(event, _)| event).collect();
                let due =
                    |at: &usize| timetables[*at].times.crontab.matches(timetables[*at].zone.at(now).naive_local());
                assert_eq!(found, (0..length).filter(due).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_next_of_many_is_the_earliest_of_each() {
        let mut random = fastrand::Rng::with_seed(25);
        for _ in 0..200 {
            let zones = ["UTC", "+05:45", if cfg!(feature = "tzdata") { "Europe/Berlin" } else { "-03:00" }];
            let timetable = |_| {
                let crontab = format!("{} {} * * {}", random.u32(..60), random.u32(..24), random.u32(..7));
                Timetable {
                    zone: zones[random.usize(..3)].parse().unwrap(),
                    clock_change: [ClockChange::AsCron, ClockChange::AsShown][random.usize(..2)],
                    ..Timetable::of(crontab.parse().unwrap())
                }
            };
            let timetables: Vec<Timetable> = (0..20).map(timetable).collect();
            // The search begins within a day of the change of Berlin's clocks on 2026-03-29.
            let after = DateTime::from_timestamp(1_774_746_000 + random.i64(-86_400..86_400), 0).unwrap();
            let next = DueIndex::of(&timetables).next_of_groups(after);
            assert_eq!(next, timetables.iter().filter_map(|timetable| timetable.next(after)).min(), "after {after}");
        }
    }
}
