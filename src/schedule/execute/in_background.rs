//! The loop of background events of one store: many runs at a time, on worker threads.

use super::one_run::{ActiveRun, Pass, Planned};
use super::store_request::StoreRequest;
use super::workers::with_workers;
use super::{Wait, turn_away};
use crate::schedule::gate::{self, BATCH_SIZE};
use crate::schedule::report::Entry;

/// Runs these side by side, and enters a result for each under its place.
///
/// This thread asks the store and performs no run itself, so that a slow run delays no other. A request carries the releases of
/// the runs that have ended, and the admissions of as many as have room.
pub(super) fn run_in_background<'a>(
    planned: Vec<Planned<'a>>,
    enter: &mut impl FnMut(usize, Entry),
    wait: Wait<'_, 'a>,
) {
    let mut planned = planned.into_iter().peekable();
    let mut request = StoreRequest::default();
    let (mut ended, mut ready, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    with_workers(|workers| {
        while let Some(room) = workers.wait(planned.len().min(BATCH_SIZE), &mut ended) {
            request.release(&mut ended, enter);
            while request.admissions() + ready.len() < room
                && let Some((index, run)) = planned.next_if(|(_, run)| request.may_include(run))
            {
                let pass = Pass::new(index, run);
                match pass.span.in_scope(|| gate::check_before_store(run)) {
                    Err(reason) => refused.push((pass, reason)),
                    Ok(()) if run.asks_store() => request.admit(pass),
                    Ok(()) => {
                        ready.push(ActiveRun::new(pass, gate::begin_run(run, None, run.clock.moment())));
                    }
                }
            }
            request.ask(enter, &mut ready, &mut refused);
            workers.start(&mut ready); // Before the observers hear of the others.
            refused.drain(..).for_each(|(pass, reason)| turn_away(pass, reason, enter, Some(wait)));
        }
    });
}
