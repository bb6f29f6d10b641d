//! The task of an event: a callback, a command or a future.

use super::command::Command;
use super::future_task::FutureTask;
use super::run::Run;
use super::task_result::{IntoTaskResult, TaskResult};

pub(crate) enum Work {
    Callback(Task),
    Command(Box<Command>),
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "no runtime is known that could drive it"))]
    Future(Box<FutureTask>),
}

pub(crate) type Task = Box<dyn Fn(&Run) -> TaskResult + Send + Sync>;

pub(crate) fn callback<R: IntoTaskResult>(task: impl Fn(&Run) -> R + Send + Sync + 'static) -> Task {
    Box::new(move |run| task(run).into_task_result())
}
