//! What the runs of one tick share: why and when it began, outages seen so far, pause, shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::shutdown::Shutdown;
use crate::hold::keeper::Keepers;
use crate::task::runtime;
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
    pub(crate) first_poll: FirstPoll,
}

/// How long to wait for a runtime to poll a task for the first time.
pub(crate) struct FirstPoll {
    /// Whether this tick is inside a runtime, which it may keep from driving anything.
    in_a_runtime: bool,
    /// Whether it was seen to do that, or not to.
    blocks_it: AtomicBool,
    leaves_it: AtomicBool,
}

/// How long a runtime may take that is not blocked.
const FIRST_POLL_TAKES: Duration = Duration::from_secs(1);

impl FirstPoll {
    /// For a tick that this thread waits for.
    pub(crate) fn of_this_thread() -> Self {
        Self { in_a_runtime: runtime::is_here(), blocks_it: AtomicBool::new(false), leaves_it: AtomicBool::new(false) }
    }

    /// `None`: for as long as it takes.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let patience = if self.blocks_it.load(Ordering::Relaxed) { Duration::ZERO } else { FIRST_POLL_TAKES };
        (self.in_a_runtime && !self.leaves_it.load(Ordering::Relaxed)).then_some(patience)
    }

    /// The runtime has polled a task of this tick, so that it gets to the others, too.
    pub(crate) fn was_seen(&self) {
        self.leaves_it.store(true, Ordering::Relaxed);
    }

    /// The runtime did not get to a task in time. It will not get to the next one either.
    pub(crate) fn was_in_vain(&self) {
        self.blocks_it.store(true, Ordering::Relaxed);
    }
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
