//! The validated protections of an event, and the admission that a run asks its store for.

use std::fmt;
use std::ops::RangeInclusive;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::add_error::{AddErrorKind, Refusal};
use super::outage_policy::OutagePolicy;
use crate::lease::term::{Renewal, Term};
use crate::lease::{label::Label, name::MutexName, owner::Owner, request::LeaseRequest};
use crate::store::event_mutex::admission::Admission;
use crate::time::{clock::moment::Moment, clock::shown::HumanDuration, period::Period, tick::Tick, zone::Zone};

pub(crate) mod overlap;
pub(super) mod protection_request;

use overlap::Queue;

/// The lease that an event asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTerms {
    pub(crate) term: Term,
    pub(crate) renewal: Renewal,
    /// How long it is held at least, even if the task ends earlier.
    pub(crate) at_least: Option<Term>,
}

/// What an event claims with each admission, so that no other server runs it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// Each occurrence.
    Occurrence,
    Period(Period),
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occurrence => f.write_str("each"),
            Self::Period(period) => write!(f, "once per {period:?}"),
        }
    }
}

/// The event and the time that the name of a claim is made from.
#[derive(Clone, Copy)]
pub(crate) struct Claimant<'a> {
    pub(crate) event: &'a Arc<str>,
    pub(crate) tick: &'a Tick,
    pub(crate) zone: &'a Zone,
    /// For how long after its tick began the claim may be asked for.
    pub(crate) window: Duration,
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// For how long after its tick began an event with this period may ask for its claim, without `catch_up`.
pub(crate) fn claim_window(period: Duration) -> Duration {
    (period * 10).clamp(MINUTE, 60 * MINUTE)
}

/// How many runs there may be at a time, if not one.
pub(crate) const SLOTS: RangeInclusive<usize> = 1..=100;

/// The windows that `catch_up` allows: not less than from one tick to the next.
pub(crate) const CATCH_UP_WINDOWS: RangeInclusive<Duration> = MINUTE..=Duration::from_secs(366 * 24 * 60 * 60);

/// How many claims of one event a store keeps at most: each of them costs every decision on files, and memory in the other stores.
const MOST_LIVE_CLAIMS: u128 = 50_000;

/// How much longer than its window a claim is kept, for servers whose clocks differ.
pub(crate) const CLAIM_MARGIN: Duration = Duration::from_secs(5 * 60);

impl LeaseTerms {
    /// Whether the store must be able to change the end of a granted lease.
    pub(crate) fn need_extension(self) -> bool {
        self.renewal == Renewal::WhileItRuns || self.at_least.is_some()
    }
}

/// The validated protections of one event.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    /// The name of the lease. Stores keep the claims beside it.
    pub(crate) mutex: MutexName,
    pub(crate) lease: Option<LeaseTerms>,
    /// The leases, any of which a run may hold, where several runs may be at work: the first is `mutex`. Empty where one run may.
    pub(crate) slots: Vec<MutexName>,
    pub(crate) claim: Option<Claim>,
    /// Where an occurrence waits that meets a run; `None`: it is skipped.
    pub(crate) queue: Option<Queue>,
    pub(crate) on_outage: OutagePolicy,
}

impl Protection {
    pub(crate) fn is_some(&self) -> bool {
        self.lease.is_some() || self.claim.is_some()
    }

    /// Returns the names of the leases, any of which a run may hold: several where several runs may be at work.
    pub(crate) fn leases(&self) -> &[MutexName] {
        match (self.lease, &self.slots[..]) {
            (None, _) => &[],
            (Some(_), []) => slice::from_ref(&self.mutex),
            (Some(_), slots) => slots,
        }
    }

    /// In the words that ask for them, one by one.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(LeaseTerms { term, renewal, at_least }) = self.lease {
            let (term, slots) = (HumanDuration(term.get()), self.slots.len());
            words.push(match renewal {
                Renewal::WhileItRuns if slots > 1 => format!("at_most {slots}, leases of {term}, renewed"),
                Renewal::WhileItRuns => format!("without_overlapping, lease of {term}, renewed"),
                Renewal::Never if slots > 1 => format!("at_most {slots}, leases of {term}"),
                Renewal::Never => format!("without_overlapping_for {term}"),
            });
            words.extend(at_least.map(|at_least| format!("hold_at_least {}", HumanDuration(at_least.get()))));
        }
        words.extend(self.claim.as_ref().map(|claim| match claim {
            Claim::Occurrence => "on_one_server".to_owned(),
            period @ Claim::Period(_) => period.to_string().replace("once per", "once_per"),
        }));
        words.extend(self.queue.as_ref().map(Queue::in_words));
        if self.on_outage == OutagePolicy::RunUnprotected {
            words.push("on_outage RunUnprotected".to_owned());
        }
        words
    }

    /// Returns whether another run may replace one of this event.
    #[inline]
    pub(crate) fn is_replaceable(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.replaces)
    }

    /// Refuses an event that would have too many claims at a time: one for each of its occurrences until the claim expires.
    pub(crate) fn check_live_claims(&self, window: Duration, period: Duration) -> Result<(), Refusal> {
        let live = (window + CLAIM_MARGIN).as_nanos() / period.as_nanos().max(1);
        match self.claim {
            Some(Claim::Occurrence) if live > MOST_LIVE_CLAIMS => Err(AddErrorKind::Conflict.because(format_args!(
                "an occurrence every {period:?} that may wait for {window:?} leaves more than 50,000 claims in the store at \
                 a time: let it wait for less with `within(..)`, or let it be due less often"
            ))),
            _ => Ok(()),
        }
    }

    /// The name of the claim of one run, and its term: to the end of the occurrence or period, then the window and its
    /// margin.
    pub(crate) fn claim(&self, Claimant { event, tick, zone, window }: Claimant<'_>) -> Option<(MutexName, Term)> {
        let (event, occurrence) = (Arc::clone(event), tick.occurrence());
        let (name, rest) = match self.claim? {
            Claim::Occurrence => (self.mutex.claim(event, occurrence), Duration::ZERO),
            Claim::Period(period) => {
                let permit = period.at(occurrence, zone);
                let rest = (permit.end - tick.now()).to_std().unwrap_or_default();
                (self.mutex.permit(event, permit.period), rest)
            }
        };
        Some((name, Term::new(rest + window + CLAIM_MARGIN).unwrap_or(Term::MAX)))
    }

    /// Calls `ask` with each admission that one run asks the store for at `now`, with this label: the run wants one of them.
    /// `claimant`: `None` for a run by hand.
    #[inline]
    pub(crate) fn each_admission(
        &self,
        claimant: Option<Claimant<'_>>,
        label: Option<&Arc<Label>>,
        now: Moment,
        mut ask: impl FnMut(Admission),
    ) {
        let occurrence = claimant.map(|claimant| claimant.tick.occurrence());
        let request = |name, term| {
            let request = LeaseRequest::asked_at(name, term, now).labelled(label);
            if let Some(occurrence) = occurrence { request.for_occurrence(occurrence) } else { request }
        };
        let claim = claimant.and_then(|claimant| self.claim(claimant));
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

    /// How many admissions one run asks for.
    #[inline]
    pub(crate) fn alternatives(&self) -> usize {
        self.slots.len().max(1)
    }

    /// A claim that nobody else makes.
    fn claim_of_one_attempt(&self) -> (MutexName, Term) {
        (self.mutex.mark(self.mutex.mutex(), format!("attempt {}", Owner::unique())), ATTEMPT)
    }
}

/// For how long the claim of one attempt is kept: longer than a store may take to answer.
const ATTEMPT: Term = Term::DEFAULT;
