//! The run log in memory: a map with a separate lock, so that no admission waits for the log.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::base::error::MutexError;
use crate::base::lock::lock;
use crate::outcome::run_record::RunRecord;
use crate::outcome::run_record::numbered_record::{by_event, newest_first};
use crate::outcome::run_record::skip_count::{SkipCount, add_skips};
use crate::store::event_mutex::run_log::{EventLog, RunLog};

/// The logs of all events, by the names of the events.
#[derive(Debug, Default)]
pub(crate) struct MemoryRunLog(Mutex<HashMap<Box<str>, EventLog>>);

impl MemoryRunLog {
    fn locked(&self) -> MutexGuard<'_, HashMap<Box<str>, EventLog>> {
        lock(&self.0)
    }
}

impl RunLog for MemoryRunLog {
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        let mut events = self.locked();
        for (event, new) in by_event(records) {
            events.entry(event.into()).or_default().add(&new, keep);
        }
        Ok(())
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        Ok(newest_first(self.locked().get(event).map(|log| log.runs.clone()).unwrap_or_default()))
    }

    fn count_skips(&self, event: &str, skips: &[SkipCount]) -> Result<(), MutexError> {
        add_skips(&mut self.locked().entry(event.into()).or_default().skips, skips);
        Ok(())
    }

    fn skips(&self, event: &str) -> Result<Vec<SkipCount>, MutexError> {
        Ok(self.locked().get(event).map(|log| log.skips.clone()).unwrap_or_default())
    }

    fn events(&self) -> Result<Vec<String>, MutexError> {
        Ok(self.locked().keys().map(ToString::to_string).collect())
    }
}
