//! Asks a store, and ensures that every slot has an answer.
//!
//! A store may panic, or leave slots empty. The leases and claims that it may then hold for this process are released: no run has
//! them.

use std::sync::Arc;

use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::token::FencingToken;
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, LeaseRelease, no_answer};
use crate::store::event_mutex::slot::answer_each;

impl Admission {
    /// Asks a store for this admission alone.
    ///
    /// # Errors
    ///
    /// Whether the admission was granted is not known. Its lease and its claim are released.
    pub fn ask<M: EventMutex + ?Sized>(&self, mutex: &M) -> Result<Admitted, MutexError> {
        let mut batch = Batch::new();
        batch.admit(self.clone());
        batch.ask(mutex);
        batch.take_admission(0)
    }
}

impl Batch {
    /// Asks a store to carry out the batch, and ensures that each slot has an answer.
    #[inline]
    pub(crate) fn ask<M: EventMutex + ?Sized>(&mut self, mutex: &M) {
        let panic = contain(|| mutex.carry_out(self)).err();
        if !self.is_answered() {
            self.settle_unanswered(mutex, panic.as_ref());
        }
    }

    #[inline]
    fn is_answered(&self) -> bool {
        self.releases().iter().all(|slot| slot.answer().is_some())
            && self.admissions().iter().all(|slot| slot.answer().is_some())
    }

    #[cold]
    fn settle_unanswered<M: EventMutex + ?Sized>(&mut self, mutex: &M, panic: Option<&Arc<str>>) {
        let mut outage = self.outage().cloned();
        let (releases, admissions) = self.slots_mut();
        // Each release without a minimum hold is tried again alone. If this owner does not hold the lease, the first
        // call may have released it: the answer stays unknown.
        answer_each(releases, &mut outage, LeaseRelease::attempted, |asked| match asked.minimum_hold() {
            None if mutex.forget(asked.lease())? => Ok(true),
            _ => Err(no_answer(asked.attempted(), panic)),
        });
        let mut perhaps_ours = Self::new();
        for slot in admissions.iter_mut().filter(|slot| slot.answer().is_none()) {
            let asked = [slot.asked().lease(), slot.asked().claim()].into_iter().flatten();
            asked.for_each(|request| perhaps_ours.release(request.granted(FencingToken::new(0))));
            slot.fill(Err(no_answer(slot.asked().attempted(), panic)));
        }
        if !perhaps_ours.is_empty() {
            perhaps_ours.ask(mutex);
            perhaps_ours.log_releases();
        }
    }
}
