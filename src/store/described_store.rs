//! A store with its description. The store is asked for the description once, when it is wrapped here.

use std::sync::Arc;

use super::event_mutex::description::Scope;
use super::event_mutex::held::{Held, Names};
use super::event_mutex::{EventMutex, run_log::RunLog};
use crate::base::error::{MutexError, ask_store};
use crate::lease::store_id::StoreId;

/// The text of an error that says what was attempted.
pub(crate) const WRITE_LOG: &str = "write the log of runs";

#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) mutex: Arc<dyn EventMutex>,
    pub(crate) id: StoreId,
    pub(crate) scope: Scope,
    pub(crate) can_extend: bool,
}

impl PartialEq for Store {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Store {
    pub(crate) fn new(mutex: impl EventMutex + 'static) -> Self {
        // The store is described only after it was moved into the `Arc`, because the default identity of a store is its
        // address in memory.
        let mutex: Arc<dyn EventMutex> = Arc::new(mutex);
        let description = mutex.describe();
        let (id, scope, can_extend) = (description.identity(), description.scope(), description.can_extend());
        Self { mutex, id, scope, can_extend }
    }

    /// Reads which of these names are held. A panic of the store is an error.
    pub(crate) fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let attempted = || match names {
            Names::Each([first, ..]) => format!("read {first}"),
            _ => "read which names are held".to_owned(),
        };
        ask_store(attempted, || self.mutex.held(names))
    }

    /// Reads from the store's log of runs. A panic of the store is an error.
    pub(crate) fn read_log<T>(&self, read: impl FnOnce(&dyn RunLog) -> Result<T, MutexError>) -> Result<T, MutexError> {
        ask_store(|| "read the log of runs".to_owned(), || read(self.mutex.run_log().ok_or_else(no_log)?))
    }

    /// Writes to the store's log of runs. A panic of the store is an error.
    pub(crate) fn write_log(
        &self,
        write: impl FnOnce(&dyn RunLog) -> Result<(), MutexError>,
    ) -> Result<(), MutexError> {
        ask_store(|| WRITE_LOG.to_owned(), || write(self.mutex.run_log().ok_or_else(no_log)?))
    }
}

pub(crate) fn no_log() -> MutexError {
    MutexError::unsupported("keep a log of runs")
}
