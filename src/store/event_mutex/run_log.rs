//! The trait `RunLog`: a log of the last runs of each event. People read the log; no decision depends on it.

use std::fmt;
use std::mem;

use crate::base::error::MutexError;
use crate::outcome::run_record::RunRecord;
use crate::outcome::run_record::numbered_record::{NumberedRecord, add};
use crate::outcome::run_record::skip_count::SkipCount;

/// A log of the last runs of each event in the whole fleet. A store keeps the log in addition to its mutexes; see
/// [`EventMutex::run_log`](crate::EventMutex::run_log).
///
/// The log is best effort: it decides no admission and delays none, and a record that was not written is lost. Names of
/// events are compared byte by byte. Writing the log changes no lease, claim or marker. If a log keeps its records as
/// text, it writes the host and the instance with [`RunRecord::host_text`], and reads them back with [`RunRecord::on`].
///
/// ```
/// use std::sync::Mutex;
/// use soloist::observe::RunRecord;
/// use soloist::store::{Owner, RunLog};
/// use soloist::MutexError;
///
/// /// Keeps the records of one process, in the order of their first writes.
/// #[derive(Debug, Default)]
/// struct InVec(Mutex<Vec<RunRecord>>);
///
/// impl RunLog for InVec {
///     fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
///         let mut kept = self.0.lock().unwrap();
///         for record in records {
///             match kept.iter().position(|earlier| earlier.id() == record.id()) {
///                 Some(at) if record.end().is_some() => kept[at] = record.clone(),
///                 Some(_) => {} // A late start does not undo the end.
///                 None => kept.push(record.clone()),
///             }
///             let of_event = |earlier: &&RunRecord| earlier.event() == record.event();
///             if kept.iter().filter(of_event).count() > keep.max(1) {
///                 let oldest = kept.iter().position(|earlier| of_event(&earlier));
///                 kept.remove(oldest.expect("there are several"));
///             }
///         }
///         Ok(())
///     }
///
///     fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
///         let kept = self.0.lock().unwrap();
///         Ok(kept.iter().rev().filter(|record| record.event() == event).cloned().collect())
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (log, now) = (InVec::default(), chrono::Utc::now());
/// let records = [1, 2, 3].map(|_| RunRecord::started("reports", Owner::unique(), now, None, now));
/// log.write(&records, 2)?;
/// assert_eq!(log.runs("reports")?, [records[2].clone(), records[1].clone()]);
/// # Ok(())
/// # }
/// ```
pub trait RunLog: fmt::Debug + Send + Sync {
    /// Writes these records, and then drops records of each event until at most `keep` are left; `keep` is 1 to 1000.
    ///
    /// A record with an end replaces the earlier record of its run, which has an equal [id](RunRecord::id). A record
    /// without an end is written only if its run has no record yet.
    ///
    /// Runs are ordered by their first writes and not by clocks, because the clocks of a fleet differ. The newest
    /// `keep` runs are kept. If `keep` is two or more, the log also keeps the last success: if none of these runs
    /// succeeded, the last successful run is kept in place of the oldest of them.
    ///
    /// # Errors
    ///
    /// It is not known which of the records were written. If the log of one event can't be used, return an error that is
    /// no [outage](MutexError::is_outage), such as [`MutexError::unusable`]. Then the caller writes the records of each
    /// event with a call of its own.
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError>;

    /// Returns the records of this event, the newest first. Damaged records are left out.
    ///
    /// # Errors
    ///
    /// The store did not answer, or the log has a format that this version does not know.
    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError>;

    /// Adds `skips` to the counts of skipped occurrences of this event. The log keeps one count for each reason. The
    /// default keeps no counts, and returns an error.
    ///
    /// # Errors
    ///
    /// The log keeps no counts, or it is not known whether the store added the counts.
    fn count_skips(&self, _event: &str, _skips: &[SkipCount]) -> Result<(), MutexError> {
        Err(MutexError::unsupported("count skipped occurrences"))
    }

    /// Returns the counts of skipped occurrences of this event, in any order.
    ///
    /// # Errors
    ///
    /// The store did not answer, or the log keeps no counts.
    fn skips(&self, _event: &str) -> Result<Vec<SkipCount>, MutexError> {
        Err(MutexError::unsupported("count skipped occurrences"))
    }

    /// Returns the names of the events in the log, in any order. Names that are too long for the store may be missing.
    /// The default returns an error.
    ///
    /// # Errors
    ///
    /// The store did not answer, or does not list names.
    fn events(&self) -> Result<Vec<String>, MutexError> {
        Err(MutexError::unsupported("list the events in the log of runs"))
    }
}

/// The log of one event, for a store that reads and writes each log as a whole. Records and counts have no order.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    pub(crate) runs: Vec<NumberedRecord>,
    pub(crate) skips: Vec<SkipCount>,
}

impl EventLog {
    /// Adds records, and then drops records until at most `keep` are left.
    pub(crate) fn add(&mut self, new: &[&RunRecord], keep: usize) {
        self.runs = add(mem::take(&mut self.runs), new, keep);
    }
}
