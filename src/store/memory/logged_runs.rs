//! The run log in memory: a map behind a lock of its own, so that no gate waits for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::observe::run_record::RunRecord;
use crate::observe::run_record::numbered_record::{NumberedRecord, add, by_event, newest_first};

/// The records of each event.
#[derive(Default)]
pub(super) struct LoggedRuns(Mutex<HashMap<Box<str>, Vec<NumberedRecord>>>);

impl LoggedRuns {
    pub(super) fn write(&self, records: &[RunRecord], keep: usize) {
        let mut events = self.events();
        for (event, new) in by_event(records) {
            let found = events.remove(event).unwrap_or_default();
            events.insert(event.into(), add(found, &new, keep));
        }
    }

    pub(super) fn runs(&self, event: &str) -> Vec<RunRecord> {
        newest_first(self.events().get(event).cloned().unwrap_or_default())
    }

    fn events(&self) -> MutexGuard<'_, HashMap<Box<str>, Vec<NumberedRecord>>> {
        // The records of an event are replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
