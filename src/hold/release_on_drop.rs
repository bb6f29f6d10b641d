//! A guard around what a run, or a lease guard, holds, which gives it back to its store when it is dropped.

use std::sync::Arc;

use super::held_lease::{HeldLease, HoldsLease};
use crate::base::process_id;
use crate::lease::{owner::Owner, request::Lease, term::Term};
use crate::observe::{release::Release, tell::trace::print_unless_logged};
use crate::store::{event_mutex::EventMutex, event_mutex::batch::Batch};

/// A handle to whoever has a lease in hand.
pub(crate) trait LeaseInHand {
    type Of: HoldsLease + 'static;

    fn in_hand(&self) -> &Arc<Self::Of>;
}

impl LeaseInHand for Arc<HeldLease> {
    type Of = HeldLease;

    #[inline]
    fn in_hand(&self) -> &Arc<HeldLease> {
        self
    }
}

/// Gives back what it holds when it is dropped.
#[derive(Debug)]
pub(crate) struct ReleaseOnDrop<M: EventMutex, H: LeaseInHand> {
    mutex: M,
    /// `None` once it was given back.
    holding: Option<H>,
}

impl<M: EventMutex, H: LeaseInHand> ReleaseOnDrop<M, H> {
    /// Holds what was just granted.
    #[inline]
    pub(crate) fn new(mutex: M, holding: H) -> Self {
        Self { mutex, holding: Some(holding) }
    }

    #[inline]
    pub(crate) fn holding(&self) -> &H {
        self.holding.as_ref().expect("nobody asks for it once it was taken")
    }

    /// Takes it out, without giving it back.
    #[inline]
    pub(crate) fn take(&mut self) -> H {
        self.holding.take().expect("nobody asks for it once it was taken")
    }

    /// Gives back the lease, if there is one among it.
    pub(crate) fn release(&mut self) -> (H, Option<Release>) {
        let release = self.give_back();
        (self.take(), release)
    }

    /// Ends the right to go on, with or without a lease, and wakes what still waits for that. Returns the lease, which the
    /// caller asks the store to take back, now or after a rest.
    #[inline]
    pub(crate) fn begin_release(&self) -> Option<(Lease, Option<Term>)> {
        if self.is_inherited() {
            return None;
        }
        let held = self.holding().in_hand().held();
        let rest = held.rest();
        let renewed = held.begin_release();
        held.signal().wake();
        let lease = renewed.or_else(|| held.lease().cloned())?;
        if rest.is_some() {
            held.wait_for_its_renewal(lease.deadline());
        }
        Some((lease, rest))
    }

    /// Whether this is a child's copy of what its parent holds, and goes on to hold.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.holding().in_hand().held().owner().map(Owner::pid).is_some_and(|pid| pid != process_id::current())
    }

    fn give_back(&self) -> Option<Release> {
        if self.is_inherited() {
            return Some(Release::Lost);
        }
        let (lease, rest) = self.begin_release()?;
        let mut batch = Batch::new();
        batch.add_release(lease, rest);
        batch.ask(&self.mutex);
        Some(batch.take_release(0))
    }
}

impl<M: EventMutex, H: LeaseInHand> Drop for ReleaseOnDrop<M, H> {
    fn drop(&mut self) {
        if self.holding.is_some() {
            // Subscribers were told what came of it.
            if let Some(failed @ Release::Failed(_)) = self.give_back() {
                print_unless_logged(failed);
            }
        }
    }
}
