//! The handles of one store, by which its keeper asks it.
//!
//! A keeper keeps none of them alive: whoever holds a lease has one. So a store ends with its last handle, and a process
//! that ends is not held up by a lease that was given back a moment ago.

use std::ptr::addr_eq;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::store::event_mutex::EventMutex;

pub(super) struct Handles {
    first: Weak<dyn EventMutex>,
    others: Mutex<Vec<Weak<dyn EventMutex>>>,
}

impl Handles {
    pub(super) fn of(mutex: &Arc<dyn EventMutex>) -> Self {
        Self { first: Arc::downgrade(mutex), others: Mutex::default() }
    }

    #[inline]
    pub(super) fn begin_with(&self, mutex: &Arc<dyn EventMutex>) -> bool {
        is(&self.first, mutex)
    }

    /// Remembers another handle of the same store.
    #[cold]
    pub(super) fn note(&self, mutex: &Arc<dyn EventMutex>) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if !others.iter().any(|other| is(other, mutex)) {
            others.retain(|other| other.strong_count() > 0);
            others.push(Arc::downgrade(mutex));
        }
    }

    /// One that somebody still has.
    pub(super) fn any(&self) -> Option<Arc<dyn EventMutex>> {
        let others = || self.others.lock().unwrap_or_else(PoisonError::into_inner).iter().find_map(Weak::upgrade);
        self.first.upgrade().or_else(others)
    }
}

/// A live `Weak` keeps the address from being reused.
#[inline]
fn is(known: &Weak<dyn EventMutex>, mutex: &Arc<dyn EventMutex>) -> bool {
    addr_eq(known.as_ptr(), Arc::as_ptr(mutex))
}
