//! A store with its description. The store is asked for the description once, when it is wrapped here.

use std::collections::HashMap;
use std::sync::Arc;

use super::event_mutex::description::Scope;
use super::event_mutex::held::{Held, Names};
use super::event_mutex::{EventMutex, run_log::RunLog};
use crate::base::error::{MutexError, ask_store};
use crate::lease::name::MutexName;
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
        let id = description.identity();
        let scope = description.scope();
        let can_extend = description.can_extend();
        Self { mutex, id, scope, can_extend }
    }

    /// Reads which of these names are held. A panic of the store is an error.
    pub(crate) fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        let attempted = || match names {
            Names::Each([first, ..]) => format!("read {}", first.in_words()),
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

/// The answer about one name. `Ok(None)`: the name is not held.
pub(crate) type HeldAnswer = Result<Option<Held>, MutexError>;

/// Reads each of these names in one request. If the store answers that it can't read one of them, each name is read by a
/// request of its own, so that an unreadable name hides no other. Returns an answer for each name, in their order.
///
/// # Errors
///
/// The store is unavailable, or it can't say who holds a name.
pub(crate) fn read_each(
    names: &[MutexName],
    ask: impl Fn(Names<'_>) -> Result<Vec<Held>, MutexError>,
) -> Result<Vec<HeldAnswer>, MutexError> {
    let found = match ask(Names::Each(names)) {
        Err(error) if error.is_outage() || error.is_unsupported() => return Err(error),
        found => found,
    };
    if let Ok(found) = found {
        let found: HashMap<&MutexName, &Held> = found.iter().map(|held| (held.name(), held)).collect();
        return Ok(names.iter().map(|name| Ok(found.get(name).map(|held| (*held).clone()))).collect());
    }
    let alone = |name| match ask(Names::of(name)) {
        Err(error) if error.is_outage() => Err(error),
        answer => Ok(answer.map(|mut held| held.pop())),
    };
    names.iter().map(alone).collect()
}

pub(crate) fn no_log() -> MutexError {
    MutexError::unsupported("keep a log of runs")
}
