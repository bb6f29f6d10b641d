//! The runs whose tasks are futures. They take no thread: the loop that started them looks after them until they end.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::task::{self, Waker};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::one_run::ActiveRun;
use crate::task::future_task::{PreparedTask, TaskControl, TaskEnd};
use crate::time::clock::{Clock, Waiting};
use crate::time::{clock::manual::Wake, clock::moment::Moment};

/// The runs that one loop awaits.
pub(super) struct AwaitedRuns<'a> {
    /// By the numbers of their tasks.
    runs: HashMap<usize, (ActiveRun<'a>, Arc<TaskControl>)>,
    started: usize,
    sender: Arc<ArrivalSender>,
    arrivals: Receiver<Arrival>,
    /// Whether something has changed for one of the runs since the last look.
    has_changes: bool,
    /// When to look after them again.
    next_look: Moment,
    /// For as long as there are any.
    waiting: Option<Waiting>,
}

/// The end of a task, by its number; or a change for one of the runs.
pub(super) enum Arrival {
    Ended(usize, TaskEnd),
    Changed,
}

/// The sender of the loop's arrivals, which runtimes, the renewal of leases and the clock of a test have.
struct ArrivalSender(Sender<Arrival>);

impl Default for AwaitedRuns<'_> {
    fn default() -> Self {
        let (sender, arrivals) = ArrivalSender::new();
        let (has_changes, next_look) = (false, Moment::NEVER);
        Self { runs: HashMap::new(), started: 0, sender, arrivals, has_changes, next_look, waiting: None }
    }
}

impl<'a> AwaitedRuns<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn arrivals(&self) -> &Receiver<Arrival> {
        &self.arrivals
    }

    /// Starts the task of a run.
    pub(super) fn start(&mut self, run: ActiveRun<'a>, task: PreparedTask) {
        self.waiting.get_or_insert_with(|| run.planned.clock.waiting(&self.sender));
        self.started += 1;
        let control = self.sender.start(self.started, task);
        self.next_look = self.next_look.min(control.enforce());
        self.runs.insert(self.started, (run, control));
    }

    /// Takes out the runs whose tasks have ended.
    pub(super) fn take_ended(&mut self) -> Vec<ActiveRun<'a>> {
        let mut ended = Vec::new();
        for arrival in self.arrivals.try_iter() {
            match arrival {
                Arrival::Changed => self.has_changes = true,
                Arrival::Ended(number, end) => ended.extend(self.runs.remove(&number).map(|(mut run, _)| {
                    run.task_has_ended(end);
                    run
                })),
            }
        }
        if self.runs.is_empty() {
            self.waiting = None;
        }
        ended
    }

    /// Stops the tasks that have to stop, and returns for how long the loop may wait.
    pub(super) fn look_after(&mut self) -> Duration {
        let Some(waiting) = &self.waiting else { return Duration::MAX };
        if mem::take(&mut self.has_changes) || self.next_look <= waiting.clock().moment() {
            let looks = self.runs.values().map(|(_, control)| control.enforce());
            self.next_look = looks.min().unwrap_or(Moment::NEVER);
        }
        waiting.patience(self.next_look)
    }
}

/// Performs a run on this thread, up to its release.
pub(super) fn perform_here(mut run: ActiveRun<'_>) -> ActiveRun<'_> {
    if let Some(task) = run.perform() {
        run.task_has_ended(await_here(task, run.planned.clock));
        run.perform();
    }
    run
}

/// Starts a task, and waits here for its end.
fn await_here(task: PreparedTask, clock: &Clock) -> TaskEnd {
    let (sender, arrivals) = ArrivalSender::new();
    let waiting = clock.waiting(&sender);
    let control = sender.start(0, task);
    loop {
        let patience = waiting.patience(control.enforce());
        if let Ok(Arrival::Ended(_, end)) = arrivals.recv_timeout(patience) {
            return end;
        }
    }
}

impl ArrivalSender {
    fn new() -> (Arc<Self>, Receiver<Arrival>) {
        let (sender, arrivals) = unbounded();
        (Arc::new(Self(sender)), arrivals)
    }

    /// Starts a task, whose end and changes arrive here.
    fn start(self: &Arc<Self>, number: usize, task: PreparedTask) -> Arc<TaskControl> {
        let sender = Arc::clone(self);
        task.start(&Waker::from(Arc::clone(self)), move |end| sender.send(Arrival::Ended(number, end)))
    }

    fn send(&self, arrival: Arrival) {
        let _ = self.0.send(arrival); // After the end of its run, a change is of no interest.
    }
}

/// Something has changed for one of the runs.
impl task::Wake for ArrivalSender {
    fn wake(self: Arc<Self>) {
        self.send(Arrival::Changed);
    }
}

/// The clock of a test has come to the next look.
impl Wake for ArrivalSender {
    fn wake(&self) {
        self.send(Arrival::Changed);
    }
}
