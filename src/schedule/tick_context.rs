//! The context that the runs of one tick share: the cause and the time of the tick, the outages so far, the pause, the
//! shutdown.

use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};

use super::pause::pause_check::PauseCheck;
use super::schedule::{Schedule, registry::Registry};
use crate::event::protection::claim::BackfillClaims;
use crate::lease::label::{BACKFILL, Label};
use crate::task::future_task::RuntimeId;
use crate::time::clock::moment::Moment;

pub(crate) mod outages;

use outages::Outages;

pub(crate) struct TickContext<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) registry: &'a Registry,
    pub(crate) started_by: StartedBy<'a>,
    /// Whether events run even if their filters refuse them. But an event for another environment never runs.
    pub(crate) past_filters: bool,
    /// The beginning of the tick: the moment at which the clock showed the time of the tick.
    pub(crate) began: Moment,
    /// The time of the tick, or `MIN_UTC` if the runs belong to no tick. If an event has a jitter, the `Tick` of its
    /// run has an earlier time than this: the delay by the jitter is subtracted there.
    pub(crate) now: DateTime<Utc>,
    pub(crate) outages: Outages<'a>,
    /// The check for pauses; `None` if the schedule has no name, or the run was started by hand.
    pub(crate) pauses: Option<PauseCheck<'a>>,
    /// The label of the tick's requests, for example with the name of the application.
    pub(crate) label: Option<Arc<Label>>,
    /// The runtime whose only thread this tick blocks. No task is polled there before the tick ends.
    pub(crate) blocked: OnceLock<RuntimeId>,
}

/// The cause of the runs: the timetables in a tick, a caller of `Schedule::run_event`, or a backfill with its claims.
#[derive(Clone, Copy)]
pub(crate) enum StartedBy<'a> {
    Timetable,
    Caller,
    Backfill(&'a BackfillClaims),
}

impl<'a> TickContext<'a> {
    /// Returns the context of a tick that begins now.
    pub(super) fn new(schedule: &'a Schedule, registry: &'a Registry, started_by: StartedBy<'a>) -> Self {
        let pause_marker = schedule.pause_marker.as_ref().filter(|_| !matches!(started_by, StartedBy::Caller));
        let label = match started_by {
            StartedBy::Timetable | StartedBy::Caller => schedule.label.clone(),
            StartedBy::Backfill(_) => {
                let label = schedule.label.as_deref().cloned().unwrap_or_default();
                Some(Arc::new(Label { reason: Some(BACKFILL.into()), ..label }))
            }
        };
        Self {
            schedule,
            registry,
            started_by,
            past_filters: false,
            began: schedule.clock.moment(),
            now: DateTime::<Utc>::MIN_UTC,
            outages: Outages::new(schedule),
            pauses: pause_marker.map(|mark| PauseCheck::new(&schedule.store, mark.clone())),
            label,
            blocked: schedule.blocked.map(OnceLock::from).unwrap_or_default(),
        }
    }
}
