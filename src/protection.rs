//! What an event asks of the gate.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::clock::Clock;
use crate::lease::{LeaseRequest, MutexName, Owners, Term};
use crate::mutex::Admission;

/// A renewed lease of less would keep its store busy, and be lost to any hesitation.
pub(crate) const SHORTEST_RENEWED: Duration = Duration::from_millis(100);

/// What an event does when its store gives no decision; see [`Event::on_outage`](crate::Event::on_outage).
///
/// ```
/// use soloist::{Event, Outage};
///
/// let event = Event::call("heartbeat", |_| {}).every_minute().without_overlapping().on_outage(Outage::RunUnprotected);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outage {
    /// It does not run. The report says why, and the process fails.
    #[default]
    Skip,
    /// It runs all the same, perhaps beside another run of it, here or elsewhere, without a lease and without a fencing
    /// token. Each time there is a warning, the report is marked, and the process fails, so that somebody learns of the
    /// outage.
    RunUnprotected,
}

/// Whether a lease is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    WhileItRuns,
    Never,
}

/// The lease that an event asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTerms {
    pub(crate) term: Term,
    pub(crate) renewal: Renewal,
    /// How long it is held, however soon the task has ended.
    pub(crate) at_least: Option<Term>,
}

/// How long after its tick began an event may still ask for its occurrence: as long as every claim lives for certain.
pub(crate) const CLAIM_WINDOW: Duration = Duration::from_secs(60 * 60);

/// What a claim outlives the window by, so that servers whose ticks or clocks differ still meet it.
const CLAIM_MARGIN: Duration = Duration::from_secs(5 * 60);

impl LeaseTerms {
    /// Whether the store must be able to let a lease end at another time than was said when it was granted.
    pub(crate) fn need_extension(self) -> bool {
        self.renewal == Renewal::WhileItRuns || self.at_least.is_some()
    }
}

/// The protections of one event, with their names made once.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    /// The name of the lease, and what the claims are kept beside.
    pub(crate) mutex: MutexName,
    pub(crate) lease: Option<LeaseTerms>,
    pub(crate) one_server: bool,
    pub(crate) on_outage: Outage,
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
        match (self.lease.map(|lease| lease.term), claim) {
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
