//! What the runs of one tick share: why and when it began, outages seen so far, pause, shutdown.

use super::shutdown::Shutdown;
use crate::hold::keeper::Keepers;
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
    pub(crate) outages: Outages,
    pub(crate) keepers: Keepers,
    pub(crate) shutdown: Option<&'a Shutdown>,
    /// The check whether the schedule is paused; `None` if it is not pausable, or the run was started by hand.
    pub(crate) pause: Option<PauseCheck<'a>>,
    /// Whether each failure is written to standard error, because nobody gets the report.
    pub(crate) logs_failures: bool,
}

/// Who starts the runs: the timetables in a tick, or a caller of `Schedule::run`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartedBy {
    Timetable,
    Caller,
}

impl TickContext<'_> {
    /// Whether nothing new may start.
    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some_and(Shutdown::has_begun)
    }
}
