//! The builder's methods for runs that take too long or fail: a timeout, retries, and what counts as stuck or as failing for good.

use std::time::Duration;

use super::Event;
use crate::event::retry::Retry;

impl Event {
    /// Cancels the run when its task has taken this long: from 1 millisecond to ten years. The default is no timeout.
    ///
    /// A [command](Self::exec) is ended. A callback is not ended by force. It should call
    /// [`Run::is_cancelled`](crate::Run::is_cancelled), [`Run::check`](crate::Run::check) or
    /// [`Run::wait_cancelled`](crate::Run::wait_cancelled), and the schedule waits for its end. The lease is held until
    /// the callback has stopped. A callback that takes longer than its timeout counts as failed, even if it returns
    /// success then. The report says how much later the callback stopped, and subscribers of `tracing` are notified
    /// when it continues for five seconds. Hooks have no timeout.
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

    /// Pauses the event when its last `times` runs have all failed, on any server of the fleet. `times` is from 1 to
    /// 999. Cancelled runs do not count, and a success starts the count again.
    ///
    /// This [pauses the event](crate::Schedule::pause_event) for ten years, with the reason `failed 3 times in a row`,
    /// which all servers and commands show. [`resume_event`](crate::Schedule::resume_event) ends the pause. After that,
    /// the next failure pauses the event again, until a run has succeeded. The failures are counted in the [log of
    /// runs](crate::Schedule::with_run_log). The thread that writes the log reads it after a failure. So a run may
    /// start before the pause begins; while the store is unavailable, several runs may.
    ///
    /// `add` refuses this in a schedule without a [name](crate::Schedule::named), and in a schedule whose log keeps
    /// `times` runs or fewer. The log also has entries for running and cancelled runs, so let it keep some more.
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

    /// Treats a run as stuck if it has been running for this long: from 1 millisecond to ten years. If an occurrence is
    /// skipped because of such a run, the skip is a failure, [`Stuck`](crate::SkipReason::Stuck), on every server. So a
    /// run that hangs is reported at each later occurrence, instead of being skipped in silence for ever. The run
    /// itself continues; only a [`timeout`](Self::timeout) ends a run.
    ///
    /// The time counts from the grant of the lease, on the store's clock, to the present time on the schedule's clock.
    /// This method needs a lease.
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

    /// Starts a failed task again, as a part of the same run. The run keeps its lease, its claim and its [fencing
    /// token](crate::FencingToken), and the lease is renewed during the wait. The default is no retry.
    ///
    /// A task has failed if it ended by itself, with an error, a panic, an exit code or a signal, and no future and no
    /// process of it is left. A task that was cancelled, or could not be started, is not retried.
    ///
    /// No attempt begins after the next occurrence, outside of the windows of [`between`](Self::between) and
    /// [`unless_between`](Self::unless_between), after [`until`](Self::until), or without the lease. A shutdown, a
    /// pause, a later occurrence that [replaces](crate::Overlap::Replace) the run, and the command `unlock` end the
    /// wait for an attempt: the run ends with the failure of its last attempt and is released. A process notices a
    /// pause, a replacement or `unlock` within about two seconds. While the store does not answer whether the event is
    /// paused, the process waits. A pause does not concern a run that was started by hand.
    ///
    /// [`timeout`](Self::timeout) limits the whole run, with all attempts and waits. The hooks are called once:
    /// [`before`](Self::before) before the first attempt, the others after the last. A task gets the number of its
    /// [attempt](crate::Run::attempt); a command gets it in the variable `SOLOIST_ATTEMPT`. The report, the log of runs
    /// and the status have the number of [attempts](crate::RunOutcome::attempts).
    ///
    /// A run [in background](Self::in_background) takes no thread while it waits. A run in the foreground delays the
    /// events behind it, and each tick ends when its last run has ended.
    ///
    /// `add` refuses retries if the time between two occurrences is too short for them.
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
