//! A store behind its handle, with what is asked of it once: which store it is, and how far it reaches.

use std::sync::Arc;

use super::event_mutex::{EventMutex, Scope};
use crate::lease::store_id::StoreId;

/// A store, and the two facts that its own code is asked for once.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) mutex: Arc<dyn EventMutex>,
    pub(crate) id: StoreId,
    pub(crate) scope: Scope,
}

impl PartialEq for Store {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Store {
    pub(crate) fn new(mutex: impl EventMutex + 'static) -> Self {
        // Asked where it stays, because it may be known by its place.
        let mutex: Arc<dyn EventMutex> = Arc::new(mutex);
        Self { id: mutex.identity(), scope: mutex.scope(), mutex }
    }
}
