//! The notices of a schedule. Each step is reported once, to the log and to the observers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::tell::delivery::Posted;
use crate::base::error::MutexError;
use crate::lease::{name::MutexName, owner::Owner, token::FencingToken};
use crate::outcome::cancel::CancelReason;
use crate::outcome::fault::{Fault, HookFailure};
use crate::outcome::release::Release;
use crate::outcome::run_outcome::RunOutcome;
use crate::outcome::run_record::RunId;
use crate::outcome::skip_reason::SkipReason;
use crate::time::clock::Clock;

/// A notice of one step of a schedule, which its [observers](crate::Schedule::observe) receive.
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
    pub(super) posted: Option<Posted>,
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

    /// Returns the id of the run, from `Admitted` on. All notices of the run have this id. It is the owner of the lease or the
    /// claim, and the id in the [log of runs](crate::Schedule::with_run_log).
    pub fn run(&self) -> Option<Owner> {
        self.about.run
    }

    /// Returns the time of the step, on the schedule's clock. If the notice has no [`sequence`](Self::sequence), each call reads
    /// the clock.
    pub fn at(&self) -> DateTime<Utc> {
        self.posted.map_or_else(|| self.clock.now(), |posted| posted.at)
    }

    /// Returns the number of a notice that a separate thread delivers, from 1 for each store. Leases are renewed
    /// without waiting for observers, so these notices are delivered in this way. If a number is missing, notices were
    /// dropped, because a thousand were waiting for slow observers. `None`: the thread that took the step delivers the
    /// notice.
    pub fn sequence(&self) -> Option<u64> {
        self.posted.map(|posted| posted.sequence)
    }
}

/// A step of a schedule; see [`Notice`].
///
/// The steps of a run come in this order: `Due`, `Queued`, `Unprotected`, `Admitted`, `CatchesUp`, `Started`,
/// `AttemptFailed` and `AttemptStarted` for each retry, `Ended`, `HookFailed`, `Released`. A skipped occurrence has `Due`, perhaps `Queued`, and `Skipped`. Steps about the lease may come at
/// any time in between.
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
    /// The schedule begins, with its first tick that has a due event, or with its loop. A schedule sends this step again
    /// after a change of its events.
    #[non_exhaustive]
    Begins {
        /// The names of all events.
        events: &'a [&'a str],
    },
    /// The event was removed from the schedule. A run that is running continues.
    Removed,
    /// The event is due in a tick that begins now, or a missed occurrence is caught up.
    #[non_exhaustive]
    Due {
        /// How long ago the occurrence was.
        late: Duration,
        /// Whether the occurrence was missed in its own tick.
        missed: bool,
    },
    /// The occurrence does not run.
    Skipped(&'a SkipReason),
    /// The occurrence waits in the queue, behind a run of its event or behind other occurrences. An occurrence of a
    /// backfill waits for a run of its event.
    #[non_exhaustive]
    Queued {
        /// The first place of the occurrence in the queue, from 1.
        place: usize,
    },
    /// The run catches up an occurrence that was missed this long ago.
    CatchesUp(Duration),
    /// The run continues without protection, because the store gave no decision.
    Unprotected(&'a MutexError),
    /// The run was admitted. Its `before` hooks are next.
    #[non_exhaustive]
    Admitted {
        /// The fencing token of the grant; `None` without protection.
        token: Option<FencingToken>,
        /// How long the store took to decide. One request may contain the admissions of several events. Zero if no store was
        /// asked.
        took: Duration,
    },
    /// The task starts.
    #[non_exhaustive]
    Started {
        /// See [`Run::fencing_token`](crate::Run::fencing_token).
        token: Option<FencingToken>,
    },
    /// An attempt failed, and the run waits for its next one; see [`Event::retry`](crate::Event::retry). The failure of the
    /// last attempt is that of the run, in [`Ended`](Self::Ended).
    #[non_exhaustive]
    AttemptFailed {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The fault of the task.
        fault: &'a Fault,
        /// The time until the next attempt.
        retry_in: Duration,
    },
    /// Another attempt of the run begins. The first one is [`Started`](Self::Started).
    #[non_exhaustive]
    AttemptStarted {
        /// The number of the attempt, from 2.
        attempt: u32,
    },
    /// The run was cancelled while its task was running, or waited for a retry. The step is sent once, when the first thread notices the reason.
    Cancelled(CancelReason),
    /// The task is still running, five seconds after its timeout.
    DoesNotStop,
    /// The lease is lost: another run may be admitted.
    #[non_exhaustive]
    LeaseLost {
        /// The name of the lease; `None` if the loss was noticed by the release.
        mutex: Option<&'a MutexName>,
        /// The fencing token of the run.
        token: Option<FencingToken>,
    },
    /// The task and its hooks have ended. The release follows, and is not part of this outcome.
    Ended(&'a RunOutcome),
    /// A hook of the run failed. This step follows [`Ended`](Self::Ended).
    HookFailed(&'a HookFailure),
    /// The task, a future, did not end in time. The schedule does not wait for it any longer.
    LeftBehind,
    /// The lease was released, or could not be released.
    Released(&'a Release),
    /// Leases of this schedule were renewed together.
    #[non_exhaustive]
    Renewed {
        /// The number of leases.
        leases: usize,
        /// The number of leases that had less than half of their term left, because earlier attempts failed, or the process was
        /// stopped.
        late: usize,
        /// The least time that any of these leases had left.
        lowest: Duration,
    },
    /// Leases of this schedule could not be renewed yet. The renewal is retried until they end.
    #[non_exhaustive]
    NotRenewed {
        /// The number of leases.
        leases: usize,
        /// The least time that any of these leases has left.
        lowest: Duration,
        /// The error of the store.
        error: &'a MutexError,
    },
    /// A store became unavailable. The step is sent once, until the store answers again.
    StoreUnavailable(&'a MutexError),
    /// An unavailable store has answered again.
    StoreAvailable,
    /// The schedule, or the event if there is one, was paused by this process.
    #[non_exhaustive]
    Paused {
        /// The [name](crate::Schedule::named) of the schedule.
        schedule: &'a str,
        /// The end of the pause.
        until: DateTime<Utc>,
        /// The reason that was given for the pause.
        why: Option<&'a str>,
        /// The reach of the pause: the [`Scope`](crate::store::Scope) of the store.
        scope: &'a dyn fmt::Debug,
    },
    /// The pause of the schedule, or of the event if there is one, was ended by this process.
    #[non_exhaustive]
    Resumed {
        /// The name of the schedule.
        schedule: &'a str,
    },
    /// A tick of the loop begins this long after its time: five seconds or more. The [jitter](crate::Event::jitter) of
    /// an event does not count.
    TickLate(Duration),
    /// The loop is awake. The step is sent in each tick and at least once a minute, by a separate thread, because the
    /// loop waits for no observer. If observers are still busy with the last such step, the next one is left out.
    LoopAlive,
}

/// The event, the occurrence and the run of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) event: Option<&'a str>,
    pub(crate) occurrence: Option<DateTime<Utc>>,
    pub(crate) is_backfill: bool,
    pub(crate) run: Option<Owner>,
}

impl<'a> From<&'a RunId> for About<'a> {
    fn from(RunId { event, occurrence, is_backfill }: &'a RunId) -> Self {
        Self { event: Some(event), occurrence: Some(*occurrence), is_backfill: *is_backfill, run: None }
    }
}
