//! The log of an event's runs, in a text file. The second line names the event.
//!
//! Each write replaces the whole file, so that a reader needs no lock. Writers take a separate lock, so that no
//! admission waits for them.

use std::time::Duration;

use chrono::DateTime;

use super::FileMutex;
use super::error::FileError;
use super::opened_mutex::mutex_lock::{LockKind, MutexLock};
use super::opened_mutex::state::escaped;
use super::paths::{MutexPaths, RUNS, RUNS_LOCK};
use crate::base::error::MutexError;
use crate::base::escape::decoded_text;
use crate::outcome::run_record::RunRecord;
use crate::outcome::run_record::numbered_record::{NumberedRecord, by_event, newest_first};
use crate::outcome::run_record::skip_count::{SkipCount, add_skips};
use crate::store::event_mutex::run_log::{EventLog, RunLog};
use crate::time::clock::{Clock, moment::Moment};

/// The first line of every log. It names the format.
const MAGIC: &str = "soloist-runs v1\n";

/// The longest time that one write waits for locks. A process that ends waits three seconds for its last records. In this
/// time, it must get past a locked log of one event, to the logs of the others.
const LOCKED_FOR: Duration = Duration::from_secs(1);

/// The name of a log in errors.
const LOG: &str = "the log of runs";

impl FileMutex {
    fn read_log(&self, event: &str) -> Result<EventLog, MutexError> {
        let log = self.directory().and_then(|directory| read(&MutexPaths::of(directory, event), event));
        log.map_err(|error| error.while_trying_to(format_args!("read {LOG}")))
    }

    /// Reads the log of an event, changes it with `change`, and writes it. Waits until `deadline` for its lock.
    fn change_log(&self, event: &str, deadline: Moment, change: impl FnOnce(&mut EventLog)) -> Result<(), MutexError> {
        let rewrite = || {
            let paths = MutexPaths::of(self.directory()?, event);
            let _lock = MutexLock::wait_for(paths.open_or_make(RUNS_LOCK)?, LockKind::Exclusive, deadline)?;
            let mut log = read(&paths, event)?;
            change(&mut log);
            let skips = log.skips.iter().map(|skip| {
                let reason = skip.reason();
                let count = skip.count();
                let latest = skip.latest().timestamp_micros();
                format!("skipped={reason} count={count} latest_us={latest}\n")
            });
            let runs = log.runs.iter().map(|run| format!("{} {}\n", run.record.id(), run.to_line()));
            let lines: String = skips.chain(runs).collect();
            paths.replace(RUNS, &format!("{MAGIC}event {}\n{lines}", escaped(event)))
        };
        rewrite().map_err(|error: FileError| error.while_trying_to(format_args!("write {LOG}")))
    }
}

impl RunLog for FileMutex {
    /// Writes the records of each event. If the log of one event can't be used, the records of the other events are
    /// written.
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        let deadline = write_deadline();
        let mut answer = Ok(());
        for (event, new) in by_event(records) {
            match self.change_log(event, deadline, |log| log.add(&new, keep)) {
                Err(error) if error.is_outage() => return Err(error),
                written => answer = answer.and(written),
            }
        }
        answer
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        Ok(newest_first(self.read_log(event)?.runs))
    }

    fn count_skips(&self, event: &str, skips: &[SkipCount]) -> Result<(), MutexError> {
        self.change_log(event, write_deadline(), |log| add_skips(&mut log.skips, skips))
    }

    fn skips(&self, event: &str) -> Result<Vec<SkipCount>, MutexError> {
        Ok(self.read_log(event)?.skips)
    }

    /// Lists the names of the events in all logs of the directory. A log that can't be used is left out.
    fn events(&self) -> Result<Vec<String>, MutexError> {
        let logs = self.paths_with(RUNS).map_err(|error| error.while_trying_to(format_args!("list {LOG}")))?;
        Ok(logs.iter().filter_map(|paths| event_of(paths).ok()?).collect())
    }
}

fn read(paths: &MutexPaths, event: &str) -> Result<EventLog, FileError> {
    let Some(file) = paths.open_if_there(RUNS)? else { return Ok(EventLog::default()) };
    let bytes = file.read()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    // After a power loss, the first line may consist of zero bytes. Such a file counts as empty.
    if !MAGIC.starts_with(first) && first.bytes().any(|byte| byte != 0) {
        return Err(FileError::of_another_format(&file.path, first.as_bytes(), MAGIC));
    }
    let lines = lines.filter_map(|line| line.strip_suffix('\n'));
    let run = |line: &str| {
        let (id, line) = line.split_once(' ')?;
        NumberedRecord::of_line(event, id, line)
    };
    Ok(EventLog { runs: lines.clone().filter_map(run).collect(), skips: lines.filter_map(skip_count).collect() })
}

/// Returns the moment until which a write that begins now may wait for locks.
fn write_deadline() -> Moment {
    Clock::system().moment().plus(LOCKED_FOR)
}

/// Reads the name of the event from a log. Returns `None` if the file is missing, or if it was copied from the log of
/// another event.
fn event_of(paths: &MutexPaths) -> Result<Option<String>, FileError> {
    let Some(file) = paths.open_if_there(RUNS)? else { return Ok(None) };
    let bytes = file.read()?;
    let text = String::from_utf8_lossy(&bytes);
    let event = text.lines().nth(1).and_then(|line| decoded_text(line.strip_prefix("event ")?));
    Ok(event.filter(|event| paths.belong_to(event)))
}

/// Parses a line with a count of skipped occurrences. Returns `None` for other lines.
fn skip_count(line: &str) -> Option<SkipCount> {
    let mut fields = line.split(' ');
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
    let reason = field("skipped")?;
    let count = field("count")?;
    let latest = field("latest_us")?;
    SkipCount::new(reason, count.parse().ok()?, DateTime::from_timestamp_micros(latest.parse().ok()?)?)
}
