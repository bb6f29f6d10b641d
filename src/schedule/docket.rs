//! One tick: what there is to do, and everybody's turn.

use chrono::{DateTime, Utc};

use super::Schedule;
use crate::background;
use crate::event::Definition;
use crate::foreground;
use crate::report::{Entry, Report};
use crate::shutdown::Shutdown;
use crate::tick::Tick;
use crate::turn::{Cause, Round, Turn};

/// What there is to do in a tick: events by their index, in ascending order.
pub(super) struct Docket {
    now: DateTime<Utc>,
    due: Vec<(usize, Tick)>,
    /// What was missed, unless somebody else ran it.
    perhaps_owed: Vec<(usize, Tick)>,
}

impl Docket {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.perhaps_owed.is_empty()
    }
}

impl Schedule {
    /// What there is to do in the tick at `now`, of occurrences that are later than `since`. No I/O.
    pub(super) fn docket(&self, now: DateTime<Utc>, since: DateTime<Utc>) -> Docket {
        let due = self.agenda.due(now, since);
        let mut perhaps_owed = Vec::new();
        for event in &self.catching_up {
            let Definition { timetable, catch_up, .. } = &*self.events[*event];
            let tick = Tick::at(now, &timetable.zone);
            // One look a minute is enough, and what is due makes up for all that came before it.
            let looks = since < tick.occurrence() && due.binary_search_by_key(event, |(event, _)| *event).is_err();
            let missed = catch_up.as_ref().filter(|_| looks).and_then(|catch_up| catch_up.may_owe(timetable, now));
            perhaps_owed.extend(missed.map(|occurrence| (*event, tick.for_missed(occurrence))));
        }
        Docket { now, due, perhaps_owed }
    }

    /// Lets everybody on the docket have their turn.
    pub(super) fn tick(&self, docket: &Docket) -> Report {
        let Docket { now, due, perhaps_owed } = docket;
        if docket.is_empty() {
            return Report::new(*now, Vec::new(), self.shutdown.as_ref());
        }
        let _ticking = self.shutdown.as_ref().map(Shutdown::tick);
        let span = tracing::info_span!(target: "soloist", "tick", now = %now, due = due.len());
        let _in_span = span.enter();
        let is_background = |(event, _): &(usize, Tick)| self.events[*event].background;
        let background = due.len() + perhaps_owed.len() > 1 && due.iter().chain(perhaps_owed).any(is_background);
        let round = self.round(Cause::Due, background);
        let turns = due.iter().map(|(event, tick)| self.turn(&self.events[*event], *tick, &round));
        let entries = if self.catching_up.is_empty() {
            take_turns(turns, background)
        } else {
            take_turns(self.with_what_is_owed(docket, turns.collect(), &round).into_iter(), background)
        };
        Report::new(*now, entries, self.shutdown.as_ref())
    }

    /// The turns of what is due and those of what is owed, in the order in which their events were added.
    fn with_what_is_owed<'a>(&'a self, docket: &Docket, due: Vec<Turn<'a>>, round: &'a Round<'a>) -> Vec<Turn<'a>> {
        due.iter().for_each(Turn::is_seen);
        let mut turns: Vec<(usize, Turn<'a>)> = docket.due.iter().map(|(event, _)| *event).zip(due).collect();
        for (event, tick) in &docket.perhaps_owed {
            let turn = self.turn(&self.events[*event], *tick, round);
            if let Some(missed) = turn.look_for_what_is_owed() {
                turns.push((*event, Turn { missed: Some(missed), ..turn }));
            }
        }
        turns.sort_by_key(|(event, _)| *event);
        turns.into_iter().map(|(_, turn)| turn).collect()
    }
}

fn take_turns<'a>(turns: impl Iterator<Item = Turn<'a>>, background: bool) -> Vec<Entry> {
    if background {
        return background::take_turns(&turns.collect::<Vec<_>>());
    }
    let mut entries = Vec::with_capacity(turns.size_hint().0);
    foreground::take_turns(turns, |entry| entries.push(entry));
    entries
}
