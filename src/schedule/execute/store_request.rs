//! The next request of a loop to one store: releases of runs that have ended, and admissions of those that come next.

use std::mem;
use std::time::Duration;

use super::awaited_runs::perform_here;
use super::one_run::{ActiveRun, Pass};
use crate::lease::request::Lease;
use crate::observe::skip_reason::SkipReason;
use crate::schedule::gate::{self, AdmittedRun};
use crate::schedule::{planned_run::PlannedRun, report::Entry};
use crate::store::event_mutex::batch::Batch;
use crate::time::clock::moment::Moment;

#[derive(Default)]
pub(super) struct StoreRequest<'a> {
    batch: Batch,
    /// The run behind each release of the batch.
    releasing: Vec<ActiveRun<'a>>,
    /// The claims of runs that did not start.
    unused_claims: Vec<Lease>,
    /// The run behind each admission of the batch, or that is about to ask for one.
    admitting: Vec<Pass<'a>>,
    /// Releases of grants that are not used.
    unused: Batch,
    /// A run of the store that is asked.
    of: Option<&'a PlannedRun<'a>>,
}

impl<'a> StoreRequest<'a> {
    /// Performs a run that was admitted already, on this thread, and gives back what it holds.
    pub(super) fn run_alone(run: ActiveRun<'a>, enter: &mut impl FnMut(usize, Entry)) {
        let mut request = Self::default();
        request.release(&mut vec![perform_here(run)], enter);
        request.ask(enter, &mut Vec::new(), &mut Vec::new());
    }

    /// Returns how many admissions it asks for.
    pub(super) fn admissions(&self) -> usize {
        self.admitting.iter().map(|pass| pass.planned.event.protection.alternatives()).sum()
    }

    /// Returns whether the run can be admitted in this request: it asks the same store.
    #[inline]
    pub(super) fn may_include(&self, run: &PlannedRun<'_>) -> bool {
        self.of.is_none_or(|of| of.store.id == run.store.id)
    }

    /// Asks for the admission of this run.
    #[inline]
    pub(super) fn admit(&mut self, pass: Pass<'a>) {
        self.of = Some(pass.planned);
        self.admitting.push(pass);
    }

    /// Asks for the release of what these hold. The result of a run without a lease is entered at once.
    #[inline]
    pub(super) fn release(&mut self, ended: &mut Vec<ActiveRun<'a>>, enter: &mut impl FnMut(usize, Entry)) {
        let mut at = 0;
        while let Some(run) = ended.get_mut(at) {
            let (claim, lease) = (run.unused_claim(), run.begin_release());
            if claim.is_some() || lease.is_some() {
                self.of = Some(run.pass.planned);
            }
            self.unused_claims.extend(claim);
            match lease {
                None => {
                    run.conclude(None, enter);
                    ended.swap_remove(at);
                }
                Some((lease, rest)) => {
                    self.batch.add_release(lease, rest);
                    at += 1;
                }
            }
        }
        mem::swap(&mut self.releasing, ended); // A run is large: it is moved as seldom as possible.
    }

    /// Asks the store, enters the results of what was released, and sorts the others into those that are ready and those
    /// that were refused.
    pub(super) fn ask(
        &mut self,
        enter: &mut impl FnMut(usize, Entry),
        ready: &mut Vec<ActiveRun<'a>>,
        refused: &mut Vec<(Pass<'a>, SkipReason)>,
    ) {
        let Some(PlannedRun { store, clock, context, .. }) = self.of.take() else { return };
        let _still = clock.stand_still();
        self.unused_claims.drain(..).for_each(|claim| self.batch.release(claim));
        self.add_all_admissions(refused);
        let asked = context.observers.is_any().then(|| clock.moment());
        match &self.admitting[..] {
            [alone] => alone.span.in_scope(|| context.outages.carry_out(store, clock, &mut self.batch)),
            _ => context.outages.carry_out(store, clock, &mut self.batch),
        }
        let gate = asked.map_or(Duration::ZERO, |asked| clock.moment().since(asked));
        self.conclude_releases(enter);
        self.take_answers(gate, clock.moment(), ready, refused);
        self.batch.clear();
        // A grant that came too late, for example, is released before anything starts.
        if !self.unused.is_empty() {
            context.outages.carry_out(store, clock, &mut self.unused);
            self.unused.log_releases();
            self.unused.clear();
        }
    }

    /// Adds the admissions right before they are sent: from here on their leases run down.
    #[inline]
    fn add_all_admissions(&mut self, refused: &mut Vec<(Pass<'a>, SkipReason)>) {
        let mut at = 0;
        while let Some(pass) = self.admitting.get(at) {
            match gate::add_admissions(pass.planned, &mut self.batch) {
                Ok(()) => at += 1,
                Err(reason) => refused.push((self.admitting.remove(at), reason)),
            }
        }
    }

    /// Enters the results of what was released.
    #[inline]
    fn conclude_releases(&mut self, enter: &mut impl FnMut(usize, Entry)) {
        let released = self.releasing.len();
        for (at, run) in self.releasing.iter_mut().enumerate() {
            let release = run.pass.span.in_scope(|| self.batch.take_release(at));
            run.conclude(Some(release), enter);
        }
        self.releasing.clear();
        // Claims, of which nobody waits for the release.
        (released..self.batch.releases().len()).for_each(|at| drop(self.batch.take_release(at)));
    }

    /// Takes the answers to the runs that have asked.
    #[inline]
    fn take_answers(
        &mut self,
        gate: Duration,
        answered: Moment,
        ready: &mut Vec<ActiveRun<'a>>,
        refused: &mut Vec<(Pass<'a>, SkipReason)>,
    ) {
        let mut at = 0;
        for pass in self.admitting.drain(..) {
            let in_span = pass.span.enter();
            let answer = gate::take_answer(pass.planned, &mut self.batch, at);
            at += pass.planned.event.protection.alternatives();
            let decision = gate::decide(pass.planned, answer, answered, &mut self.unused);
            drop(in_span);
            match decision {
                Ok(admitted) => ready.push(ActiveRun::new(pass, AdmittedRun { gate, ..admitted })),
                Err(reason) => refused.push((pass, reason)),
            }
        }
    }
}
