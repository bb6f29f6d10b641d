//! What a loop asks of one store next: the releases of what has ended, and the admissions of what comes next.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use super::hands::{Hands, OnThisThread};
use super::one_run::{ActiveRun, Pass};
use crate::lease::request::Lease;
use crate::observe::skip_reason::SkipReason;
use crate::schedule::gate::{self, AdmittedRun, BATCH_SIZE};
use crate::schedule::{planned_run::PlannedRun, report::Entry};
use crate::store::event_mutex::batch::Batch;
use crate::time::clock::moment::Moment;

#[derive(Default)]
pub(super) struct StoreRequest<'a> {
    /// Whether one run follows another: the first that can be admitted is wanted, and no other.
    in_order: bool,
    batch: Batch,
    /// The run behind each release of the batch.
    releasing: Vec<ActiveRun<'a>>,
    /// Of runs that did not start.
    unused_claims: Vec<Lease>,
    /// The run behind each admission of the batch, or that is about to ask for one.
    admitting: VecDeque<Pass<'a>>,
    /// How many admissions these ask for.
    asked: usize,
    /// How many of them the store has refused since the last grant.
    refusals: usize,
    /// What was granted and is not used.
    unused: Batch,
    /// A run of the store that is asked.
    of: Option<&'a PlannedRun<'a>>,
}

impl<'a> StoreRequest<'a> {
    pub(super) fn new(in_order: bool) -> Self {
        Self { in_order, ..Self::default() }
    }

    /// Performs a run that was admitted already, on this thread, and gives back what it holds.
    pub(super) fn run_alone(run: ActiveRun<'a>, enter: &mut impl FnMut(usize, Entry)) {
        let (mut ready, mut ended, mut request) = (vec![run], Vec::new(), Self::default());
        OnThisThread.start(&mut ready, &mut ended);
        request.release(&mut ended, enter);
        request.ask(enter, &mut ready, &mut Vec::new());
    }

    /// How many admissions it asks for.
    pub(super) fn admissions(&self) -> usize {
        self.asked
    }

    /// How many admissions it asks for at most, where there is room for so many runs.
    ///
    /// In order there is room for one. If another server has one occurrence of this tick, it mostly has them all: after refusals,
    /// it asks for four times as many as were refused, and the store grants the first that is free.
    #[inline]
    pub(super) fn limit(&self, room: usize) -> usize {
        if self.in_order { (4 * self.refusals).clamp(1, BATCH_SIZE) } else { room }
    }

    /// Whether the run can be admitted in this request: it asks the same store and, in order, nothing waits for its release
    /// or its admission while code of its event runs or another store is asked.
    #[inline]
    pub(super) fn may_include(&self, run: &PlannedRun<'_>) -> bool {
        let is_alone = || self.batch.releases().is_empty() && self.admitting.is_empty();
        let asks_for_one = || run.event.protection.alternatives() == 1 && self.asked == self.admitting.len();
        let delays_none = || {
            !self.in_order || is_alone() || (run.asks_store_first() && (self.admitting.is_empty() || asks_for_one()))
        };
        self.of.is_none_or(|of| of.store.id == run.store.id && delays_none())
    }

    /// Asks for the admission of this run.
    #[inline]
    pub(super) fn admit(&mut self, pass: Pass<'a>) {
        self.of = Some(pass.planned);
        self.asked += pass.planned.event.protection.alternatives();
        self.admitting.push_back(pass);
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
                    self.batch.give_back(lease, rest);
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
        let asking = self.ask_for_admissions(refused);
        let asked = context.observers.is_any().then(|| clock.moment());
        let alone = self.admitting.front().filter(|_| asking == 1);
        match alone {
            Some(alone) => alone.span.in_scope(|| context.outages.carry_out(store, clock, &mut self.batch)),
            None => context.outages.carry_out(store, clock, &mut self.batch),
        }
        let gate = asked.map_or(Duration::ZERO, |asked| clock.moment().since(asked));
        self.conclude_releases(enter);
        self.take_answers(asking, gate, clock.moment(), ready, refused);
        self.batch.clear();
        // Before anything starts: what was granted too late, for example.
        if !self.unused.is_empty() {
            context.outages.carry_out(store, clock, &mut self.unused);
            self.unused.log_releases();
            self.unused.clear();
        }
    }

    /// Asks for the admissions right before they are sent: from here on their leases run down. Returns how many runs ask.
    #[inline]
    fn ask_for_admissions(&mut self, refused: &mut Vec<(Pass<'a>, SkipReason)>) -> usize {
        let mut asking = 0;
        while let Some(pass) = self.admitting.get(asking) {
            match gate::ask_for_admission(pass.planned, &mut self.batch) {
                Ok(()) => asking += 1,
                Err(_) if self.in_order && asking > 0 => break, // It is refused in its turn.
                Err(reason) => refused.extend(self.admitting.remove(asking).map(|pass| (pass, reason))),
            }
        }
        if self.in_order && asking > 1 {
            self.batch.stop_at_first_grant();
        }
        asking
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

    /// Takes the answers to the runs that have asked. In order, it stops at the first that is ready: the others ask again in
    /// their turn.
    #[inline]
    fn take_answers(
        &mut self,
        mut asking: usize,
        gate: Duration,
        answered: Moment,
        ready: &mut Vec<ActiveRun<'a>>,
        refused: &mut Vec<(Pass<'a>, SkipReason)>,
    ) {
        let mut at = 0;
        while asking > 0
            && (!self.in_order || ready.is_empty())
            && self.batch.is_decided(at)
            && let Some(pass) = self.admitting.pop_front()
        {
            let in_span = pass.span.enter();
            let answer = gate::take_answer(pass.planned, &mut self.batch, at);
            at += pass.planned.event.protection.alternatives();
            asking -= 1;
            let decision = gate::decide(pass.planned, answer, answered, &mut self.unused);
            drop(in_span);
            match decision {
                Ok(admitted) => ready.push(ActiveRun::new(pass, AdmittedRun { gate, ..admitted })),
                Err(reason) => refused.push((pass, reason)),
            }
        }
        self.refusals = if ready.is_empty() { self.refusals + at } else { 0 };
        // A store may have granted more than one all the same.
        (at..self.batch.admissions().len()).for_each(|at| self.unused.give_back_grant(self.batch.take_admission(at)));
        self.asked = self.admitting.iter().map(|pass| pass.planned.event.protection.alternatives()).sum();
        self.of = self.admitting.front().map(|pass| pass.planned);
    }
}
