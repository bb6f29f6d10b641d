//! The log of an event's runs: a file of lines, each of which is sealed, behind a line that names the event.
//!
//! It is written anew as a whole, in place, under a lock of its own, so that no gate waits for it. Not all of it may have been
//! written when a process is killed: a line whose seal is broken is left out.

use std::cmp::Reverse;
use std::mem;

use chrono::DateTime;

use super::record_lock::RecordLock;
use super::sealed_block::escaped;
use crate::observe::run_record::RunRecord;
use crate::observe::run_record::numbered_record::{NumberedRecord, add};
use crate::observe::run_record::skip_count::{SkipCount, add_skips};
use crate::store::file::{error::FileError, open_file::OpenFile};

/// The format, with which every log begins.
const MAGIC: &str = "soloist-runs v1\n";

/// No log is longer: a thousand runs with the longest errors.
const LEN_MAX: u64 = 1 << 21;

/// The log of one event, locked.
pub(crate) struct RunsFile<'a> {
    event: &'a str,
    file: &'a OpenFile,
    _lock: RecordLock<'a>,
}

impl<'a> RunsFile<'a> {
    pub(crate) fn lock(event: &'a str, file: &'a OpenFile) -> Result<Self, FileError> {
        Ok(Self { event, file, _lock: RecordLock::wait_for(file)? })
    }

    /// Reads the records and the numbers of skipped occurrences, in no order.
    pub(crate) fn read(&self) -> Result<(Vec<NumberedRecord>, Vec<SkipCount>), FileError> {
        let len = usize::try_from(self.file.len()?.min(LEN_MAX)).unwrap_or_default();
        let mut buffer = vec![0; len];
        let text = String::from_utf8_lossy(self.file.read_at(&mut buffer, 0)?);
        let mut lines = text.split_inclusive('\n');
        let first = lines.next().unwrap_or_default();
        // After a power loss, there may be zeros in its place.
        if !MAGIC.starts_with(first) && first.bytes().any(|byte| byte != 0) {
            return Err(FileError::of_another_format(self.file.path(), first.as_bytes(), MAGIC));
        }
        let mut runs: Vec<NumberedRecord> = lines.clone().filter_map(|line| self.record(line)).collect();
        // Of what was written before, something may be left behind a torn line.
        runs.sort_by_key(|run| run.record.id());
        runs.dedup_by(|later, earlier| {
            let are_one = later.record.id() == earlier.record.id();
            if are_one && later.record.end().is_some() {
                mem::swap(later, earlier);
            }
            are_one
        });
        let mut skips: Vec<SkipCount> = lines.filter_map(skip_count).collect();
        skips.sort_by_key(|skip| (skip.reason(), Reverse(skip.count())));
        skips.dedup_by_key(|skip| skip.reason());
        Ok((runs, skips))
    }

    /// Writes `new` records, and drops what is more than `keep`.
    pub(crate) fn write(&self, new: &[&RunRecord], keep: usize) -> Result<(), FileError> {
        let (runs, skips) = self.read()?;
        self.rewrite(&add(runs, new, keep), &skips)
    }

    /// Adds to the numbers of skipped occurrences.
    pub(crate) fn count_skips(&self, more: &[SkipCount]) -> Result<(), FileError> {
        let (runs, mut skips) = self.read()?;
        add_skips(&mut skips, more);
        self.rewrite(&runs, &skips)
    }

    fn rewrite(&self, runs: &[NumberedRecord], skips: &[SkipCount]) -> Result<(), FileError> {
        let skips = skips.iter().map(|skip| {
            let (reason, count, latest) = (skip.reason(), skip.count(), skip.latest().timestamp_micros());
            sealed(&format!("skipped={reason} count={count} latest_us={latest}"))
        });
        let runs = runs.iter().map(|run| sealed(&format!("{} {}", run.record.id(), run.to_line())));
        let lines: String = skips.chain(runs).collect();
        let text = format!("{MAGIC}{}{lines}", sealed(&format!("event {}", escaped(self.event))));
        self.file.write_at(text.as_bytes(), 0)?;
        self.file.cut(text.len() as u64)
    }

    fn record(&self, line: &str) -> Option<NumberedRecord> {
        let (id, line) = unsealed(line)?.split_once(' ')?;
        NumberedRecord::of_line(self.event, id, line)
    }
}

/// Reads the number of skipped occurrences that a line tells, if it tells one.
fn skip_count(line: &str) -> Option<SkipCount> {
    let mut fields = unsealed(line)?.split(' ');
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
    let (reason, count, latest) = (field("skipped")?, field("count")?, field("latest_us")?);
    SkipCount::new(reason, count.parse().ok()?, DateTime::from_timestamp_micros(latest.parse().ok()?)?)
}

/// A line that begins with its checksum.
fn sealed(line: &str) -> String {
    format!("{:08x} {line}\n", crc32fast::hash(line.as_bytes()))
}

fn unsealed(line: &str) -> Option<&str> {
    let (seal, line) = line.strip_suffix('\n')?.split_once(' ')?;
    (seal == format!("{:08x}", crc32fast::hash(line.as_bytes()))).then_some(line)
}
