//! Reading the events of a schedule.

use std::sync::Arc;

use super::Schedule;
use super::registry::UnknownEvent;
#[cfg(feature = "cli")]
use crate::base::error::MutexError;
use crate::event::definition::Definition;
use crate::store::described_store::Store;
#[cfg(feature = "cli")]
use crate::store::event_mutex::EventMutex;
#[cfg(feature = "cli")]
use crate::store::event_mutex::held::Names;

impl Schedule {
    /// Returns the names of its events, in the order of their registration.
    pub fn names(&self) -> impl Iterator<Item = Arc<str>> + use<> {
        let registry = self.registry();
        (0..registry.events.len()).map(move |event| Arc::clone(&registry.events[event].name))
    }

    /// Returns the event of this name as it was defined, to read.
    ///
    /// # Errors
    ///
    /// There is no event of this name.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).daily_at("02:30").without_overlapping())?;
    /// let reports = schedule.event("reports")?;
    /// assert_eq!(reports.timetable(), "daily at 02:30");
    /// assert_eq!(reports.protections(), ["without_overlapping, lease of 1 min 0 s, renewed"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn event(&self, name: &str) -> Result<Arc<Definition>, UnknownEvent> {
        let registry = self.registry();
        Ok(Arc::clone(&registry.events[registry.index_of(name)?]))
    }

    #[cfg(feature = "cli")]
    pub(crate) fn definitions(&self) -> Vec<Arc<Definition>> {
        self.registry().events.clone()
    }

    /// Returns its store, and those that events have for themselves.
    pub(crate) fn stores(&self) -> Vec<Store> {
        let mut stores = vec![self.store.clone()];
        for store in self.registry().events.iter().filter_map(|event| event.store.as_ref()) {
            if !stores.iter().any(|known| known.id == store.id) {
                stores.push(store.clone());
            }
        }
        stores
    }

    /// Returns whether as many runs of this event hold a lease as may run at a time.
    #[cfg(feature = "cli")]
    pub(crate) fn is_fully_held(&self, name: &str) -> Result<bool, MutexError> {
        let Ok(event) = self.event(name) else { return Ok(false) };
        let leases = event.protection.leases();
        let held = self.store_of(&event).mutex.held(Names::Each(leases))?;
        Ok(!leases.is_empty() && held.len() == leases.len())
    }

    pub(in crate::schedule) fn store_of<'a>(&'a self, event: &'a Definition) -> &'a Store {
        event.store.as_ref().unwrap_or(&self.store)
    }
}
