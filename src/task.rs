//! What an event does: a callback, and what it is called with.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::error::BoxError;
use crate::lease::{FencingToken, Lease};
use crate::mutex::Grant;

/// One run of an event, as its task and its hooks see it. An owned, cheap handle: clone it into threads and futures.
/// The lease is given back when the task and its hooks have returned, whoever still has a clone: wait for what you start.
///
/// ```
/// use soloist::{Event, Run, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// fn import(run: &Run) {
///     let run = run.clone();
///     std::thread::spawn(move || println!("{} for {}", run.name(), run.occurrence())).join().expect("it only prints");
/// }
/// Schedule::in_process().add(Event::call("import", import).hourly())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Run(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: Arc<str>,
    occurrence: DateTime<Utc>,
    /// `None`: the event has no protection.
    grant: Option<Grant>,
}

impl Run {
    pub(crate) fn new(name: Arc<str>, occurrence: DateTime<Utc>, grant: Option<Grant>) -> Self {
        Self(Arc::new(Inner { name, occurrence, grant }))
    }

    /// The event's name.
    ///
    /// ```
    /// let event = soloist::Event::call("reports", |run| assert_eq!(run.name(), "reports"));
    /// ```
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The instant this run was scheduled for, the same on every server; by hand, the instant that was given.
    ///
    /// ```
    /// let event = soloist::Event::call("reports", |run| println!("the report of {}", run.occurrence().date_naive()));
    /// ```
    pub fn occurrence(&self) -> DateTime<Utc> {
        self.0.occurrence
    }

    /// The lease it runs under; `None` without `without_overlapping`.
    ///
    /// ```
    /// let event = soloist::Event::call("reports", |run| assert!(run.lease().is_some())).without_overlapping();
    /// ```
    pub fn lease(&self) -> Option<&Lease> {
        self.0.grant.as_ref()?.lease()
    }

    /// The token of what it was granted; `None` without any protection.
    ///
    /// ```
    /// let event = soloist::Event::call("reports", |run| assert!(run.fencing_token().is_some())).on_one_server();
    /// ```
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.0.grant.as_ref().map(Grant::token)
    }
}

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
#[diagnostic::on_unimplemented(
    message = "a task or a hook returns `()` or `Result<(), E>` with an error that is `Send + Sync`, not `{Self}`",
    note = "a closure that uses `?` says what it returns: `|run| -> soloist::TaskOutcome {{ .. Ok(()) }}`",
    note = "a value that nobody wants is dropped with `;` or `.map(drop)`; a future is run by your runtime's `block_on`"
)]
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
