//! One tick: what there is to do, and everybody's turn.

use chrono::{DateTime, Utc};

use super::execute::run_planned;
use super::missed::note_that_they_were_seen;
use super::planned_run::Turn;
use super::registry::Schedule;
use super::report::Report;
use super::shutdown::Shutdown;
use super::tick_context::{Cause, Round};
use crate::base::contain::contain;
use crate::base::escape::OneLine;
use crate::event::builder::Definition;
use crate::observe::log::tell;
use crate::time::clock::Rfc3339;
use crate::time::tick::Tick;

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

    /// Without what nothing keeps from having run already.
    pub(super) fn of_what_is_claimed(mut self, schedule: &Schedule) -> Self {
        self.due.retain(|(event, _)| schedule.events[*event].protection.claim.is_some());
        self
    }
}

impl Schedule {
    /// What there is to do in the tick at `now`, of occurrences that are later than `since`. No I/O.
    pub(super) fn docket(&self, now: DateTime<Utc>, since: DateTime<Utc>) -> Docket {
        let due = self.agenda.due(now, since);
        let mut perhaps_owed = Vec::new();
        for at in &self.catching_up {
            let Definition { timetable, catch_up: Some(catch_up), .. } = &*self.events[*at] else { continue };
            if let Ok(found) = due.binary_search_by_key(at, |(event, _)| *event) {
                // What is due makes up for all that came before it.
                catch_up.take_up(due[found].1.occurrence());
                continue;
            }
            let tick = Tick::at(now, &timetable.zone);
            let minute = tick.occurrence();
            // One look a minute is enough.
            if since < minute
                && let Some(missed) = catch_up.take_up_what_may_be_owed(timetable, minute)
            {
                perhaps_owed.push((*at, tick.for_missed(missed, &timetable.zone)));
            }
        }
        Docket { now, due, perhaps_owed }
    }

    /// Lets everybody on the docket have their turn, and tells who is to be told.
    pub(super) fn tick(&self, docket: &Docket) -> Report {
        if docket.is_empty() {
            return Report::new(docket.now, Vec::new(), self.shutdown.as_ref());
        }
        let report = self.let_them_have_their_turns(docket);
        if let Some(told) = self.on_report.as_ref().filter(|_| !report.entries().is_empty())
            && let Err(message) = contain(|| told(&report))
        {
            tell(format_args!("a report was not told, because on_report(..) panicked: {}", OneLine(&message)), || {
                tracing::error!(target: "soloist", error = &*message, "report not told");
            });
        }
        report
    }

    fn let_them_have_their_turns(&self, docket: &Docket) -> Report {
        let Docket { now, due, perhaps_owed } = docket;
        let _ticking = self.shutdown.as_ref().map(Shutdown::tick);
        let span = tracing::info_span!(target: "soloist", "tick", now = %Rfc3339(*now), due = due.len());
        let _in_span = span.enter();
        let is_background = |(event, _): &(usize, Tick)| self.events[*event].background;
        let background = due.len() + perhaps_owed.len() > 1 && due.iter().chain(perhaps_owed).any(is_background);
        let round = self.round(Cause::Due, background);
        let turns = due.iter().map(|(event, tick)| self.turn(&self.events[*event], *tick, &round));
        let entries = if self.catching_up.is_empty() {
            run_planned(turns, background)
        } else {
            run_planned(self.with_what_is_owed(docket, turns.collect(), &round).into_iter(), background)
        };
        Report::new(*now, entries, self.shutdown.as_ref())
    }

    /// The turns of what is due and those of what is owed, in the order in which their events were added.
    fn with_what_is_owed<'a>(&'a self, docket: &Docket, due: Vec<Turn<'a>>, round: &'a Round<'a>) -> Vec<Turn<'a>> {
        if !round.is_shutting_down() {
            note_that_they_were_seen(&due);
        }
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
