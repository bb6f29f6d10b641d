//! Which events are due at an instant, and when the next one is: the timetables of a schedule, side by side in memory.

use std::slice;
use std::time::Duration;

use chrono::{DateTime, Timelike, Utc};

use super::clock::wall_plus;
use super::crontab::Crontab;
use super::tick::Tick;
use super::timetable::Timetable;
use super::zone::{Zone, changes::Change};
use crate::time::{timetable::occurrences::Occurrences, timetable::seconds::Seconds};

/// The timetables of a schedule's events, by the index of the event.
#[derive(Clone, Debug, Default)]
pub(crate) struct DueIndex(Vec<Group>);

/// The events whose timetables are read alike: what depends on the zone is worked out once for all of them.
#[derive(Clone, Debug)]
struct Group {
    key: GroupKey,
    crontabs: Vec<Crontab>,
    /// The event that each of `crontabs` belongs to.
    events: Vec<usize>,
}

/// What the events of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupKey {
    zone: Zone,
    seconds: Seconds,
    /// Whether each of their times of the day comes once, whatever the clocks show.
    once: bool,
    /// Whether windows keep them from some of their times.
    has_windows: bool,
}

impl DueIndex {
    pub(crate) fn push(&mut self, event: usize, timetable: &Timetable, has_windows: bool) {
        let Timetable { zone, seconds, .. } = timetable;
        let key = GroupKey { zone: zone.clone(), seconds: *seconds, once: timetable.comes_once(), has_windows };
        let at = self.0.iter().position(|group| group.key == key).unwrap_or_else(|| {
            self.0.push(Group { key, crontabs: Vec::new(), events: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].crontabs.push(timetable.crontab);
        self.0[at].events.push(event);
    }

    /// The first occurrence after `after` of any event without windows, between the years 1970 and 2100.
    pub(crate) fn next_without_windows(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let groups = self.0.iter().filter(|group| !group.key.has_windows);
        groups.filter_map(|group| group.occurrences().next(after)).min()
    }

    /// The events that have windows.
    pub(crate) fn with_windows(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter(|group| group.key.has_windows).flat_map(|group| group.events.iter().copied())
    }

    /// The events that are due at `now` with an occurrence later than `since`, and the tick as each of them sees it, in
    /// the order in which they were added. Allocates nothing when there are none.
    pub(crate) fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>) -> Vec<(usize, Tick)> {
        let mut due = Vec::new();
        for group in &self.0 {
            group.due(now, since, |event, tick| due.push((event, tick)));
        }
        if self.0.len() > 1 || due.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            due.sort_unstable_by_key(|(event, _)| *event);
        }
        due
    }

    /// The first instant after `now` at which an event can be due, as far as that can be told without looking further
    /// than to the next minute.
    pub(crate) fn next_look(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.0.iter().map(|group| group.next_look(now)).min()
    }
}

impl Group {
    fn occurrences(&self) -> Occurrences<'_> {
        let Self { key: GroupKey { zone, seconds, once, .. }, crontabs, .. } = self;
        Occurrences { crontabs, seconds: *seconds, zone, once: *once }
    }

    fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>, mut found: impl FnMut(usize, Tick)) {
        let GroupKey { zone, seconds, .. } = &self.key;
        let in_minute = Tick::at(now, zone);
        let tick = in_minute.in_slot(*seconds);
        if tick.occurrence() <= since {
            return;
        }
        let civil = Crontab::naming(&in_minute.local());
        let minute = in_minute.occurrence();
        let change = self.occurrences().small_change(now.timestamp());
        if change.is_some_and(|change| minute.timestamp() < change.first_new_minute()) {
            return;
        }
        each_due(&self.crontabs, &civil, |at| found(self.events[at], tick));
        if let Some(change) = change
            && minute.timestamp() == change.first_new_minute()
            && minute > since
        {
            self.made_up(change, &civil, |at| found(self.events[at], in_minute));
        }
    }

    /// Calls `found` with the place of each crontab that is not due at `now` and was at a time that the clocks left out.
    #[cold]
    fn made_up(&self, change: Change, now: &Crontab, mut found: impl FnMut(usize)) {
        let Some(left_out) = change.skipped() else { return };
        for (at, crontab) in self.crontabs.iter().enumerate() {
            let its_own = Occurrences { crontabs: slice::from_ref(crontab), ..self.occurrences() };
            if !crontab.due(now) && its_own.has_civil_time_in(&left_out) {
                found(at);
            }
        }
    }

    fn next_look(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let GroupKey { zone, seconds, .. } = &self.key;
        let tick = Tick::at(now, zone);
        let later = seconds.at_or_after(tick.local().second() + 1);
        let later = later.map(|second| wall_plus(tick.occurrence(), Duration::from_secs(second.into())));
        later.filter(|later| self.is_any_due(*later)).unwrap_or_else(|| tick.next_minute())
    }

    fn is_any_due(&self, at: DateTime<Utc>) -> bool {
        let mut any = false;
        self.due(at, DateTime::<Utc>::MIN_UTC, |_, _| any = true);
        any
    }
}

/// Calls `found` with the place of each crontab that is due, in their order.
///
/// By blocks, in two passes: the first meets every crontab and has no branch that the processor could guess wrong, as
/// it would for each one that is due at a busy minute; the second meets those alone.
fn each_due(crontabs: &[Crontab], now: &Crontab, mut found: impl FnMut(usize)) {
    for (block, start) in crontabs.chunks(64).zip((0..).step_by(64)) {
        let mut candidates = 0_u64;
        for (at, crontab) in block.iter().enumerate() {
            candidates |= u64::from(crontab.meets_minute(now)) << at;
        }
        while candidates != 0 {
            let at = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            if block[at].due(now) {
                found(start + at);
            }
        }
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
                    Timetable {
                        crontab,
                        seconds: Seconds::FIRST,
                        zone: zones[random.usize(..zones.len())].parse().unwrap(),
                        clock_change: ClockChange::default(),
                    }
                };
                let timetables: Vec<Timetable> = (0..length).map(timetable).collect();
                let found: Vec<usize> =
                    DueIndex::of(&timetables).due(now, BEGINNING).into_iter().map(|(event, _)| event).collect();
                let due = |at: &usize| timetables[*at].crontab.due(&Crontab::naming(&timetables[*at].zone.at(now)));
                assert_eq!(found, (0..length).filter(due).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_next_of_many_is_the_earliest_of_each() {
        let mut random = fastrand::Rng::with_seed(25);
        for _ in 0..200 {
            let zones = ["UTC", "+05:45", if cfg!(feature = "tzdata") { "Europe/Berlin" } else { "-03:00" }];
            let timetable = |_| Timetable {
                crontab: format!("{} {} * * {}", random.u32(..60), random.u32(..24), random.u32(..7)).parse().unwrap(),
                seconds: Seconds::every_nth([60, 60, 30][random.usize(..3)]).unwrap(),
                zone: zones[random.usize(..3)].parse().unwrap(),
                clock_change: [ClockChange::AsCron, ClockChange::AsShown][random.usize(..2)],
            };
            let timetables: Vec<Timetable> = (0..20).map(timetable).collect();
            // Around the change of Berlin's clocks on 2026-03-29.
            let after = DateTime::from_timestamp(1_774_746_000 + random.i64(-86_400..86_400), 0).unwrap();
            let next = DueIndex::of(&timetables).next_without_windows(after);
            assert_eq!(next, timetables.iter().filter_map(|timetable| timetable.next(after)).min(), "after {after}");
        }
    }
}
