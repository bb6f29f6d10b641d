//! A future that says of each of its polls whether its lease was over.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use soloist::Run;
use soloist::time::{Clock, Moment};

/// The time before the end of its lease at which a future is dropped, whatever its grace.
const DROPPED_BEFORE: Duration = Duration::from_secs(1);

/// Looks at the clock when a poll begins and when it ends.
pub(crate) struct Watched<F> {
    task: Pin<Box<F>>,
    run: Run,
    /// The time before the end of its lease at which it is cancelled.
    told_before: Duration,
    /// The last known end of its lease.
    deadline: Option<Moment>,
    say: Say,
}

type Say = Box<dyn Fn(&Run, &str) + Send>;

impl<F: Future> Watched<F> {
    /// Watches a task. `say` is called with `late_poll` if a poll begins after the end of the lease, and with `poll_in_flight` if a
    /// poll began before it and ends after it.
    pub(crate) fn new(run: Run, grace: Duration, task: F, say: impl Fn(&Run, &str) + Send + 'static) -> Self {
        Self { task: Box::pin(task), run, told_before: grace + DROPPED_BEFORE, deadline: None, say: Box::new(say) }
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Clock::system().moment())
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let now = Clock::system().moment();
        if let Some(left) = self.run.remaining().filter(|left| self.run.lease().is_some() && !left.is_zero()) {
            self.deadline = Some(now.plus(left + self.told_before));
        }
        let begins_late = self.is_late();
        if begins_late {
            (self.say)(&self.run, "late_poll");
        }
        let polled = self.task.as_mut().poll(context);
        if !begins_late && self.is_late() {
            (self.say)(&self.run, "poll_in_flight");
        }
        polled
    }
}
