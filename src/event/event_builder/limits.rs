//! The builder's methods for runs that take too long or fail: a timeout, retries, and what counts as stuck or as failing for good.

use std::time::Duration;

use super::Event;
use crate::event::retry::Retry;

impl Event {
    /// Cancels the run when its task has taken this long: from 1 millisecond to ten years. The default is no timeout.
    ///
    /// A [command](Self::exec) is ended. A callback is not ended by force: it sees
    /// [`Run::is_cancelled`](crate::Run::is_cancelled), [`Run::check`](crate::Run::check) and
    /// [`Run::wait_cancelled`](crate::Run::wait_cancelled), and is waited for. Its lease is held until it has stopped.
    /// A callback that takes longer than its timeout counts as failed, even if it succeeds then. The report says how
    /// much later it stopped, and subscribers of `tracing` are notified as soon as it has gone on for five seconds.
    /// Hooks have no timeout.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let event = Event::call("import", |run| {
    ///     for row in 0..1000 {
    ///         run.check()?;
    ///         println!("importing row {row}");
    ///     }
    ///     Ok(())
    /// })
    /// .hourly()
    /// .timeout(Duration::from_secs(600));
    /// ```
    pub fn timeout(self, limit: Duration) -> Self {
        self.say("timeout", limit, |event| &mut event.timeout)
    }

    /// Pauses the event when its last `times` runs have all failed, wherever in the fleet they ran: from 1 to 999. A
    /// run that was cancelled does not count, and a run that succeeded begins the count anew.
    ///
    /// The pause is one of [this event](crate::Schedule::pause_event), for ten years, with the reason `failed 3 times
    /// in a row`: everybody who asks is told so, and [`resume_event`](crate::Schedule::resume_event) ends it. After
    /// that, the next failure pauses it again, until a run has succeeded. The [log of
    /// runs](crate::Schedule::with_run_log) tells what failed, and it is asked after a failure only, by the thread that
    /// writes it. So a run may start before the pause begins; while the store is unavailable, several runs may.
    ///
    /// `add` refuses it in a schedule without a [name](crate::Schedule::named), or one whose log keeps `times` runs or
    /// fewer. Runs that are running or were cancelled take places there, too, so keep some more.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process().named("shop")?.with_run_log(20)?;
    /// schedule.add(Event::call("import", |_| Err("the supplier is out".into())).every_minute().pause_on_failure(2))?;
    /// for minute in 0..2 {
    ///     assert!(schedule.run_due(Utc::now() + TimeDelta::minutes(minute)).is_failure());
    /// }
    /// let pause = schedule.paused_event("import")?.expect("it failed twice");
    /// assert!(pause.to_string().ends_with("failed 2 times in a row"), "{pause}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_on_failure(self, times: usize) -> Self {
        self.say("pause_on_failure", times, |event| &mut event.failure_limit)
    }

    /// Takes a run for stuck that has been running for this long, from 1 millisecond to ten years. An occurrence that
    /// is skipped because of it is a failure, [`Stuck`](crate::SkipReason::Stuck), on every server. So a run that hangs
    /// is reported by each of its next occurrences, and not for ever skipped in silence. The run itself goes on;
    /// [`timeout`](Self::timeout) ends one.
    ///
    /// The time counts from the grant of the lease, on the store's clock, to now on the schedule's. It needs a lease.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let hours = |hours: u64| Duration::from_secs(hours * 60 * 60);
    /// let event = Event::call("reports", |_| {}).hourly().without_overlapping().stuck_after(hours(2)).timeout(hours(6));
    /// ```
    pub fn stuck_after(self, time: Duration) -> Self {
        self.say("stuck_after", time, |event| &mut event.stuck_after)
    }

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
