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
            for (crontab, event) in page.crontabs.iter().zip(&page.events) {
                if crontab.due(&fields) {
                    due.push((*event, *fields.tick()));
                }
            }
        }
        if self.0.len() > 1 {
            due.sort_unstable_by_key(|(event, _)| *event);
        }
        due
    }
}
