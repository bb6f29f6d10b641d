//! The builder's methods for runs that take too long or fail: `timeout`, `retry`, `stuck_after` and `pause_on_failure`.

use std::time::Duration;

use super::Event;
use crate::event::retry::Retry;

impl Event {
    /// Cancels the run when its task has taken as long as `limit`, which is from 1 millisecond to ten years. The
    /// default is no timeout.
    ///
    /// A [command](Self::exec) or a future is ended by force. A callback can't be ended by force. It should call
    /// [`Run::is_cancelled`](crate::Run::is_cancelled), [`Run::check`](crate::Run::check) or
    /// [`Run::wait_cancelled`](crate::Run::wait_cancelled), and the schedule waits until the callback returns. The
    /// lease is held until then. A callback that takes longer than its timeout has failed, even if it returns success.
    /// The report says how much later the callback returned. If the callback is still running five seconds after its
    /// timeout, `tracing` has a record of this. Hooks have no timeout.
    ///
    /// If the process of the schedule is killed, a command that keeps its lease on a file store goes on without a
    /// timeout. If it takes longer, the next occurrences are skipped as [`Stuck`](crate::SkipReason::Stuck), which is a
    /// failure. A [`stuck_after`](Self::stuck_after) counts in place of the timeout then.
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

    /// Pauses the event when its last `times` runs in the whole fleet have all failed. `times` is from 1 to 999.
    /// Cancelled runs do not count, and a success starts the count again.
    ///
    /// The [pause](crate::Schedule::pause_event) lasts ten years. Its reason, such as `failed 3 times in a row`, is
    /// shown on all servers. [`resume_event`](crate::Schedule::resume_event) ends the pause. If the next run after that
    /// fails, the event is paused again at once. The failures are counted in the [log of
    /// runs](crate::Schedule::with_run_log): after each failure, the thread that writes the log reads the log, and
    /// begins the pause if `times` is reached. Before that, another run can start. While the store is unavailable, no
    /// pause can begin, so several runs can start.
    ///
    /// `add` refuses this method if the schedule has no [name](crate::Schedule::named), or if its log keeps only
    /// `times` runs or fewer. The log also has records of running and cancelled runs, so it should keep some more runs.
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

    /// Reports a run as stuck if it has been running for longer than `time`, which is from 1 millisecond to ten years.
    /// If an occurrence is skipped because of a stuck run, the skip is a failure on every server:
    /// [`Stuck`](crate::SkipReason::Stuck). Without this setting, a run that hangs would block its event for ever, and
    /// the reports would show only normal skips. The stuck run continues; only a [`timeout`](Self::timeout) ends it.
    ///
    /// The time counts from the grant of the lease, on the store's clock, to the time of the skip, on the schedule's
    /// clock. This method needs a lease.
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
    /// A task is retried only if it ended by itself: with an error, a panic, an exit code other than 0, or a signal. A
    /// task that was cancelled or could not be started is not retried. When an attempt begins, no process and no future
    /// of the previous attempt is left.
    ///
    /// No attempt begins in these cases:
    ///
    /// - The next occurrence of the event is due.
    /// - A window of [`between`](Self::between) or [`unless_between`](Self::unless_between) excludes the time.
    /// - The time is after [`until`](Self::until).
    /// - The lease is lost.
    ///
    /// The wait for an attempt ends early at a shutdown, at a pause, at the command `unlock`, and if a later occurrence
    /// [replaces](crate::Overlap::Replace) the run. Then the run ends with the failure of its last attempt, and its
    /// lease is released. The process notices a pause, a replacement or `unlock` within about two seconds. If the store
    /// does not answer whether the event is paused, the process continues to wait. A pause does not end a run that was
    /// started by hand.
    ///
    /// [`timeout`](Self::timeout) limits the whole run, with all attempts and waits. Each hook is called once: a hook
    /// of [`before`](Self::before) before the first attempt, and the other hooks after the last attempt.
    /// [`Run::attempt`](crate::Run::attempt) returns the number of the attempt. A command gets this number in the
    /// variable `SOLOIST_ATTEMPT`. The report, the log of runs and the status show the number of
    /// [attempts](crate::RunOutcome::attempts).
    ///
    /// A run [in background](Self::in_background) takes no thread while it waits. A run in the foreground delays the
    /// later events of its tick. Each tick ends when its last run has ended, with all retries.
    ///
    /// `add` refuses retries that could never begin, for example because the delay is at least as long as the time
    /// between two occurrences.
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
