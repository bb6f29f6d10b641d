//! The executor: performs the planned runs of a tick, and records a result for each run.
//!
//! Foreground events run [in order](in_order) on the caller's thread. Background events run [side by
//! side](in_background), with a loop for each store, so that an unavailable store delays no release of another store,
//! and with [worker threads](workers). A task that is a future needs no thread: its loop watches it, in
//! [`awaited_runs`], until it ends. The same holds for a run that waits for its [next attempt](retry_wait). An
//! occurrence that meets a run of its event may wait in a [queue](queue_wait), on a thread of its own.
//!
//! The way of a protected foreground event on Redis, from the tick to the driver. The answer comes back the same way.
//!
//! | file | step |
//! | --- | --- |
//! | `schedule/run_due.rs` | one tick; `schedule/tick_plan.rs`: which events are due |
//! | `schedule/execute/in_order.rs` | the loop: what has ended, and what comes next |
//! | `schedule/execute/store_request.rs` | the batch: the release of the last run, the admission of the next |
//! | `schedule/run_admission.rs` | what is refused without the store; the admission to ask for |
//! | `schedule/tick_context/outages.rs` | whether the store was unavailable a moment ago |
//! | `store/ask_store.rs` | every slot has an answer |
//! | `store/redis.rs` | the public store |
//! | `store/server/server_mutex.rs` | what an answer means for the caller, and what is released later |
//! | `store/server/attempts.rs` | pending releases; a connection; another attempt where that helps |
//! | `store/redis/engine.rs` | the calls of the scripts, on one connection |
//! | `store/redis/connection.rs` | the commands as bytes, and the answers, on the socket |
//!
//! The table leaves out code that only makes a value, such as names, the owner or the text of a script. Filters and
//! pauses are checked before the batch is made. Then `schedule/execute/one_run.rs` performs the run.

use std::thread;

use super::tick_plan::planned_run::PlannedRun;
use crate::lease::store_id::StoreId;
use crate::outcome::skip_reason::SkipReason;
use crate::task::{event_task::Work, runtime};

mod awaited_runs;
mod in_background;
mod in_order;
mod one_run;
mod queue_wait;
mod retry_wait;
mod store_request;
mod workers;

use in_background::run_in_background;
use in_order::run_in_order;
use one_run::PendingRun;
use workers::start_thread;

/// Performs these runs, and records a result for each.
///
/// If this thread belongs to a runtime that drives some of the runs, the other threads of that runtime drive them. If
/// it has no other threads, these runs are not started.
pub(crate) fn run_planned<'a>(planned: &'a [PlannedRun<'a>]) {
    let is_driven = |run: &PlannedRun<'_>, by| matches!(&run.event.work, Work::Future(task) if task.is_driven_by(by));
    let driven = runtime::here().and_then(|here| Some((here, planned.iter().find(|run| is_driven(run, here))?)));
    let run = || run_all(planned);
    let Some((here, driven)) = driven else { return run() };
    runtime::block(run).unwrap_or_else(|run| {
        let _ = driven.context.blocked.set(here);
        run();
    });
}

fn run_all<'a>(planned: &'a [PlannedRun<'a>]) {
    let loops = loops_of(planned);
    thread::scope(|scope| {
        let run = move |runs: &[&'a PlannedRun<'a>]| match runs {
            [first, _, ..] if first.event.background && !first.is_backlog => run_in_background(runs, scope),
            _ => run_in_order(runs, scope),
        };
        // The caller's thread runs the first loop, and the loops without a thread.
        let mut left = Vec::new();
        for runs in loops.iter().skip(1) {
            if !start_thread(scope, "soloist", move || run(runs)) {
                left.push(runs);
            }
        }
        loops.iter().take(1).chain(left).for_each(|runs| run(runs));
    });
}

/// The loop that a run belongs to.
#[derive(PartialEq)]
enum LoopOf<'a> {
    Foreground,
    /// The background runs of one store, or the background runs without a store.
    Background(Option<StoreId>),
    /// The missed occurrences of one event with `catch_up_all`. They delay no other event.
    Backlog(&'a str),
}

/// Returns the runs of each loop: the foreground first, then the other loops in the order of the plan.
fn loops_of<'a>(planned: &'a [PlannedRun<'a>]) -> Vec<Vec<&'a PlannedRun<'a>>> {
    let mut loops: Vec<(_, Vec<_>)> = Vec::new();
    for run in planned {
        let loop_of = match (run.is_backlog, run.event.background) {
            (true, _) => LoopOf::Backlog(&run.event.name),
            (false, true) => LoopOf::Background(run.asks_store().then_some(run.store.id)),
            (false, false) => LoopOf::Foreground,
        };
        match loops.iter_mut().find(|(of, _)| *of == loop_of) {
            Some((_, runs)) => runs.push(run),
            None => loops.push((loop_of, vec![run])),
        }
    }
    loops.sort_by_key(|(loop_of, _)| *loop_of != LoopOf::Foreground);
    loops.into_iter().map(|(_, runs)| runs).collect()
}

/// Skips these runs, and records this reason for each.
pub(crate) fn skip_planned(planned: &[PlannedRun<'_>], reason: &SkipReason) {
    for run in planned {
        PendingRun::new(run).skip(reason.clone());
    }
}
