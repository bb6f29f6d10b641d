//! The names of an event's leases, and the admissions that request a lease. With `at_most`, each lease is a slot.

use std::ops::RangeInclusive;
use std::slice;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Protection;
use crate::lease::{label::Label, name::MutexName, owner::Owner, request::LeaseRequest, term::Term};
use crate::store::event_mutex::admission::Admission;
use crate::time::clock::moment::Moment;

/// The values of `count` that `at_most` accepts.
pub(crate) const SLOTS: RangeInclusive<usize> = 1..=100;

/// The term of the claim in `claim_of_one_attempt`. No store takes this long to answer.
const ATTEMPT: Term = Term::DEFAULT;

impl Protection {
    /// Returns the names of the event's leases: no name, one name, or a name for each slot. A run holds one of these
    /// leases.
    pub(crate) fn leases(&self) -> &[MutexName] {
        match (self.lease, &self.slots[..]) {
            (None, _) => &[],
            (Some(_), []) => slice::from_ref(&self.mutex),
            (Some(_), slots) => slots,
        }
    }

    /// Returns how many admissions one run requests: one for each slot, or one if there are no slots.
    #[inline]
    pub(crate) fn alternatives(&self) -> usize {
        self.slots.len().max(1)
    }

    /// Calls `ask` with each admission that a run requests at `now`. The run needs only one of these admissions. For a
    /// run by hand, `occurrence` and `claim` are `None`.
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
        // All admissions of the run have the same claim. A claim is granted only once, so the run gets only one slot.
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

    /// Returns a claim with a unique name, so that no other run makes this claim.
    fn claim_of_one_attempt(&self) -> (MutexName, Term) {
        (self.mutex.mark(self.mutex.mutex(), format!("attempt {}", Owner::unique())), ATTEMPT)
    }
}
