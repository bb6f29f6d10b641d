//! How one run ended, or why there was none.

use std::fmt;
use std::time::Duration;

use crate::error::{Chain, MutexError};
use crate::fault::Fault;
use crate::lease::FencingToken;

mod hook;
mod skip_reason;

pub use hook::{Hook, HookFailure};
pub use skip_reason::SkipReason;

/// How one run ended; `then` and its kin receive it, and the report keeps it.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut schedule = Schedule::in_process();
/// schedule.add(
///     Event::call("reports", |_| println!("working"))
///         .every_minute()
///         .then(|run, outcome| println!("{} {}", run.name(), if outcome.is_success() { "is done" } else { "failed" })),
/// )?;
/// # schedule.run_due(chrono::Utc::now());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RunOutcome {
    pub(crate) ended: Ended,
    pub(crate) took: Duration,
    pub(crate) token: Option<FencingToken>,
    pub(crate) hook_failures: Vec<HookFailure>,
    pub(crate) release: Option<Release>,
}

impl RunOutcome {
    /// A run of which no more is known yet.
    pub(crate) fn new(ended: Ended, token: Option<FencingToken>) -> Self {
        Self { ended, took: Duration::ZERO, token, hook_failures: Vec::new(), release: None }
    }

    /// How the task ended.
    ///
    /// ```
    /// # use soloist::{Ended, Event, Schedule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).every_minute().then(|_, outcome| {
    ///     assert!(matches!(outcome.ended(), Ended::Succeeded));
    /// }))?;
    /// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// # Ok(())
    /// # }
    /// ```
    pub fn ended(&self) -> &Ended {
        &self.ended
    }

    /// Whether the task did what it was asked to. Hooks and the release have no say in it.
    ///
    /// ```
    /// # use soloist::{Event, Schedule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| Err("no paper")).every_minute().then(|_, outcome| {
    ///     assert!(!outcome.is_success());
    /// }))?;
    /// # assert!(schedule.run_due(chrono::Utc::now()).is_failure());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_success(&self) -> bool {
        matches!(self.ended, Ended::Succeeded)
    }

    /// Whether anything went wrong: the task, a hook, the lease or its release.
    ///
    /// ```
    /// # use soloist::{Event, Schedule, Verdict};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).every_minute().then(|_, _| Err("nobody to notify")))?;
    /// let entry = schedule.run("reports", chrono::Utc::now())?;
    /// let Verdict::Ran(outcome) = entry.verdict() else { unreachable!("nothing refuses it") };
    /// assert!(outcome.is_success() && outcome.is_failure());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_failure(&self) -> bool {
        !self.is_success()
            || !self.hook_failures.is_empty()
            || self.release.as_ref().is_some_and(|release| !matches!(release, Release::Released))
    }

    /// How long the task took, without its hooks.
    ///
    /// ```
    /// # use soloist::{Event, Schedule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).every_minute().then(|run, outcome| {
    ///     println!("{} took {:?}", run.name(), outcome.took());
    /// }))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The fencing token the run carried; `None` for an event without protection.
    ///
    /// ```
    /// # use soloist::{Event, Schedule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping().then(|run, outcome| {
    ///     assert_eq!(outcome.fencing_token(), run.fencing_token());
    /// }))?;
    /// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// # Ok(())
    /// # }
    /// ```
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.token
    }

    /// The hooks that failed so far, in the order in which they ran.
    ///
    /// ```
    /// # use soloist::{Event, Schedule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut schedule = Schedule::in_process();
    /// schedule.add(
    ///     Event::call("reports", |_| {})
    ///         .every_minute()
    ///         .before(|_| Err("the printer is out"))
    ///         .then(|_, outcome| assert_eq!(outcome.hook_failures().len(), 1)),
    /// )?;
    /// # schedule.run_due(chrono::Utc::now());
    /// # Ok(())
    /// # }
    /// ```
    pub fn hook_failures(&self) -> &[HookFailure] {
        &self.hook_failures
    }

    /// How giving the lease back went; `None` without a lease, and in hooks, which run while it is still held.
    ///
    /// ```
    /// # use soloist::{Event, Release, Schedule, Verdict};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping())?;
    /// let entry = schedule.run("reports", chrono::Utc::now())?;
    /// let Verdict::Ran(outcome) = entry.verdict() else { unreachable!("nobody else holds it") };
    /// assert!(matches!(outcome.release(), Some(Release::Released)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(&self) -> Option<&Release> {
        self.release.as_ref()
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ended {
            Ended::Succeeded => write!(f, "succeeded in {}", Took(self.took))?,
            Ended::Faulted(Fault::Failed(error)) => write!(f, "failed after {}: {}", Took(self.took), Chain(&**error))?,
            Ended::Faulted(Fault::Panicked(message)) => write!(f, "panicked after {}: {message}", Took(self.took))?,
            Ended::NotStarted => write!(f, "not started")?,
        }
        let mut link = if self.is_success() { ", but " } else { "; " };
        for failure in &self.hook_failures {
            write!(f, "{link}{failure}")?;
            link = "; ";
        }
        match &self.release {
            None | Some(Release::Released) => Ok(()),
            Some(release) => write!(f, "{link}{release}"),
        }
    }
}

/// How a task ended.
///
/// ```
/// use soloist::{Ended, Fault};
///
/// fn describe(ended: &Ended) -> String {
///     match ended {
///         Ended::Succeeded => "done".into(),
///         Ended::Faulted(Fault::Panicked(message)) => format!("a bug: {message}"),
///         Ended::Faulted(fault) => fault.to_string(),
///         Ended::NotStarted => "its preparation failed".into(),
///         _ => "in some other way".into(),
///     }
/// }
/// assert_eq!(describe(&Ended::Succeeded), "done");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It returned without an error.
    Succeeded,
    /// It returned an error, or panicked.
    Faulted(Fault),
    /// It was not called, because a `before` hook failed.
    NotStarted,
}

/// How giving a lease back went.
///
/// ```
/// assert_eq!(soloist::Release::Lost.to_string(), "the lease was lost while the task was at work");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Release {
    /// The name is free.
    Released,
    /// It was not ours any more: it expired or was broken while the task was at work, so that another run may have
    /// been admitted beside it. The present holder was left alone.
    Lost,
    /// The store did not answer; the lease expires with its term.
    Failed(MutexError),
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lease was given back"),
            Self::Lost => f.write_str("the lease was lost while the task was at work"),
            Self::Failed(error) => write!(f, "the lease was not given back: {}", Chain(error)),
        }
    }
}

/// A duration as a person says it: `950 µs`, `12 ms`, `1.5 s`, `2 min 5 s`, `1 h 30 min`.
pub(crate) struct Took(pub(crate) Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.as_millis());
        match seconds {
            _ if millis == 0 => write!(f, "{} µs", self.0.as_micros()),
            0 => write!(f, "{millis} ms"),
            1..60 => write!(f, "{seconds}.{} s", self.0.subsec_millis() / 100),
            60..3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(f, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::BoxError;

    #[test]
    fn a_duration_reads_as_a_person_says_it() {
        let cases = [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1 ms"),
            (999_999, "999 ms"),
            (1_000_000, "1.0 s"),
            (59_990_000, "59.9 s"),
            (60_000_000, "1 min 0 s"),
            (3_599_000_000, "59 min 59 s"),
            (90 * 60_000_000, "1 h 30 min"),
        ];
        for (micros, text) in cases {
            assert_eq!(Took(Duration::from_micros(micros)).to_string(), text);
        }
    }

    #[test]
    fn an_outcome_names_everything_that_went_wrong() {
        let outcome = RunOutcome {
            ended: Ended::Faulted(Fault::Failed(Arc::from(BoxError::from("no paper")))),
            took: Duration::from_millis(12),
            token: None,
            hook_failures: vec![HookFailure { hook: Hook::Then, number: 2, fault: Fault::Panicked("gone".into()) }],
            release: Some(Release::Failed(MutexError::unavailable("forget lease/reports", "timed out"))),
        };
        assert_eq!(
            outcome.to_string(),
            "failed after 12 ms: no paper; `then` hook 2 panicked: gone; \
             the lease was not given back: could not forget lease/reports: timed out"
        );
    }
}
