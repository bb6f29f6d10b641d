//! The executor: runs what a tick has planned, and enters a result for each run.
//!
//! Foreground events run [in order](in_order) on the caller's thread. Background events run [side by side](in_background), with a
//! loop for each store, so that a store that is unavailable delays no release of another one, and with worker threads. For many
//! events a store has two loops: it works on the request of one while the other reads its reply and writes the next. A task that is
//! a future takes no thread: its loop looks after it, in `awaited_runs`, until it ends.
//!
//! The way of a protected foreground event on Redis, from the tick to the driver. The answer comes back the same way.
//!
//! | file | step |
//! | --- | --- |
//! | `schedule/registry.rs` | `run_due`: one tick |
//! | `schedule/tick_plan.rs` | which events are due |
//! | `schedule/execute/in_order.rs` | the loop: what has ended, and what comes next |
//! | `schedule/execute/store_request.rs` | the batch: the release of the last run, the admission of the next |
//! | `schedule/gate.rs` | what is refused without the store; the admission to ask for |
//! | `schedule/tick_context/outages.rs` | whether the store was out a moment ago |
//! | `store/handle/unanswered_slots.rs` | every slot has an answer that fits |
//! | `store/redis.rs` | the public store |
//! | `store/server/server_mutex.rs` | what an answer means for the caller, and what is released later |
//! | `store/server/attempts.rs` | pending releases; a connection; another attempt where that helps |
//! | `store/redis/engine.rs` | the calls of the scripts, on one connection |
//! | `store/redis/connection.rs` | the commands as bytes, and the answers, on the socket |
//!
//! What only makes a value on the way is left out: the names, the owner, the text of a script. Filters, and a look for a
//! pause, are asked before the batch is built. Then `schedule/execute/one_run.rs` performs the run.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Scope};

use super::planned_run::PlannedRun;
use super::report::Entry;
use crate::base::catch_panic::contain;
use crate::observe::{skip_reason::SkipReason, tell::trace::TraceSpan};
use crate::task::{runtime, work::Work};

mod awaited_runs;
mod in_background;
mod in_order;
#[cfg(test)]
mod loom_tests;
mod loop_signal;
mod one_run;
mod store_request;
mod task_timeout;
mod turn;
mod waiting;
mod worker_queue;
mod workers;

use in_background::run_in_background;
use in_order::run_in_order;
use one_run::{Pass, Planned};
use turn::run_in_turn;
use worker_queue::MAX_WORKERS;
use workers::start_thread;

/// The runs of one loop; `None` once a thread has taken them.
type Loop<'a> = Mutex<Option<Vec<Planned<'a>>>>;

/// Lets an occurrence that met a run wait in the queue of its event.
type Wait<'w, 'a> = &'w dyn Fn(Pass<'a>);

/// Runs these, and returns an entry for each in their order. `beside`: whether some run beside the others.
///
/// In a runtime that drives some of them, its other threads drive them meanwhile. If there are none, they are not started.
pub(crate) fn run_planned<'a>(planned: &'a [PlannedRun<'a>], beside: bool) -> Vec<Entry> {
    let is_driven = |run: &PlannedRun<'_>, by| matches!(&run.event.work, Work::Future(task) if task.is_driven_by(by));
    let driven = runtime::here().and_then(|here| Some((here, planned.iter().find(|run| is_driven(run, here))?)));
    let run = || run_all(planned, beside);
    let Some((here, driven)) = driven else { return run() };
    runtime::block(run).unwrap_or_else(|run| {
        let _ = driven.context.blocked.set(here);
        run()
    })
}

fn run_all<'a>(planned: &'a [PlannedRun<'a>], beside: bool) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(planned.len());
    if !beside {
        let in_order: Vec<Planned<'a>> = planned.iter().enumerate().collect();
        run_in_order(&in_order, &mut |_, entry| entries.push(entry), None);
        return entries;
    }
    let (background, foreground): (Vec<_>, Vec<_>) =
        planned.iter().enumerate().partition(|(_, run)| run.event.background);
    let loops = by_store(background);
    let (entered, tick) = (planned.iter().map(|_| OnceLock::new()).collect::<Vec<_>>(), TraceSpan::current());
    let enter = |index: usize, entry| _ = entered[index].set(entry); // Each run is entered once.
    thread::scope(|scope| {
        let waiters = Waiters { scope, tick: &tick, enter: &enter };
        let run = move |this: &Loop<'a>| {
            let (wait, mut enter) = (|pass| waiters.wait(pass), waiters.enter);
            // Whoever comes first runs it: its own thread, or the caller's.
            let runs = this.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
            match runs.len() {
                0 | 1 => run_in_order(&runs, &mut enter, Some(&wait)),
                _ => run_in_background(runs, &mut enter, &wait),
            }
        };
        // The caller's thread runs one of the loops.
        for this in loops.iter().skip(usize::from(foreground.is_empty())) {
            let tick = &tick;
            start_thread(scope, "soloist", move || {
                let _in_span = contain(|| tick.enter());
                run(this);
            });
        }
        run_in_order(&foreground, &mut &enter, Some(&|pass| waiters.wait(pass)));
        loops.iter().for_each(run);
    });
    entries.extend(entered.into_iter().map(|entry| entry.into_inner().expect("each run has its entry")));
    entries
}

/// Skips these for one reason, and returns an entry for each in their order.
pub(crate) fn skip_planned(planned: &[PlannedRun<'_>], reason: &SkipReason) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(planned.len());
    for pass in planned.iter().enumerate().map(|(index, run)| Pass::new(index, run)) {
        pass.skip(reason.clone(), &mut |_, entry| entries.push(entry));
    }
    entries
}

/// Enters why a run did not start, or lets it wait in the queue of its event.
fn turn_away<'a>(pass: Pass<'a>, reason: SkipReason, enter: &mut impl FnMut(usize, Entry), wait: Option<Wait<'_, 'a>>) {
    match (&reason, wait) {
        (SkipReason::Overlapping(_), Some(wait)) if pass.planned.queue().is_some() => wait(pass),
        _ => pass.skip(reason, enter),
    }
}

/// The threads of those who wait for their turn: each has its own, so that it delays no other.
struct Waiters<'scope, 'env, E> {
    scope: &'scope Scope<'scope, 'env>,
    tick: &'scope TraceSpan,
    enter: &'scope E,
}

impl<E> Clone for Waiters<'_, '_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Waiters<'_, '_, E> {}

impl<'scope, E: Fn(usize, Entry) + Sync> Waiters<'scope, '_, E> {
    fn wait<'a: 'scope>(self, pass: Pass<'a>) {
        let Self { scope, tick, mut enter } = self;
        let pass = Arc::new(Mutex::new(Some(pass)));
        let waits = Arc::clone(&pass);
        let take = |pass: &Mutex<Option<Pass<'a>>>| pass.lock().unwrap_or_else(PoisonError::into_inner).take();
        let started = start_thread(scope, "soloist-turn", move || {
            let _in_span = contain(|| tick.enter());
            if let Some(pass) = take(&waits) {
                run_in_turn(pass, &mut enter);
            }
        });
        if !started && let Some(pass) = take(&pass) {
            pass.skip(SkipReason::Overlapping(None), &mut enter);
        }
    }
}

/// The background runs of each store, in the order in which the stores are first asked; and those that ask none. Where
/// one loop has too few workers for all, there are two.
fn by_store(runs: Vec<Planned<'_>>) -> Vec<Loop<'_>> {
    let mut loops: Vec<(_, Vec<_>)> = Vec::new();
    for (index, run) in runs {
        let store = run.asks_store().then_some(run.store.id);
        match loops.iter_mut().find(|(of, _)| *of == store) {
            Some((_, runs)) => runs.push((index, run)),
            None => loops.push((store, vec![(index, run)])),
        }
    }
    let parts = |runs: &[_]| if runs.len() > MAX_WORKERS { 2 } else { 1 };
    let runs = loops.iter().flat_map(|(_, runs)| runs.chunks(runs.len().div_ceil(parts(runs))));
    runs.map(|runs| Mutex::new(Some(runs.to_vec()))).collect()
}
