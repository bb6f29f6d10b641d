//! A batch: the releases and admissions of one request to a store, each in a slot with its answer.

use std::mem;
use std::sync::Arc;

use super::admission::{Admission, Admitted};
use crate::base::error::{MutexError, ask_store};
use crate::lease::{request::Lease, term::Term};
use crate::observe::tell::trace;
use crate::outcome::release::Release;

/// The largest number of admissions in one request of a schedule.
pub(crate) const BATCH_SIZE: usize = 100;

/// The releases and the admissions of one call of [`EventMutex::carry_out`](crate::EventMutex::carry_out).
///
/// ```
/// use soloist::store::{Admission, Admitted, Batch, LeaseRequest};
/// use soloist::time::Clock;
/// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let request = LeaseRequest::new(MutexName::lease("reports")?, Term::DEFAULT, &Clock::system());
/// let mut batch = Batch::new();
/// batch.admit(Admission::lease_only(request));
/// MemoryMutex::new().carry_out(&mut batch);
/// assert!(matches!(batch.admissions()[0].answer(), Some(Ok(Admitted::Granted(_)))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    releases: Vec<Slot<LeaseRelease, bool>>,
    admissions: Vec<Slot<Admission, Admitted>>,
}

/// A lease to release: its name is free at once, or after a minimum hold.
///
/// ```
/// use std::time::Duration;
/// use soloist::store::{Batch, LeaseRequest};
/// use soloist::time::Clock;
/// use soloist::{EventMutex, FencingToken, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let request = LeaseRequest::new(MutexName::lease("reports")?, Term::DEFAULT, &Clock::system());
/// let mut batch = Batch::new();
/// batch.release_after(request.granted(FencingToken::new(1)), Term::new(Duration::from_secs(5))?);
/// let asked = batch.releases()[0].asked();
/// assert_eq!((asked.lease().name(), asked.minimum_hold().map(Term::get)), (request.name(), Some(Duration::from_secs(5))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRelease {
    lease: Lease,
    minimum_hold: Option<Term>,
}

impl LeaseRelease {
    /// Returns the lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns how long the name stays held after the release, even if this process ends. `None` means that the name is
    /// free at once.
    pub fn minimum_hold(&self) -> Option<Term> {
        self.minimum_hold
    }

    pub(crate) fn attempted(&self) -> String {
        attempted_release(&self.lease)
    }
}

impl Batch {
    /// Makes an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the release of a lease.
    pub fn release(&mut self, lease: Lease) {
        self.add_release(lease, None);
    }

    /// Adds the release of a lease. Its name stays held for the time `minimum_hold` after the release.
    pub fn release_after(&mut self, lease: Lease, minimum_hold: Term) {
        self.add_release(lease, Some(minimum_hold));
    }

    pub(crate) fn add_release(&mut self, lease: Lease, minimum_hold: Option<Term>) {
        self.releases.push(Slot::new(LeaseRelease { lease, minimum_hold }));
    }

    /// Adds an admission.
    pub fn admit(&mut self, admission: Admission) {
        self.admissions.push(Slot::new(admission));
    }

    /// Returns the releases. The answer to a release is `true` if the owner still held the lease.
    pub fn releases(&self) -> &[Slot<LeaseRelease, bool>] {
        &self.releases
    }

    /// Returns the admissions, which are decided after the releases.
    pub fn admissions(&self) -> &[Slot<Admission, Admitted>] {
        &self.admissions
    }

    /// Returns the releases and the admissions, so that a store can fill their slots.
    #[expect(clippy::type_complexity, reason = "a type for the two slices would say no more")]
    pub fn slots_mut(&mut self) -> (&mut [Slot<LeaseRelease, bool>], &mut [Slot<Admission, Admitted>]) {
        (&mut self.releases, &mut self.admissions)
    }

    /// Returns whether the batch asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.admissions.is_empty()
    }

    /// Returns the first error that concerns the store as a whole.
    pub(super) fn outage(&self) -> Option<&MutexError> {
        let of_releases = self.releases.iter().find_map(Slot::outage);
        of_releases.or_else(|| self.admissions.iter().find_map(Slot::outage))
    }

    /// Returns whether each release and each admission has an answer.
    pub(super) fn is_answered(&self) -> bool {
        self.releases.iter().all(|slot| slot.answer.is_some())
            && self.admissions.iter().all(|slot| slot.answer.is_some())
    }

    /// Takes the answer to the admission at index `at`.
    pub(crate) fn take_admission(&mut self, at: usize) -> Result<Admitted, MutexError> {
        self.admissions[at].take_answer(Admission::attempted, None)
    }

    /// Takes the answer to the release at index `at`, and logs a failure.
    pub(crate) fn take_release(&mut self, at: usize) -> Release {
        let slot = &mut self.releases[at];
        let answer = slot.take_answer(LeaseRelease::attempted, None);
        released(&slot.asked().lease, slot.asked().minimum_hold, answer)
    }

    /// Takes the answers to all releases, and logs the failures.
    pub(crate) fn log_releases(&mut self) {
        (0..self.releases.len()).for_each(|at| drop(self.take_release(at)));
    }

    /// Clears the batch, and keeps its memory for the next requests.
    pub(crate) fn clear(&mut self) {
        self.releases.clear();
        self.admissions.clear();
    }

    /// Answers each admission with an error that repeats the earlier error `first`. Calls `ask` with a batch of the
    /// releases alone.
    pub(crate) fn without_admissions(&mut self, first: &MutexError, ask: impl FnOnce(&mut Self)) {
        let mut admissions = mem::take(&mut self.admissions);
        fill_each(&mut admissions, |asked| Err(MutexError::not_asked_again(asked.attempted(), first)));
        ask(self);
        self.admissions = admissions;
    }
}

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
    pub fn new(asked: Q) -> Self {
        Self { asked, answer: None }
    }

    /// Returns the question.
    pub fn asked(&self) -> &Q {
        &self.asked
    }

    /// Returns the store's answer, or `None` if the store has given none.
    pub fn answer(&self) -> Option<&Result<A, MutexError>> {
        self.answer.as_ref()
    }

    /// Fills the slot with an answer, and replaces an earlier answer.
    pub fn fill(&mut self, answer: Result<A, MutexError>) {
        self.answer = Some(answer);
    }

    /// Takes the answer out of the slot. If the slot is empty, returns [`no_answer`].
    pub(crate) fn take_answer(
        &mut self,
        attempted: impl FnOnce(&Q) -> String,
        panic: Option<&Arc<str>>,
    ) -> Result<A, MutexError> {
        self.answer.take().unwrap_or_else(|| Err(no_answer(attempted(&self.asked), panic)))
    }

    /// Returns the error in the slot if it concerns the store as a whole.
    pub(crate) fn outage(&self) -> Option<&MutexError> {
        self.answer.as_ref()?.as_ref().err().filter(|error| error.is_outage())
    }
}

/// Fills each slot with the answer of `ask` to its question.
pub(crate) fn fill_each<Q, A>(slots: &mut [Slot<Q, A>], mut ask: impl FnMut(&Q) -> Result<A, MutexError>) {
    for slot in slots {
        slot.fill(ask(slot.asked()));
    }
}

/// Fills the empty slots one after another with the answers of `ask`. After an outage the store is not asked again, so
/// that a tick waits for the timeout only once. If `ask` panics, only the slot of this call gets an error.
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
            None => ask_store(|| attempted(asked), || ask(asked)),
        };
        slot.fill(answer);
        if outage.is_none() {
            *outage = slot.outage().cloned();
        }
    }
}

/// Returns the error for a slot that the store left empty. `panic` is the message if the store panicked.
pub(crate) fn no_answer(attempted: String, panic: Option<&Arc<str>>) -> MutexError {
    match panic {
        Some(message) => MutexError::panicked(attempted, message),
        None => MutexError::unusable(attempted, "the store gave no answer"),
    }
}

pub(crate) fn attempted_release(lease: &Lease) -> String {
    format!("forget {}", lease.name().in_words())
}

/// Turns the store's answer into the result of a release. A failure is logged here, because a guard that is dropped
/// can't return an error.
pub(crate) fn released(lease: &Lease, minimum_hold: Option<Term>, answer: Result<bool, MutexError>) -> Release {
    match (answer, minimum_hold) {
        (Ok(true), None) => Release::Released,
        (Ok(true), Some(left)) => Release::HeldFor(left),
        (Ok(false), _) => Release::Lost,
        (Err(error), _) => {
            trace::not_released(lease.name(), &error);
            Release::Failed(error)
        }
    }
}
