//! The wait for a lease without a queue, and the request that each wait repeats.

use crate::lease::name::MutexName;
use crate::observe::notice::Step;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::run_admission::{self, AdmittedRun};
use crate::schedule::tick_plan::planned_run::PlannedRun;
use crate::store::event_mutex::{admission::Admitted, batch::Batch};
use crate::time::clock::about_a_second;

/// Waits until a run of a backfill is admitted, for as long as the run lasts that is in its way. A run that is stuck is not waited
/// for.
pub(super) fn wait_for_lease(planned: &PlannedRun<'_>, mut why: SkipReason) -> Result<AdmittedRun, SkipReason> {
    let shutdown = planned.context.schedule.shutdown.clone().unwrap_or_default();
    let waiting = shutdown.waiting(planned.clock);
    planned.tell(&Step::Queued { place: 1 });
    loop {
        let or_stuck = |limit| why.clone().or_stuck(limit, planned.clock.now());
        if let Some(stuck @ SkipReason::Stuck { .. }) = planned.event.stuck_after.map(or_stuck) {
            return Err(stuck);
        }
        if shutdown.sleep_until(planned.clock.moment().plus(about_a_second()), &waiting) {
            return Err(SkipReason::ShuttingDown);
        }
        why = match ask_once(planned, planned.places_before_it()) {
            Ok(Some(admitted)) => return Ok(admitted),
            Ok(None) => SkipReason::Overlapping(None),
            Err(overlapping @ SkipReason::Overlapping(_)) => overlapping,
            Err(reason) => return Err(reason),
        };
    }
}

/// Asks for lease and claim of a run that waits. `None`: one of these names is held. Without an answer it does not run, despite its
/// outage policy, because the run that it waits for may still be running.
pub(super) fn ask_once(planned: &PlannedRun<'_>, unless: &[MutexName]) -> Result<Option<AdmittedRun>, SkipReason> {
    let PlannedRun { store, context, clock, .. } = planned;
    let (mut batch, mut unused) = (Batch::new(), Batch::new());
    run_admission::add_admissions_unless(planned, unless, &mut batch)?;
    let asked = clock.moment();
    batch.ask(&*store.mutex);
    let answered = clock.moment();
    let decided_in = answered.since(asked);
    let answer = run_admission::take_answer(planned, &mut batch, 0).map_err(SkipReason::StoreUnavailable)?;
    if matches!(&answer, Admitted::Excluded(by) if unless.contains(by.name())) {
        return Ok(None);
    }
    let decision = run_admission::decide(planned, Ok(answer), answered, &mut unused);
    if !unused.is_empty() {
        context.outages.carry_out(store, clock, &mut unused);
        unused.log_releases();
    }
    decision.map(|admitted| Some(AdmittedRun { decided_in, ..admitted }))
}
