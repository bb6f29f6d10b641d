//! What only the log is told: troubles of the process, and of what belongs to no run.

use std::fmt;
use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::error::MutexError;
use crate::lease::name::MutexName;

/// Something that is logged, and of which no observer is told. It borrows what it names.
#[cfg_attr(not(all(unix, feature = "signals")), expect(dead_code, reason = "one of them is that of signals"))]
pub(crate) enum Incident<'a> {
    /// Whoever takes the answer to a release: the lease could not be given back.
    NotReleased { mutex: &'a MutexName, error: &'a MutexError },
    /// Whoever writes the log of runs: the store did not take it, and it is tried again.
    RunsNotLogged(&'a MutexError),
    /// Whoever writes the log of runs: the event keeps failing, and could not be paused for that.
    FailingNotPaused { event: &'a str, error: &'a (dyn std::error::Error + 'static) },
    /// The tick: `on_report` panicked.
    ReportNotTold(&'a str),
    /// Whoever tells of a step: an observer panicked.
    ObserverPanicked(&'a str),
    /// The schedule, when an event is added: it is to run on one server only, and no other process sees its store.
    StoreTooNear { event: &'a str, scope: &'a dyn fmt::Debug },
    /// The check for missed occurrences: the store noted the event at a time that is still to come, by its clock.
    MarkFromTheFuture { event: &'a str, by: Duration },
    /// The loop: the wall clock was set back by so many seconds; by more than a step, the schedule begins anew.
    ClockSetBack { by_s: i64, begins_anew: bool },
    /// The loop: no tick came between these two, because the clock was set, or the machine was suspended.
    MinutesMissed { after: DateTime<Utc>, until: DateTime<Utc> },
    /// The shutdown, before it tells any run of it: it begins, while so many runs are at work.
    ShutsDown { signal: Option<i32>, runs: usize, drain: Duration, grace: Duration },
    /// The shutdown: its drain is over, and so many runs that are still at work are cancelled.
    DrainIsOver { runs: usize, grace: Duration },
    /// The shutdown: the signals of this process, which was forked, can't be heard.
    DeafToSignals(&'a io::Error),
    /// Whoever needs a thread: there is none to be had.
    NoThread(ThreadFor, &'a io::Error),
    /// Whoever logs: the code of an error or of a subscriber panicked.
    NotShown(&'a str),
}

/// What a thread that can't be had was for.
#[derive(Clone, Copy)]
pub(crate) enum ThreadFor {
    /// What a loop itself tells.
    Notices,
    BackgroundEvents,
    Renewals,
    /// Whether a run is to give way to another.
    RequestsToStop,
    /// A call as a future.
    #[cfg(feature = "tokio")]
    Call,
}
