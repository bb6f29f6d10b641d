//! What the runs of one tick share: why and when it began, outages seen so far, pause, shutdown.

use std::sync::{Arc, OnceLock};

use super::pause::on_failure::PauseOnFailure;
use super::shutdown::Shutdown;
use crate::hold::keeper::Keepers;
use crate::lease::label::Label;
use crate::observe::tell::observers::Observers;
use crate::task::future_task::RuntimeId;
use crate::time::clock::moment::Moment;

pub(crate) mod outages;
pub(crate) mod pause_check;

use outages::Outages;
use pause_check::PauseCheck;

/// What the runs of one tick share.
pub(crate) struct TickContext<'a> {
    pub(crate) started_by: StartedBy,
    /// When the tick began.
    pub(crate) began: Moment,
    pub(crate) outages: Outages<'a>,
    pub(crate) observers: &'a Observers,
    pub(crate) keepers: Keepers,
    pub(crate) shutdown: Option<&'a Shutdown>,
    /// The check for pauses; `None` if the schedule has no name, or the run was started by hand.
    pub(crate) pauses: Option<PauseCheck<'a>>,
    /// The words of its requests for people.
    pub(crate) label: Option<&'a Arc<Label>>,
    /// The name of the process.
    pub(crate) instance: Option<Arc<str>>,
    /// Pauses an event that keeps failing, if the schedule has a name and keeps a log of runs.
    pub(crate) on_failure: Option<PauseOnFailure<'a>>,
    /// Whether each failure is written to standard error, because nobody gets the report.
    pub(crate) logs_failures: bool,
    /// The runtime that this tick blocks: it polls no task before the tick ends.
    pub(crate) blocked: OnceLock<RuntimeId>,
}

/// Who starts the runs: the timetables in a tick, or a caller of `Schedule::run_event`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartedBy {
    Timetable,
    Caller,
}

impl TickContext<'_> {
    /// Whether nothing new may start.
    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some_and(Shutdown::is_triggered)
    }
}
