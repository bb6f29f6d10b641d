//! The runs whose tasks are futures. They take no thread: the loop that started them looks after them until they end.

use std::collections::HashMap;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Waker};
use std::time::Duration;

use super::loop_signal::LoopSignal;
use super::one_run::ActiveRun;
use crate::schedule::tick_context::FirstPoll;
use crate::task::future_task::{PreparedTask, TaskControl, TaskEnd};
use crate::time::clock::{Clock, Waiting};
use crate::time::{clock::manual::Wake, clock::moment::Moment};

const BLOCKED: &str = "its runtime did not get to it in time: this call blocks it, unless something else does. In a task, use \
                       `run_due_async`, `run_minute_async` or `run_async`";

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
    /// When a runtime should have polled the first of them, on the machine's clock.
    begins_by: Option<Moment>,
}

/// The ends of tasks, each under the place of its run, and whether something has changed for one that has not ended.
#[derive(Default)]
struct Arrivals {
    ended: Mutex<Vec<(usize, TaskEnd)>>,
    has_changes: AtomicBool,
    signal: Arc<LoopSignal>,
}

impl<'a> State<'a> {
    fn first_poll(&self) -> Option<&'a FirstPoll> {
        self.runs.values().next().map(|(run, _)| &run.pass.planned.context.first_poll)
    }

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
        if let Some(patience) = run.pass.planned.context.first_poll.patience(task.runtime()) {
            state.begins_by.get_or_insert(Clock::system().moment().plus(patience));
        }
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
            let (mut run, control) = state.runs.remove(&index)?;
            let first_poll = &run.pass.planned.context.first_poll;
            let is_of_here = control.is_some_and(|control| first_poll.is_of(control.runtime));
            if state.begins_by.is_some() && end.has_begun && is_of_here {
                first_poll.was_seen();
                state.begins_by = None;
            }
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
        let patience = state.waiting.as_ref()?.patience(state.next_look.unwrap_or(Moment::NEVER));
        let Some(begins_by) = state.begins_by else { return Some(patience) };
        let left = begins_by.since(Clock::system().moment());
        if left.is_zero() {
            state.begins_by = None;
            let (controls, first_poll) = (state.controls(), state.first_poll());
            drop(state);
            give_up_if_blocked(&controls, first_poll?);
        }
        Some(patience.min(left))
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a task, and waits here for its end.
pub(super) fn await_here(task: PreparedTask, clock: &Clock, first_poll: &FirstPoll) -> TaskEnd {
    let arrivals = Arc::new(Arrivals::default());
    let (waker, waiting) = (Waker::from(Arc::clone(&arrivals)), clock.waiting(&arrivals));
    let ends = Arc::clone(&arrivals);
    let control = task.start(&waker, move |end| ends.push(0, end));
    let mut begins_by = first_poll.patience(control.runtime).map(|patience| Clock::system().moment().plus(patience));
    loop {
        let mut patience = waiting.patience(control.enforce());
        if let Some((_, end)) = arrivals.take().pop() {
            return end;
        }
        if let Some(by) = begins_by {
            let left = by.since(Clock::system().moment());
            patience = patience.min(left);
            if left.is_zero() {
                begins_by = None;
                give_up_if_blocked(slice::from_ref(&control), first_poll);
            }
        }
        arrivals.signal.wait(Some(patience));
    }
}

/// Gives up what a runtime has not polled in time, unless it has polled one of them.
fn give_up_if_blocked(controls: &[Arc<TaskControl>], first_poll: &FirstPoll) {
    let of_here = || controls.iter().filter(|control| first_poll.is_of(control.runtime));
    if of_here().any(|control| control.has_begun()) {
        return first_poll.was_seen();
    }
    for control in of_here() {
        if control.give_up_unless_begun(BLOCKED) {
            first_poll.was_in_vain();
        }
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
