//! The protections that an event asks for, and their validation.

use std::sync::Arc;
use std::time::Duration;

use super::claim::Claim;
use super::overlap::Overlap;
use super::queue_markers::{MOST_PLACES, Queue, WAITS};
use super::{ALL_OCCURRENCES, CATCH_UP_WINDOWS, LeaseTerms, OutagePolicy, Protection, SLOTS};
use crate::event::add_error::{AddErrorKind, Refusal, checked_term, out_of_range};
use crate::lease::name::{InvalidName, MutexName};
use crate::lease::term::{Renewal, SHORTEST_RENEWED, Term};
use crate::time::{clock::shown::ExactDuration, period::Period};

/// The protections that the builder's methods have set, before their validation.
#[derive(Debug, Default)]
pub(in crate::event) struct ProtectionRequest {
    /// Whether `without_overlapping` was called.
    pub(in crate::event) renewed: bool,
    pub(in crate::event) at_most: Option<usize>,
    pub(in crate::event) fixed_term: Option<Duration>,
    pub(in crate::event) lease_term: Option<Duration>,
    pub(in crate::event) hold_at_least: Option<Duration>,
    pub(in crate::event) on_outage: Option<OutagePolicy>,
    pub(in crate::event) one_server: bool,
    pub(in crate::event) once_per: Option<Period>,
    pub(in crate::event) catch_up: Option<Duration>,
    pub(in crate::event) catch_up_all: Option<(Duration, usize)>,
    pub(in crate::event) mutex_name: Option<Arc<str>>,
    pub(in crate::event) on_overlap: Option<Overlap>,
    pub(in crate::event) within: Option<Duration>,
}

impl ProtectionRequest {
    /// Returns the validated protections of the event with the name `own_name`. `claim_window` is the event's usual
    /// claim window. `has_own_mutex` is whether the event has a store of its own.
    pub(in crate::event) fn validate(
        self,
        own_name: MutexName,
        usual_term: Duration,
        claim_window: Duration,
        has_own_mutex: bool,
    ) -> Result<Protection, Refusal> {
        if let Some(count) = self.at_most.filter(|count| !SLOTS.contains(count)) {
            return Err(AddErrorKind::OutOfRange.because(format_args!("`at_most({count})`: use 1 to 100")));
        }
        if self.renewed
            && let Some(count) = self.at_most.filter(|count| *count > 1)
        {
            return Err(AddErrorKind::Conflict.because(format_args!(
                "it has a `without_overlapping()`, which allows one run at a time, and an `at_most({count})`, which allows \
                 {count}: leave out one of the two"
            )));
        }
        let lease = self.lease_terms(usual_term)?;
        let invalid = |error: InvalidName| AddErrorKind::Name.because(error.of("the `mutex_name(..)`"));
        let mutex_name = self.mutex_name.map(MutexName::readable).transpose().map_err(invalid)?;
        if mutex_name.is_some() && lease.is_none() {
            return Err(missing("it has a `mutex_name(..)`, but no lease: add `without_overlapping()`"));
        }
        let is_shared = mutex_name.is_some();
        let mutex = mutex_name.unwrap_or(own_name);
        let queue = queue(self.on_overlap, self.within, claim_window, &mutex, lease)?;
        let replaces = queue.as_ref().is_some_and(|queue| queue.replaces);
        if is_shared && replaces {
            return Err(conflict(
                "it has an `Overlap::Replace`, and a `mutex_name(..)` by which it would cancel runs of other events: leave \
                 out one of the two",
            ));
        }
        let slots = mutex.slots(self.at_most.unwrap_or(1));
        if slots.len() > 1 && replaces {
            return Err(conflict(
                "it has an `at_most(..)`, and an `Overlap::Replace`, which can't tell which of several runs is to stop: \
                 leave out one of the two",
            ));
        }
        let on_outage = self.on_outage.unwrap_or_default();
        let each = (self.one_server || queue.is_some()).then_some(Claim::Occurrence);
        let claim = self.once_per.map(Claim::Period).or(each);
        let all = self.catch_up_all.map(|(window, _)| ("catch_up_all", window));
        if let Some((method, window)) = self.catch_up.map(|window| ("catch_up", window)).or(all) {
            if !CATCH_UP_WINDOWS.contains(&window) {
                return Err(out_of_range(method, window, *CATCH_UP_WINDOWS.start(), "a year"));
            }
            if claim.is_none() {
                let or_period = if method == "catch_up" { " or `once_per(..)`" } else { "" };
                return Err(AddErrorKind::Missing.because(format_args!(
                    "it has a `{method}(..)`, but no claims that show which occurrences were run: add `on_one_server()`{or_period}"
                )));
            }
            if on_outage == OutagePolicy::RunUnprotected {
                return Err(AddErrorKind::Conflict.because(format_args!(
                    "it has a `{method}(..)` and `on_outage(OutagePolicy::RunUnprotected)`: an occurrence that \
                     ran without a claim would run again after the outage: leave out one of the two"
                )));
            }
        }
        if let Some((_, most)) = self.catch_up_all {
            if self.catch_up.is_some() {
                return Err(conflict("it has a `catch_up(..)` and a `catch_up_all(..)`: leave out one of the two"));
            }
            if !ALL_OCCURRENCES.contains(&most) {
                return Err(AddErrorKind::OutOfRange.because(format_args!(
                    "`catch_up_all(.., {most})`: use 2 to 1,000 occurrences; for one, use `catch_up(..)`"
                )));
            }
            if self.once_per.is_some() {
                return Err(conflict(
                    "it has a `once_per(..)`, which is one run for many occurrences, and a `catch_up_all(..)`, which runs each \
                     of them: write `on_one_server()` instead of `once_per(..)`, or, for the latest occurrence alone, `catch_up(..)`",
                ));
            }
        }
        let protection = Protection { mutex, lease, slots, claim, queue, on_outage };
        match protection.is_some() {
            false if has_own_mutex => Err(missing(
                "it has a `mutex(..)`, but no protection that uses this store: add `without_overlapping()`, \
                 `on_one_server()` or `once_per(..)`",
            )),
            false if self.on_outage.is_some() => Err(missing(
                "it has an `on_outage(..)`, but no protection that uses a store: add `without_overlapping()`, \
                 `on_one_server()` or `once_per(..)`",
            )),
            _ => Ok(protection),
        }
    }

    fn lease_terms(&self, usual_term: Duration) -> Result<Option<LeaseTerms>, Refusal> {
        let at_least = self.hold_at_least.map(|length| checked_term("hold_at_least", length)).transpose()?;
        let (term, renewal) = match (self.renewed || self.at_most.is_some(), self.fixed_term, self.lease_term) {
            (true, Some(_), _) => {
                return Err(conflict(
                    "it has a `without_overlapping()` or an `at_most(..)`, whose lease is renewed, and a \
                     `without_overlapping_for(..)`, whose lease is not: leave one of the two out",
                ));
            }
            (false, _, Some(_)) => {
                return Err(missing(
                    "it has a `lease_term(..)`, but no lease that is renewed: add `without_overlapping()`, or set a \
                     fixed term with `without_overlapping_for(..)` alone",
                ));
            }
            (false, None, None) if at_least.is_some() => {
                return Err(missing("it has a `hold_at_least(..)`, but no lease: add `without_overlapping()`"));
            }
            (false, None, None) => return Ok(None),
            (false, Some(term), None) => (checked_term("without_overlapping_for", term)?, Renewal::Never),
            (true, None, None) => (renewed_term("Schedule::with_lease_term", usual_term)?, Renewal::WhileItRuns),
            (true, None, Some(term)) => (renewed_term("lease_term", term)?, Renewal::WhileItRuns),
        };
        // A lease with a fixed term is not renewed. If the term were shorter than the minimum hold, the lease could end
        // before the minimum hold is over.
        if renewal == Renewal::Never
            && let Some(at_least) = at_least.filter(|at_least| *at_least > term)
        {
            let [at_least, term] = [at_least.get(), term.get()].map(ExactDuration);
            return Err(AddErrorKind::Conflict.because(format_args!(
                "it has a `hold_at_least({at_least})`, and a `without_overlapping_for({term})`, which ends the lease before \
                 that: choose a `without_overlapping_for(..)` of {at_least} or more, or use `without_overlapping()`, whose lease is renewed"
            )));
        }
        Ok(Some(LeaseTerms { term, renewal, at_least }))
    }
}

/// Returns the term of a lease that is renewed. The term was passed to `method`.
fn renewed_term(method: &str, term: Duration) -> Result<Term, Refusal> {
    let long_enough = Term::new(term).ok().filter(|term| SHORTEST_RENEWED <= term.get());
    long_enough.ok_or_else(|| {
        let [term, least] = [term, SHORTEST_RENEWED].map(ExactDuration);
        AddErrorKind::OutOfRange.because(format_args!(
            "`{method}({term})`: use {least} to ten years; a running task renews its lease, and the term is how long a \
             killed process blocks the event"
        ))
    })
}

fn missing(message: &str) -> Refusal {
    AddErrorKind::Missing.because(message)
}

fn conflict(message: &str) -> Refusal {
    AddErrorKind::Conflict.because(message)
}

fn queue(
    on_overlap: Option<Overlap>,
    within: Option<Duration>,
    claim_window: Duration,
    mutex: &MutexName,
    lease: Option<LeaseTerms>,
) -> Result<Option<Queue>, Refusal> {
    let (kind, instead) = match on_overlap {
        Some(_) => (AddErrorKind::Conflict, "write `Overlap::QueueOne` instead of `Overlap::Skip`"),
        None => (AddErrorKind::Missing, "add `on_overlap(Overlap::QueueOne)`"),
    };
    let on_overlap = on_overlap.unwrap_or_default();
    let Some(places) = on_overlap.places() else {
        let Some(within) = within.map(ExactDuration) else { return Ok(None) };
        let message = format_args!("it has a `within({within})`, but its occurrences never wait: {instead}");
        return Err(kind.because(message));
    };
    if !(1..=MOST_PLACES).contains(&places) {
        let message = format_args!("`Overlap::QueueAll({places})`: use 1 to {MOST_PLACES}");
        return Err(AddErrorKind::OutOfRange.because(message));
    }
    if let Some(within) = within.filter(|within| !WAITS.contains(within)) {
        return Err(out_of_range("within", within, *WAITS.start(), "1d"));
    }
    let lease =
        lease.ok_or_else(|| missing("it has an `on_overlap(..)`, but no lease: add `without_overlapping()`"))?;
    let term = if lease.renewal == Renewal::WhileItRuns { lease.term } else { Term::DEFAULT };
    let within = within.unwrap_or(claim_window);
    Ok(Some(Queue { places: Queue::places(mutex, places), term, within, replaces: on_overlap == Overlap::Replace }))
}
