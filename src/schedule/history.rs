//! The history of an event in this process: its runs and skips. The folder `history` has the log of the fleet, the
//! status, and the comparison with the timetable on another server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::escape::OneLine;
use crate::base::lock::lock;
use crate::lease::{holder::Holder, token::FencingToken};
use crate::outcome::run_outcome::RunOutcome;
use crate::outcome::run_record::outcome_kind::OutcomeKind;
use crate::outcome::skip_reason::SkipReason;
use crate::time::clock::Clock;

pub(crate) mod differing_timetable;
pub(crate) mod logged_run;
pub(crate) mod run_logger;
pub(crate) mod status;

use differing_timetable::{Difference, OtherTimetable, compare};

#[derive(Default)]
pub(crate) struct EventHistory(Mutex<SeenRuns>);

#[derive(Clone, Default)]
struct SeenRuns {
    running: Vec<RunningNow>,
    last: Option<LastRun>,
    last_success: Option<LastRun>,
    /// The number of failed runs in a row. Cancelled runs do not count.
    failures: u32,
    last_skip: Option<LastSkip>,
    difference: Option<Difference>,
}

/// A run that is running; see [`EventStatus`](status::EventStatus).
///
/// ```
/// use soloist::Schedule;
///
/// for event in Schedule::in_process().status().events {
///     event.running.iter().for_each(|run| println!("{} runs since {}", event.name, run.since));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RunningNow {
    /// The instant for which the run was scheduled.
    pub occurrence: DateTime<Utc>,
    /// Whether a [backfill](crate::Schedule::backfill) started the run.
    pub is_backfill: bool,
    /// The time at which the task started.
    pub since: DateTime<Utc>,
    /// The number of the attempt, from 1; see [`Event::retry`](crate::Event::retry). Between two attempts, this is the
    /// number of the failed attempt.
    pub attempt: u32,
    /// The fencing token of the run; `None` if the run is not protected.
    pub token: Option<FencingToken>,
}

/// A run that has ended; see [`EventStatus`](status::EventStatus).
///
/// ```
/// use soloist::observe::{LastRun, OutcomeKind};
///
/// fn is_slow(run: &LastRun) -> bool {
///     run.result == OutcomeKind::Succeeded && run.took.as_secs() > 60
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastRun {
    /// The instant for which the run was scheduled.
    pub occurrence: DateTime<Utc>,
    /// Whether a [backfill](crate::Schedule::backfill) started the run.
    pub is_backfill: bool,
    /// The time at which the task started.
    pub started: DateTime<Utc>,
    /// How long the task took, including retries and the waits between them.
    #[cfg_attr(feature = "serde", serde(rename = "took_ms", serialize_with = "as_millis"))]
    pub took: Duration,
    /// The number of attempts; see [`RunOutcome::attempts`].
    pub attempts: u32,
    /// The result, in one word.
    pub result: OutcomeKind,
    /// The error, on one line. If the task succeeded, this is the reason why the run failed nevertheless. `None`: the
    /// run succeeded.
    pub error: Option<Arc<str>>,
    /// The fencing token of the run; `None` if the run was not protected.
    pub token: Option<FencingToken>,
}

/// An occurrence that was skipped; see [`EventStatus`](status::EventStatus).
///
/// ```
/// use soloist::SkipReason;
/// use soloist::observe::LastSkip;
///
/// fn is_of_another_server(skip: &LastSkip) -> bool {
///     matches!(skip.reason, SkipReason::RanElsewhere(_))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastSkip {
    /// The instant for which the occurrence was scheduled.
    pub occurrence: DateTime<Utc>,
    /// Whether the occurrence belongs to a [backfill](crate::Schedule::backfill).
    pub is_backfill: bool,
    /// The reason for the skip.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub reason: SkipReason,
}

impl EventHistory {
    pub(crate) fn started(&self, run: RunningNow) {
        lock(&self.0).running.push(run);
    }

    /// Notes that the next attempt of a run begins.
    pub(crate) fn retried(&self, run: &RunningNow) {
        if let Some(known) = lock(&self.0).running.iter_mut().find(|running| *running == run) {
            known.attempt += 1;
        }
    }

    pub(crate) fn ended(&self, run: &RunningNow, outcome: &RunOutcome) {
        let result = outcome.kind();
        // The error becomes a text before the lock is taken, because the error's `Display` is code of the user, which
        // may be slow.
        let error = outcome.error().map(|error| OneLine(error).to_string().into());
        let RunningNow { occurrence, is_backfill, since: started, token, .. } = *run;
        let (took, attempts) = (outcome.took, outcome.attempts());
        let ended = LastRun { occurrence, is_backfill, started, took, attempts, result, error, token };
        let mut seen = lock(&self.0);
        if let Some(at) = seen.running.iter().position(|running| running == run) {
            seen.running.swap_remove(at);
        }
        match result {
            OutcomeKind::Succeeded if !outcome.is_failure() => {
                seen.failures = 0;
                seen.last_success = Some(ended.clone());
            }
            OutcomeKind::Cancelled => {}
            _ => seen.failures += 1,
        }
        seen.last = Some(ended);
    }

    pub(crate) fn skipped(&self, skip: LastSkip) {
        lock(&self.0).last_skip = Some(skip);
    }

    /// Compares the timetable `own` with the timetable of the server `claimed_by`, which claimed an occurrence. Returns
    /// the other timetable once, when the difference has lasted for an hour.
    pub(crate) fn compare_timetables(
        &self,
        own: &Arc<str>,
        claimed_by: Option<&Holder>,
        clock: &Clock,
    ) -> Option<OtherTimetable> {
        compare(&mut lock(&self.0).difference, own, claimed_by, clock)
    }
}

#[cfg(feature = "serde")]
fn as_millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_millis().try_into().unwrap_or(u64::MAX))
}
