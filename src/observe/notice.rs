//! The notices of a schedule. Each step is reported once, to the log and to the observers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::tell::notice_queue::Posted;
use crate::base::error::MutexError;
use crate::lease::{name::MutexName, owner::Owner, token::FencingToken};
use crate::outcome::cancel::CancelReason;
use crate::outcome::fault::{Fault, HookFailure};
use crate::outcome::release::Release;
use crate::outcome::run_outcome::RunOutcome;
use crate::outcome::run_record::RunId;
use crate::outcome::skip_reason::SkipReason;
use crate::time::clock::Clock;

/// A notice about one step of a schedule. All [observers](crate::Schedule::observe) of the schedule receive it.
///
/// ```
/// use soloist::observe::{Notice, Step};
///
/// fn count(notice: &Notice<'_>) {
///     if let (Some(event), Step::Skipped(reason)) = (notice.event(), notice.step()) {
///         println!("{event} skipped: {}", reason.keyword());
///     }
/// }
/// let schedule = soloist::Schedule::in_process().observe(count);
/// ```
#[derive(Clone, Debug)]
pub struct Notice<'a> {
    pub(super) step: &'a Step<'a>,
    pub(super) about: About<'a>,
    pub(super) clock: &'a Clock,
    /// The instance name of the process.
    pub(crate) instance: Option<&'a Arc<str>>,
}

impl<'a> Notice<'a> {
    /// Returns the step.
    pub fn step(&self) -> &Step<'a> {
        self.step
    }

    /// Returns the event of the step. `None`: the step concerns the whole schedule, or its store.
    pub fn event(&self) -> Option<&'a str> {
        self.about.event
    }

    /// Returns the occurrence of the run. `None`: the step concerns no single run.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.about.occurrence
    }

    /// Returns whether a [backfill](crate::Schedule::backfill) runs the occurrence.
    pub fn is_backfill(&self) -> bool {
        self.about.is_backfill
    }

    pub(crate) fn is_missed(&self) -> bool {
        self.about.is_missed
    }

    /// Returns the id of the run. `None`: the step comes before `Admitted`, or concerns no single run. If the run has a
    /// lease or a claim, the id is the owner of that lease or claim. The run has this id in the [log of
    /// runs](crate::Schedule::with_run_log), too.
    pub fn run(&self) -> Option<Owner> {
        self.about.run
    }

    /// Returns the time of the step on the schedule's clock. A notice without a [`sequence`](Self::sequence) is
    /// delivered during the step. For such a notice, each call of `at` reads the clock.
    pub fn at(&self) -> DateTime<Utc> {
        self.about.posted.map_or_else(|| self.clock.now(), |posted| posted.at)
    }

    /// Returns the number of a notice of a store's renewal thread. The first such notice of a store has number 1. A
    /// separate thread delivers these notices, because a renewal must not wait for observers. If a number is missing,
    /// its notice was dropped, because 1,000 notices were waiting for slow observers. `None`: the notice is of another
    /// thread.
    pub fn sequence(&self) -> Option<u64> {
        self.about.posted.map(|posted| posted.sequence)
    }
}

/// A step of a schedule; see [`Notice`].
///
/// The steps of a run come in this order: `Due`, `Queued`, `Unprotected`, `Admitted`, `CatchesUp`, `Started`,
/// `AttemptFailed` and `AttemptStarted` for each retry, `Ended`, `HookFailed`, `Released`. A skipped occurrence has
/// `Due`, perhaps `Queued`, and `Skipped`. Steps about the lease, such as `LeaseLost`, can come between any two of
/// these steps.
///
/// ```
/// use soloist::observe::Step;
/// use soloist::Schedule;
///
/// let schedule = Schedule::in_process().observe(|notice: &soloist::observe::Notice<'_>| match notice.step() {
///     Step::Ended(outcome) => println!("{:?}: {outcome}", notice.event()),
///     Step::LeaseLost { .. } => println!("{:?} may run twice", notice.event()),
///     _ => {}
/// });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// The schedule begins its loop, a backfill, or a tick with due events. The step comes the first time, and again
    /// the first time after the events of the schedule have changed.
    #[non_exhaustive]
    Begins {
        /// The names of all events.
        events: &'a [&'a str],
    },
    /// The event was removed from the schedule. A run that is already running continues.
    Removed,
    /// An occurrence of the event is due in the tick that begins now, or was missed and is caught up now.
    #[non_exhaustive]
    Due {
        /// The time since the occurrence.
        late: Duration,
        /// Whether the occurrence was missed, and is caught up now.
        missed: bool,
    },
    /// The occurrence does not run.
    Skipped(&'a SkipReason),
    /// The occurrence waits in the queue of its event, behind a run or behind other occurrences. A backfill does not
    /// use the queue: its occurrence waits for the lease, and the place is 1.
    #[non_exhaustive]
    Queued {
        /// The place of the occurrence when it begins to wait in the queue, counted from 1.
        place: usize,
    },
    /// The run catches up a missed occurrence. The duration is the time since that occurrence.
    CatchesUp(Duration),
    /// The run starts without protection, because the store gave no usable answer; see
    /// [`OutagePolicy::RunUnprotected`](crate::OutagePolicy::RunUnprotected).
    Unprotected(&'a MutexError),
    /// The run was admitted. Its `before` hooks are next.
    #[non_exhaustive]
    Admitted {
        /// The fencing token of the grant; `None` without protection.
        token: Option<FencingToken>,
        /// How long the request to the store took. One request can contain the admissions of several events. Zero: no
        /// store has granted anything.
        took: Duration,
    },
    /// The task starts.
    #[non_exhaustive]
    Started {
        /// See [`Run::fencing_token`](crate::Run::fencing_token).
        token: Option<FencingToken>,
    },
    /// An attempt failed, and the run waits for its next attempt; see [`Event::retry`](crate::Event::retry). If no
    /// further attempt follows, the failure is in [`Ended`](Self::Ended) instead.
    #[non_exhaustive]
    AttemptFailed {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The fault of the task.
        fault: &'a Fault,
        /// The time until the next attempt.
        retry_in: Duration,
    },
    /// A retry begins. The first attempt begins with [`Started`](Self::Started).
    #[non_exhaustive]
    AttemptStarted {
        /// The number of the attempt, from 2.
        attempt: u32,
    },
    /// The run was cancelled while its task was running, or while the run was waiting for a retry. The step comes at
    /// most once in a run: only the first thread that notices the cancellation reports it.
    Cancelled(CancelReason),
    /// The task is still running, five seconds after its timeout.
    DoesNotStop,
    /// The lease is lost: from now on, another run of the event can start.
    #[non_exhaustive]
    LeaseLost {
        /// The name of the lease; `None` if the loss was noticed only at the release.
        mutex: Option<&'a MutexName>,
        /// The fencing token of the run.
        token: Option<FencingToken>,
    },
    /// The task and its hooks have ended. The lease is released later, so the outcome does not contain the release.
    Ended(&'a RunOutcome),
    /// A hook of the run failed. This step follows [`Ended`](Self::Ended).
    HookFailed(&'a HookFailure),
    /// The task did not end in time, and the schedule no longer waits for it. Either the task is a future whose runtime
    /// has stalled, or the process ends because the grace of its shutdown is over.
    LeftBehind,
    /// The lease was released, or could not be released.
    Released(&'a Release),
    /// Leases of this schedule were renewed together.
    #[non_exhaustive]
    Renewed {
        /// The number of leases.
        leases: usize,
        /// The number of leases that were renewed late: at the request, less than half of the term was left. The time
        /// that is kept for stopping the task is not counted as part of the term. Earlier attempts may have failed, or
        /// the process may have been suspended.
        late: usize,
        /// The shortest time that was left for the renewal of one of these leases. The time in which a cancelled
        /// command or future can stop does not count.
        lowest: Duration,
    },
    /// Leases of this schedule could not be renewed yet. The renewal is retried until the leases end.
    #[non_exhaustive]
    NotRenewed {
        /// The number of leases.
        leases: usize,
        /// The shortest time that is left for the renewal of one of these leases, as in [`Renewed`](Self::Renewed).
        lowest: Duration,
        /// The error of the store.
        error: &'a MutexError,
    },
    /// A store became unavailable. The step comes once for each outage.
    StoreUnavailable(&'a MutexError),
    /// An unavailable store has answered again.
    StoreAvailable,
    /// This process paused the schedule, or only the event that [`Notice::event`] names.
    #[non_exhaustive]
    Paused {
        /// The [name](crate::Schedule::named) of the schedule.
        schedule: &'a str,
        /// The end of the pause.
        until: DateTime<Utc>,
        /// The reason that was given for the pause.
        why: Option<&'a str>,
        /// The processes that see the pause: the [`Scope`](crate::store::Scope) of the store.
        scope: &'a dyn fmt::Debug,
    },
    /// This process ended the pause of the schedule, or of the event that [`Notice::event`] names.
    #[non_exhaustive]
    Resumed {
        /// The name of the schedule.
        schedule: &'a str,
    },
    /// A tick of the loop begins late by this time: five seconds or more. A delay by a [jitter](crate::Event::jitter)
    /// is planned, and does not count.
    TickLate(Duration),
    /// The loop is awake. The step comes in each tick and at least once a minute. A separate thread delivers the step,
    /// so that the loop does not wait for observers. The step is left out while observers are still busy with the last
    /// `LoopAlive`.
    LoopAlive,
}

/// The event, the occurrence and the run of a step, and the thread that reports it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) event: Option<&'a str>,
    pub(crate) occurrence: Option<DateTime<Utc>>,
    pub(crate) is_backfill: bool,
    /// Whether the fleet has missed the occurrence. Such an occurrence can be skipped once a minute, and run later.
    pub(crate) is_missed: bool,
    pub(crate) run: Option<Owner>,
    /// Another thread took the step, and posted its notice to this thread. `None`: this thread took the step.
    pub(crate) posted: Option<Posted>,
}

impl<'a> From<&'a RunId> for About<'a> {
    fn from(RunId { event, occurrence, is_backfill }: &'a RunId) -> Self {
        Self { event: Some(event), occurrence: Some(*occurrence), is_backfill: *is_backfill, ..Self::default() }
    }
}
