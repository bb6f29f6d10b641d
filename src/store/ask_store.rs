//! Sends a batch to a store, and fills the slots that the store leaves empty.
//!
//! If a store panics or leaves a slot empty, it may have granted the lease and the claim nevertheless. No run uses
//! them, so they are released.

use std::sync::Arc;

use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::token::FencingToken;
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, LeaseRelease, answer_each, no_answer};

impl Admission {
    /// Asks `mutex` for this admission, without other requests.
    ///
    /// # Errors
    ///
    /// It is not known whether the store granted the admission. Start no run: the lease and the claim are released, or
    /// they expire.
    pub fn ask<M: EventMutex + ?Sized>(&self, mutex: &M) -> Result<Admitted, MutexError> {
        let mut batch = Batch::new();
        batch.admit(self.clone());
        batch.ask(mutex);
        batch.take_admission(0)
    }
}

impl Batch {
    /// Asks `mutex` to carry out the batch. Fills the slots that the store leaves empty.
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
        // If a release has no minimum hold, `forget` tries it once more. `forget` returns `false` if this owner does
        // not hold the lease now. But the first call may have released the lease, so `Ok(false)` could be wrong, and
        // the answer is an error.
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
