//! The builder's methods that limit runs: a timeout, and what counts as stuck or as failing for good.

use std::time::Duration;

use super::Event;

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
}
