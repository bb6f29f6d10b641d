//! A run from the log of the fleet, and whether it is still running.

use std::fmt;
use std::sync::Arc;

use super::run_logger::RunLogger;
use crate::base::error::{MutexError, debug_as_display};
use crate::event::definition::Definition;
#[cfg(feature = "serde")]
use crate::lease::token::FencingToken;
use crate::lease::{holder::Holder, owner::Owner};
#[cfg(feature = "serde")]
use crate::outcome::run_record::RunEnd;
use crate::outcome::{run_record::MOST_KEPT, run_record::RunRecord, run_record::skip_count::SkipCount};
use crate::schedule::schedule::{Schedule, registry::UnknownEvent};
use crate::store::event_mutex::{EventMutex, held::Held, held::Names};

/// A run of the fleet, see [`Schedule::runs`]. `Display`: `2026-03-01 12:00:00 UTC succeeded in 1.2 s on web-1, pid 4242`,
/// or `2026-03-01 12:00:00 UTC started at 2026-03-01 12:00:01 UTC on web-2, pid 17: presumed dead`.
///
/// ```
/// use soloist::observe::RunState;
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process().with_run_log(20)?;
/// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
/// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
/// for run in schedule.runs("reports")? {
///     if run.state() == RunState::PresumedDead {
///         println!("{} died during this run: {run}", run.record().host());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRun {
    record: RunRecord,
    state: RunState,
}

/// The state of a run in the log; see [`LoggedRun::state`].
///
/// ```
/// assert_eq!(soloist::observe::RunState::PresumedDead.keyword(), "presumed_dead");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// The run has ended, and its record has the result.
    Ended,
    /// The run has started, and still holds its lease.
    Running,
    /// The log has the start of the run, but no end, and the lease of the run is gone. The process was killed, has lost
    /// the lease, or could not write the end yet.
    PresumedDead,
    /// The log has the start of the run, but no end. It is not known whether the run is still running, because the
    /// event has no lease, or because the holder of the lease is not known.
    Unknown,
}

impl RunState {
    /// Returns the state as one lower-case word: `ended`, `running`, `presumed_dead` or `unknown`. No later version
    /// changes these words.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Running => "running",
            Self::PresumedDead => "presumed_dead",
            Self::Unknown => "unknown",
        }
    }
}

impl LoggedRun {
    /// Returns the record of the run in the log.
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Returns whether the run has ended, is running, or is presumed dead.
    pub fn state(&self) -> RunState {
        self.state
    }
}

impl fmt::Display for LoggedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record.fmt(f)?;
        f.write_str(match self.state {
            RunState::Ended | RunState::Unknown => "",
            RunState::Running => ": running",
            RunState::PresumedDead => ": presumed dead",
        })
    }
}

/// Serializes a run as `{"occurrence": "…", "is_backfill": false, "host": "web-1", "pid": 4242, "instance": null,
/// "token": 7, "started": "…", "state": "ended", "ended": "…", "attempts": 1, "result": "succeeded", "error": null}`.
#[cfg(feature = "serde")]
impl serde::Serialize for LoggedRun {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        let Self { record, state } = self;
        let end = record.end();
        let mut fields = serializer.serialize_struct("LoggedRun", 11)?;
        fields.serialize_field("occurrence", &record.occurrence())?;
        fields.serialize_field("is_backfill", &record.is_backfill())?;
        fields.serialize_field("host", record.host())?;
        fields.serialize_field("pid", &record.pid())?;
        fields.serialize_field("instance", &record.instance())?;
        fields.serialize_field("token", &record.fencing_token().map(FencingToken::get))?;
        fields.serialize_field("started", &record.started_at())?;
        fields.serialize_field("state", state.keyword())?;
        fields.serialize_field("ended", &end.map(RunEnd::at))?;
        fields.serialize_field("attempts", &record.attempts())?;
        fields.serialize_field("result", &end.map(RunEnd::result))?;
        fields.serialize_field("error", &end.and_then(RunEnd::error))?;
        fields.end()
    }
}

impl Schedule {
    /// Returns the schedule with a log of runs in its store. The log keeps the last `keep` runs of each event in the
    /// whole fleet; `keep` is from 1 to 1,000. A record has the occurrence, server, start, end, result, token and error
    /// of a run. If none of the kept runs succeeded, the last successful run is kept instead of the oldest run.
    /// [`runs`](Self::runs) and [`status`](Self::status) show the log.
    ///
    /// The log has no influence on admissions, and delays no run. A separate thread writes the log when a run starts
    /// and when it ends. While the store is unavailable, the thread tries again. If the process ends before a record is
    /// written, the record is lost. So after all runs have ended, `run_due` and similar methods wait up to three
    /// seconds until the records are written. The log is in the store of the schedule, even for an event with [a store
    /// of its own](crate::Event::mutex).
    ///
    /// # Errors
    ///
    /// `keep` is not from 1 to 1,000; the schedule keeps a log already; or the store can't keep a log. All stores of this
    /// crate can keep a log.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().with_run_log(20)?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// assert!(schedule.runs("reports")?[0].record().is_success());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_run_log(self, keep: usize) -> Result<Self, RunLogError> {
        if !(1..=MOST_KEPT).contains(&keep) {
            return Err(RunLogError::Keep { keep });
        }
        // Two logs would trim one another, and count each skip twice.
        if self.run_logger.is_some() {
            return Err(RunLogError::Twice { keep });
        }
        let what = "keep a log of runs: leave `with_run_log(..)` out, or implement `EventMutex::run_log`";
        self.store.mutex.run_log().ok_or_else(|| RunLogError::Store(MutexError::unsupported(what)))?;
        let logger = RunLogger::new(&self.store, keep);
        Ok(Self { run_logger: Some(Arc::clone(&logger)), ..self.observe(logger) })
    }

    /// Returns the last runs of an event in the whole fleet, newest first. The runs come from the
    /// [log](Self::with_run_log) in the schedule's store. If a server was killed during a run, the log has no end of
    /// the run. Such a run is [presumed dead](RunState::PresumedDead), or its state is unknown if the event has no
    /// lease.
    ///
    /// # Errors
    ///
    /// There is no event of this name; the schedule keeps no log; or the store did not answer.
    pub fn runs(&self, event: &str) -> Result<Vec<LoggedRun>, RunLogError> {
        let event = self.logged(event)?;
        self.runs_of(&event).map_err(RunLogError::Store)
    }

    /// Returns the event of this name. Refuses to read the log if the schedule keeps no log, because an empty answer
    /// would mean that nothing ran.
    fn logged(&self, event: &str) -> Result<Arc<Definition>, RunLogError> {
        let event = self.event(event).map_err(RunLogError::UnknownEvent)?;
        if self.run_logger.is_some() { Ok(event) } else { Err(RunLogError::NotKept) }
    }

    /// Returns how many occurrences of an event were skipped because of a running run, the queue, or a pause: one
    /// number for each reason. The numbers come from the [log](Self::with_run_log) in the schedule's store. Occurrences
    /// that another server runs do not count. With `catch_up`, an occurrence counts only when it is due, however often
    /// a later tick tries to make up for it.
    ///
    /// Each server counts its own skips. A loop writes the numbers of an event at most every ten seconds, or with the next
    /// run of the event, and the rest when it ends. `run_due` and similar methods write the numbers before they return. If a write fails, the numbers
    /// wait for a later write of the log. If only the answer to a write was lost, its numbers count twice. Numbers that a
    /// process has not written at its end are lost.
    ///
    /// # Errors
    ///
    /// There is no event of this name; the schedule keeps no log; or the store can't count skips, or did not answer.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().with_run_log(20)?;
    /// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
    /// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// for skips in schedule.skips("reports")? {
    ///     println!("{} were skipped as {}, the latest at {}", skips.count(), skips.reason(), skips.latest());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn skips(&self, event: &str) -> Result<Vec<SkipCount>, RunLogError> {
        let event = self.logged(event)?;
        self.skips_of(&event).map_err(RunLogError::Store)
    }

    /// Returns the numbers of skips in the log of the store, including those that other schedules wrote.
    pub(crate) fn skips_of(&self, event: &Definition) -> Result<Vec<SkipCount>, MutexError> {
        let mut skips = self.store.read_log(|log| log.skips(&event.name))?;
        skips.sort_unstable_by_key(SkipCount::reason);
        Ok(skips)
    }

    /// Returns the events in the log of the store, including those of other schedules.
    #[cfg(feature = "cli")]
    pub(crate) fn logged_events(&self) -> Result<Vec<String>, MutexError> {
        self.store.read_log(|log| log.events())
    }

    /// Returns the error of the last write to the log, if it failed.
    #[cfg(feature = "cli")]
    pub(crate) fn run_log_failure(&self) -> Option<MutexError> {
        self.run_logger.as_ref()?.failure()
    }

    /// Returns the runs in the log of the store, including those that other schedules wrote.
    pub(crate) fn runs_of(&self, event: &Definition) -> Result<Vec<LoggedRun>, MutexError> {
        let records = self.store.read_log(|log| log.runs(&event.name))?;
        if records.iter().all(|record| record.end().is_some()) {
            return Ok(records.into_iter().map(|record| LoggedRun { record, state: RunState::Ended }).collect());
        }
        let before: Vec<Owner> = records.iter().map(RunRecord::id).collect();
        let holders = holders_of(event);
        // A run may have ended after the log was read, but before the leases were read. The end of the run may be
        // written by now. So the log is read again, and only the second answer is returned. A run that is only in the
        // second answer may have begun after the leases were read.
        let state = |record: &RunRecord| match &holders {
            _ if record.end().is_some() => RunState::Ended,
            None => RunState::Unknown,
            Some(_) if record.fencing_token().is_none() => RunState::Unknown, // It began in an outage, without its lease.
            Some(holders) if holders.iter().any(|holder| holder.owner() == record.id()) => RunState::Running,
            Some(_) if !before.contains(&record.id()) => RunState::Running,
            Some(_) => RunState::PresumedDead,
        };
        let records = self.store.read_log(|log| log.runs(&event.name))?;
        Ok(records.into_iter().map(|record| LoggedRun { state: state(&record), record }).collect())
    }
}

/// Returns the holders of the event's lease or slots. `None`: the event has no lease, or its holders are not known.
fn holders_of(event: &Definition) -> Option<Vec<Holder>> {
    let leases = Some(event.protection.leases()).filter(|leases| !leases.is_empty())?;
    let held = event.store.held(Names::Each(leases)).ok()?;
    held.into_iter().map(Held::into_holder).collect()
}

/// The reason why a schedule keeps no log, or why the runs of an event are not known.
///
/// ```
/// use soloist::Schedule;
///
/// let error = Schedule::in_process().runs("reports").unwrap_err();
/// assert_eq!(error.to_string(), "there is no event `reports` in the schedule");
/// let error = Schedule::in_process().with_run_log(0).unwrap_err();
/// assert_eq!(error.to_string(), "`with_run_log(0)`: use 1 to 1000");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunLogError {
    /// The schedule has no event of this name.
    #[error(transparent)]
    UnknownEvent(UnknownEvent),
    /// The schedule keeps no log.
    #[error(
        "the schedule keeps no log of runs: call `schedule.with_run_log(20)` on each server that runs events, and in the \
         program that reads the log"
    )]
    NotKept,
    /// The number of runs to keep is zero, or too large.
    #[error("`with_run_log({keep})`: use 1 to {MOST_KEPT}")]
    #[non_exhaustive]
    Keep {
        /// The number that the caller passed.
        keep: usize,
    },
    /// The schedule keeps a log already.
    #[error("`with_run_log({keep})`: the schedule keeps a log of runs already: call `with_run_log(..)` once")]
    #[non_exhaustive]
    Twice {
        /// The number that the caller passed.
        keep: usize,
    },
    /// The store keeps no log, or gave no answer.
    #[error(transparent)]
    Store(MutexError),
}

debug_as_display!(RunLogError);
