//! What an event asks of the gate.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::clock::Clock;
use crate::lease::{LeaseRequest, MutexName, Owners, Term};
use crate::mutex::Admission;

/// The lease of `without_overlapping()`.
pub(crate) const DEFAULT_TERM: Duration = Duration::from_secs(60 * 60);

/// How long after its tick began an event may still ask for its occurrence: as long as every claim lives for certain.
pub(crate) const CLAIM_WINDOW: Duration = Duration::from_secs(60 * 60);

/// What a claim outlives the window by, so that servers whose ticks or clocks differ still meet it.
const CLAIM_MARGIN: Duration = Duration::from_secs(5 * 60);

/// The protections of one event, with their names made once.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    /// The name of the lease, and what the claims are kept beside.
    pub(crate) mutex: MutexName,
    pub(crate) lease: Option<Term>,
    pub(crate) one_server: bool,
}

impl Protection {
    /// The claim's term: the window and its margin.
    fn claim_term() -> Term {
        Term::new(CLAIM_WINDOW + CLAIM_MARGIN).expect("65 minutes lie between a millisecond and ten years")
    }

    pub(crate) fn is_some(&self) -> bool {
        self.lease.is_some() || self.one_server
    }

    /// What one run asks the store for. `claimed`: the event and the occurrence, unless it is run by hand.
    pub(crate) fn admission(
        &self,
        claimed: Option<(&Arc<str>, DateTime<Utc>)>,
        owners: Owners,
        clock: &Clock,
    ) -> Option<Admission> {
        let claim = claimed.filter(|_| self.one_server);
        let claim = claim.map(|(event, occurrence)| self.mutex.claim(Arc::clone(event), occurrence));
        let request = |name, term| LeaseRequest::by(owners, name, term, clock);
        match (self.lease, claim) {
            (None, None) => None,
            (Some(term), None) => Some(Admission::lease_only(request(self.mutex.clone(), term))),
            (None, Some(claim)) => Some(Admission::claim_only(request(claim, Self::claim_term()))),
            (Some(term), Some(claim)) => {
                let lease = request(self.mutex.clone(), term);
                let claim = lease.with(claim, Self::claim_term());
                Some(Admission::both(lease, claim))
            }
        }
    }
}
