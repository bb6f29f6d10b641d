//! A batch: what a store is asked for at once.

use std::mem;
use std::sync::Arc;

use super::admission::{Admission, Admitted};
use super::slot::{Slot, answer_each};
use crate::base::error::MutexError;
use crate::lease::{request::Lease, term::Term};
use crate::observe::{notice::incident::Incident, release::Release, tell::log};

/// What a store is asked for at once: leases to give back, and then admissions; see
/// [`EventMutex::carry_out`](crate::EventMutex::carry_out).
///
/// ```
/// use soloist::{Admission, Admitted, Batch, Clock, EventMutex, LeaseRequest, MemoryMutex, MutexName, Term};
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
    releases: Vec<Slot<LeaseReturn, bool>>,
    admissions: Vec<Slot<Admission, Admitted>>,
}

/// A lease that is to be given back, at once or later.
///
/// ```
/// use std::time::Duration;
/// use soloist::{Batch, Clock, EventMutex, FencingToken, LeaseRequest, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let request = LeaseRequest::new(MutexName::lease("reports")?, Term::DEFAULT, &Clock::system());
/// let mut batch = Batch::new();
/// batch.release_after(request.granted(FencingToken::new(1)), Term::new(Duration::from_secs(5))?);
/// let asked = batch.releases()[0].asked();
/// assert_eq!((asked.lease().name(), asked.rest().map(Term::get)), (request.name(), Some(Duration::from_secs(5))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseReturn {
    lease: Lease,
    rest: Option<Term>,
}

impl LeaseReturn {
    /// The lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// How much longer the name stays held, whether or not this process lives; `None`: it is free at once.
    pub fn rest(&self) -> Option<Term> {
        self.rest
    }

    pub(crate) fn attempted(&self) -> String {
        attempted_release(&self.lease)
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a lease to be given back.
    pub fn release(&mut self, lease: Lease) {
        self.give_back(lease, None);
    }

    /// Asks for a lease to be given back `rest` from now.
    pub fn release_after(&mut self, lease: Lease, rest: Term) {
        self.give_back(lease, Some(rest));
    }

    #[inline]
    pub(crate) fn give_back(&mut self, lease: Lease, rest: Option<Term>) {
        self.releases.push(Slot::new(LeaseReturn { lease, rest }));
    }

    /// Asks for an admission.
    #[inline]
    pub fn admit(&mut self, admission: Admission) {
        self.admissions.push(Slot::new(admission));
    }

    /// The leases to give back. The answer is whether the lease was still its owner's.
    pub fn releases(&self) -> &[Slot<LeaseReturn, bool>] {
        &self.releases
    }

    /// The admissions, which are decided after the releases.
    pub fn admissions(&self) -> &[Slot<Admission, Admitted>] {
        &self.admissions
    }

    /// Both, for a store that answers them.
    #[expect(clippy::type_complexity, reason = "two slices, and no type that says more")]
    pub fn slots_mut(&mut self) -> (&mut [Slot<LeaseReturn, bool>], &mut [Slot<Admission, Admitted>]) {
        (&mut self.releases, &mut self.admissions)
    }

    /// Whether nothing is asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.admissions.is_empty()
    }

    /// The first answer that says that the store as a whole is out.
    pub(crate) fn outage(&self) -> Option<&MutexError> {
        let of_releases = self.releases.iter().find_map(Slot::outage);
        of_releases.or_else(|| self.admissions.iter().find_map(Slot::outage))
    }

    /// Takes the answer to an admission, by its place.
    #[inline]
    pub(crate) fn take_admission(&mut self, at: usize) -> Result<Admitted, MutexError> {
        self.admissions[at].take_answer(|asked| no_answer(asked.attempted(), None))
    }

    /// Takes the answer to a release, by its place: how it went. A failure is logged.
    #[inline]
    pub(crate) fn take_release(&mut self, at: usize) -> Release {
        let slot = &mut self.releases[at];
        let answer = slot.take_answer(|asked| no_answer(asked.attempted(), None));
        released(&slot.asked().lease, slot.asked().rest, answer)
    }

    /// Takes the answers to all releases, of which nobody waits for one: failures are logged.
    pub(crate) fn log_releases(&mut self) {
        (0..self.releases.len()).for_each(|at| drop(self.take_release(at)));
    }

    /// Forgets what was asked and answered; its memory stays for the next.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.releases.clear();
        self.admissions.clear();
    }

    /// Decides on the admissions that have no answer, one after another. After an outage the store is not asked any more.
    pub(crate) fn admit_each(
        &mut self,
        outage: &mut Option<MutexError>,
        admit: impl Fn(&Admission) -> Result<Admitted, MutexError>,
    ) {
        answer_each(&mut self.admissions, outage, Admission::attempted, admit);
    }

    /// Refuses the admissions because of the store's `first` error, and asks for the releases alone.
    pub(crate) fn without_admissions(&mut self, first: &MutexError, ask: impl FnOnce(&mut Self)) {
        let mut admissions = mem::take(&mut self.admissions);
        for slot in &mut admissions {
            slot.fill(Err(MutexError::not_asked_again(slot.asked().attempted(), first)));
        }
        ask(self);
        self.admissions = admissions;
    }
}

/// The error for a slot that the store left empty, because it panicked or for reasons of its own.
pub(crate) fn no_answer(attempted: String, panic: Option<&Arc<str>>) -> MutexError {
    match panic {
        Some(message) => MutexError::panicked(attempted, message),
        None => MutexError::unusable(attempted, "the store gave no answer"),
    }
}

pub(crate) fn attempted_release(lease: &Lease) -> String {
    format!("forget {}", lease.name())
}

/// What a store's answer to the release of this lease means. A failure is told here, because a drop has nobody else to tell.
#[inline]
pub(crate) fn released(lease: &Lease, rest: Option<Term>, answer: Result<bool, MutexError>) -> Release {
    if let Err(error) = &answer {
        log(&Incident::NotReleased { mutex: lease.name(), error });
    }
    Release::of(rest, answer)
}
