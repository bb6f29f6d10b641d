//! The task of an event: a callback, a command or a future. Also the results of tasks and hooks.

use super::command::Command;
use super::future_task::FutureTask;
use super::run::Run;
use crate::base::error::BoxError;

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

/// The result of a task or a hook that can fail. `?` converts any error that is `Send + Sync` into the error type of
/// this result.
///
/// ```
/// use soloist::{Event, Run, TaskResult};
///
/// fn import(run: &Run) -> TaskResult {
///     let rows: u32 = std::fs::read_to_string("/var/lib/myapp/rows")?.trim().parse()?;
///     println!("{rows} rows for {}", run.occurrence());
///     Ok(())
/// }
/// let event = Event::call("import", import);
/// ```
pub type TaskResult = Result<(), BoxError>;

/// The types that a task or a hook may return: nothing, or a [`TaskResult`]. No other type implements this trait.
///
/// ```
/// use soloist::Event;
///
/// let nothing = Event::call("greet", |run| println!("hello from {}", run.name()));
/// let fallible = Event::call("touch", |_| Ok(std::fs::write("/tmp/touched", "")?));
/// let never = Event::call("broken", |_| panic!("not today"));
/// ```
#[diagnostic::on_unimplemented(
    message = "a task or a hook returns `()` or `soloist::TaskResult`, not `{Self}`",
    note = "to return an error of another type, which must be `Send + Sync`, use `?`: `|run| Ok(import(run)?)`; to \
            return a text, write `Err(\"no paper\".into())`",
    note = "to drop the value of the last expression, write `;` after it; for a task that is a future, use \
            `Event::spawn` of the feature `tokio`, with `Ok(import(run).await?)` as the end of its `async` block",
    note = "to run a program, use `Event::command` or `Event::exec`; for a condition, use `when(..)` or `skip(..)`"
)]
// There is only one error type, so that the compiler can infer the type of `Ok(())` at the end of a closure with `?`.
pub trait IntoTaskResult: Sealed {
    /// Returns success, or the error of the task.
    ///
    /// # Errors
    ///
    /// The task returned an error.
    fn into_task_result(self) -> TaskResult;
}

impl IntoTaskResult for () {
    fn into_task_result(self) -> TaskResult {
        Ok(())
    }
}

impl IntoTaskResult for TaskResult {
    fn into_task_result(self) -> TaskResult {
        self
    }
}

/// Prevents implementations of [`IntoTaskResult`] outside of this crate.
mod sealed {
    pub trait Sealed {}
}

use sealed::Sealed;

impl Sealed for () {}
impl Sealed for TaskResult {}
impl Sealed for Never {}

/// The type `!` of an expression that never returns. Stable Rust allows `!` only as the return type of a function, so
/// [`Returns`] takes the type from there.
type Never = <fn() -> ! as Returns>::Output;

pub trait Returns {
    type Output;
}

impl<T> Returns for fn() -> T {
    type Output = T;
}

impl IntoTaskResult for Never {
    fn into_task_result(self) -> TaskResult {
        self
    }
}
