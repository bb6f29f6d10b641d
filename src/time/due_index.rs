//! Which events are due: the timetables lie together, so that an idle tick reads little memory.

use std::time::Duration;

use chrono::{DateTime, Timelike, Utc};

use super::clock::wall_plus;
use super::crontab::Crontab;
use super::tick::{Fields, Tick};
use super::timetable::Timetable;
use super::zone::Zone;
use crate::time::timetable::clock_change::Passage;
use crate::time::timetable::seconds::Seconds;

/// The timetables of a schedule's events, by the index of the event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda(Vec<Page>);

/// The events for which a tick looks the same: what it looks like is worked out once for all of them.
#[derive(Clone, Debug)]
struct Page {
    heading: Heading,
    crontabs: Vec<Crontab>,
    /// The event that each of `crontabs` belongs to.
    events: Vec<usize>,
}

/// What the events of a page have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Heading {
    zone: Zone,
    seconds: Seconds,
    /// Whether each of their times of the day comes once, whatever the clocks show.
    once: bool,
}

impl Agenda {
    #[cfg(test)]
    pub(crate) fn of<'a>(timetables: impl IntoIterator<Item = &'a Timetable>) -> Self {
        let mut agenda = Self::default();
        for (event, timetable) in timetables.into_iter().enumerate() {
            agenda.push(event, timetable);
        }
        agenda
    }

    pub(crate) fn push(&mut self, event: usize, timetable: &Timetable) {
        let heading = Heading::of(timetable);
        let at = self.0.iter().position(|page| page.heading == heading).unwrap_or_else(|| {
            self.0.push(Page { heading, crontabs: Vec::new(), events: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].crontabs.push(timetable.crontab);
        self.0[at].events.push(event);
    }

    /// The events that are due at `now` with an occurrence later than `since`, and the tick as each of them sees it, in
    /// the order in which they were added. Allocates nothing when there are none.
    pub(crate) fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>) -> Vec<(usize, Tick)> {
        let mut due = Vec::new();
        for page in &self.0 {
            page.due(now, since, |event, tick| due.push((event, tick)));
        }
        if self.0.len() > 1 || due.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            due.sort_unstable_by_key(|(event, _)| *event);
        }
        due
    }

    /// The first instant after `now` at which an event can be due, as far as that can be told without looking further
    /// than to the next minute.
    pub(crate) fn next_look(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.0.iter().map(|page| page.next_look(now)).min()
    }
}

impl Heading {
    fn of(timetable: &Timetable) -> Self {
        Self { zone: timetable.zone.clone(), seconds: timetable.seconds, once: timetable.comes_once() }
    }
}

impl Page {
    fn due(&self, now: DateTime<Utc>, since: DateTime<Utc>, mut found: impl FnMut(usize, Tick)) {
        let Heading { zone, seconds, once } = &self.heading;
        let fields = Fields::of(now, zone);
        let tick = fields.tick().in_slot(*seconds);
        if tick.occurrence() <= since {
            return;
        }
        let minute = fields.tick().occurrence();
        let passage = if *once { Passage::around(zone, now.timestamp()) } else { None };
        match passage {
            None => each_due(&self.crontabs, &fields, |at| found(self.events[at], tick)),
            Some(passage) if minute.timestamp() < passage.resumed() => {}
            Some(passage) => {
                each_due(&self.crontabs, &fields, |at| found(self.events[at], tick));
                if minute.timestamp() == passage.resumed() && minute > since {
                    self.made_up(passage, &fields, |at| found(self.events[at], *fields.tick()));
                }
            }
        }
    }

    /// Calls `found` with the place of each crontab that is not due at `now` and was at a time that the clocks left out.
    #[cold]
    fn made_up(&self, passage: Passage, now: &Fields, mut found: impl FnMut(usize)) {
        let mut missed: Vec<usize> = Vec::new();
        for second in passage.left_out().into_iter().flatten().step_by(60) {
            let Some(civil) = DateTime::from_timestamp(second, 0) else { continue };
            let civil = Fields::of(civil, &Zone::UTC);
            each_due(&self.crontabs, &civil, |at| missed.push(at));
        }
        missed.sort_unstable();
        missed.dedup();
        missed.into_iter().filter(|at| !self.crontabs[*at].due(now)).for_each(&mut found);
    }

    fn next_look(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let Heading { zone, seconds, .. } = &self.heading;
        let tick = Tick::at(now, zone);
        let (minute, next_minute) = (tick.occurrence(), tick.next_minute());
        let second = tick.local().second();
        let later = seconds.after(second).map(|second| wall_plus(minute, Duration::from_secs(second.into())));
        match later {
            Some(later) if self.is_any_due(later) => later,
            _ => next_minute,
        }
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
fn each_due(crontabs: &[Crontab], now: &Fields, mut found: impl FnMut(usize)) {
    for (block, start) in crontabs.chunks(64).zip((0..).step_by(64)) {
        let mut candidates = 0_u64;
        for (at, crontab) in block.iter().enumerate() {
            candidates |= u64::from(crontab.meets_time(now)) << at;
        }
        while candidates != 0 {
            let at = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            if block[at].meets_day(now) {
                found(start + at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::timetable::clock_change::ClockChange;

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
                    Agenda::of(&timetables).due(now, BEGINNING).into_iter().map(|(event, _)| event).collect();
                let due = |at: &usize| timetables[*at].crontab.due(&Fields::of(now, &timetables[*at].zone));
                assert_eq!(found, (0..length).filter(due).collect::<Vec<_>>());
            }
        }
    }
}
