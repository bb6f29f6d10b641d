//! The executor: performs the planned runs of a tick, and records a result for each run.
//!
//! Foreground events run [one after another](run_in_order), on the caller's thread. Background events run [at the same
//! time](in_background), on [worker threads](workers). Each store has its own loop of background events, so that an
//! unavailable store does not delay the releases in another store. If more than a hundred of these events are due, two
//! loops share them: while one loop waits for the store, the other performs its runs. A task that is a future needs no
//! thread: the loop checks the future in [`awaited_runs`] until it ends. A run that waits for its [next
//! attempt](next_attempt) needs no thread either. An occurrence that overlaps a run of its event can wait in a
//! [queue](queue_wait), on a separate thread.
//!
//! Filters and pauses are checked before a request is made. `ARCHITECTURE.md` follows one run.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use super::report::Entry;
use super::run_due::planned_run::PlannedRun;
use crate::lease::store_id::StoreId;
use crate::outcome::skip_reason::SkipReason;
use crate::store::event_mutex::{batch::BATCH_SIZE, held::Held};
use crate::task::{event_task::Work, future_task::FutureTask, runtime};

mod awaited_runs;
mod in_background;
mod one_run;
mod queue_wait;
mod next_attempt;
mod store_request;
mod claims_of_others;
mod workers;

use claims_of_others::ClaimsOfOthers;
use in_background::{PlannedRuns, run_in_background};
use queue_wait::refuse_or_queue;
use store_request::{PendingRun, StoreRequest};
use workers::{log_fewer_threads, start_thread};

/// Performs these runs. Returns their entries in the report.
///
/// If this thread belongs to a tokio runtime, the call blocks the thread. The other threads of the runtime then poll
/// the futures of the runs. If the runtime has no other thread, it can't poll a future. So a run whose task is a future
/// of this runtime fails, and its task is not started.
pub(crate) fn run_planned(planned: Vec<PlannedRun<'_>>) -> Vec<Entry> {
    let is_driven_here = |task: &FutureTask| runtime::here().is_some_and(|here| task.is_driven_by(here));
    let driven = planned.iter().find(|run| matches!(&run.event.work, Work::Future(task) if is_driven_here(task)));
    match driven {
        None => run_all(&planned),
        Some(driven) => runtime::block(|blocked| {
            if let Some(runtime) = blocked {
                let _ = driven.context.blocked.set(runtime); // The loop may have set it.
            }
            run_all(&planned);
        }),
    }
    entries_of(planned)
}

fn run_all<'a>(planned: &'a [PlannedRun<'a>]) {
    let runs = loops_of(planned);
    let queues: Vec<PlannedRuns<'_, 'a>> = runs.iter().map(|runs| Mutex::new(runs.iter().peekable())).collect();
    let loops = || runs.iter().zip(&queues);
    thread::scope(|scope| {
        let run = move |(runs, queue): (&Vec<&'a PlannedRun<'a>>, &PlannedRuns<'_, 'a>)| {
            if runs.len() > 1 && are_in_background(runs) {
                run_in_background(queue, scope);
            } else {
                run_in_order(runs, scope);
            }
        };
        // The caller's thread runs the first loop, and each loop for which no thread could be started.
        let mut left: Vec<_> = loops().take(1).collect();
        let shared = loops().filter(|(runs, _)| runs.len() > BATCH_SIZE && are_in_background(runs));
        for runs in loops().skip(1).chain(shared) {
            if let Err(error) = start_thread(scope, "soloist", move || run(runs)) {
                log_fewer_threads(&error);
                left.push(runs);
            }
        }
        left.into_iter().for_each(run);
    });
}

/// Returns whether these runs of one loop may run at the same time.
fn are_in_background(runs: &[&PlannedRun<'_>]) -> bool {
    runs.first().is_some_and(|first| first.event.background && !first.is_backlog)
}

/// The loop that performs a run.
#[derive(PartialEq)]
enum LoopOf<'a> {
    Foreground,
    /// The background runs of one store, or the background runs without a store.
    Background(Option<StoreId>),
    /// Several occurrences of one event in this tick. They run one after another, and delay no other event.
    Backlog(&'a str),
}

/// Returns the runs of each loop: the foreground first, then the other loops in the order of the plan.
fn loops_of<'a>(planned: &'a [PlannedRun<'a>]) -> Vec<Vec<&'a PlannedRun<'a>>> {
    let mut loops: Vec<(_, Vec<_>)> = Vec::new();
    for run in planned {
        let loop_of = match (run.is_backlog, run.event.background) {
            (true, _) => LoopOf::Backlog(&run.event.name),
            (false, true) => LoopOf::Background(run.asks_store.then_some(run.store.id)),
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

/// Performs these runs one after another, and records a result for each run.
///
/// The lease of a run is released before any code of the next event is called. One request carries this release and the
/// next admission, if the next run needs no check before its admission, and if both runs use one store. Otherwise the
/// release is a separate request.
fn run_in_order<'scope, 'a: 'scope>(planned: &[&'a PlannedRun<'a>], scope: &'scope Scope<'scope, '_>) {
    let mut request = StoreRequest::default();
    let mut taken = ClaimsOfOthers::default();
    for (at, &run) in planned.iter().enumerate() {
        let claimed = taken.claims.remove(&at);
        // Filters are called, and pauses are read, after the release of the run before.
        let joins_release = claimed.is_none() && run.asks_store && !run.needs_check() && request.may_include(run);
        if !joins_release {
            request.ask();
        }
        let pending = PendingRun::new(run);
        let check = || pending.span.in_scope(|| run.check_before_store()).err();
        let elsewhere = |claim: Held| SkipReason::RanElsewhere(claim.into_holder());
        let refusal = if joins_release { None } else { check().or_else(|| claimed.map(elsewhere)) };
        let is_asked = refusal.is_none() && run.asks_store;
        match refusal {
            Some(reason) => request.refused.push((pending, reason)),
            None => request.admit(pending),
        }
        request.ask();
        request.perform_here();
        let is_lost = is_asked && matches!(request.refused[..], [(_, SkipReason::RanElsewhere(_))]);
        if let Some((pending, reason)) = request.refused.pop() {
            refuse_or_queue(pending, reason, scope);
        }
        if is_lost {
            taken.read_after_a_loss(run, at, planned);
        } else if is_asked {
            taken = ClaimsOfOthers::default(); // The run may have taken long, so the claims are read again later.
        }
    }
    request.ask();
}

/// Skips these runs because of `reason`. Returns their entries in the report.
pub(crate) fn skip_planned(planned: Vec<PlannedRun<'_>>, reason: &SkipReason) -> Vec<Entry> {
    for run in &planned {
        PendingRun::new(run).skip(reason.clone());
    }
    entries_of(planned)
}

fn entries_of(mut planned: Vec<PlannedRun<'_>>) -> Vec<Entry> {
    let entry = |run: &mut PlannedRun<'_>| {
        let verdict = run.verdict.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        run.entry(verdict.expect("each run has its result"))
    };
    planned.iter_mut().map(entry).collect()
}
