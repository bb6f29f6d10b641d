//! What the runs of one tick share: why and when it began, outages seen so far, pause, shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::pause::on_failure::PauseOnFailure;
use super::shutdown::Shutdown;
use crate::hold::keeper::Keepers;
use crate::observe::tell::observers::Observers;
use crate::task::{future_task::RuntimeId, runtime};
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
    /// The check for pauses; `None` if the schedule is not pausable, or the run was started by hand.
    pub(crate) pauses: Option<PauseCheck<'a>>,
    /// What pauses an event that keeps failing, if the schedule is pausable and keeps a log of runs.
    pub(crate) on_failure: Option<PauseOnFailure<'a>>,
    /// Whether each failure is written to standard error, because nobody gets the report.
    pub(crate) logs_failures: bool,
    pub(crate) first_poll: FirstPoll,
}

/// How long to wait for the runtime that a tick is in to poll a task for the first time: the tick may keep it from driving
/// anything.
pub(crate) struct FirstPoll {
    /// That runtime, and how long it takes at most if it is not blocked.
    here: Option<(RuntimeId, Duration)>,
    /// Whether it was seen to be blocked, or not to be.
    is_blocked: AtomicBool,
    is_driven: AtomicBool,
}

/// How long a runtime may take that has this thread alone, which is at work here, or others as well.
const ALONE_TAKES: Duration = Duration::from_secs(1);
const WITH_OTHERS_TAKES: Duration = Duration::from_secs(5);

impl FirstPoll {
    /// For a tick that this thread waits for.
    pub(crate) fn of_this_thread() -> Self {
        let takes = |workers| if workers > 1 { WITH_OTHERS_TAKES } else { ALONE_TAKES };
        let here = runtime::here().map(|(id, workers)| (id, takes(workers)));
        Self { here, is_blocked: AtomicBool::new(false), is_driven: AtomicBool::new(false) }
    }

    /// Whether this is the runtime that may be blocked.
    pub(crate) fn is_of(&self, runtime: RuntimeId) -> bool {
        self.here.is_some_and(|(here, _)| here == runtime)
    }

    /// How long a task of this runtime is waited for. `None`: for as long as it takes.
    pub(crate) fn patience(&self, runtime: RuntimeId) -> Option<Duration> {
        let (_, takes) = self.here.filter(|(here, _)| *here == runtime && !self.is_driven.load(Ordering::Relaxed))?;
        Some(if self.is_blocked.load(Ordering::Relaxed) { Duration::ZERO } else { takes })
    }

    /// The runtime has polled a task of this tick, so that it gets to the others, too.
    pub(crate) fn was_seen(&self) {
        self.is_driven.store(true, Ordering::Relaxed);
    }

    /// The runtime did not get to a task in time. It will not get to the next one either.
    pub(crate) fn was_in_vain(&self) {
        self.is_blocked.store(true, Ordering::Relaxed);
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
