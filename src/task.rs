//! What an event does: a callback.

use crate::error::BoxError;
use crate::run::Run;

/// What a closure that uses `?` returns.
///
/// ```
/// use soloist::{Event, TaskOutcome};
///
/// let event = Event::call("reports", |_| -> TaskOutcome {
///     std::fs::read_to_string("/etc/hostname")?;
///     Ok(())
/// });
/// ```
pub type TaskOutcome = Result<(), BoxError>;

/// What a task or a hook may return: nothing, or a `Result` with any error.
///
/// ```
/// use soloist::Event;
///
/// let nothing = Event::call("greet", |run| println!("hello from {}", run.name()));
/// let io = Event::call("touch", |_| std::fs::write("/tmp/touched", ""));
/// let never = Event::call("broken", |_| panic!("not today"));
/// ```
pub trait TaskResult {
    /// Success, or what went wrong.
    ///
    /// # Errors
    ///
    /// What the task said went wrong.
    fn into_outcome(self) -> TaskOutcome;
}

impl TaskResult for () {
    fn into_outcome(self) -> TaskOutcome {
        Ok(())
    }
}

impl<E: Into<BoxError>> TaskResult for Result<(), E> {
    fn into_outcome(self) -> TaskOutcome {
        self.map_err(Into::into)
    }
}

/// The type of an expression that never ends, which stable Rust can't write elsewhere than as a return type.
type Never = <fn() -> ! as Returns>::Output;

pub trait Returns {
    type Output;
}

impl<T> Returns for fn() -> T {
    type Output = T;
}

impl TaskResult for Never {
    fn into_outcome(self) -> TaskOutcome {
        self
    }
}

pub(crate) type Task = Box<dyn Fn(&Run) -> TaskOutcome + Send + Sync>;

pub(crate) fn callback<R: TaskResult>(task: impl Fn(&Run) -> R + Send + Sync + 'static) -> Task {
    Box::new(move |run| task(run).into_outcome())
}
