//! What an event does: a callback, whose errors and panics stay within it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::BoxError;
use crate::outcome::Fault;
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

/// Runs a task or a hook: an error and a panic are both a fault of it, and of nobody else.
pub(crate) fn attempt(code: impl FnOnce() -> TaskOutcome) -> Result<(), Fault> {
    match contain(code) {
        Ok(outcome) => outcome.map_err(|error| Fault::Failed(error.into())),
        Err(message) => Err(Fault::Panicked(message)),
    }
}

/// Runs somebody's code and goes on, with its result or with the message of its panic.
pub(crate) fn contain<T>(code: impl FnOnce() -> T) -> Result<T, Arc<str>> {
    // Unwind safety: what the code left half-done is its own; nothing of ours is borrowed mutably by it.
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("with something that is not a text").into();
        // A payload may panic when it is dropped: what comes of that is leaked, so that it ends here.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
        message
    })
}
