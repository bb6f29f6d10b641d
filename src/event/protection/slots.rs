//! The leases of an event: one, or the slots of `at_most`, where each run holds one slot; and the admissions that ask
//! for them.

use std::ops::RangeInclusive;
use std::slice;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Protection;
use crate::lease::{label::Label, name::MutexName, owner::Owner, request::LeaseRequest, term::Term};
use crate::store::event_mutex::admission::Admission;
use crate::time::clock::moment::Moment;

/// The numbers of runs at a time that `at_most` allows.
pub(crate) const SLOTS: RangeInclusive<usize> = 1..=100;

/// The term of the claim of one attempt: longer than a store may take to answer.
const ATTEMPT: Term = Term::DEFAULT;

impl Protection {
    /// Returns the names of the leases: several where several runs may run at a time. A run holds any one of them.
    pub(crate) fn leases(&self) -> &[MutexName] {
        match (self.lease, &self.slots[..]) {
            (None, _) => &[],
            (Some(_), []) => slice::from_ref(&self.mutex),
            (Some(_), slots) => slots,
        }
    }

    /// Returns how many admissions one run asks for.
    #[inline]
    pub(crate) fn alternatives(&self) -> usize {
        self.slots.len().max(1)
    }

    /// Calls `ask` with each admission of one run at `now`, labelled with `label`. The run needs only one of them.
    /// `occurrence` and `claim`: `None` for a run by hand.
    #[inline]
    pub(crate) fn each_admission(
        &self,
        occurrence: Option<DateTime<Utc>>,
        claim: Option<(MutexName, Term)>,
        label: Option<&Arc<Label>>,
        now: Moment,
        mut ask: impl FnMut(Admission),
    ) {
        let request = |name, term| {
            let request = LeaseRequest::asked_at(name, term, now).labelled(label);
            if let Some(occurrence) = occurrence { request.for_occurrence(occurrence) } else { request }
        };
        if self.slots.is_empty() {
            return self.admission(&self.mutex, claim, request).into_iter().for_each(ask);
        }
        // Where one slot is granted with a claim, no other is.
        let claim = claim.unwrap_or_else(|| self.claim_of_one_attempt());
        for slot in &self.slots {
            self.admission(slot, Some(claim.clone()), request).into_iter().for_each(&mut ask);
        }
    }

    #[inline]
    fn admission(
        &self,
        lease: &MutexName,
        claim: Option<(MutexName, Term)>,
        request: impl Fn(MutexName, Term) -> LeaseRequest,
    ) -> Option<Admission> {
        match (self.lease.map(|lease| lease.term), claim) {
            (None, None) => None,
            (Some(term), None) => Some(Admission::lease_only(request(lease.clone(), term))),
            (None, Some((claim, term))) => Some(Admission::claim_only(request(claim, term))),
            (Some(term), Some((claim, claim_term))) => {
                let lease = request(lease.clone(), term);
                let claim = lease.with(claim, claim_term);
                Some(Admission::both(lease, claim))
            }
        }
    }

    /// Returns a claim that no other run makes.
    fn claim_of_one_attempt(&self) -> (MutexName, Term) {
        (self.mutex.mark(self.mutex.mutex(), format!("attempt {}", Owner::unique())), ATTEMPT)
    }
}
