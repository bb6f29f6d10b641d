//! The trait `RunLog`: the last runs of each event, which a store keeps for people.

use std::fmt;
use std::mem;

use crate::base::error::MutexError;
use crate::outcome::run_record::RunRecord;
use crate::outcome::run_record::numbered_record::{NumberedRecord, add};
use crate::outcome::run_record::skip_count::SkipCount;

/// The log of the last runs of each event, over the whole fleet, which a store keeps in addition to its mutexes; see
/// [`EventMutex::run_log`](crate::EventMutex::run_log).
///
/// The log is best effort: it decides no admission and delays none, and a record that was not written is lost. Names of
/// events are compared byte by byte. Writing the log changes no lease, claim or marker. A log that keeps records as
/// text writes the host and the instance as [`RunRecord::host_text`], and reads that text back with [`RunRecord::on`].
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
    /// A record with an end replaces the earlier record of its run, which has an equal [id](RunRecord::id). A record without an end
    /// is written only if its run has no record yet.
    ///
    /// Runs are ordered by their first writes and not by clocks, because the clocks of a fleet differ. The newest runs
    /// are kept. If none of these succeeded, the newest success takes the place of the oldest of them. So the last
    /// success is always known if `keep` is two or more.
    ///
    /// # Errors
    ///
    /// Which of the records were written is not known.
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError>;

    /// Returns the records of this event, the newest first. Damaged records are left out.
    ///
    /// # Errors
    ///
    /// The store did not answer, or keeps the log in a format that this version does not know.
    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError>;

    /// Adds to the numbers of skipped occurrences of this event; the log keeps one number for each reason. The default
    /// keeps no numbers, and returns an error.
    ///
    /// # Errors
    ///
    /// Whether the store added the numbers is not known, or the log keeps no such numbers.
    fn count_skips(&self, _event: &str, _skips: &[SkipCount]) -> Result<(), MutexError> {
        Err(MutexError::unsupported("count what is skipped"))
    }

    /// Returns the numbers of skipped occurrences of this event, in no order.
    ///
    /// # Errors
    ///
    /// The store did not answer, or the log keeps no such numbers.
    fn skips(&self, _event: &str) -> Result<Vec<SkipCount>, MutexError> {
        Err(MutexError::unsupported("count what is skipped"))
    }

    /// Returns the names of the events in the log, in no order. A name that was too long for the store may be left out.
    /// The default returns an error.
    ///
    /// # Errors
    ///
    /// The store did not answer, or does not list names.
    fn events(&self) -> Result<Vec<String>, MutexError> {
        Err(MutexError::unsupported("list the events in the log of runs"))
    }
}

/// The log of one event, for a store that reads and writes each log as a whole: records and numbers of skips, in no
/// order.
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
