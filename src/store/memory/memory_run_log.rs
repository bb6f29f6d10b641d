//! The run log in memory: a map with a separate lock, so that no admission waits for the log.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::base::error::MutexError;
use crate::base::lock::lock;
use crate::outcome::run_record::RunRecord;
use crate::outcome::run_record::numbered_record::{by_event, newest_first};
use crate::outcome::run_record::skip_count::{SkipCount, add_skips};
use crate::store::event_mutex::run_log::{EventLog, RunLog};

/// The logs of all events, by the names of the events.
#[derive(Debug, Default)]
pub(crate) struct MemoryRunLog(Mutex<HashMap<Box<str>, EventLog>>);

impl RunLog for MemoryRunLog {
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        let mut events = lock(&self.0);
        for (event, new) in by_event(records) {
            events.entry(event.into()).or_default().add(&new, keep);
        }
        Ok(())
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        Ok(newest_first(lock(&self.0).get(event).map(|log| log.runs.clone()).unwrap_or_default()))
    }

    fn count_skips(&self, event: &str, skips: &[SkipCount]) -> Result<(), MutexError> {
        add_skips(&mut lock(&self.0).entry(event.into()).or_default().skips, skips);
        Ok(())
    }

    fn skips(&self, event: &str) -> Result<Vec<SkipCount>, MutexError> {
        Ok(lock(&self.0).get(event).map(|log| log.skips.clone()).unwrap_or_default())
    }

    fn events(&self) -> Result<Vec<String>, MutexError> {
        Ok(lock(&self.0).keys().map(ToString::to_string).collect())
    }
}
