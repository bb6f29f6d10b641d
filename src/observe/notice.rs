//! The steps of the scheduler, each of which is told once.

use std::fmt;
use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::outcome::{RunOutcome, hook_failure::HookFailure};
use super::run_id::RunId;
use super::skip_reason::SkipReason;
use crate::base::error::MutexError;
use crate::lease::{name::MutexName, token::FencingToken};

/// One step. It borrows what it names, and costs nothing where nobody listens.
///
/// Steps of a run that name no event are told within the run's span, which names it.
#[cfg_attr(not(all(unix, feature = "signals")), expect(dead_code, reason = "two steps are those of signals"))]
pub(crate) enum Notice<'a> {
    /// The executor: an event that was due does not run.
    Skipped(&'a SkipReason),
    /// The executor: an event met a run of it, or somebody who waits, and waits itself, at this place from 1 on.
    Queued { place: usize },
    /// The executor, before the task starts: the run makes up for an occurrence that was missed so long ago.
    CatchesUp(Duration),
    /// The gate: the run goes on without its protection, because its store is out.
    Unprotected(&'a MutexError),
    /// The executor: the task starts.
    Started(Option<FencingToken>),
    /// The executor: the run has ended, and its lease was given back.
    Ended(&'a RunOutcome),
    /// The executor, when a run has ended: one of its hooks failed.
    HookFailed(&'a HookFailure),
    /// The keeper: a task has not ended a while after its timeout.
    DoesNotStop(&'a RunId),
    /// The keeper or the run, whoever finds out first: the lease is lost. The executor, without the mutex, if the release
    /// was the first to find out.
    LeaseLost { mutex: Option<&'a MutexName>, token: Option<FencingToken> },
    /// The keeper: so many leases could not be renewed, and it tries again.
    NotRenewed { leases: usize, error: &'a MutexError },
    /// Whoever takes the answer to a release: the lease could not be given back.
    NotReleased { mutex: &'a MutexName, error: &'a MutexError },
    /// The tick: `on_report` panicked.
    ReportNotTold(&'a str),
    /// The schedule, when an event is added: it is to run on one server only, and no other process sees its store.
    StoreTooNear { event: &'a str, scope: &'a dyn fmt::Debug },
    /// The schedule: it, or one of its events, was paused here, with the scope of the store.
    Paused { mark: &'a MutexName, until: DateTime<Utc>, why: Option<&'a str>, scope: &'a dyn fmt::Debug },
    /// The schedule: somebody ended such a pause.
    Resumed { mark: &'a MutexName },
    /// The loop: the wall clock was set back by so many seconds; by more than a step, the schedule begins anew.
    ClockSetBack { by_s: i64, begins_anew: bool },
    /// The loop: no tick came between these two, because the clock was set, or the machine was suspended.
    MinutesMissed { after: DateTime<Utc>, until: DateTime<Utc> },
    /// The shutdown, before it tells any run of it: it begins, while so many runs are at work.
    ShutsDown { signal: Option<i32>, runs: usize, drain: Duration, grace: Duration },
    /// The shutdown: its drain is over, and so many runs that are still at work are cancelled.
    DrainIsOver { runs: usize, grace: Duration },
    /// The shutdown, before the process ends: a run goes on although the grace is over.
    LeftBehind(&'a RunId),
    /// The shutdown: the signals of this process, which was forked, can't be heard.
    DeafToSignals(&'a io::Error),
    /// Whoever needs a thread: there is none to be had.
    NoThread(ThreadFor, &'a io::Error),
    /// Whoever told another notice: the code of an error or of a subscriber panicked.
    NotShown(&'a str),
}

/// What a thread that can't be had was for.
#[derive(Clone, Copy)]
pub(crate) enum ThreadFor {
    Tick,
    BackgroundEvents,
    Renewals,
    /// Whether a run is to give way to another.
    Replacements,
    /// A call as a future.
    #[cfg(feature = "tokio")]
    Call,
}
