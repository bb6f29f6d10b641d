//! The plan of a tick: the due events, and the occurrences that may have been missed.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::schedule::registry::Registry;
use crate::event::definition::Definition;
use crate::store::event_mutex::description::Scope;
use crate::time::tick::Tick;

pub(crate) mod missed_check;
pub(crate) mod next_due;
pub(crate) mod planned_run;

/// The events to run in a tick, by their index in the registry, in ascending order.
pub(super) struct TickPlan {
    pub(super) registry: Arc<Registry>,
    pub(super) now: DateTime<Utc>,
    pub(super) due: Vec<(usize, Tick)>,
    /// The occurrences that were missed, unless another server ran them. The occurrences of one event follow one
    /// another, oldest first.
    pub(super) maybe_missed: Vec<(usize, Tick)>,
}

impl TickPlan {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.maybe_missed.is_empty()
    }

    /// Returns the smallest lateness in the plan: that of the most recent occurrence.
    pub(super) fn lateness(&self) -> Duration {
        let late = self.due.iter().map(|(_, tick)| tick.now() - tick.occurrence()).min();
        late.and_then(|late| late.to_std().ok()).unwrap_or_default()
    }

    /// Returns the plan with only the due events whose claims outlast this process. For these, a claim shows whether an
    /// earlier process has run the occurrence.
    pub(super) fn only_claimed(mut self) -> Self {
        self.due.retain(|(event, _)| {
            let Definition { protection, store, .. } = &*self.registry.events[*event];
            protection.claim.is_some() && store.scope != Scope::Process
        });
        self
    }

    /// Returns an event of the plan that makes no claims, and whose occurrence was due at `last` already.
    pub(super) fn repeated_since(&self, last: DateTime<Utc>) -> Option<&str> {
        let events = self.due.iter().map(|(event, tick)| (&self.registry.events[*event], tick.occurrence()));
        let mut repeated = events.filter(|(event, occurrence)| event.start_of(*occurrence) <= last);
        repeated.find(|(event, _)| event.protection.claim.is_none()).map(|(event, _)| &*event.name)
    }

    /// Returns this plan for a tick at `now`, which may be later than planned. The plan keeps its occurrences.
    pub(super) fn carried_out_at(mut self, now: DateTime<Utc>) -> Self {
        self.now = now;
        for (event, tick) in self.due.iter_mut().chain(&mut self.maybe_missed) {
            *tick = self.registry.events[*event].timetable.tick(now, tick.occurrence());
        }
        self
    }
}

impl Registry {
    /// Plans the tick at `now`, for starts later than `since`. Calls no filters, and asks no store.
    pub(super) fn plan_tick(self: &Arc<Self>, now: DateTime<Utc>, since: DateTime<Utc>) -> TickPlan {
        let due = self.due_index.due(now, since);
        let mut maybe_missed = Vec::new();
        for at in &self.catch_up_events {
            let Definition { timetable, catch_up: Some(catch_up), .. } = &*self.events[*at] else { continue };
            let first = due.partition_point(|(event, _)| event < at);
            let its_own = due[first..].iter().take_while(|(event, _)| event == at).map(|(_, tick)| tick.occurrence());
            its_own.clone().for_each(|due| catch_up.begin(due));
            let minute = Tick::at(now, &timetable.zone).occurrence();
            // Only the first tick of a minute looks for missed occurrences.
            if since < minute {
                let missed = catch_up.begin_candidates(timetable, minute, its_own.min()).into_iter();
                maybe_missed.extend(missed.map(|missed| (*at, timetable.tick(now, missed))));
            }
        }
        TickPlan { registry: Arc::clone(self), now, due, maybe_missed }
    }
}
