//! The run log in memory: a map behind a lock of its own, so that no gate waits for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::observe::run_record::RunRecord;
use crate::observe::run_record::log_change::{LogChange, by_event, newest_first};

/// The records of each event.
#[derive(Default)]
pub(super) struct LoggedRuns(Mutex<HashMap<Box<str>, Vec<RunRecord>>>);

impl LoggedRuns {
    pub(super) fn write(&self, records: &[RunRecord], keep: usize) {
        let mut events = self.events();
        for (event, new) in by_event(records) {
            let found = events.get(event).map_or(&[][..], Vec::as_slice);
            let change = LogChange::new(event, &Vec::from_iter(found), &new, keep);
            let after = change.applied_to(found).cloned().collect();
            events.insert(event.into(), after);
        }
    }

    pub(super) fn runs(&self, event: &str) -> Vec<RunRecord> {
        newest_first(self.events().get(event).cloned().unwrap_or_default())
    }

    fn events(&self) -> MutexGuard<'_, HashMap<Box<str>, Vec<RunRecord>>> {
        // The records of an event are replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
