//! The admission of runs: the check of pauses and filters, one request to the store for leases and claims together, and
//! the decision about each run. The request also has the releases of ended runs.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::awaited_runs::await_here;
use super::one_run::{ActiveRun, AdmittedRun, PendingRun};
use crate::base::catch_panic::contain;
use crate::base::error::MutexError;
use crate::event::catch_up::Missed;
use crate::event::definition::Definition;
use crate::event::filter::{Filter, named};
use crate::event::protection::OutagePolicy;
use crate::hold::held_lease::{HeldBy, HeldLease, ReleaseOnDrop};
use crate::hold::renewal_thread::RenewalThread;
use crate::lease::{name::MutexName, request::Lease};
use crate::observe::notice::Step;
use crate::outcome::{run_outcome::OutcomeDetails, skip_reason::SkipReason};
use crate::schedule::run_due::planned_run::PlannedRun;
use crate::store::event_mutex::admission::{Admission, Admitted, Grant};
use crate::store::event_mutex::batch::Batch;
use crate::time::clock::moment::Moment;

/// The largest number of admissions in one request.
pub(crate) const BATCH_SIZE: usize = 100;

/// Checks the shutdown, the pauses and the filters, before an admission is requested.
pub(super) fn check_before_store(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    refuse_without_store(planned)?;
    // The filters of a missed occurrence were called by `check_missed`.
    if planned.missed.is_some() { Ok(()) } else { ask_filters(planned) }
}

/// Refuses a run because of a shutdown or a pause, or because it is not known whether the run's occurrence was missed.
pub(super) fn refuse_without_store(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    if planned.context.schedule.is_shutting_down() {
        return Err(SkipReason::ShuttingDown);
    }
    if planned.pauses.is_some() && !planned.admission_checks_pauses {
        planned.look_for_pauses()?;
    }
    match &planned.missed {
        Some(Missed::Unknown(reason)) => Err(reason.clone()),
        Some(Missed::Confirmed) | None => Ok(()),
    }
}

/// Calls the filters in their order, until one refuses.
pub(crate) fn ask_filters(planned: &PlannedRun<'_>) -> Result<(), SkipReason> {
    let filters = &planned.event.filters;
    for (at, filter) in filters.iter().enumerate() {
        let is_ignored = planned.context.past_filters && !matches!(filter, Filter::OtherEnvironment(_));
        if !is_ignored && !contain(|| filter.allows(&planned.tick)).map_err(SkipReason::FilterPanicked)? {
            return Err(SkipReason::Filtered(named(filters, at).into()));
        }
    }
    Ok(())
}

/// The next request of a loop to one store: releases of runs that have ended, and admissions of the next runs.
#[derive(Default)]
pub(super) struct StoreRequest<'a> {
    batch: Batch,
    /// The runs whose leases the batch releases, in this order.
    releasing: Vec<ActiveRun<'a>>,
    /// The claims of ended runs whose tasks did not start. The batch releases these claims, too.
    unused_claims: Vec<Lease>,
    /// The runs that request an admission.
    admitting: Vec<PendingRun<'a>>,
    /// The releases of leases and claims that the store has just granted, but that no run uses.
    unused: Batch,
    /// One of the runs: the request goes to the store of this run. `None`: the request is empty.
    of: Option<&'a PlannedRun<'a>>,
    /// The runs that the loop may start now.
    pub(super) ready: Vec<ActiveRun<'a>>,
    pub(super) refused: Vec<(PendingRun<'a>, SkipReason)>,
}

impl<'a> StoreRequest<'a> {
    /// Returns the number of admissions in the request.
    pub(super) fn admissions(&self) -> usize {
        self.admitting.iter().map(|pending| pending.planned.event.protection.slots.len()).sum()
    }

    /// Returns whether this request can contain the admission of `run`: the request is empty, or goes to the run's
    /// store.
    pub(super) fn may_include(&self, run: &PlannedRun<'_>) -> bool {
        self.of.is_none_or(|of| of.store.id == run.store.id)
    }

    /// Adds the admission of this run to the request.
    pub(super) fn admit(&mut self, pending: PendingRun<'a>) {
        self.of = Some(pending.planned);
        self.admitting.push(pending);
    }

    /// Performs a run on this thread until its task and its hooks have ended. Then adds its release to the request.
    pub(super) fn perform_here(&mut self, mut run: ActiveRun<'a>) {
        while run.perform() {
            run = await_here(run);
        }
        self.release(run);
    }

    /// Adds the release of a run to the request. A run without a lease needs no release, so its result is recorded at
    /// once.
    pub(super) fn release(&mut self, mut ended: ActiveRun<'a>) {
        let (unused_claim, lease) = ended.begin_release();
        if unused_claim.is_some() || lease.is_some() {
            self.of = Some(ended.planned);
        }
        self.unused_claims.extend(unused_claim);
        match lease {
            None => ended.conclude(None),
            Some((lease, minimum_hold)) => {
                self.batch.add_release(lease, minimum_hold);
                self.releasing.push(ended);
            }
        }
    }

    /// Sends the request. Records the results of the released runs. Moves the runs that requested an admission to
    /// `ready` or `refused`.
    pub(super) fn ask(&mut self) {
        let Some(PlannedRun { store, clock, context, .. }) = self.of.take() else { return };
        let _still = clock.stand_still();
        self.unused_claims.drain(..).for_each(|claim| self.batch.release(claim));
        self.add_all_admissions();
        context.outages.carry_out(store, &mut self.batch);
        let answered = clock.moment();
        // The renewal of the granted leases begins first, because the observers of a release may be slow.
        self.take_answers(answered);
        self.conclude_releases();
        self.batch.clear();
        // Unused grants, for example those that came too late, are released before any run starts.
        if !self.unused.is_empty() {
            context.outages.carry_out(store, &mut self.unused);
            self.unused.log_releases();
            self.unused.clear();
        }
    }

    /// Adds the admissions right before the request is sent, because the terms of their leases begin now.
    fn add_all_admissions(&mut self) {
        let mut at = 0;
        while let Some(pending) = self.admitting.get(at) {
            match add_admissions(pending.planned, pending.planned.places, &mut self.batch) {
                Ok(()) => at += 1,
                Err(reason) => self.refused.push((self.admitting.remove(at), reason)),
            }
        }
    }

    /// Takes the answers to the admissions, and decides for each run whether it starts.
    fn take_answers(&mut self, answered: Moment) {
        let mut at = 0;
        for pending in self.admitting.drain(..) {
            let PendingRun { planned, span } = &pending;
            let decision = span.in_scope(|| {
                let answer = take_best_answer(planned, &mut self.batch, &mut at);
                decide(planned, answer, answered, &mut self.unused)
            });
            match decision {
                Ok(admitted) => self.ready.push(ActiveRun::new(pending, admitted)),
                Err(reason) => self.refused.push((pending, reason)),
            }
        }
    }

    /// Records the results of the released runs.
    fn conclude_releases(&mut self) {
        let released = self.releasing.len();
        for (at, run) in self.releasing.iter_mut().enumerate() {
            let release = run.span.in_scope(|| self.batch.take_release(at));
            run.conclude(Some(release));
        }
        self.releasing.clear();
        // No run waits for the answer to the release of an unused claim.
        (released..self.batch.releases().len()).for_each(|at| drop(self.batch.take_release(at)));
    }
}

/// Adds the admissions of a run to the batch, right before the batch is sent. There is one admission for each slot of
/// the event, and the run needs only one grant. The store refuses the admissions while one of `places` is held. Refuses
/// a run after its claim window: another server may have run the occurrence or period, and that server's claim may have
/// expired. Then the store would grant the claim a second time.
pub(super) fn add_admissions(
    planned: &PlannedRun<'_>,
    places: &[MutexName],
    batch: &mut Batch,
) -> Result<(), SkipReason> {
    refuse_without_store(planned)?;
    let missed_by = if planned.missed.is_some() { planned.lateness } else { Duration::ZERO };
    let now = planned.clock.moment();
    let waited = now.since(planned.context.began);
    if planned.claim_window.is_some_and(|window| waited > window.saturating_sub(missed_by)) {
        return Err(SkipReason::TooLate);
    }
    let protection = &planned.event.protection;
    // All admissions of the run have the same claim. A claim is granted only once, so the run gets only one slot.
    let own_claim = || (protection.slots.len() > 1).then(|| protection.claim_of_one_attempt());
    let claim = planned.claim().or_else(own_claim);
    for slot in &protection.slots {
        let lease = protection.lease.map(|lease| planned.request(slot.clone(), lease.term, now));
        let admission = match (lease, &claim) {
            (None, None) => continue,
            (Some(lease), None) => Admission::lease_only(lease),
            (None, Some((claim, term))) => Admission::claim_only(planned.request(claim.clone(), *term, now)),
            (Some(lease), Some((claim, term))) => {
                let claim = lease.with(claim.clone(), *term);
                Admission::both(lease, claim)
            }
        };
        batch.admit(unless_paused(planned, admission).unless_any(places));
    }
    Ok(())
}

/// Adds to `admission` the condition that no pause exists, if the store of the run has the pauses.
pub(super) fn unless_paused(planned: &PlannedRun<'_>, admission: Admission) -> Admission {
    let pauses = planned.pauses.iter().filter(|_| planned.admission_checks_pauses);
    admission.unless_any(pauses.flatten())
}

/// Takes the best answer to the admissions of a run, which begin at the index `at` of the batch, and moves `at` to the
/// admissions of the next run. From the best to the worst, the answers are: a grant, a held name that excludes the run,
/// a taken claim, an error, a held lease. A held lease is the worst answer, so the run counts as overlapping only if
/// every lease is held.
pub(super) fn take_best_answer(
    planned: &PlannedRun<'_>,
    batch: &mut Batch,
    at: &mut usize,
) -> Result<Admitted, MutexError> {
    let rank = |answer: &Result<Admitted, MutexError>| match answer {
        Ok(Admitted::Granted(_)) => 0,
        Ok(Admitted::Excluded(_)) => 1,
        Ok(Admitted::ClaimTaken(_)) => 2,
        Err(_) => 3,
        Ok(Admitted::LeaseTaken(_)) => 4,
    };
    let first = mem::replace(at, *at + planned.event.protection.slots.len());
    let mut best = batch.take_admission(first);
    for next in first + 1..*at {
        let answer = batch.take_admission(next);
        if rank(&answer) < rank(&best) {
            best = answer;
        }
    }
    best
}

/// Turns the store's answer, which came at `now`, into a run or a reason to skip the run. Adds the release of each
/// unused lease or claim to `unused`.
pub(super) fn decide(
    planned: &PlannedRun<'_>,
    answer: Result<Admitted, MutexError>,
    now: Moment,
    unused: &mut Batch,
) -> Result<AdmittedRun, SkipReason> {
    match answer {
        Ok(Admitted::Granted(grant)) => accept_grant(planned, grant, now, unused),
        Ok(Admitted::LeaseTaken(holder)) => Err(SkipReason::Overlapping(holder)),
        Ok(Admitted::ClaimTaken(holder)) => Err(SkipReason::RanElsewhere(holder)),
        Ok(Admitted::Excluded(held)) if planned.pauses.iter().flatten().any(|mark| mark == held.name()) => {
            Err(SkipReason::Paused(held.into_holder()))
        }
        Ok(Admitted::Excluded(place)) => Err(SkipReason::Overlapping(place.into_holder())),
        Err(error) => apply_outage_policy(planned, error),
    }
}

/// Decides by the outage policy whether the event runs without a decision of the store.
fn apply_outage_policy(planned: &PlannedRun<'_>, error: MutexError) -> Result<AdmittedRun, SkipReason> {
    // A backfill never runs unprotected, because it can run later.
    if planned.event.protection.on_outage != OutagePolicy::RunUnprotected || planned.id.is_backfill {
        return Err(SkipReason::StoreUnavailable(error));
    }
    // There is no answer to the admission, so the pauses are read even if the admission normally checks them.
    planned.look_for_pauses()?;
    planned.tell(&Step::Unprotected(&error));
    let details = OutcomeDetails { unprotected: Some(error), ..OutcomeDetails::default() };
    Ok(AdmittedRun { details: Some(Box::new(details)), ..begin_run(planned, None, planned.context.began) })
}

/// Begins the run and the renewal of its lease. Refuses the run if the grant came too late. Also refuses the run if
/// this process still renews a lease of this name: the store has granted a held name again, so the store has lost its
/// data.
fn accept_grant(
    planned: &PlannedRun<'_>,
    grant: Grant,
    now: Moment,
    unused: &mut Batch,
) -> Result<AdmittedRun, SkipReason> {
    let Definition { protection, stopping, .. } = planned.event;
    if let Some(late) = grant.lease().filter(|lease| lease.deadline().minus(*stopping) <= now) {
        let error = MutexError::granted_too_late(format!("admit {}", protection.mutex));
        let decision = apply_outage_policy(planned, error);
        unused.release(late.clone());
        // A run that starts without its lease keeps its claim, so that no other server runs the occurrence.
        if let Some(claim) = grant.claim().filter(|_| decision.is_err()) {
            unused.release(claim.clone());
        }
        return decision;
    }
    let mut admitted = begin_run(planned, Some(grant), now);
    let Some(terms) = protection.lease else { return Ok(admitted) };
    let renewals = RenewalThread::of(planned.store, planned.clock);
    match renewals.keep(planned.store, &admitted.held, terms.renewal) {
        Ok(()) => Ok(admitted),
        Err(holder) => {
            admitted.held.disarm();
            let lease = admitted.held.begin_release().map(|(lease, _)| lease);
            let granted = lease.into_iter().chain(admitted.held.claim().cloned());
            granted.for_each(|lease| unused.release(lease));
            Err(SkipReason::Overlapping(Some(holder)))
        }
    }
}

fn begin_run(planned: &PlannedRun<'_>, grant: Option<Grant>, now: Moment) -> AdmittedRun {
    let at_least = planned.event.protection.lease.and_then(|terms| terms.at_least);
    let mut held = HeldLease::new(planned.clock.clone(), grant, now, at_least, planned.event.stopping);
    if planned.event.protection.queue.as_ref().is_some_and(|queue| queue.replaces) {
        held.by = HeldBy::ReplaceableRun;
    }
    held.observed = planned.context.schedule.observers.of_run(&planned.id, held.owner());
    let held = ReleaseOnDrop::new(Arc::clone(&planned.store.mutex), Arc::new(held));
    AdmittedRun { held, details: None }
}

/// Begins a run that needs no admission.
pub(super) fn begin_unasked(pending: PendingRun<'_>) -> ActiveRun<'_> {
    let admitted = begin_run(pending.planned, None, pending.planned.context.began);
    ActiveRun::new(pending, admitted)
}
