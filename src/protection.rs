//! What an event asks of the gate.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::clock::Clock;
use crate::lease::{LeaseRequest, MutexName, Term};
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
        claimed: Option<(&std::sync::Arc<str>, DateTime<Utc>)>,
        clock: &Clock,
    ) -> Option<Admission> {
        let claim = claimed.filter(|_| self.one_server).map(|(event, occurrence)| {
            (self.mutex.claim(std::sync::Arc::clone(event), occurrence), Self::claim_term())
        });
        match (self.lease, claim) {
            (None, None) => None,
            (Some(term), None) => Some(Admission::lease_only(LeaseRequest::new(self.mutex.clone(), term, clock))),
            (None, Some((name, term))) => Some(Admission::claim_only(LeaseRequest::new(name, term, clock))),
            (Some(term), Some((claim, claim_term))) => {
                let lease = LeaseRequest::new(self.mutex.clone(), term, clock);
                let claim = lease.with(claim, claim_term);
                Some(Admission::both(lease, claim))
            }
        }
    }
}
