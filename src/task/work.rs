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

/// The time that is reserved for the end of a task whose grace is over: of a killed command, or of a future's last poll.
pub(crate) const ENDING_TAKES: Duration = Duration::from_secs(1);

/// The default grace, the time from the cancellation of a task to its end by force.
pub(crate) const USUAL_GRACE: Duration = Duration::from_secs(5);

/// The longest grace. A task is cancelled so long before the deadline of its lease.
pub(crate) const LONGEST_GRACE: Duration = Duration::from_secs(60 * 60);

pub(crate) type Task = Box<dyn Fn(&Run) -> TaskResult + Send + Sync>;

pub(crate) fn callback<R: IntoTaskResult>(task: impl Fn(&Run) -> R + Send + Sync + 'static) -> Task {
    Box::new(move |run| task(run).into_task_result())
}
