//! The events that the clones of a schedule share, and the changes that a running loop has not seen yet.

use std::sync::{Arc, Mutex, Weak};

use chrono::{DateTime, Utc};

use super::registry::Registry;
use crate::base::lock::lock;
use crate::time::clock::Clock;

#[derive(Default)]
pub(in crate::schedule) struct LiveEvents(Mutex<Current>);

#[derive(Default)]
struct Current {
    registry: Arc<Registry>,
    /// The watches of the running loops.
    watches: Vec<Weak<ChangeWatch>>,
}

impl LiveEvents {
    /// Changes the events, and wakes the loops. Returns the result of `change`. A removed definition is part of this
    /// result, because it must not be dropped under the lock: its drop can run code that uses the schedule.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        let mut current = lock(&self.0);
        let watches: Vec<_> = current.watches.iter().filter_map(Weak::upgrade).collect();
        let before = watches.first().map(|_| Arc::clone(&current.registry));
        let changed = change(Arc::make_mut(&mut current.registry));
        let before = before.filter(|before| before.version < current.registry.version);
        for (watch, registry) in watches.iter().zip(before.iter().cycle()) {
            let until = watch.clock.now();
            lock(&watch.past).push(EventsUntil { until, registry: Arc::clone(registry) });
        }
        drop(current);
        for watch in watches.iter().filter(|_| before.is_some()) {
            (watch.wake)();
        }
        changed
    }

    /// Makes a watch for a loop that uses `clock`. The watch collects the changes from now on, and calls `wake` after
    /// each change.
    pub(in crate::schedule) fn watch(
        &self,
        clock: &Clock,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Arc<ChangeWatch> {
        let watch = Arc::new(ChangeWatch { clock: clock.clone(), past: Mutex::default(), wake: Box::new(wake) });
        let mut current = lock(&self.0);
        current.watches.retain(|watch| watch.strong_count() > 0);
        current.watches.push(Arc::downgrade(&watch));
        watch
    }

    /// Returns the old registries, and the present registry. Each change since the last call has left one old registry.
    pub(in crate::schedule) fn see(&self, watch: &ChangeWatch) -> (Vec<EventsUntil>, EventsUntil) {
        // The clock is read under the lock, so that no change comes between the reads of the clock and of the events.
        let current = lock(&self.0);
        let present = EventsUntil { until: watch.clock.now(), registry: Arc::clone(&current.registry) };
        (std::mem::take(&mut *lock(&watch.past)), present)
    }

    /// Returns the present events.
    pub(in crate::schedule) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&lock(&self.0).registry)
    }
}

/// The changes that a loop has not seen yet.
pub(in crate::schedule) struct ChangeWatch {
    clock: Clock,
    past: Mutex<Vec<EventsUntil>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl ChangeWatch {
    pub(in crate::schedule) fn has_changes(&self) -> bool {
        !lock(&self.past).is_empty()
    }
}

/// A registry, and the time until which the schedule had this registry. For the present registry, `until` is the time
/// at which the loop read the registry.
pub(in crate::schedule) struct EventsUntil {
    pub(in crate::schedule) until: DateTime<Utc>,
    pub(in crate::schedule) registry: Arc<Registry>,
}
