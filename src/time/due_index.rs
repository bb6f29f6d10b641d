//! Which events are due at an instant, and when the next one is: the timetables of a schedule, side by side in memory.

use std::slice;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::clock::instant_of;
use super::tick::Tick;
use super::timetable::Timetable;
use super::zone::{Zone, changes::Change};
use crate::time::timetable::civil_times::{CivilMinute, CivilTimes};
use crate::time::timetable::occurrences::{Occurrences, Seconds, is_repeated};
use crate::time::timetable::{interval::Interval, jitter::Jitter, span::Span};

/// The timetables of a schedule's events, by the index of the event.
#[derive(Clone, Debug, Default)]
pub(crate) struct DueIndex {
    groups: Vec<Group>,
    intervals: Intervals,
    jittered: JitteredEvents,
    /// The events with windows, a span, an interval or a jitter: their next occurrences are searched one by one.
    one_by_one: Vec<usize>,
}

/// The events that are due at their seconds of minutes and whose timetables are read alike: what depends on the zone is worked
/// out once for all of them.
#[derive(Clone, Debug)]
struct Group {
    key: GroupKey,
    /// The minutes of the hour of each of `times`, apart from them: most events are not due, and these tell.
    minutes: Vec<u64>,
    times: Vec<CivilTimes>,
    spans: Vec<Span>,
    /// The event that each of `times` belongs to.
    events: Vec<usize>,
}

/// The properties that the events of a group share.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupKey {
    zone: Zone,
    /// Whether each of their times of the day comes once, also if the clocks leave it out or repeat it.
    once: bool,
    seconds: Seconds,
    /// Whether the next occurrence is searched one by one.
    one_by_one: bool,
}

/// The events that are due at instants of an interval.
#[derive(Clone, Debug, Default)]
struct Intervals {
    intervals: Vec<Interval>,
    /// The event of each of `intervals`, and its timetable.
    events: Vec<(usize, Timetable)>,
}

/// The events that start some time after their occurrences.
#[derive(Clone, Debug, Default)]
struct JitteredEvents(Vec<JitteredEvent>);

#[derive(Clone, Debug)]
struct JitteredEvent {
    event: usize,
    timetable: Timetable,
    /// Whether it may be due several times in a minute.
    has_seconds: bool,
}

impl DueIndex {
    pub(crate) fn push(&mut self, event: usize, timetable: &Timetable, has_windows: bool) {
        let has_jitter = timetable.jitter != Jitter::NONE;
        let one_by_one = has_windows || has_jitter || timetable.interval.is_some() || timetable.span != Span::ALWAYS;
        self.one_by_one.extend(one_by_one.then_some(event));
        if has_jitter {
            let has_seconds = timetable.period() < Duration::from_secs(60);
            self.jittered.0.push(JitteredEvent { event, timetable: timetable.clone(), has_seconds });
            return;
        }
        if let Some(interval) = timetable.interval {
            self.intervals.intervals.push(interval);
            self.intervals.events.push((event, timetable.clone()));
            return;
        }
        let key = GroupKey {
            zone: timetable.zone.clone(),
            once: timetable.comes_once(),
            seconds: timetable.seconds,
            one_by_one,
        };
        let at = self.groups.iter().position(|group| group.key == key).unwrap_or_else(|| {
            self.groups.push(Group {
                key,
                minutes: Vec::new(),
                times: Vec::new(),
                spans: Vec::new(),
                events: Vec::new(),
            });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        group.minutes.push(timetable.times.crontab.minute());
        group.times.push(timetable.times);
        group.spans.push(timetable.span);
        group.events.push(event);
    }

    /// Returns the first occurrence after `after` of any event, except those that are searched one by one, between the years 1970
    /// and 2100.
    pub(crate) fn next_of_all(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let groups = self.groups.iter().filter(|group| !group.key.one_by_one);
        groups.filter_map(|group| group.minutes().at_or_after(after.timestamp() + 1)).min().map(instant_of)
    }

    /// Returns the events whose next occurrences are searched one by one.
    pub(crate) fn one_by_one(&self) -> impl Iterator<Item = usize> {
        self.one_by_one.iter().copied()
    }

    /// Returns the events that start in the tick at `now` and not at `since` or before, and the tick as each of them
    /// sees it, in insertion order. An event with a jitter may be there several times, with its oldest occurrence
    /// first. Allocates nothing when there are none.
    pub(crate) fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>) -> Vec<(usize, Tick)> {
        let mut due = Vec::new();
        for group in &self.groups {
            group.due(now, since, |event, tick| due.push((event, tick)));
        }
        self.intervals.due(now, since, |event, tick| due.push((event, tick)));
        self.jittered.due(now, since, |event, tick| due.push((event, tick)));
        if due.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            due.sort_by_key(|(event, _)| *event);
        }
        due
    }

    /// Returns the first instant after `now` at which an event can be due, as far as that can be told without looking further
    /// than to the next minute.
    pub(crate) fn next_look(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let groups = self.groups.iter().map(|group| group.next_look(now));
        groups.chain(self.intervals.next_look(now)).chain(self.jittered.next_look(now)).min()
    }
}

impl Group {
    fn minutes(&self) -> Occurrences<'_> {
        let Self { key: GroupKey { zone, once, seconds, .. }, times, .. } = self;
        Occurrences { times, zone, once: *once, seconds: *seconds }
    }

    fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>, mut found: impl FnMut(usize, Tick)) {
        if self.key.seconds != Seconds::START {
            return self.due_at_seconds(now, since, found);
        }
        let tick = Tick::at(now, &self.key.zone);
        let minute = tick.occurrence();
        if minute <= since {
            return;
        }
        let civil = CivilMinute::of(&tick.local());
        let change = self.minutes().small_change(now.timestamp());
        if change.is_some_and(|change| is_repeated(minute.timestamp(), change)) {
            return;
        }
        let found = |at: usize| {
            if self.spans[at].includes(minute.timestamp()) {
                found(self.events[at], tick);
            }
        };
        let mut found = found;
        self.each_due(&civil, &mut found);
        if let Some(change) = change
            && minute.timestamp() == change.first_new_minute()
        {
            self.made_up(change, &civil, &mut found);
        }
    }

    /// Calls `found` with the latest occurrence of each event that has one after `since`, up to `now`; without `since`, in the
    /// minute before `now`.
    fn due_at_seconds(&self, now: DateTime<Utc>, since: DateTime<Utc>, mut found: impl FnMut(usize, Tick)) {
        let zone = &self.key.zone;
        let (second, tick) = (now.timestamp(), Tick::at(now, zone));
        let is_first = since == DateTime::<Utc>::MIN_UTC;
        let earliest = if is_first { second - 59 } else { since.timestamp() + 1 };
        let minutes = [second, second - 60].map(|second| CivilMinute::of(&zone.at(instant_of(second))));
        // What a change left out may come in a minute that is not among the times.
        let is_near_change = self.minutes().small_change(second).is_some();
        let either = minutes[0].minute() | minutes[1].minute();
        for (at, times) in self.times.iter().enumerate() {
            let may_be_due = || self.minutes[at] & either != 0 && minutes.iter().any(|minute| times.include(minute));
            if !is_near_change && !may_be_due() {
                continue;
            }
            let its_own = Occurrences { times: slice::from_ref(times), ..self.minutes() };
            let latest = its_own.at_or_before(second).filter(|latest| earliest <= *latest);
            if let Some(latest) = latest.filter(|latest| self.spans[at].includes(*latest)) {
                found(self.events[at], tick.with_occurrence(instant_of(latest), zone));
            }
        }
    }

    /// Returns the next of its seconds in the minute of `now`, if that minute may be due; else the start of the next minute.
    fn next_look(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let tick = Tick::at(now, &self.key.zone);
        let start = tick.occurrence().timestamp();
        let next = self.key.seconds.at_or_after(now.timestamp() + 1 - start);
        let Some(next) = next else { return tick.next_minute() };
        let minute = CivilMinute::of(&tick.local());
        let may_be_due = || self.times.iter().any(|times| times.include(&minute));
        if self.minutes().small_change(start).is_some() || may_be_due() {
            instant_of(start + next)
        } else {
            tick.next_minute()
        }
    }

    /// Calls `found` with the place of each of `times` that is due, in their order.
    ///
    /// Works by blocks, in two passes. The first meets all of them and has no branch that the processor could guess
    /// wrong, as it would for each time that is due at a busy minute. The second meets the candidates alone.
    fn each_due(&self, now: &CivilMinute, mut found: impl FnMut(usize)) {
        for (block, start) in self.minutes.chunks(64).zip((0..).step_by(64)) {
            let mut candidates = 0_u64;
            for (at, minutes) in block.iter().enumerate() {
                candidates |= u64::from(minutes & now.minute() != 0) << at;
            }
            while candidates != 0 {
                let at = start + candidates.trailing_zeros() as usize;
                candidates &= candidates - 1;
                if self.times[at].include(now) {
                    found(at);
                }
            }
        }
    }

    /// Calls `found` with the place of each of `times` that is not due at `now` and was at a time that the clocks left out.
    #[cold]
    fn made_up(&self, change: Change, now: &CivilMinute, mut found: impl FnMut(usize)) {
        for (at, times) in self.times.iter().enumerate() {
            let its_own = Occurrences { times: slice::from_ref(times), ..self.minutes() };
            if !times.include(now) && its_own.make_up_for(change) {
                found(at);
            }
        }
    }
}

impl Intervals {
    /// Calls `found` with the latest instant of each event that has one after `since`, up to `now`; without `since`, in the minute of
    /// `now`.
    fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>, mut found: impl FnMut(usize, Tick)) {
        let second = now.timestamp();
        let is_first = since == DateTime::<Utc>::MIN_UTC;
        let minute = Tick::at(now, &Zone::UTC).occurrence().timestamp();
        for (interval, (event, timetable)) in self.intervals.iter().zip(&self.events) {
            let earliest = match is_first {
                true if interval.needs_seconds() => second - 59,
                true => minute,
                false => since.timestamp() + 1,
            };
            let ago = interval.since_last(second);
            if ago <= second - earliest && timetable.includes(second - ago) {
                let (occurrence, zone) = (instant_of(second - ago), &timetable.zone);
                found(*event, Tick::at(now, zone).with_occurrence(occurrence, zone));
            }
        }
    }

    fn next_look(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next_minute = Tick::at(now, &Zone::UTC).next_minute();
        let within = self.intervals.iter().zip(&self.events).filter(|(interval, _)| interval.needs_seconds());
        let mut next = (!self.events.is_empty()).then_some(next_minute)?.timestamp();
        for (interval, (_, timetable)) in within {
            let first = timetable.span.not_before(now.timestamp() + 1);
            let instant = interval.at_or_after(first);
            if instant < next && timetable.includes(instant) {
                next = instant;
            }
        }
        Some(instant_of(next))
    }
}

impl JitteredEvents {
    /// Calls `found` with each occurrence that starts after `since`, up to `now`; of an event that is due more often than every
    /// minute, with the latest of them.
    ///
    /// Without `since`, these are the starts in the minute that ends with the beginning of that of `now`. So ticks that come once in
    /// each minute, at whichever of its seconds, find each start once.
    fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>, mut found: impl FnMut(usize, Tick)) {
        let is_first = since == DateTime::<Utc>::MIN_UTC;
        let (second, minute) = (now.timestamp(), Tick::at(now, &Zone::UTC).occurrence().timestamp());
        for JitteredEvent { event, timetable, has_seconds } in &self.0 {
            let starts = match (is_first, *has_seconds) {
                (true, true) => second - 59..=second,
                (true, false) => minute - 59..=minute,
                (false, _) => since.timestamp() + 1..=second,
            };
            let started = timetable.starting_in(starts);
            let from = if *has_seconds { started.len().saturating_sub(1) } else { 0 };
            for occurrence in &started[from..] {
                found(*event, timetable.tick(now, *occurrence));
            }
        }
    }

    fn next_look(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next_minute = Tick::at(now, &Zone::UTC).next_minute();
        let starts = self.0.iter().flat_map(|JitteredEvent { timetable, .. }| {
            let occurrences = timetable.starting_in(now.timestamp() + 1..=next_minute.timestamp());
            occurrences.into_iter().map(|occurrence| timetable.start_of(occurrence)).chain([next_minute])
        });
        starts.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::crontab::Crontab;
    use crate::time::timetable::clock_change::ClockChange;

    impl DueIndex {
        pub(crate) fn of<'a>(timetables: impl IntoIterator<Item = &'a Timetable>) -> Self {
            let mut index = Self::default();
            for (event, timetable) in timetables.into_iter().enumerate() {
                index.push(event, timetable, false);
            }
            index
        }
    }

    const BEGINNING: DateTime<Utc> = DateTime::<Utc>::MIN_UTC;

    #[test]
    fn what_is_due_is_found_in_the_order_in_which_it_was_added() {
        let mut random = fastrand::Rng::with_seed(24);
        let now = "2026-03-13T09:00:07Z".parse().unwrap();
        let zones = ["UTC", "+05:45", "-03:00"];
        for zones in [&zones[..1], &zones[..]] {
            for length in [0, 1, 63, 64, 65, 1_000] {
                let timetable = |_| {
                    let minute = ["*", "0", "45", "1"][random.usize(..4)];
                    let days = ["* * *", "13 * *", "1 * fri", "*/2 * mon", "* 4 *"][random.usize(..5)];
                    let crontab = format!("{minute} * {days}").parse().unwrap();
                    let zone = zones[random.usize(..zones.len())].parse().unwrap();
                    Timetable { zone, ..Timetable::of(crontab) }
                };
                let timetables: Vec<Timetable> = (0..length).map(timetable).collect();
                let found: Vec<usize> =
                    DueIndex::of(&timetables).due(now, BEGINNING).into_iter().map(|(event, _)| event).collect();
                let due =
                    |at: &usize| timetables[*at].times.crontab.due(&Crontab::naming(&timetables[*at].zone.at(now)));
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
            // Around the change of Berlin's clocks on 2026-03-29.
            let after = DateTime::from_timestamp(1_774_746_000 + random.i64(-86_400..86_400), 0).unwrap();
            let next = DueIndex::of(&timetables).next_of_all(after);
            assert_eq!(next, timetables.iter().filter_map(|timetable| timetable.next(after)).min(), "after {after}");
        }
    }
}
