//! The loop of background events of one store: many runs at a time, on worker threads.

use std::iter::Peekable;
use std::slice;
use std::sync::Mutex;
use std::thread::Scope;

use super::queue_wait::refuse_or_queue;
use super::store_request::{PendingRun, StoreRequest};
use super::workers::Workers;
use crate::base::lock::lock;
use crate::schedule::run_due::planned_run::PlannedRun;
use crate::store::event_mutex::batch::BATCH_SIZE;

/// Planned runs, which two loops may share.
pub(super) type PlannedRuns<'q, 'a> = Mutex<Peekable<slice::Iter<'q, &'a PlannedRun<'a>>>>;

/// Performs these runs at the same time, and records a result for each run.
///
/// This thread sends the requests to the store, and worker threads perform the runs. So a slow run delays no other run.
/// A request contains the releases of runs that have ended, and admissions for as many runs as the workers have room
/// for. If runs have filters, or pauses must be read, the releases are sent in a request of their own, because filters
/// and reads may be slow.
pub(super) fn run_in_background<'scope, 'a: 'scope>(planned: &PlannedRuns<'_, 'a>, scope: &'scope Scope<'scope, '_>) {
    let mut request = StoreRequest::default();
    let mut workers = Workers::new(scope);
    let left = || lock(planned).len();
    let have_checks = lock(planned).clone().any(|run| run.needs_check());
    let next = |request: &StoreRequest<'_>, room| lock(planned).next_if(|run| request.has_room_for(run, room)).copied();
    while let Some((room, ended)) = workers.wait(left().min(BATCH_SIZE)) {
        for run in ended {
            request.release(run);
        }
        if have_checks {
            request.ask();
        }
        while let Some(run) = next(&request, room) {
            let pending = PendingRun::new(run);
            match pending.span.in_scope(|| run.check_before_store()) {
                Err(reason) => request.refused.push((pending, reason)),
                Ok(()) => request.admit(pending),
            }
        }
        request.ask();
        // Start the ready runs first. A refused run calls observers, which may be slow.
        request.ready.drain(..).for_each(|run| workers.perform(run));
        request.refused.drain(..).for_each(|(pending, reason)| refuse_or_queue(pending, reason, scope));
    }
}
