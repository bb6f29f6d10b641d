//! The log of an event's runs: a file of lines, behind a line that names the event.
//!
//! It is written anew as a whole, under a lock of its own, so that no admission waits for it, and a reader takes no lock.

use chrono::DateTime;

use super::error::FileError;
use super::opened_mutex::mutex_lock::{LockKind, MutexLock, lock_deadline};
use super::opened_mutex::state::{escaped, unescaped};
use super::paths::{MutexPaths, RUNS, RUNS_LOCK};
use crate::outcome::run_record::numbered_record::NumberedRecord;
use crate::outcome::run_record::skip_count::SkipCount;
use crate::store::event_mutex::run_log::EventLog;

/// The format: the first line of every log.
const MAGIC: &str = "soloist-runs v1\n";

/// The log of one event.
pub(super) struct RunsFile<'a> {
    pub(super) event: &'a str,
    pub(super) paths: MutexPaths,
}

impl RunsFile<'_> {
    pub(super) fn read(&self) -> Result<EventLog, FileError> {
        let Some(file) = self.paths.open_if_there(RUNS)? else { return Ok(EventLog::default()) };
        let bytes = file.read()?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.split_inclusive('\n');
        let first = lines.next().unwrap_or_default();
        // After a power loss, there may be zeros in its place.
        if !MAGIC.starts_with(first) && first.bytes().any(|byte| byte != 0) {
            return Err(FileError::of_another_format(file.path(), first.as_bytes(), MAGIC));
        }
        let lines = lines.filter_map(|line| line.strip_suffix('\n'));
        let run = |line: &str| {
            let (id, line) = line.split_once(' ')?;
            NumberedRecord::of_line(self.event, id, line)
        };
        Ok(EventLog { runs: lines.clone().filter_map(run).collect(), skips: lines.filter_map(skip_count).collect() })
    }

    /// Reads the log, and writes it as `change` leaves it.
    pub(super) fn rewrite(&self, change: impl FnOnce(&mut EventLog)) -> Result<(), FileError> {
        let lock = self.paths.open_or_make(RUNS_LOCK)?;
        let _lock = MutexLock::wait_for(lock, LockKind::Exclusive, lock_deadline())?;
        let mut log = self.read()?;
        change(&mut log);
        let skips = log.skips.iter().map(|skip| {
            let (reason, count, latest) = (skip.reason(), skip.count(), skip.latest().timestamp_micros());
            format!("skipped={reason} count={count} latest_us={latest}\n")
        });
        let runs = log.runs.iter().map(|run| format!("{} {}\n", run.record.id(), run.to_line()));
        let lines: String = skips.chain(runs).collect();
        self.paths.replace(RUNS, &format!("{MAGIC}event {}\n{lines}", escaped(self.event)))
    }
}

/// Reads the name of the event whose log is at this path. `None`: the file is no log of ours.
pub(super) fn event_of(paths: &MutexPaths) -> Result<Option<String>, FileError> {
    let Some(file) = paths.open_if_there(RUNS)? else { return Ok(None) };
    let bytes = file.read()?;
    let text = String::from_utf8_lossy(&bytes);
    let event = text.lines().nth(1).and_then(|line| unescaped(line.strip_prefix("event ")?));
    Ok(event.filter(|event| paths.belong_to(event)))
}

/// Reads the number of skipped occurrences from a line that has one.
fn skip_count(line: &str) -> Option<SkipCount> {
    let mut fields = line.split(' ');
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
    let (reason, count, latest) = (field("skipped")?, field("count")?, field("latest_us")?);
    SkipCount::new(reason, count.parse().ok()?, DateTime::from_timestamp_micros(latest.parse().ok()?)?)
}
