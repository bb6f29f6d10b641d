//! A slot: one question to a store, and later its answer.

use crate::base::{catch_panic::contain, error::MutexError};

/// A question to a store, and later its answer. If the store leaves the slot empty, the answer is not known.
///
/// ```
/// use soloist::store::Slot;
///
/// let mut slot: Slot<&str, bool> = Slot::new("is the name held?");
/// assert!(slot.answer().is_none());
/// slot.fill(Ok(true));
/// assert!(matches!(slot.answer(), Some(Ok(true))));
/// ```
#[derive(Clone, Debug)]
pub struct Slot<Q, A> {
    asked: Q,
    answer: Option<Result<A, MutexError>>,
}

impl<Q, A> Slot<Q, A> {
    /// Makes a slot without an answer.
    #[inline]
    pub fn new(asked: Q) -> Self {
        Self { asked, answer: None }
    }

    /// Returns the question.
    pub fn asked(&self) -> &Q {
        &self.asked
    }

    /// Returns the answer, or `None` if the slot is empty.
    pub fn answer(&self) -> Option<&Result<A, MutexError>> {
        self.answer.as_ref()
    }

    /// Fills the slot with an answer, and replaces an earlier answer.
    #[inline]
    pub fn fill(&mut self, answer: Result<A, MutexError>) {
        self.answer = Some(answer);
    }

    /// Takes the answer out of the slot. If the slot is empty, returns the error that `unanswered` makes.
    #[inline]
    pub(crate) fn take_answer(&mut self, unanswered: impl FnOnce(&Q) -> MutexError) -> Result<A, MutexError> {
        self.answer.take().unwrap_or_else(|| Err(unanswered(&self.asked)))
    }

    /// Returns the error in the slot if it concerns the store as a whole.
    pub(crate) fn outage(&self) -> Option<&MutexError> {
        self.answer.as_ref()?.as_ref().err().filter(|error| error.is_outage())
    }
}

/// Fills the empty slots one after another with the answers of `ask`. After an outage the store is not asked again, so
/// that a tick waits for the timeout only once. A panic of `ask` fails only the slot that it was called for.
pub(crate) fn answer_each<Q, A>(
    slots: &mut [Slot<Q, A>],
    outage: &mut Option<MutexError>,
    attempted: impl Fn(&Q) -> String,
    ask: impl Fn(&Q) -> Result<A, MutexError>,
) {
    for slot in slots.iter_mut().filter(|slot| slot.answer.is_none()) {
        let asked = slot.asked();
        let answer = match &*outage {
            Some(first) => Err(MutexError::not_asked_again(attempted(asked), first)),
            None => {
                contain(|| ask(asked)).unwrap_or_else(|message| Err(MutexError::panicked(attempted(asked), &message)))
            }
        };
        slot.fill(answer);
        if outage.is_none() {
            *outage = slot.outage().cloned();
        }
    }
}
