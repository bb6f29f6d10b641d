//! The protections that an event asks for, and their validation.

use std::sync::Arc;
use std::time::Duration;

use super::overlap::{MOST_PLACES, Overlap, Queue, WAITS};
use super::{CATCH_UP_WINDOWS, Claim, LeaseTerms, Protection, SLOTS};
use crate::event::add_error::AddErrorKind;
use crate::event::outage_policy::OutagePolicy;
use crate::lease::name::MutexName;
use crate::lease::term::{Renewal, SHORTEST_RENEWED, Term};
use crate::time::period::Period;

/// The protections that an event asks for, as its builder was told, not validated yet.
#[derive(Debug, Default)]
pub(in crate::event) struct ProtectionRequest {
    /// Whether it has a lease that is renewed.
    pub(in crate::event) renewed: bool,
    pub(in crate::event) at_most: Option<usize>,
    pub(in crate::event) fixed_term: Option<Duration>,
    pub(in crate::event) lease_term: Option<Duration>,
    pub(in crate::event) hold_at_least: Option<Duration>,
    pub(in crate::event) on_outage: Option<OutagePolicy>,
    pub(in crate::event) one_server: bool,
    pub(in crate::event) once_per: Option<Period>,
    pub(in crate::event) catch_up: Option<Duration>,
    pub(in crate::event) mutex_name: Option<Arc<str>>,
    pub(in crate::event) on_overlap: Option<Overlap>,
    pub(in crate::event) within: Option<Duration>,
}

impl ProtectionRequest {
    /// The validated protections of the event whose name is `own_name`, and whose claims may be asked for in this window.
    pub(in crate::event) fn validate(
        self,
        own_name: MutexName,
        usual_term: Term,
        claim_window: Duration,
        has_own_mutex: bool,
    ) -> Result<Protection, AddErrorKind> {
        if let Some(count) = self.at_most.filter(|count| !SLOTS.contains(count)) {
            return Err(AddErrorKind::AtMost(count));
        }
        let lease = self.lease_terms(usual_term)?;
        let mutex_name = self.mutex_name.map(MutexName::readable).transpose().map_err(AddErrorKind::MutexName)?;
        if mutex_name.is_some() && lease.is_none() {
            return Err(AddErrorKind::MutexNameWithoutLease);
        }
        let is_shared = mutex_name.is_some();
        let mutex = mutex_name.unwrap_or(own_name);
        let queue = queue(self.on_overlap, self.within, claim_window, &mutex, lease)?;
        let replaces = queue.as_ref().is_some_and(|queue| queue.replaces);
        if is_shared && replaces {
            return Err(AddErrorKind::ReplaceOfOthers);
        }
        if self.at_most.is_some() && replaces {
            return Err(AddErrorKind::ReplaceOfOneOfMany);
        }
        let slots = self.at_most.map_or_else(Vec::new, |count| mutex.slots(count));
        let on_outage = self.on_outage.unwrap_or_default();
        let each = (self.one_server || queue.is_some()).then_some(Claim::Occurrence);
        let claim = self.once_per.map(Claim::Period).or(each);
        if let Some(window) = self.catch_up {
            if !CATCH_UP_WINDOWS.contains(&window) {
                return Err(AddErrorKind::CatchUp(window));
            }
            if claim.is_none() {
                return Err(AddErrorKind::CatchUpWithoutClaim);
            }
            if on_outage == OutagePolicy::RunUnprotected {
                return Err(AddErrorKind::CatchUpUnprotected);
            }
        }
        let protection = Protection { mutex, lease, slots, claim, queue, on_outage };
        match protection.is_some() {
            false if has_own_mutex => Err(AddErrorKind::MutexWithoutProtection),
            false if self.on_outage.is_some() => Err(AddErrorKind::OutageWithoutProtection),
            _ => Ok(protection),
        }
    }

    fn lease_terms(&self, usual_term: Term) -> Result<Option<LeaseTerms>, AddErrorKind> {
        let at_least = |length| Term::new(length).map_err(|_| AddErrorKind::HoldAtLeast(length));
        let at_least = self.hold_at_least.map(at_least).transpose()?;
        let term_of = |term| Term::new(term).map_err(AddErrorKind::Term);
        let (term, renewal) = match (self.renewed || self.at_most.is_some(), self.fixed_term, self.lease_term) {
            (true, Some(_), _) => return Err(AddErrorKind::RenewedAndFixed),
            (false, _, Some(_)) => return Err(AddErrorKind::LeaseTermWithoutRenewal),
            (false, None, None) if at_least.is_some() => return Err(AddErrorKind::HoldAtLeastWithoutLease),
            (false, None, None) => return Ok(None),
            (false, Some(term), None) => (term_of(term)?, Renewal::Never),
            (true, None, term) => (term.map_or(Ok(usual_term), term_of)?, Renewal::WhileItRuns),
        };
        if renewal == Renewal::WhileItRuns && term.get() < SHORTEST_RENEWED {
            return Err(AddErrorKind::TooShortToRenew(term));
        }
        // A fixed term can end while the task runs, so it has to cover the time for which the lease is held at least.
        if renewal == Renewal::Never
            && let Some(at_least) = at_least.filter(|at_least| *at_least > term)
        {
            return Err(AddErrorKind::HoldAtLeastBeyondTerm { at_least: at_least.get(), term: term.get() });
        }
        Ok(Some(LeaseTerms { term, renewal, at_least }))
    }
}

fn queue(
    on_overlap: Option<Overlap>,
    within: Option<Duration>,
    claim_window: Duration,
    mutex: &MutexName,
    lease: Option<LeaseTerms>,
) -> Result<Option<Queue>, AddErrorKind> {
    let on_overlap = on_overlap.unwrap_or_default();
    let Some(places) = on_overlap.places() else {
        return if within.is_some() { Err(AddErrorKind::WithinWithoutQueue) } else { Ok(None) };
    };
    if !(1..=MOST_PLACES).contains(&places) {
        return Err(AddErrorKind::QueueLength(places));
    }
    if let Some(within) = within.filter(|within| !WAITS.contains(within)) {
        return Err(AddErrorKind::Within(within));
    }
    let lease = lease.ok_or(AddErrorKind::OverlapWithoutLease)?;
    let term = if lease.renewal == Renewal::WhileItRuns { lease.term } else { Term::DEFAULT };
    let within = within.unwrap_or(claim_window);
    Ok(Some(Queue { places: Queue::places(mutex, places), term, within, replaces: on_overlap == Overlap::Replace }))
}
