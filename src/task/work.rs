//! The task of an event: a callback, a command or a future.

use std::time::Duration;

use super::command::Command;
use super::future_task::FutureTask;
use super::run::Run;
use super::task_result::{IntoTaskResult, TaskResult};

/// The task of an event.
pub(crate) enum Work {
    Callback(Task),
    Command(Box<Command>),
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "no runtime is known that could drive it"))]
    Future(Box<FutureTask>),
}

impl Work {
    /// Returns how long the task may take to stop. `None`: a callback, which can't be ended.
    pub(crate) fn grace(&self) -> Option<Duration> {
        match self {
            Self::Callback(_) => None,
            Self::Command(command) => Some(command.grace),
            Self::Future(task) => Some(task.grace),
        }
    }

    /// Sets how long the task may take to stop. A callback can't be ended.
    pub(crate) fn set_grace(&mut self, grace: Duration) {
        match self {
            Self::Callback(_) => {}
            Self::Command(command) => command.grace = grace,
            Self::Future(task) => task.grace = grace,
        }
    }

    /// Returns how long before the deadline of the lease the task is cancelled.
    #[inline]
    pub(crate) fn stopping(&self) -> Duration {
        match self {
            // A callback must check for itself.
            Self::Callback(_) => Duration::ZERO,
            Self::Command(command) => command.stopping(),
            Self::Future(task) => task.stopping(),
        }
    }
}

pub(crate) type Task = Box<dyn Fn(&Run) -> TaskResult + Send + Sync>;

pub(crate) fn callback<R: IntoTaskResult>(task: impl Fn(&Run) -> R + Send + Sync + 'static) -> Task {
    Box::new(move |run| task(run).into_task_result())
}
