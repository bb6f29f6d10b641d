//! The validated protections of an event: its lease, its claim, its queue, and its outage policy. With
//! `at_most`, each lease is a slot.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::lease::term::{Renewal, Term};
use crate::lease::{name::MutexName, owner::Owner};
use crate::time::clock::shown::HumanDuration;

pub(crate) mod backfill_claims;
pub(crate) mod claim;
pub(crate) mod overlap;
pub(super) mod protection_request;
pub(crate) mod queue_markers;

use claim::{Claim, MINUTE};
use queue_markers::Queue;

/// The term, the renewal and the minimum hold of an event's lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTerms {
    pub(crate) term: Term,
    pub(crate) renewal: Renewal,
    /// The minimum hold: the lease is held for at least this long, even if the task ends earlier.
    pub(crate) at_least: Option<Term>,
}

/// The values of `count` that `at_most` accepts.
pub(crate) const SLOTS: RangeInclusive<usize> = 1..=100;

/// The term of the claim in `claim_of_one_attempt`. No store takes this long to answer.
const ATTEMPT: Term = Term::DEFAULT;

/// The values of `most` that `catch_up_all` accepts.
pub(crate) const ALL_OCCURRENCES: RangeInclusive<usize> = 2..=1000;

/// The windows that `catch_up` accepts. Ticks come once a minute, and a shorter window could fall between two ticks.
pub(crate) const CATCH_UP_WINDOWS: RangeInclusive<Duration> = MINUTE..=Duration::from_secs(366 * 24 * 60 * 60);

impl LeaseTerms {
    /// Returns whether the store must be able to move the deadline of a granted lease.
    pub(crate) fn need_extension(self) -> bool {
        self.renewal == Renewal::WhileItRuns || self.at_least.is_some()
    }
}

/// The validated protections of one event.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    /// The name of the lease. The names of the event's claims contain it.
    pub(crate) mutex: MutexName,
    pub(crate) lease: Option<LeaseTerms>,
    /// The names of the slots: `mutex` and, with `at_most`, further names. A run requests an admission for each slot,
    /// and holds one of them.
    pub(crate) slots: Vec<MutexName>,
    pub(crate) claim: Option<Claim>,
    /// The queue for occurrences that are due while a run is running. `None`: such an occurrence is skipped.
    pub(crate) queue: Option<Queue>,
    pub(crate) on_outage: OutagePolicy,
}

impl Protection {
    pub(crate) fn is_some(&self) -> bool {
        self.lease.is_some() || self.claim.is_some()
    }

    /// Returns a text for each protection, as in `without_overlapping, lease of 1 min 0 s, renewed`.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(LeaseTerms { term, renewal, at_least }) = self.lease {
            let (term, slots) = (HumanDuration(term.get()), self.slots.len());
            words.push(match renewal {
                Renewal::WhileItRuns if slots > 1 => format!("at_most {slots}, leases of {term}, renewed"),
                Renewal::WhileItRuns => format!("without_overlapping, lease of {term}, renewed"),
                Renewal::Never => format!("without_overlapping_for {term}"),
            });
            words.extend(at_least.map(|at_least| format!("hold_at_least {}", HumanDuration(at_least.get()))));
        }
        words.extend(self.claim.as_ref().map(Claim::to_string));
        words.extend(self.queue.as_ref().map(Queue::in_words));
        if self.on_outage == OutagePolicy::RunUnprotected {
            words.push("on_outage RunUnprotected".to_owned());
        }
        words
    }

    /// Returns the names of the event's leases: the name of each slot, or no name.
    pub(crate) fn leases(&self) -> &[MutexName] {
        if self.lease.is_some() { &self.slots } else { &[] }
    }

    /// Returns a claim with a unique name, so that no other run makes this claim.
    pub(crate) fn claim_of_one_attempt(&self) -> (MutexName, Term) {
        (self.mutex.mark(self.mutex.mutex(), format!("attempt {}", Owner::unique())), ATTEMPT)
    }
}

/// The behaviour of an event at an outage, when its store can't say whether the event may run; see
/// [`Event::on_outage`](crate::Event::on_outage).
///
/// ```
/// use soloist::{Event, OutagePolicy};
///
/// let event = Event::call("heartbeat", |_| {}).every_minute().without_overlapping().on_outage(OutagePolicy::RunUnprotected);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutagePolicy {
    /// The event does not run. The report says why, and counts as a [failure](crate::Report::is_failure).
    #[default]
    Skip,
    /// The event runs without a lease and without a fencing token, so two of its runs can overlap. Each such run is
    /// logged as a warning and marked in the report. The report counts as a [failure](crate::Report::is_failure), so
    /// that the outage is noticed. A schedule with a [name](crate::Schedule::named) also reads its pauses from the
    /// store. If the pauses can't be read, the event is skipped, unless the event is
    /// [`even_when_paused`](crate::Event::even_when_paused).
    RunUnprotected,
}
