//! The run log in memory: a map behind a lock of its own, so that no admission waits for it.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::outcome::run_record::RunRecord;
use crate::outcome::run_record::numbered_record::{NumberedRecord, add, by_event, newest_first};
use crate::outcome::run_record::skip_count::{SkipCount, add_skips};

/// The log of each event.
#[derive(Default)]
pub(super) struct LoggedRuns(Mutex<HashMap<Box<str>, EventLog>>);

#[derive(Default)]
struct EventLog {
    runs: Vec<NumberedRecord>,
    skips: Vec<SkipCount>,
}

impl LoggedRuns {
    pub(super) fn write(&self, records: &[RunRecord], keep: usize) {
        let mut events = self.events();
        for (event, new) in by_event(records) {
            let log = events.entry(event.into()).or_default();
            log.runs = add(mem::take(&mut log.runs), &new, keep);
        }
    }

    pub(super) fn runs(&self, event: &str) -> Vec<RunRecord> {
        newest_first(self.events().get(event).map(|log| log.runs.clone()).unwrap_or_default())
    }

    pub(super) fn count_skips(&self, event: &str, skips: &[SkipCount]) {
        add_skips(&mut self.events().entry(event.into()).or_default().skips, skips);
    }

    pub(super) fn skips(&self, event: &str) -> Vec<SkipCount> {
        self.events().get(event).map(|log| log.skips.clone()).unwrap_or_default()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.events().keys().map(ToString::to_string).collect()
    }

    fn events(&self) -> MutexGuard<'_, HashMap<Box<str>, EventLog>> {
        // No code that can panic runs while it is half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
