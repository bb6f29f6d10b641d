//! The runs whose tasks are futures. They take no thread: the loop that started them looks after them until they end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Waker};
use std::time::Duration;

use super::loop_signal::LoopSignal;
use super::one_run::ActiveRun;
use crate::task::future_task::{PreparedTask, TaskControl, TaskEnd};
use crate::time::clock::{Clock, Waiting};
use crate::time::{clock::manual::Wake, clock::moment::Moment};

/// The runs that one loop awaits.
#[derive(Default)]
pub(super) struct AwaitedRuns<'a> {
    state: Mutex<State<'a>>,
    arrivals: Arc<Arrivals>,
}

#[derive(Default)]
struct State<'a> {
    /// Each under its place in the plan, with what controls its task once that has started.
    runs: HashMap<usize, (ActiveRun<'a>, Option<Arc<TaskControl>>)>,
    /// When to look after them again; `None`: there is no reason to.
    next_look: Option<Moment>,
    /// For as long as there are any.
    waiting: Option<Waiting>,
}

/// The ends of tasks, each under the place of its run, and whether something has changed for one that has not ended.
#[derive(Default)]
struct Arrivals {
    ended: Mutex<Vec<(usize, TaskEnd)>>,
    has_changes: AtomicBool,
    signal: Arc<LoopSignal>,
}

impl State<'_> {
    fn controls(&self) -> Vec<Arc<TaskControl>> {
        self.runs.values().filter_map(|(_, control)| control.clone()).collect()
    }
}

impl<'a> AwaitedRuns<'a> {
    /// What the ends of tasks, and changes, wake.
    pub(super) fn signal(&self) -> &Arc<LoopSignal> {
        &self.arrivals.signal
    }

    /// Starts the task of a run.
    pub(super) fn start(&self, run: ActiveRun<'a>, task: PreparedTask) {
        let (index, clock) = (run.pass.index, run.pass.planned.clock);
        let mut state = self.state();
        state.waiting.get_or_insert_with(|| clock.waiting(&self.arrivals));
        state.runs.insert(index, (run, None));
        drop(state);
        let arrivals = Arc::clone(&self.arrivals);
        let changed = Waker::from(Arc::clone(&self.arrivals));
        let control = task.start(&changed, move |end| arrivals.push(index, end));
        // It may have ended and been taken out meanwhile. From here on it is looked after at each change.
        if let Some((_, of_this)) = self.state().runs.get_mut(&index) {
            *of_this = Some(Arc::clone(&control));
        }
        // Runtimes are woken by this, so nothing is locked meanwhile.
        let next = control.enforce();
        let mut state = self.state();
        state.next_look = Some(state.next_look.map_or(next, |known| known.min(next)));
    }

    /// The runs whose tasks have ended.
    pub(super) fn take_ended(&self) -> Vec<ActiveRun<'a>> {
        let ended = self.arrivals.take();
        let mut state = self.state();
        let runs = ended.into_iter().filter_map(|(index, end)| {
            let (mut run, _) = state.runs.remove(&index)?;
            run.task_has_ended(end);
            Some(run)
        });
        let runs = runs.collect();
        if state.runs.is_empty() {
            state.waiting = None;
        }
        runs
    }

    /// Sees to it that those stop that have to, and says for how long the loop may wait; `None`: there are none.
    pub(super) fn look_after(&self) -> Option<Duration> {
        let mut state = self.state();
        let now = state.waiting.as_ref()?.clock().moment();
        let is_due = state.next_look.is_some_and(|next| next <= now);
        if self.arrivals.has_changes.swap(false, Ordering::AcqRel) || is_due {
            state.next_look = None;
            let controls = state.controls();
            drop(state);
            // Runtimes are woken by this, so nothing is locked meanwhile.
            let next = controls.iter().map(|control| control.enforce()).min();
            state = self.state();
            // Another may have been started meanwhile.
            state.next_look = state.next_look.into_iter().chain(next).min();
        }
        Some(state.waiting.as_ref()?.patience(state.next_look.unwrap_or(Moment::NEVER)))
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Performs a run on this thread, up to its release.
pub(super) fn perform_here(mut run: ActiveRun<'_>) -> ActiveRun<'_> {
    if let Some(task) = run.perform() {
        let planned = run.pass.planned;
        run.task_has_ended(await_here(task, planned.clock));
        run.perform();
    }
    run
}

/// Starts a task, and waits here for its end.
fn await_here(task: PreparedTask, clock: &Clock) -> TaskEnd {
    let arrivals = Arc::new(Arrivals::default());
    let (waker, waiting) = (Waker::from(Arc::clone(&arrivals)), clock.waiting(&arrivals));
    let ends = Arc::clone(&arrivals);
    let control = task.start(&waker, move |end| ends.push(0, end));
    loop {
        let patience = waiting.patience(control.enforce());
        if let Some((_, end)) = arrivals.take().pop() {
            return end;
        }
        arrivals.signal.wait(Some(patience));
    }
}

impl Arrivals {
    fn push(&self, index: usize, end: TaskEnd) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((index, end));
        self.signal.wake();
    }

    fn take(&self) -> Vec<(usize, TaskEnd)> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self) {
        self.has_changes.store(true, Ordering::Release);
        self.signal.wake();
    }
}

/// Something has changed for one of the runs.
impl task::Wake for Arrivals {
    fn wake(self: Arc<Self>) {
        self.change();
    }
}

/// The clock of a test has come to the next look.
impl Wake for Arrivals {
    fn wake(&self) {
        self.change();
    }
}
