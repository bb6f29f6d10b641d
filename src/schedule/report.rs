//! The report of a tick: its entries, and the text that is printed.

use std::fmt;
use std::process::{ExitCode, Termination};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::shutdown::Shutdown;
use crate::base::catch_panic::contain;
use crate::base::escape::{Lines, Named};
use crate::base::standard_error::print_line;
use crate::outcome::run_outcome::RunOutcome;
use crate::outcome::skip_reason::SkipReason;
use crate::time::clock::shown::{HumanDuration, for_people};

/// The report of one tick: an entry for every event that was due, in the order in which the events were added.
///
/// `Display` prints a table for a terminal. A report that `main` returns prints only its failures, on standard error.
/// Without failures it prints nothing, so cron sends mail only about failures. If there are failures, the process
/// fails. If a signal has ended the tick (see [`Shutdown`]), a report that `main` returns ends the process by that
/// signal.
///
/// ```no_run
/// use soloist::{Event, FileMutex, Report, Schedule};
///
/// fn main() -> Result<Report, Box<dyn std::error::Error>> {
///     let schedule = Schedule::new(FileMutex::in_dir("/var/lib/myapp/locks")?);
///     schedule.add(Event::call("reports", |_| println!("working")).every_minute().without_overlapping())?;
///     Ok(schedule.run_due(chrono::Utc::now()))
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a report says what failed: print it, return it from `main`, or ask `is_failure()`"]
pub struct Report {
    pub(super) at: DateTime<Utc>,
    pub(super) entries: Vec<Entry>,
    pub(super) shutdown: Option<Shutdown>,
}

impl Report {
    /// Returns the instant of the tick.
    pub fn at(&self) -> DateTime<Utc> {
        self.at
    }

    /// Returns the entries: one for each occurrence that was due or made up for, in the order of the ticks.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the first entry of one event. An event can have several entries, for example in a report of
    /// [`run_minute`](crate::Schedule::run_minute) or [`run_due_since`](crate::Schedule::run_due_since), or with
    /// [`catch_up_all`](crate::Event::catch_up_all). `None`: the event was not due.
    pub fn entry(&self, event: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.event() == event)
    }

    /// Returns the outcome of one event. `None`: the event did not run.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// schedule.add(Event::call("import", |_| {}).every_minute().skip(|_| true))?;
    /// let report = schedule.run_due(chrono::Utc::now());
    /// assert!(report.outcome("reports").is_some_and(|outcome| outcome.is_success()));
    /// assert!(report.skip_reason("import").is_some() && report.outcome("import").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn outcome(&self, event: &str) -> Option<&RunOutcome> {
        if let Verdict::Ran(outcome) = &self.entry(event)?.verdict { Some(outcome) } else { None }
    }

    /// Returns the reason why one event was skipped. `None`: the event ran, or was not due.
    pub fn skip_reason(&self, event: &str) -> Option<&SkipReason> {
        if let Verdict::Skipped(reason) = &self.entry(event)?.verdict { Some(reason) } else { None }
    }

    /// Returns whether anything failed: a task, a filter, a hook, a lease, or a store. A skip that the event's
    /// definition asks for is no failure.
    pub fn is_failure(&self) -> bool {
        self.entries.iter().any(Entry::is_failure)
    }

    /// Returns the entries that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_failure())
    }
}

/// Compares the instants and the entries of two reports.
impl PartialEq for Report {
    fn eq(&self, other: &Self) -> bool {
        (self.at, &self.entries) == (other.at, &other.entries)
    }
}

impl Eq for Report {}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.entries.iter().filter(|entry| matches!(entry.verdict, Verdict::Skipped(_))).count();
        let due = self.entries.len();
        let ran = self.entries.len() - skipped;
        let failed = self.failures().count();
        write!(f, "{}: {due} due, {ran} ran, {skipped} skipped, {failed} failed", for_people(self.at))?;
        table_lines(&self.entries).try_for_each(|line| write!(f, "\n{line}"))
    }
}

impl Termination for Report {
    fn report(self) -> ExitCode {
        table_lines(self.failures()).for_each(print_line);
        if let Some(shutdown) = &self.shutdown {
            shutdown.finish();
        }
        if self.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// The result of one event that was due.
///
/// ```
/// use soloist::{Event, Schedule, Verdict};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
/// schedule.add(Event::call("reports", |_| {}).every_minute())?;
/// for entry in schedule.run_due(chrono::Utc::now()).entries() {
///     match entry.verdict() {
///         Verdict::Ran(outcome) => println!("{} ran: {outcome}", entry.event()),
///         Verdict::Skipped(reason) => println!("{} did not: {reason}", entry.event()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an entry says whether the event ran and how that ended: print it, or ask `is_failure()`"]
pub struct Entry {
    pub(crate) event: Arc<str>,
    pub(crate) occurrence: DateTime<Utc>,
    pub(crate) missed_by: Option<Duration>,
    pub(crate) verdict: Verdict,
}

/// The result of a due event: it ran, or it was skipped.
///
/// ```
/// use soloist::{SkipReason, Verdict};
///
/// assert!(!Verdict::Skipped(SkipReason::Filtered("when".into())).is_failure());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The event ran in this process, with this outcome.
    Ran(RunOutcome),
    /// The event did not run in this process, for this reason.
    Skipped(SkipReason),
}

impl Verdict {
    /// Returns whether the run failed, or was skipped because of a failure.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Ran(outcome) => outcome.is_failure(),
            Self::Skipped(reason) => reason.is_failure(),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran(outcome) => outcome.fmt(f),
            Self::Skipped(reason) => write!(f, "skipped, {reason}"),
        }
    }
}

impl Entry {
    /// Returns the event's name.
    pub fn event(&self) -> &str {
        &self.event
    }

    /// Returns the instant for which the event was scheduled; for a run by hand, the time that the caller passed.
    pub fn occurrence(&self) -> DateTime<Utc> {
        self.occurrence
    }

    /// Returns the time from a missed occurrence to the tick that made up for it; see
    /// [`catch_up`](crate::Event::catch_up). `None`: the occurrence was not missed.
    pub fn missed_by(&self) -> Option<Duration> {
        self.missed_by
    }

    /// Returns the verdict: the outcome of the run, or the reason for the skip.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns whether the run failed, or was skipped because of a failure.
    pub fn is_failure(&self) -> bool {
        self.verdict.is_failure()
    }

    /// Returns the verdict in words. If the `Display` of a user's error panics, the text says so.
    pub(crate) fn verdict_cell(&self) -> String {
        let late = self.missed_by.map_or_else(String::new, |late| format!("{} late: ", HumanDuration(late)));
        contain(|| late + &self.verdict.to_string()).unwrap_or_else(|message| {
            format!("its result cannot be shown: formatting an error panicked: {}", Lines(message))
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table_lines([self]).try_for_each(|line| f.write_str(line.trim_start()))
    }
}

/// Returns the lines of a table of these entries. Each column is as wide as its widest cell.
fn table_lines<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> impl Iterator<Item = String> {
    let row = |entry: &Entry| [Named(&entry.event).to_string(), for_people(entry.occurrence), entry.verdict_cell()];
    let rows: Vec<[String; 3]> = entries.into_iter().map(row).collect();
    let width = |cell: usize| rows.iter().map(|row| row[cell].chars().count()).max().unwrap_or(0);
    let (names, times) = (width(0), width(1));
    rows.into_iter().map(move |[name, time, verdict]| {
        let start = format!("  {name:names$}  {time:times$}  ");
        // Text of several lines, such as a failed assertion, stays within its column.
        let below = format!("\n{:1$}", "", start.chars().count());
        start + &verdict.trim_end().replace('\n', &below)
    })
}
