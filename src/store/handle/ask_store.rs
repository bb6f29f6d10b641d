//! Asks a store, and ensures that every slot has a fitting answer.
//!
//! A store may panic, leave slots empty, or grant something else than it was asked for. The leases and claims that it may then hold
//! for this process are released: no run has them.

use std::sync::Arc;

use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::{request::Lease, token::FencingToken};
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, LeaseRelease, no_answer};
use crate::store::event_mutex::slot::{Slot, answer_each};

impl Admission {
    /// Asks a store for this admission alone.
    ///
    /// # Errors
    ///
    /// Whether it was granted is not known; it is released.
    pub fn ask<M: EventMutex + ?Sized>(&self, mutex: &M) -> Result<Admitted, MutexError> {
        let mut batch = Batch::new();
        batch.admit(self.clone());
        batch.ask(mutex);
        batch.take_admission(0)
    }
}

impl Batch {
    /// Asks a store to carry out the batch, and ensures that each slot has a fitting answer.
    #[inline]
    pub(crate) fn ask<M: EventMutex + ?Sized>(&mut self, mutex: &M) {
        let panic = contain(|| mutex.carry_out(self)).err();
        if panic.is_some() || !self.is_answered() {
            self.settle_unanswered(mutex, panic.as_ref());
        }
    }

    /// Returns whether each slot has a fitting answer.
    #[inline]
    fn is_answered(&self) -> bool {
        let fits = |slot: &Slot<Admission, Admitted>| match slot.answer() {
            Some(Ok(Admitted::Granted(grant))) => grant.is_for(slot.asked()),
            answer => answer.is_some(),
        };
        self.releases().iter().all(|slot| slot.answer().is_some()) && self.admissions().iter().all(fits)
    }

    #[cold]
    fn settle_unanswered<M: EventMutex + ?Sized>(&mut self, mutex: &M, panic: Option<&Arc<str>>) {
        let mut outage = self.outage().cloned();
        let (releases, admissions) = self.slots_mut();
        // Each is tried again alone. A lease that this owner does not hold may have been released by the first call.
        answer_each(releases, &mut outage, LeaseRelease::attempted, |asked| match asked.minimum_hold() {
            None if mutex.forget(asked.lease())? => Ok(true),
            _ => Err(no_answer(asked.attempted(), panic)),
        });
        let mut perhaps_ours = Self::new();
        for slot in admissions {
            let error = match slot.answer() {
                Some(Ok(Admitted::Granted(grant))) if grant.is_for(slot.asked()) => continue,
                Some(Ok(Admitted::Granted(grant))) => {
                    let ours = |lease: &&Lease| lease.owner() == slot.asked().owner();
                    let granted = [grant.lease(), grant.claim()].into_iter().flatten().filter(ours);
                    granted.cloned().for_each(|lease| perhaps_ours.release(lease));
                    let why = "the store granted something else than was asked for";
                    MutexError::unusable(slot.asked().attempted(), why)
                }
                Some(_) => continue,
                None => no_answer(slot.asked().attempted(), panic),
            };
            let asked = [slot.asked().lease(), slot.asked().claim()].into_iter().flatten();
            asked.for_each(|request| perhaps_ours.release(request.granted(FencingToken::new(0))));
            slot.fill(Err(error));
        }
        if !perhaps_ours.is_empty() {
            perhaps_ours.ask(mutex);
            perhaps_ours.log_releases();
        }
    }
}
