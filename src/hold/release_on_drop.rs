//! Releases the lease of a run or of a lease guard, even after an early return or a panic.

use std::ops::Deref;
use std::sync::Arc;

use super::held_lease::HeldLease;
use crate::base::per_process::Process;
use crate::lease::{request::Lease, term::Term};
use crate::observe::tell::trace::print_unless_logged;
use crate::outcome::release::Release;
use crate::store::{event_mutex::EventMutex, event_mutex::batch::Batch};

/// A held lease that is released when this value is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseOnDrop {
    store: Arc<dyn EventMutex>,
    held: Arc<HeldLease>,
    /// The process that the store granted the lease to.
    granted_to: Process,
    is_armed: bool,
}

impl ReleaseOnDrop {
    pub(crate) fn new(store: Arc<dyn EventMutex>, held: Arc<HeldLease>) -> Self {
        Self { store, held, granted_to: Process::this(), is_armed: true }
    }

    /// Disables the release on drop, because the caller releases the lease.
    pub(crate) fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// Releases the lease now. `None`: there is no lease to release.
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

    /// Notes the end of the run or the guard, and wakes the threads and tasks that wait for this end. Returns the
    /// lease, and the time that is left of its minimum hold. The caller must ask the store to release the lease.
    /// `None`: there is no lease to release.
    pub(crate) fn begin_release(&self) -> Option<(Lease, Option<Term>)> {
        if self.is_inherited() {
            return None;
        }
        let minimum_hold = self.held.minimum_hold_left();
        let lease = self.held.begin_release();
        self.held.wake();
        let lease = lease?;
        if minimum_hold.is_some() {
            self.held.wait_for_renewal(lease.deadline());
        }
        Some((lease, minimum_hold))
    }

    /// Returns whether this process is a child that inherited the lease by `fork`. Then the parent still holds the
    /// lease, so the child must not release it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.granted_to != Process::this() && self.held.owner().is_some()
    }
}

impl Deref for ReleaseOnDrop {
    type Target = Arc<HeldLease>;

    fn deref(&self) -> &Arc<HeldLease> {
        &self.held
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        // Only a failure is printed. The loss of a lease was reported before, and a success needs no message.
        if self.is_armed
            && let Some(failed @ Release::Failed(_)) = self.release()
        {
            print_unless_logged(failed);
        }
    }
}
