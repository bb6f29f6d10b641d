//! The incidents, which only the log receives: faults of the process, and faults that belong to no run.

use std::fmt;
use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::error::MutexError;
use crate::lease::name::MutexName;

/// The most missed occurrences that are counted.
pub(crate) const MOST_COUNTED: usize = 1_000_000;

/// An incident is logged, and sent to no observer.
#[cfg_attr(not(all(unix, feature = "signals")), expect(dead_code, reason = "one of them is that of signals"))]
pub(crate) enum Incident<'a> {
    /// A lease could not be released.
    NotReleased { mutex: &'a MutexName, error: &'a MutexError },
    /// The store did not take the log of runs. The write is retried.
    RunsNotLogged(&'a MutexError),
    /// The event keeps failing, and could not be paused for that.
    FailingNotPaused { event: &'a str, error: &'a (dyn std::error::Error + 'static) },
    /// A callback of `on_report` panicked.
    ReportNotDelivered(&'a str),
    /// An observer panicked.
    ObserverPanicked(&'a str),
    /// An event was added that is to run on one server only, but no other process shares its store.
    StoreTooNear { event: &'a str, scope: &'a dyn fmt::Debug },
    /// The timetables of this server and of another one have differed for an hour or longer.
    TimetablesDiffer { event: &'a str, own: &'a str, other: &'a str, server: &'a str },
    /// The store has noted the event at a time that is still to come, by its clock. The note is ignored.
    MarkFromTheFuture { event: &'a str, by: Duration },
    /// The wall clock was set back by so many seconds. After a larger step the schedule begins anew.
    ClockSetBack { by_s: i64, begins_anew: bool },
    /// There was no tick between these two times, because the clock was set, or the loop or the machine stood still. So many
    /// occurrences were due: [`MOST_COUNTED`] means that many, or more.
    MinutesMissed { after: DateTime<Utc>, until: DateTime<Utc>, occurrences: usize },
    /// The shutdown begins, while so many runs are running. None of them is cancelled yet.
    ShutsDown { signal: Option<i32>, runs: usize, drain: Duration, grace: Duration },
    /// The drain of the shutdown is over: so many runs that are still running are cancelled.
    DrainIsOver { runs: usize, grace: Duration },
    /// The process was forked, and could not install the handlers of its signals.
    SignalsNotHandled(&'a io::Error),
    /// No thread could be started for this purpose, and so this follows.
    NoThread { what: &'a str, so: &'a str, error: &'a io::Error },
    /// The code of an error or of a subscriber panicked.
    NotShown(&'a str),
}
