//! What the runs of one tick share: why and when it began, outages seen so far, pause, shutdown.

use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};

use super::pause::pause_check::PauseCheck;
use super::schedule::Schedule;
use super::shutdown::Shutdown;
use crate::hold::renewal_thread::RenewalThreads;
use crate::task::future_task::RuntimeId;
use crate::time::clock::moment::Moment;

pub(crate) mod outages;

use outages::Outages;

/// The values that the runs of one tick share.
pub(crate) struct TickContext<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) started_by: StartedBy,
    /// When the tick began.
    pub(crate) began: Moment,
    /// The instant of the tick, if it is later than that of a run: a tick may run an occurrence that was due minutes ago.
    pub(crate) now: DateTime<Utc>,
    pub(crate) outages: Outages<'a>,
    pub(crate) renewal_threads: RenewalThreads,
    /// The check for pauses; `None` if the schedule has no name, or the run was started by hand.
    pub(crate) pauses: Option<PauseCheck<'a>>,
    /// The name of the process.
    pub(crate) instance: Option<Arc<str>>,
    /// The runtime that this tick blocks: it polls no task before the tick ends.
    pub(crate) blocked: OnceLock<RuntimeId>,
}

/// The starter of the runs: the timetables in a tick, or a caller of `Schedule::run_event`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartedBy {
    Timetable,
    Caller,
    /// The caller wants it to run whatever its filters say, but not in another environment.
    #[cfg(feature = "cli")]
    CallerPastFilters,
}

impl<'a> TickContext<'a> {
    /// Begins a tick.
    pub(super) fn new(schedule: &'a Schedule, started_by: StartedBy) -> Self {
        let pause_marker = schedule.pause_marker.as_ref().filter(|_| started_by == StartedBy::Timetable);
        Self {
            schedule,
            started_by,
            began: schedule.clock.moment(),
            now: DateTime::<Utc>::MIN_UTC,
            outages: Outages::new(&schedule.stores_out, &schedule.observers),
            renewal_threads: RenewalThreads::default(),
            pauses: pause_marker.map(|mark| PauseCheck::new(&schedule.store, mark.clone())),
            instance: schedule.instance(),
            blocked: OnceLock::new(),
        }
    }

    /// Returns whether the filters of its events are not asked.
    pub(crate) fn ignores_filters(&self) -> bool {
        #[cfg(feature = "cli")]
        let ignores = self.started_by == StartedBy::CallerPastFilters;
        #[cfg(not(feature = "cli"))]
        let ignores = false;
        ignores
    }

    /// Returns whether nothing new may start.
    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.schedule.shutdown.as_ref().is_some_and(Shutdown::is_triggered)
    }
}
