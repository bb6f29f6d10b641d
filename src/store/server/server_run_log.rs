//! The log of runs on a server of any kind.

use super::attempts::Server;
use super::engine::{Attempt, Engine};
use super::failure::Failure;
use crate::base::error::MutexError;
use crate::base::escape::OneLine;
use crate::outcome::run_record::RunRecord;
use crate::outcome::run_record::numbered_record::{NumberedRecord, add, by_event, newest_first, split_surplus};
use crate::outcome::run_record::skip_count::SkipCount;
use crate::store::event_mutex::run_log::RunLog;

/// The requests of an engine to the log of runs.
pub(crate) trait LogEngine: Engine {
    /// Reads the records of these events in the log of runs, in any order.
    fn runs(&self, attempt: &mut Attempt<Self::Connection>, events: &[&str]) -> Result<Vec<NumberedRecord>, Failure>;

    /// Writes records into the log of runs. The server numbers the runs in the order in which their records arrive. The
    /// records of one event must be adjacent in `records`. The record of a start replaces no record that the log has
    /// already.
    fn log_runs(&self, attempt: &mut Attempt<Self::Connection>, records: &[RunRecord]) -> Result<(), Failure>;

    /// Deletes records from the log of runs. The record of a run in `not_ended` is deleted only if the record still has
    /// no end. If a process has written the end meanwhile, that process also shortens the log.
    fn drop_runs(&self, attempt: &mut Attempt<Self::Connection>, dropped: &[DroppedRuns<'_>]) -> Result<(), Failure>;

    /// Adds to the counts of skipped occurrences in the log of runs. A request that is sent twice adds twice.
    fn count_skips(
        &self,
        attempt: &mut Attempt<Self::Connection>,
        event: &str,
        skips: &[SkipCount],
    ) -> Result<(), Failure>;

    /// Reads the counts of skipped occurrences in the log of runs.
    fn skips(&self, attempt: &mut Attempt<Self::Connection>, event: &str) -> Result<Vec<SkipCount>, Failure>;

    /// Lists the events in the log of runs.
    fn logged_events(&self, attempt: &mut Attempt<Self::Connection>) -> Result<Vec<String>, Failure>;
}

/// The runs to delete from the log of an event, split by whether they had an end when they were read.
pub(crate) struct DroppedRuns<'a> {
    pub(crate) event: &'a str,
    pub(crate) ended: Vec<String>,
    pub(crate) not_ended: Vec<String>,
}

impl<E: LogEngine> RunLog for Server<E> {
    /// Writes records, and then deletes the surplus runs of each event, so that at most `keep` runs stay. If several
    /// processes write at the same time, there can be more runs until the last of these processes has deleted the
    /// surplus.
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        let events = by_event(records);
        let names: Vec<&str> = events.keys().copied().collect();
        // A record that would be surplus is not written. Otherwise this call would write the record, and delete it. If
        // the answer was lost, the retry would write the record again, as the newest record.
        let new = events.into_values().flat_map(|new| add(Vec::new(), &new, keep).into_iter().rev());
        let new: Vec<RunRecord> = new.map(|run| run.record).collect();
        self.ask(format_args!("write {}", log_of(&names)), |attempt| {
            self.engine.log_runs(attempt, &new)?;
            let found = self.engine.runs(attempt, &names)?;
            let dropped: Vec<DroppedRuns<'_>> = names.iter().filter_map(|event| surplus(event, &found, keep)).collect();
            if dropped.is_empty() { Ok(()) } else { self.engine.drop_runs(attempt, &dropped) }
        })
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        let attempted = format!("read {}", log_of(&[event]));
        self.ask(attempted, |attempt| self.engine.runs(attempt, &[event])).map(newest_first)
    }

    fn count_skips(&self, event: &str, skips: &[SkipCount]) -> Result<(), MutexError> {
        self.ask(format_args!("count skipped occurrences of {}", OneLine(event)), |attempt| {
            self.engine.count_skips(attempt, event, skips)
        })
    }

    fn skips(&self, event: &str) -> Result<Vec<SkipCount>, MutexError> {
        self.ask(format_args!("read {}", log_of(&[event])), |attempt| self.engine.skips(attempt, event))
    }

    fn events(&self) -> Result<Vec<String>, MutexError> {
        self.ask("list the events in the log of runs", |attempt| self.engine.logged_events(attempt))
    }
}

/// Returns the name of a log in errors.
fn log_of(events: &[&str]) -> String {
    match events {
        [event] => format!("the log of runs of {}", OneLine(event)),
        _ => "the log of runs".to_owned(),
    }
}

/// Returns the surplus runs of this event, or `None` if there are none.
fn surplus<'a>(event: &'a str, found: &[NumberedRecord], keep: usize) -> Option<DroppedRuns<'a>> {
    let mut runs: Vec<NumberedRecord> = found.iter().filter(|run| run.record.event() == event).cloned().collect();
    let surplus = split_surplus(&mut runs, keep);
    let ids = |with_an_end: bool| {
        let records = surplus.iter().map(|run| &run.record).filter(|record| record.end().is_some() == with_an_end);
        records.map(|record| record.id().to_string()).collect()
    };
    (!surplus.is_empty()).then(|| DroppedRuns { event, ended: ids(true), not_ended: ids(false) })
}
