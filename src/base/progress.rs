//! The progress of a call whose caller may give up: the server that the call is trying, and the failure of the last
//! attempt.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::lock::lock;

thread_local! {
    static WATCHED: RefCell<Option<CallProgress>> = const { RefCell::new(None) };
}

/// The last report on the calls of one thread. Another thread reads the report.
#[derive(Clone, Default)]
pub(crate) struct CallProgress(Arc<Mutex<Option<String>>>);

impl CallProgress {
    /// Records the reports of this thread in this value from now on.
    pub(crate) fn watch_this_thread(&self) {
        WATCHED.set(Some(self.clone()));
    }

    /// Returns the text of the last report.
    pub(crate) fn last(&self) -> Option<String> {
        lock(&self.0).clone()
    }
}

/// Reports the progress of a call, if a caller watches this thread.
pub(crate) fn tell(what: impl fmt::Display) {
    // This may fail: a thread that ends may release a lease after its thread-local values were dropped.
    let _ = WATCHED.try_with(|watched| {
        if let Some(CallProgress(last)) = &*watched.borrow() {
            *lock(last) = Some(what.to_string());
        }
    });
}
