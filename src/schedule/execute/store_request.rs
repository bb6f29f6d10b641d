//! The next request of a loop to one store: releases of runs that have ended, and admissions of the next runs.

use super::awaited_runs::await_here;
use super::one_run::{ActiveRun, PendingRun};
use crate::lease::request::Lease;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::run_admission;
use crate::schedule::run_due::planned_run::PlannedRun;
use crate::store::event_mutex::batch::Batch;
use crate::time::clock::moment::Moment;

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
            match run_admission::add_admissions(pending.planned, pending.planned.places, &mut self.batch) {
                Ok(()) => at += 1,
                Err(reason) => self.refused.push((self.admitting.remove(at), reason)),
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

    /// Takes the answers to the admissions, and decides for each run whether it starts.
    fn take_answers(&mut self, answered: Moment) {
        let mut at = 0;
        for pending in self.admitting.drain(..) {
            let PendingRun { planned, span } = &pending;
            let decision = span.in_scope(|| {
                let answer = run_admission::take_answer(planned, &mut self.batch, &mut at);
                run_admission::decide(planned, answer, answered, &mut self.unused)
            });
            match decision {
                Ok(admitted) => self.ready.push(ActiveRun::new(pending, admitted)),
                Err(reason) => self.refused.push((pending, reason)),
            }
        }
    }
}
