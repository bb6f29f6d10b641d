//! Releases the lease of a run or of a lease guard on every way out.

use std::ops::Deref;
use std::sync::Arc;

use super::held_lease::HeldLease;
use crate::base::process_id;
use crate::lease::{owner::Owner, request::Lease, term::Term};
use crate::observe::tell::trace::print_unless_logged;
use crate::outcome::release::Release;
use crate::store::{event_mutex::EventMutex, event_mutex::batch::Batch};

/// A held lease that is released when this is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseOnDrop {
    store: Arc<dyn EventMutex>,
    held: Arc<HeldLease>,
    is_armed: bool,
}

impl ReleaseOnDrop {
    #[inline]
    pub(crate) fn new(store: Arc<dyn EventMutex>, held: Arc<HeldLease>) -> Self {
        Self { store, held, is_armed: true }
    }

    /// Leaves the release to the caller.
    #[inline]
    pub(crate) fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// Releases the lease now, if there is one.
    pub(crate) fn release(&mut self) -> Option<Release> {
        self.is_armed = false;
        if self.is_inherited() {
            return Some(Release::Lost);
        }
        let (lease, minimum_hold) = self.begin_release()?;
        let mut batch = Batch::new();
        batch.add_release(lease, minimum_hold);
        batch.ask(&*self.store);
        Some(batch.take_release(0))
    }

    /// Ends the run or the guard, with or without a lease, and wakes all that still wait for that. Returns the lease, which the
    /// caller asks the store to release, and the time that is left of its minimum hold.
    #[inline]
    pub(crate) fn begin_release(&self) -> Option<(Lease, Option<Term>)> {
        if self.is_inherited() {
            return None;
        }
        let minimum_hold = self.held.minimum_hold_left();
        let renewed = self.held.begin_release();
        self.held.signal.wake();
        let lease = renewed.or_else(|| self.held.lease().cloned())?;
        if minimum_hold.is_some() {
            self.held.wait_for_renewal(lease.deadline());
        }
        Some((lease, minimum_hold))
    }

    /// Returns whether this process is a child that inherited the lease by `fork`: its parent still holds it.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.held.owner().map(Owner::pid).is_some_and(|pid| pid != process_id::current())
    }
}

impl Deref for ReleaseOnDrop {
    type Target = Arc<HeldLease>;

    #[inline]
    fn deref(&self) -> &Arc<HeldLease> {
        &self.held
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        // Any other answer was reported.
        if self.is_armed
            && let Some(failed @ Release::Failed(_)) = self.release()
        {
            print_unless_logged(failed);
        }
    }
}
