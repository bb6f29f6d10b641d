//! What tasks and hooks return.

use crate::base::error::BoxError;

/// What a task or a hook returns if it can fail. `?` turns any error that is `Send + Sync` into its own.
///
/// ```
/// use soloist::{Event, Run, TaskOutcome};
///
/// fn import(run: &Run) -> TaskOutcome {
///     let rows: u32 = std::fs::read_to_string("/var/lib/myapp/rows")?.trim().parse()?;
///     println!("{rows} rows for {}", run.occurrence());
///     Ok(())
/// }
/// let event = Event::call("import", import);
/// ```
pub type TaskOutcome = Result<(), BoxError>;

/// What a task or a hook may return: nothing, or a [`TaskOutcome`].
///
/// ```
/// use soloist::Event;
///
/// let nothing = Event::call("greet", |run| println!("hello from {}", run.name()));
/// let fallible = Event::call("touch", |_| Ok(std::fs::write("/tmp/touched", "")?));
/// let never = Event::call("broken", |_| panic!("not today"));
/// ```
#[diagnostic::on_unimplemented(
    message = "a task or a hook returns `()` or `soloist::TaskOutcome`, not `{Self}`",
    note = "an error of another type, which must be `Send + Sync`, is passed on with `?`: `|run| Ok(import(run)?)`; \
            or say `Err(\"no paper\".into())`",
    note = "a value that nobody wants is dropped with `;`; a task that is a future is made with `Event::spawn`, by the \
            feature `tokio`"
)]
// One error type and no other: only so does the compiler know the type of `Ok(())` at the end of a closure with `?`.
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

impl TaskResult for TaskOutcome {
    fn into_outcome(self) -> TaskOutcome {
        self
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
