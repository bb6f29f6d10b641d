//! The failure of a hook.

use std::fmt;

use crate::outcome::fault::Fault;

/// The failure of one hook of a run.
///
/// ```
/// # use soloist::{Event, Schedule, Verdict};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let schedule = Schedule::in_process();
/// schedule.add(Event::call("reports", |_| {}).every_minute().then(|_, _| Err("nobody to notify".into())))?;
/// let entry = schedule.run_event("reports", chrono::Utc::now())?;
/// let Verdict::Ran(outcome) = entry.verdict() else { unreachable!("nothing refuses it") };
/// assert_eq!(outcome.hook_failures()[0].to_string(), "`then` hook 1 failed: nobody to notify");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFailure {
    pub(crate) hook: Hook,
    pub(crate) number: usize,
    pub(crate) fault: Fault,
}

impl HookFailure {
    /// Returns the kind of the hook.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Returns the number of the hook. The hooks of one kind are counted from 1, in the order of their addition to the event.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the fault of the hook.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` hook {} {}", self.hook, self.number, self.fault)
    }
}

/// The kinds of hooks, by the method of [`Event`](crate::Event) that adds them.
///
/// ```
/// assert_eq!(soloist::observe::Hook::OnSuccess.to_string(), "on_success");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hook {
    /// [`Event::before`](crate::Event::before)
    Before,
    /// [`Event::then`](crate::Event::then)
    Then,
    /// [`Event::on_success`](crate::Event::on_success)
    OnSuccess,
    /// [`Event::on_failure`](crate::Event::on_failure)
    OnFailure,
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::Then => "then",
            Self::OnSuccess => "on_success",
            Self::OnFailure => "on_failure",
        })
    }
}
