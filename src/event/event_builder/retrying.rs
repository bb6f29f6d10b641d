//! The builder's method for retries.

use super::Event;
use crate::event::retry::Retry;

impl Event {
    /// Starts a failed task again, as a part of the same run: it keeps its lease, its claim and its
    /// [fencing token](crate::FencingToken), and the lease is renewed meanwhile. The default is no retry.
    ///
    /// A task has failed if it ended by itself, with an error, a panic, an exit code or a signal, and its future or its
    /// process group has gone. A task that was cancelled, or could not be started, is not retried.
    ///
    /// No attempt begins after the next occurrence, outside of the windows of [`between`](Self::between) and
    /// [`unless_between`](Self::unless_between), after [`until`](Self::until), or without the lease. A shutdown, a pause,
    /// a later occurrence that [replaces](crate::Overlap::Replace) the run, and the command `unlock` end the wait for an
    /// attempt: the run ends with the failure of its last attempt and is released. A process learns of a pause, a
    /// replacement and `unlock` within about two seconds, and waits while it can't read whether its event is paused. A
    /// run that was started by hand is not paused.
    ///
    /// [`timeout`](Self::timeout) counts for the whole run, with all attempts and waits. The hooks are called once:
    /// [`before`](Self::before) before the first attempt, the others after the last. A task knows its
    /// [attempt](crate::Run::attempt), and a command has it in the variable `SOLOIST_ATTEMPT`. The report, the log of
    /// runs and the status have the number of [attempts](crate::RunOutcome::attempts).
    ///
    /// A run [in background](Self::in_background) takes no thread while it waits. A run in the foreground delays the
    /// events behind it, and each tick ends when its last run has ended.
    ///
    /// `add` refuses retries if no occurrence leaves time for them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Event, Retry, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(
    ///     Event::call("import", |run| if run.attempt() < 3 { Err("the supplier is busy".into()) } else { Ok(()) })
    ///         .hourly()
    ///         .without_overlapping()
    ///         .retry(Retry::times(3).after(Duration::from_millis(5)).doubling()),
    /// )?;
    /// let entry = schedule.run_event("import", chrono::Utc::now())?;
    /// assert!(entry.to_string().ends_with(" and 3 attempts"), "{entry}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(self, retry: Retry) -> Self {
        self.say("retry", retry, |event| &mut event.retry)
    }
}
