//! A store with its description. The store is asked for the description once, when it is wrapped here.

use std::sync::Arc;

use super::event_mutex::EventMutex;
use super::event_mutex::description::Scope;
use crate::lease::store_id::StoreId;

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
}
