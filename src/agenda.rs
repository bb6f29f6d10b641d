//! Which events are due: the timetables lie together, one list a zone, so that an idle tick reads little memory.

use chrono::{DateTime, Utc};

use crate::crontab::Crontab;
use crate::tick::{Fields, Tick};
use crate::timetable::Timetable;
use crate::zone::Zone;

/// The timetables of a schedule's events, by the index of the event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda(Vec<ZonePage>);

/// The events of one zone: what a tick looks like there is worked out once for all of them.
#[derive(Clone, Debug)]
struct ZonePage {
    zone: Zone,
    crontabs: Vec<Crontab>,
    /// The event that each of `crontabs` belongs to.
    events: Vec<usize>,
}

impl Agenda {
    pub(crate) fn of<'a>(timetables: impl IntoIterator<Item = &'a Timetable>) -> Self {
        let mut agenda = Self::default();
        for (event, timetable) in timetables.into_iter().enumerate() {
            agenda.push(event, timetable);
        }
        agenda
    }

    pub(crate) fn push(&mut self, event: usize, timetable: &Timetable) {
        let at = self.0.iter().position(|page| page.zone == timetable.zone).unwrap_or_else(|| {
            self.0.push(ZonePage { zone: timetable.zone.clone(), crontabs: Vec::new(), events: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].crontabs.push(timetable.crontab);
        self.0[at].events.push(event);
    }

    /// The events that are due at `now` and the tick as each of them sees it, in the order in which they were added. Allocates
    /// nothing when there are none.
    pub(crate) fn due(&self, now: DateTime<Utc>) -> Vec<(usize, Tick)> {
        let mut due = Vec::new();
        for page in &self.0 {
            let fields = Fields::of(now, &page.zone);
            each_due(&page.crontabs, &fields, |at| due.push((page.events[at], *fields.tick())));
        }
        if self.0.len() > 1 {
            due.sort_unstable_by_key(|(event, _)| *event);
        }
        due
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
                    Timetable { crontab, zone: zones[random.usize(..zones.len())].parse().unwrap() }
                };
                let timetables: Vec<Timetable> = (0..length).map(timetable).collect();
                let found: Vec<usize> = Agenda::of(&timetables).due(now).into_iter().map(|(event, _)| event).collect();
                let due = |at: &usize| timetables[*at].crontab.due(&Fields::of(now, &timetables[*at].zone));
                assert_eq!(found, (0..length).filter(due).collect::<Vec<_>>());
            }
        }
    }
}
