//! The requests of a loop to a store: the admissions of runs, with leases and claims, and the releases of ended runs. This
//! file also has the decision about each run, and the record of its result. `run_due/planned_run.rs` makes the admissions.

use std::mem;
use std::sync::Arc;

use super::awaited_runs::await_here;
use super::one_run::ActiveRun;
use crate::base::error::MutexError;
use crate::base::lock::lock;
use crate::event::definition::Definition;
use crate::event::protection::OutagePolicy;
use crate::hold::held_lease::{HeldBy, HeldLease, ReleaseOnDrop};
use crate::hold::renewal_thread::RenewalThread;
use crate::lease::request::Lease;
use crate::observe::notice::{About, Step};
use crate::observe::tell::trace::{self, Span, print_unless_logged, run_span};
use crate::outcome::{release::Release, run_outcome::OutcomeDetails, run_outcome::RunOutcome};
use crate::outcome::{run_record::RunId, skip_reason::SkipReason};
use crate::schedule::history::LastSkip;
use crate::schedule::report::Verdict;
use crate::schedule::run_due::planned_run::PlannedRun;
use crate::store::event_mutex::admission::{Admitted, Grant};
use crate::store::event_mutex::batch::{BATCH_SIZE, Batch};
use crate::time::clock::moment::Moment;

/// A planned run whose admission is not decided yet.
pub(super) struct PendingRun<'a> {
    pub(super) planned: &'a PlannedRun<'a>,
    pub(super) span: Span,
}

/// A run that was admitted, with its lease and claim. When this value is dropped, the lease is released.
pub(super) struct AdmittedRun {
    held: ReleaseOnDrop,
    /// The details of the outcome that are known before the start: the wait in the queue, or the error of the store if
    /// the run is unprotected.
    pub(super) details: Option<Box<OutcomeDetails>>,
}

impl<'a> PendingRun<'a> {
    pub(super) fn new(planned: &'a PlannedRun<'a>) -> Self {
        let instance = planned.context.schedule.instance.as_deref();
        Self { planned, span: run_span(About::from(&planned.id), instance) }
    }

    /// Returns the run that may start now.
    pub(super) fn active(self, AdmittedRun { held, details }: AdmittedRun) -> ActiveRun<'a> {
        ActiveRun::new(self.planned, self.span, held, details)
    }

    /// Records that the run was skipped, with the reason.
    pub(super) fn skip(self, reason: SkipReason) {
        let Self { planned, span } = self;
        let _in_span = span.enter();
        if let SkipReason::Overlapping(holder) = &reason {
            planned.settle_overlapped(holder.as_ref());
        }
        let reason = planned.or_stuck(reason);
        let reason = planned.note_other_application(reason);
        planned.enter(Verdict::Skipped(reason));
    }
}

/// The next request of a loop to one store: releases of runs that have ended, and admissions of the next runs.
#[derive(Default)]
pub(super) struct StoreRequest<'a> {
    batch: Batch,
    /// The run of each release in the batch. `None`: the release of a claim whose task did not start. No run waits for
    /// the answer to such a release.
    releasing: Vec<Option<ActiveRun<'a>>>,
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
    /// Returns whether the run `next` can join, if `room` runs may start now. Each slot of an event with `at_most` takes
    /// one admission.
    pub(super) fn has_room_for(&self, next: &PlannedRun<'_>, room: usize) -> bool {
        let runs = self.admitting.iter().map(|pending| pending.planned).chain([next]);
        let admissions: usize = runs.map(|run| run.event.protection.slots.len()).sum();
        self.admitting.len() + self.ready.len() < room && admissions <= BATCH_SIZE
    }

    /// Returns whether this request can contain the admission of `run`: the request is empty, or goes to the run's
    /// store.
    pub(super) fn may_include(&self, run: &PlannedRun<'_>) -> bool {
        self.of.is_none_or(|of| of.store.id == run.store.id)
    }

    /// Adds the admission of this run to the request. A run that needs no admission is ready at once.
    pub(super) fn admit(&mut self, pending: PendingRun<'a>) {
        let planned = pending.planned;
        if planned.asks_store {
            self.of = Some(planned);
            self.admitting.push(pending);
        } else {
            self.ready.push(pending.active(begin_run(planned, None, planned.context.began)));
        }
    }

    /// Performs the ready runs on this thread, one after another, until their tasks and hooks have ended. Adds their
    /// releases to the request.
    pub(super) fn perform_here(&mut self) {
        while let Some(mut run) = self.ready.pop() {
            while run.perform() {
                run = await_here(run);
            }
            self.release(run);
        }
    }

    /// Adds the release of a run to the request. A run without a lease needs no release, so its result is recorded at
    /// once.
    pub(super) fn release(&mut self, mut ended: ActiveRun<'a>) {
        let lease = ended.held.begin_release().filter(|_| !ended.is_abandoned);
        if let Some(claim) = ended.held.claim()
            && ended.is_unused()
            && !ended.held.is_inherited()
        {
            self.of = Some(ended.planned);
            self.batch.release(claim.clone());
            self.releasing.push(None);
        }
        match lease {
            None => ended.conclude(None),
            Some((lease, minimum_hold)) => {
                self.of = Some(ended.planned);
                self.batch.add_release(lease, minimum_hold.filter(|_| !ended.is_unused()));
                self.releasing.push(Some(ended));
            }
        }
    }

    /// Sends the request. Records the results of the released runs. Moves the runs that requested an admission to
    /// `ready` or `refused`.
    pub(super) fn ask(&mut self) {
        let Some(PlannedRun { store, clock, context, .. }) = self.of.take() else { return };
        let _still = clock.stand_still();
        self.add_all_admissions();
        context.outages.carry_out(store, &mut self.batch);
        let answered = clock.moment();
        // The renewal of the granted leases begins first, because the observers of a release may be slow.
        self.take_answers(answered);
        // Unused grants, for example those that came too late, are released before any run starts or is skipped.
        if !self.unused.is_empty() {
            context.outages.carry_out(store, &mut self.unused);
            self.unused.log_releases();
            self.unused.clear();
        }
        self.conclude_releases();
        self.batch.clear();
    }

    /// Adds the admissions right before the request is sent, because the terms of their leases begin now.
    fn add_all_admissions(&mut self) {
        let mut at = 0;
        while let Some(pending) = self.admitting.get(at) {
            match pending.planned.add_admissions(pending.planned.places, &mut self.batch) {
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
                decide(planned, answer, answered, planned.event.protection.on_outage, &mut self.unused)
            });
            match decision {
                Ok(admitted) => self.ready.push(pending.active(admitted)),
                Err(reason) => self.refused.push((pending, reason)),
            }
        }
    }

    /// Records the results of the released runs.
    fn conclude_releases(&mut self) {
        for (at, run) in self.releasing.drain(..).enumerate() {
            match run {
                Some(mut run) => {
                    let release = run.span.in_scope(|| self.batch.take_release(at));
                    run.conclude(Some(release));
                }
                None => drop(self.batch.take_release(at)),
            }
        }
    }
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

/// Turns the store's answer, which came at `now`, into a run or a reason to skip the run. If the store is unavailable,
/// or if its grant came too late, `on_outage` decides. Adds the release of each unused lease or claim to `unused`.
pub(super) fn decide(
    planned: &PlannedRun<'_>,
    answer: Result<Admitted, MutexError>,
    now: Moment,
    on_outage: OutagePolicy,
    unused: &mut Batch,
) -> Result<AdmittedRun, SkipReason> {
    match answer {
        Ok(Admitted::Granted(grant)) => accept_grant(planned, grant, now, on_outage, unused),
        Ok(Admitted::LeaseTaken(holder)) => Err(SkipReason::Overlapping(holder)),
        Ok(Admitted::ClaimTaken(holder)) => Err(SkipReason::RanElsewhere(holder)),
        Ok(Admitted::Excluded(held)) if planned.pauses.iter().flatten().any(|mark| mark == held.name()) => {
            Err(SkipReason::Paused(held.into_holder()))
        }
        // The holder of the place is a waiter, not the run that is running.
        Ok(Admitted::Excluded(_)) => Err(SkipReason::Overlapping(None)),
        Err(error) => apply_outage_policy(planned, on_outage, error),
    }
}

/// Decides by the outage policy whether the event runs without a decision of the store.
fn apply_outage_policy(
    planned: &PlannedRun<'_>,
    on_outage: OutagePolicy,
    error: MutexError,
) -> Result<AdmittedRun, SkipReason> {
    // A backfill never runs unprotected, because it can run later.
    if on_outage != OutagePolicy::RunUnprotected || planned.id.is_backfill {
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
/// data, or an operator broke the lease.
fn accept_grant(
    planned: &PlannedRun<'_>,
    grant: Grant,
    now: Moment,
    on_outage: OutagePolicy,
    unused: &mut Batch,
) -> Result<AdmittedRun, SkipReason> {
    let Definition { protection, stopping, .. } = planned.event;
    if let Some(late) = grant.lease().filter(|lease| lease.deadline().minus(*stopping) <= now) {
        let error = MutexError::granted_too_late(format!("admit {}", protection.mutex));
        let decision = apply_outage_policy(planned, on_outage, error);
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
    let Definition { protection, stopping, store, .. } = planned.event;
    let at_least = protection.lease.and_then(|terms| terms.at_least);
    let is_replaceable = protection.queue.as_ref().is_some_and(|queue| queue.replaces);
    let by = if is_replaceable { HeldBy::ReplaceableRun } else { HeldBy::Run };
    let owner = grant.as_ref().and_then(Grant::lease_or_claim).map(Lease::owner);
    let observed = planned.context.schedule.observers.of_run(&planned.id, owner);
    let held = HeldLease::new(planned.clock.clone(), grant, now, at_least, *stopping, by, observed);
    AdmittedRun { held: ReleaseOnDrop::new(Arc::clone(&store.mutex), held), details: None }
}

impl ActiveRun<'_> {
    /// Records the result. `release` is the store's answer to the release of the lease, if the loop has sent the release.
    fn conclude(&mut self, release: Option<Release>) {
        let _in_span = self.span.enter();
        self.held.disarm();
        if !self.is_over() {
            return self.planned.enter(Verdict::Skipped(SkipReason::ShuttingDown));
        }
        let is_inherited = || !self.is_abandoned && self.held.is_inherited();
        self.outcome.release = release.or_else(|| is_inherited().then_some(Release::Lost));
        if let Some(release) = &self.outcome.release {
            // If the renewal thread has noticed the loss, it has already reported the loss.
            if self.outcome.lease_lost_at().is_none() && matches!(release, Release::Lost) {
                self.tell(&Step::LeaseLost { mutex: None, token: self.outcome.token });
            }
            self.tell(&Step::Released(release));
        }
        self.planned.enter(Verdict::Ran(mem::replace(&mut self.outcome, RunOutcome::NOT_STARTED)));
    }
}

impl PlannedRun<'_> {
    /// Records the result, and notes it for `catch_up`. If the run was skipped, notifies the observers.
    fn enter(&self, verdict: Verdict) {
        if let Some(catch_up) = self.event.catch_up.as_ref().filter(|_| self.claim_window.is_some()) {
            self.settle_occurrence(catch_up, &verdict);
        }
        self.compare_timetables(&verdict);
        if let Verdict::Skipped(reason) = &verdict {
            let RunId { occurrence, is_backfill, .. } = self.id;
            self.history.skipped(LastSkip { occurrence, is_backfill, reason: reason.clone() });
            self.tell(&Step::Skipped(reason));
        }
        if self.context.schedule.drops_reports && verdict.is_failure() {
            print_unless_logged(self.entry(verdict.clone()));
        }
        *lock(&self.verdict) = Some(verdict);
    }

    /// Compares the timetable of the event with that of the server that claimed the occurrence. Reports a difference
    /// that has lasted for an hour.
    fn compare_timetables(&self, verdict: &Verdict) {
        let Some(own) = self.event.claimed_timetable.as_ref().filter(|_| self.claim_window.is_some()) else { return };
        let claimed_by = match verdict {
            Verdict::Ran(_) => None,
            Verdict::Skipped(SkipReason::RanElsewhere(holder)) => holder.as_ref(),
            Verdict::Skipped(_) => return,
        };
        if let Some(other) = self.history.compare_timetables(own, claimed_by, self.clock) {
            trace::timetables_differ(&self.event.name, own, &other.timetable, &other.server);
        }
    }
}
