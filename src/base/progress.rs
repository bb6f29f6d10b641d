//! The progress of a call that a caller may stop waiting for: whom it asks, and how its last attempt failed.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    static WATCHED: RefCell<Option<CallProgress>> = const { RefCell::new(None) };
}

/// The progress of the calls of one thread, which another thread reads.
#[derive(Clone, Default)]
pub(crate) struct CallProgress(Arc<Mutex<Option<String>>>);

impl CallProgress {
    /// Notes what the calls of this thread tell from now on.
    pub(crate) fn watch_this_thread(&self) {
        WATCHED.set(Some(self.clone()));
    }

    /// Returns the last text that was told.
    pub(crate) fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tells how far a call is, if a caller watches this thread.
pub(crate) fn tell(what: impl fmt::Display) {
    // A thread that ends may release a lease when its own values have gone.
    let _ = WATCHED.try_with(|watched| {
        if let Some(CallProgress(last)) = &*watched.borrow() {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.to_string());
        }
    });
}
