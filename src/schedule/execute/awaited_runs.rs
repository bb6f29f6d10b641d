//! The runs that need no thread at the moment, because their tasks are futures or because they wait for a retry. The
//! loop that started such a run checks the run until its task or its wait has ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{self, Waker};
use std::time::Duration;

use crossbeam_channel::{Receiver, Select, Sender, never, unbounded};

use super::next_attempt::AwaitedPart;
use super::one_run::ActiveRun;
use crate::task::future_task::TaskEnd;
use crate::time::clock::Waiting;
use crate::time::{clock::manual::Wake, clock::moment::Moment};

/// The runs that a loop awaits.
pub(super) struct AwaitedRuns<'a> {
    /// The key is a serial number: the value of `started` at the start of the run's task or wait.
    runs: HashMap<usize, ActiveRun<'a>>,
    started: usize,
    sender: Arc<ArrivalSender>,
    arrivals: Receiver<Arrival>,
    /// The time of the next check.
    next_look: Moment,
    /// The registration of the loop at the clock; `None` if no run is awaited.
    waiting: Option<Waiting>,
}

/// A message for the loop.
enum Arrival {
    /// The task or the wait with this number has ended. Only a task has a [`TaskEnd`].
    Ended(usize, Option<TaskEnd>),
    Changed,
}

/// The sender of messages to the loop. Runtimes, the renewal thread and a test's clock share this sender.
struct ArrivalSender(Sender<Arrival>);

impl Default for AwaitedRuns<'_> {
    fn default() -> Self {
        let (sender, arrivals) = unbounded();
        let sender = Arc::new(ArrivalSender(sender));
        Self { runs: HashMap::new(), started: 0, sender, arrivals, next_look: Moment::NEVER, waiting: None }
    }
}

impl<'a> AwaitedRuns<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Starts the task or the wait of a run.
    pub(super) fn start(&mut self, mut run: ActiveRun<'a>) {
        self.waiting.get_or_insert_with(|| run.planned.clock.waiting(&self.sender));
        self.started += 1;
        self.sender.start(self.started, &mut run);
        self.next_look = self.next_look.min(self.sender.look_after(self.started, &mut run));
        self.runs.insert(self.started, run);
    }

    /// Removes and returns the runs whose tasks or waits have ended.
    pub(super) fn take_ended(&mut self) -> Vec<ActiveRun<'a>> {
        let mut ended = Vec::new();
        for arrival in self.arrivals.try_iter() {
            let Arrival::Ended(number, end) = arrival else {
                self.next_look = Moment::BEGINNING;
                continue;
            };
            let Some(mut run) = self.runs.remove(&number) else { continue };
            run.note_end(end);
            ended.push(run);
        }
        if self.runs.is_empty() {
            self.waiting = None;
        }
        ended
    }

    /// Stops the tasks that must stop. Returns how long the loop can wait until the next check.
    pub(super) fn look_after(&mut self) -> Duration {
        let Some(waiting) = &self.waiting else { return Duration::MAX };
        if self.next_look <= waiting.clock().moment() {
            let looks = self.runs.iter_mut().map(|(number, run)| self.sender.look_after(*number, run));
            self.next_look = looks.min().unwrap_or(Moment::NEVER);
        }
        waiting.patience(self.next_look)
    }

    /// Waits for a message to the loop or in `other`, for at most `patience`. Returns whether there is such a message.
    pub(super) fn hears_within<T>(&self, patience: Duration, other: &Receiver<T>) -> bool {
        let mut either = Select::new();
        either.recv(&self.arrivals);
        either.recv(other);
        either.ready_timeout(patience).is_ok()
    }
}

/// Waits on this thread until the run's task or wait has ended. Returns the run.
pub(super) fn await_here(run: ActiveRun<'_>) -> ActiveRun<'_> {
    let mut awaited = AwaitedRuns::default();
    awaited.start(run);
    loop {
        let patience = awaited.look_after();
        awaited.hears_within(patience, &never::<()>());
        if let Some(ended) = awaited.take_ended().pop() {
            return ended;
        }
    }
}

impl ArrivalSender {
    /// Starts the task or the wait of a run. When the task or the wait ends, the loop gets a message with this
    /// `number`.
    fn start(self: &Arc<Self>, number: usize, run: &mut ActiveRun<'_>) {
        let Some((part, run, span)) = run.awaited() else { return };
        let (sender, changed) = (Arc::clone(self), Waker::from(Arc::clone(self)));
        let on_end = move |end| sender.send(Arrival::Ended(number, Some(end)));
        match part {
            AwaitedPart::NextTask(task) => *part = AwaitedPart::Task(task.start(run, span, &changed, on_end)),
            AwaitedPart::Retry(_, wait) => wait.start(&changed),
            AwaitedPart::Task(_) | AwaitedPart::TaskEnded(_) => {}
        }
    }

    /// Stops the task if it must stop, or ends the wait if its time is over. Returns the time of the next check.
    fn look_after(&self, number: usize, run: &mut ActiveRun<'_>) -> Moment {
        match run.awaited() {
            Some((AwaitedPart::Task(control), ..)) => control.enforce(),
            Some((AwaitedPart::Retry(_, wait), ..)) => wait.next_look().unwrap_or_else(|| {
                self.send(Arrival::Ended(number, None));
                Moment::NEVER
            }),
            _ => Moment::NEVER,
        }
    }

    fn send(&self, arrival: Arrival) {
        let _ = self.0.send(arrival); // A loop that is over needs no message.
    }
}

/// Wakes the loop, because one of its runs has changed.
impl task::Wake for ArrivalSender {
    fn wake(self: Arc<Self>) {
        self.send(Arrival::Changed);
    }
}

/// Wakes the loop, because a test's clock has reached the time of the next check.
impl Wake for ArrivalSender {
    fn wake(&self) {
        self.send(Arrival::Changed);
    }
}
