//! The steps of a schedule, each of which is told once: to the log, and to observers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::tell::delivery::Posted;
use crate::base::error::MutexError;
use crate::lease::{name::MutexName, owner::Owner, token::FencingToken};
use crate::outcome::cancel::CancelReason;
use crate::outcome::release::Release;
use crate::outcome::run_record::RunId;
use crate::outcome::skip_reason::SkipReason;
use crate::outcome::{hook_failure::HookFailure, run_outcome::RunOutcome};
use crate::time::clock::Clock;

pub(crate) mod incident;

/// One step of a schedule, as its [observers](crate::Schedule::observe) are told.
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
    /// The name of the process.
    pub(crate) instance: Option<&'a Arc<str>>,
    pub(super) posted: Option<Posted>,
}

impl<'a> Notice<'a> {
    /// What happened.
    pub fn step(&self) -> &Step<'a> {
        self.step
    }

    /// The event that it happened to; `None`: it concerns the whole schedule, or its store.
    pub fn event(&self) -> Option<&'a str> {
        self.about.event
    }

    /// The occurrence of the run that it happened to; `None`: it concerns no single run.
    pub fn occurrence(&self) -> Option<DateTime<Utc>> {
        self.about.occurrence
    }

    /// Which run it happened to, from `Admitted` on: the same in all of its notices, as the owner of its lease or claim, and in
    /// the [log of runs](crate::Schedule::with_run_log).
    pub fn run(&self) -> Option<Owner> {
        self.about.run
    }

    /// When, on the schedule's clock. Unless the step was posted, the clock is read when this is called.
    pub fn at(&self) -> DateTime<Utc> {
        self.posted.map_or_else(|| self.clock.now(), |posted| posted.at)
    }

    /// Its number among the notices of one store that a thread of its own delivers, from 1 on: what the renewal of leases finds
    /// out waits for no observer. Where a number is left out, observers were so slow that a thousand notices waited, and the
    /// next ones were dropped. `None`: it was told by the thread to which it happened.
    pub fn sequence(&self) -> Option<u64> {
        self.posted.map(|posted| posted.sequence)
    }
}

/// What happened; see [`Notice`].
///
/// Of one run they come in this order: `Due`, `Queued`, `Unprotected`, `Admitted`, `CatchesUp`, `Started`, `Ended`, `HookFailed`,
/// `Released`; or `Due` and, after a wait or not, `Skipped`. What is about its lease may come at any time in between.
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
    /// The first tick in which something is due, or the start of the loop, of a schedule with these events. Once, and again
    /// for a clone that was changed.
    #[non_exhaustive]
    Begins {
        /// The names of all events.
        events: &'a [&'a str],
    },
    /// It was removed from the schedule, or from a clone. A run under way goes on.
    Removed,
    /// It is due in a tick that begins now, or was missed and is made up for.
    #[non_exhaustive]
    Due {
        /// How long ago its occurrence was.
        late: Duration,
        /// Whether it was missed in the tick for which it was due.
        missed: bool,
    },
    /// It does not run.
    Skipped(&'a SkipReason),
    /// It met a run of its event, or somebody who waits, and waits for its turn.
    #[non_exhaustive]
    Queued {
        /// Its place in the order of those who wait, from 1 on, when it came.
        place: usize,
    },
    /// The run makes up for an occurrence that was missed so long ago.
    CatchesUp(Duration),
    /// The run goes on without its protection, because its store gave no decision.
    Unprotected(&'a MutexError),
    /// The gate let it pass. Its `before` hooks are next.
    #[non_exhaustive]
    Admitted {
        /// That of what it was granted; `None` without protection.
        token: Option<FencingToken>,
        /// How long the store took to decide on it, and on those that it was asked for together with it. Zero if no store was
        /// asked.
        gate: Duration,
    },
    /// Its task starts.
    #[non_exhaustive]
    Started {
        /// See [`Run::fencing_token`](crate::Run::fencing_token).
        token: Option<FencingToken>,
    },
    /// It was told to stop, while its task was at work. Told as soon as anybody finds out, once.
    Cancelled(CancelReason),
    /// Its task is still at work, five seconds after its timeout.
    DoesNotStop,
    /// Its lease is lost: another run may be admitted.
    #[non_exhaustive]
    LeaseLost {
        /// The name; `None` if that was found out when the lease was to be given back.
        mutex: Option<&'a MutexName>,
        /// The token under which it ran.
        token: Option<FencingToken>,
    },
    /// Its task and its hooks have ended. The release follows, and is not part of this outcome.
    Ended(&'a RunOutcome),
    /// It has ended, and one of its hooks failed.
    HookFailed(&'a HookFailure),
    /// Its task, a future, did not end in time, and is not waited for any longer.
    LeftBehind,
    /// Its lease was given back, or not: how that went.
    Released(&'a Release),
    /// Leases of this schedule were renewed together.
    #[non_exhaustive]
    Renewed {
        /// How many.
        leases: usize,
        /// How many of them less than half of their term was left for, because earlier attempts failed, or the process came to a
        /// stop.
        late: usize,
        /// The least time that was left for any of them.
        lowest: Duration,
    },
    /// Leases of this schedule could not be renewed yet. It is tried again and again until they end.
    #[non_exhaustive]
    NotRenewed {
        /// How many.
        leases: usize,
        /// The least time that is left for any of them.
        lowest: Duration,
        /// Why.
        error: &'a MutexError,
    },
    /// A store gave no answer, for the first time since it last did.
    StoreOut(&'a MutexError),
    /// A store that was out has answered again.
    StoreBack,
    /// The schedule, or the event if there is one, was paused by this process.
    #[non_exhaustive]
    Paused {
        /// The [name](crate::Schedule::named) of the schedule.
        schedule: &'a str,
        /// Until when.
        until: DateTime<Utc>,
        /// Why, in the words of who paused it.
        why: Option<&'a str>,
        /// How far that reaches: the [`Scope`](crate::store::Scope) of the store.
        scope: &'a dyn fmt::Debug,
    },
    /// This process ended the pause of the schedule, or of the event if there is one.
    #[non_exhaustive]
    Resumed {
        /// The name of the schedule.
        schedule: &'a str,
    },
    /// A tick of the loop begins so long after what is due in it, besides its [jitter](crate::Schedule::with_jitter): five
    /// seconds or more.
    TickLate(Duration),
    /// The loop is awake: in each tick, and once a minute at least. A thread of the loop tells this, so that the loop waits for no
    /// observer; while one is still being told, it is told of no other.
    LoopAlive,
}

/// What a step happened to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) event: Option<&'a str>,
    pub(crate) occurrence: Option<DateTime<Utc>>,
    pub(crate) run: Option<Owner>,
}

impl<'a> About<'a> {
    pub(crate) fn occurrence(event: &'a str, occurrence: DateTime<Utc>) -> Self {
        Self { event: Some(event), occurrence: Some(occurrence), run: None }
    }
}

impl<'a> From<&'a RunId> for About<'a> {
    fn from(RunId { event, occurrence }: &'a RunId) -> Self {
        Self::occurrence(event, *occurrence)
    }
}
