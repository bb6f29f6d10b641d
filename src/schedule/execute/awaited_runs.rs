//! The runs whose tasks are futures, and those that wait for a retry. They take no thread: the loop that started them looks after
//! them until the task or the wait ends.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::task::{self, Waker};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::one_run::ActiveRun;
use super::retry_wait::{Awaited, PartEnd, RetryWait};
use crate::task::future_task::{TaskControl, TaskEnd};
use crate::time::clock::{Clock, Waiting};
use crate::time::{clock::manual::Wake, clock::moment::Moment};

/// A part of a run that has begun.
enum Begun<'a> {
    Task(Arc<TaskControl>),
    Retry(RetryWait<'a>),
}

/// The runs that a loop awaits.
pub(super) struct AwaitedRuns<'a> {
    /// By the numbers of their parts.
    runs: HashMap<usize, (ActiveRun<'a>, Begun<'a>)>,
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

/// The end of a task or of a wait, by its number; or a change for one of the runs.
pub(super) enum Arrival {
    /// `None`: a wait has ended.
    Ended(usize, Option<TaskEnd>),
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

    /// Starts the task or the wait of a run.
    pub(super) fn start(&mut self, run: ActiveRun<'a>, awaited: Awaited<'a>) {
        self.waiting.get_or_insert_with(|| run.planned.clock.waiting(&self.sender));
        self.started += 1;
        let begun = self.sender.start(self.started, awaited);
        self.next_look = self.next_look.min(self.sender.look_after(self.started, &begun));
        self.runs.insert(self.started, (run, begun));
    }

    /// Takes out the runs whose tasks or waits have ended.
    pub(super) fn take_ended(&mut self) -> Vec<ActiveRun<'a>> {
        let mut ended = Vec::new();
        for arrival in self.arrivals.try_iter() {
            match arrival {
                Arrival::Changed => self.has_changes = true,
                Arrival::Ended(number, end) => ended.extend(self.runs.remove(&number).map(|(mut run, begun)| {
                    run.go_on_after(begun.ended(end));
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
            let looks = self.runs.iter().map(|(number, (_, begun))| self.sender.look_after(*number, begun));
            self.next_look = looks.min().unwrap_or(Moment::NEVER);
        }
        waiting.patience(self.next_look)
    }
}

/// Performs a run on this thread, up to its release.
pub(super) fn perform_here(mut run: ActiveRun<'_>) -> ActiveRun<'_> {
    while let Some(awaited) = run.perform() {
        let end = await_here(awaited, run.planned.clock);
        run.go_on_after(end);
    }
    run
}

/// Starts a task or a wait, and waits here for its end.
fn await_here<'a>(awaited: Awaited<'a>, clock: &Clock) -> PartEnd<'a> {
    let (sender, arrivals) = ArrivalSender::new();
    let waiting = clock.waiting(&sender);
    let begun = sender.start(0, awaited);
    loop {
        let patience = waiting.patience(sender.look_after(0, &begun));
        if let Ok(Arrival::Ended(_, end)) = arrivals.recv_timeout(patience) {
            return begun.ended(end);
        }
    }
}

impl<'a> Begun<'a> {
    /// Returns the end of this part: a task ends with an end of its own.
    fn ended(self, end: Option<TaskEnd>) -> PartEnd<'a> {
        match self {
            Self::Retry(wait) => PartEnd::Retry(wait),
            Self::Task(_) => PartEnd::Task(end.expect("a task ends with one")),
        }
    }
}

impl ArrivalSender {
    fn new() -> (Arc<Self>, Receiver<Arrival>) {
        let (sender, arrivals) = unbounded();
        (Arc::new(Self(sender)), arrivals)
    }

    /// Starts a task or a wait, whose end and changes arrive here.
    fn start<'a>(self: &Arc<Self>, number: usize, awaited: Awaited<'a>) -> Begun<'a> {
        let (sender, changed) = (Arc::clone(self), Waker::from(Arc::clone(self)));
        match awaited {
            Awaited::Task(task) => {
                Begun::Task(task.start(&changed, move |end| sender.send(Arrival::Ended(number, Some(end)))))
            }
            Awaited::Retry(wait) => {
                wait.start(&changed);
                Begun::Retry(wait)
            }
        }
    }

    /// Ends a task that has to stop, or a wait that is over, and returns when to look again.
    fn look_after(&self, number: usize, begun: &Begun<'_>) -> Moment {
        match begun {
            Begun::Task(control) => control.enforce(),
            Begun::Retry(wait) => wait.next_look().unwrap_or_else(|| {
                self.send(Arrival::Ended(number, None));
                Moment::NEVER
            }),
        }
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
