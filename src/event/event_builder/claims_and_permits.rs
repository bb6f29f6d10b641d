//! The builder's methods for claims (one start for each occurrence), permits (one start for each period), and missed
//! occurrences.

use std::time::Duration;

use super::Event;
use crate::time::period::Period;

impl Event {
    /// Starts each occurrence on only one of the servers that share the store: on the first server that requests the
    /// claim. The clocks of the servers must differ by less than 5 minutes. A long run can still overlap the next
    /// occurrence; [`without_overlapping`](Self::without_overlapping) prevents that.
    ///
    /// A server requests the claim within the claim window, which begins with the server's tick. If earlier events of
    /// the tick take longer than the window, the event is skipped as [`TooLate`](crate::SkipReason::TooLate). The
    /// window is ten periods of the event, but at least a minute and at most an hour. The period is the shortest time
    /// between two occurrences. [`catch_up`](Self::catch_up) and a [queue](Self::on_overlap) can make the window
    /// longer. The claim lasts 5 minutes longer than the window:
    ///
    /// | the event is due | claim window | the claim lasts |
    /// | --- | --- | --- |
    /// | every second to every six seconds | 1 minute | 6 minutes |
    /// | every 30 seconds | 5 minutes | 10 minutes |
    /// | every minute | 10 minutes | 15 minutes |
    /// | every 5 minutes | 50 minutes | 55 minutes |
    /// | every 6 minutes or less often | 60 minutes | 65 minutes |
    ///
    /// An occurrence starts at most once: if the process dies after the admission of the run, no other server runs the
    /// occurrence.
    pub fn on_one_server(mut self) -> Self {
        self.protections.one_server = true;
        self
    }

    /// Starts the event at most once in each [`Period`]: a civil hour, day, week or month in the event's
    /// [`timezone`](Self::timezone). Each period has one permit. The first server that requests the permit gets it.
    /// With [`Period::Hour`], an event that is due at 15:01 on one server and at 15:02 on another server runs once. An
    /// event that is due at 15:59 and at 16:00 runs twice, because these two occurrences lie in different hours. The
    /// timetable still says at which times the event can start.
    ///
    /// A permit is a claim, like the claim of [`on_one_server`](Self::on_one_server), and has the same claim window. It
    /// is acquired together with the lease or not at all. If both methods are used, the event has permits only. A
    /// permit lasts until the end of its period, plus the claim window, plus 5 minutes. Meanwhile, further occurrences
    /// of the period are skipped as [`RanElsewhere`](crate::SkipReason::RanElsewhere) on all servers. The reason names
    /// the holder of the permit.
    ///
    /// If the task fails, or its process dies after the admission, the permit stays used: the task runs again only in
    /// the next period. But if the task could not be started, the permit is released. A run [by
    /// hand](crate::Schedule::run_event) needs no permit.
    ///
    /// ```
    /// use soloist::{Event, Period, Schedule, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("digest", |_| {}).every_minute().once_per(Period::Hour))?;
    /// for (time, runs) in [("15:01", true), ("15:02", false), ("15:59", false), ("16:00", true)] {
    ///     let report = schedule.run_due(format!("2026-03-01T{time}:00Z").parse()?);
    ///     assert_eq!(matches!(report.entries()[0].verdict(), Verdict::Ran(_)), runs, "{time}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn once_per(self, period: Period) -> Self {
        self.say("once_per", period, |event| &mut event.protections.once_per)
    }

    /// Makes up for a missed occurrence. An occurrence is missed if no server was up, cron was late, or the store was
    /// unavailable. Until `window` has passed since the occurrence, the first tick of each minute checks whether the
    /// occurrence was missed. The first server that requests the claim runs the occurrence. The window is from a minute
    /// to a year. The event needs [`on_one_server`](Self::on_one_server) or [`once_per`](Self::once_per), because their
    /// claims show which occurrences were run.
    ///
    /// If several occurrences were missed, only the latest of them runs. The task can read the
    /// [occurrence](crate::Run::occurrence) and the [lateness](crate::Run::lateness) of its run. The report has the
    /// lateness, too: [`Entry::missed_by`](crate::Entry::missed_by). An occurrence whose run failed was not missed.
    ///
    /// An occurrence also counts as missed if it was skipped because it overlapped, or because the schedule was
    /// [paused](crate::Schedule::pause). Such an occurrence is tried again each minute, until it runs, the next
    /// occurrence is due, or the window is over. While a filter of the event refuses a missed occurrence, the
    /// occurrence waits, and the report has no entry for it. The filter gets the time of the tick, and the time of the
    /// occurrence in [`Tick::scheduled`](crate::time::Tick::scheduled). An occurrence that [`between`](Self::between)
    /// refused was not missed.
    ///
    /// An occurrence that waits for earlier events of its tick was not missed, either. But only the process of that
    /// tick knows this. Another process, for example the process that cron starts in the next minute, may run the
    /// occurrence while the earlier events are still running.
    ///
    /// An occurrence counts as missed only if the store already knew the event at the time of the occurrence. So a new
    /// event does not run when it is deployed. An event whose timetable, window or claim was changed counts as new,
    /// too. The first tick at which the event is due, or at which a window is open, records the event in the store.
    /// When [`work`](crate::Schedule::work) begins, it records the event. If the window is as long as the time between
    /// two occurrences, a window is always open. If the store has lost its data, as Redis can after a restart, the
    /// event is new, and nothing is made up for. If the store's clock was set back after the event was recorded, the
    /// recorded time may be later than the occurrence. Then the recorded time is ignored: the occurrence can count as
    /// missed, and the log has a warning.
    ///
    /// If an old definition is deployed again, for example by a rollback, the store still has the record of the first
    /// deployment. So the occurrences between the two deployments can count as missed. This is also true if `catch_up`
    /// was removed for a while. To prevent such runs, give the event another name, or break the marker of the event.
    /// The name of the marker starts with `mark/` and the event's name.
    ///
    /// While a window is open, each event with `catch_up` costs one request to the store each minute, or two if no
    /// server has claimed the occurrence. The requests end when this process has run the occurrence, or when the claim
    /// of another server is ten minutes old. In addition, a tick sends one request that records all such events that are
    /// due in the tick, except for the events that this process has recorded within the last hour. The other events of
    /// the tick start after these requests.
    ///
    /// The store must be able to return the [holder](crate::EventMutex::held) of a name, as all built-in stores can.
    /// Otherwise missed occurrences are skipped as [`StoreUnavailable`](crate::SkipReason::StoreUnavailable). A claim
    /// lasts until 6 minutes after the next occurrence, or until 6 minutes after the end of the window if that is
    /// earlier. But a claim lasts at least as long as [without `catch_up`](Self::on_one_server).
    ///
    /// In a test, give the schedule and its store one [`ManualClock`](crate::time::ManualClock), and let time pass with
    /// [`advance`](crate::time::ManualClock::advance). Call `run_due` once before the occurrence that is to be missed,
    /// so that the store knows the event.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let event = Event::call("invoices", |run| println!("the invoices of {}", run.occurrence().date_naive()))
    ///     .daily_at("02:30")
    ///     .on_one_server()
    ///     .catch_up(Duration::from_secs(6 * 60 * 60));
    /// ```
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::time::ManualClock;
    /// use soloist::{Event, MemoryMutex, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::at("2026-03-01T12:00:00Z".parse()?);
    /// let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    /// schedule.add(Event::call("e", |_| {}).hourly().on_one_server().catch_up(Duration::from_secs(30 * 60)))?;
    /// assert_eq!(schedule.run_due("2026-03-01T12:00:00Z".parse()?).entries().len(), 1);
    /// clock.advance(Duration::from_secs(70 * 60)); // no tick at 13:00
    /// let report = schedule.run_due("2026-03-01T13:10:00Z".parse()?);
    /// assert_eq!(report.entries()[0].missed_by(), Some(Duration::from_secs(10 * 60)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn catch_up(self, window: Duration) -> Self {
        self.say("catch_up", window, |event| &mut event.protections.catch_up)
    }

    /// Makes up for all missed occurrences: the first tick of each minute runs all occurrences in the window that no
    /// server has claimed. They run one after another, the oldest first. Only the latest `most` occurrences of the
    /// event are checked. The `window` is from a minute to a year, and `most` is from 2 to 1,000. The event needs
    /// [`on_one_server`](Self::on_one_server), because its claims show which occurrences were run. The documentation of
    /// [`catch_up`](Self::catch_up), which runs only the latest occurrence, explains windows, filters and new events.
    ///
    /// The missed occurrences of an event run on a thread of their own, so they do not delay other events. If the event
    /// is also due in the tick, the due occurrence runs on the same thread, after the missed occurrences. Several
    /// servers, or the processes that cron starts each minute, divide the missed occurrences among themselves. Add
    /// [`without_overlapping`](Self::without_overlapping), so that only one occurrence at a time runs in the whole
    /// fleet.
    ///
    /// If an occurrence is skipped because a run is running, no later tick runs the occurrence. There is one exception:
    /// if the running run began more than a minute late, for example to make up for an earlier occurrence, a later tick
    /// runs the skipped occurrence. A later tick also runs an occurrence that was skipped while the event was paused,
    /// or while the store was unavailable. If the runs of earlier occurrences take so long that the window ends, the
    /// remaining occurrences are skipped as [`TooLate`](crate::SkipReason::TooLate). So choose a window that is long
    /// enough for all runs. `add` refuses a window that is shorter than the time between two occurrences.
    ///
    /// Each minute, one request reads the claims of the occurrences in the window, until all claims are ten minutes old.
    /// Before that, another server can still give a claim back. A claim lasts for the window and 6 minutes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::time::ManualClock;
    /// use soloist::{Event, MemoryMutex, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::at("2026-03-01T12:00:00Z".parse()?);
    /// let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    /// let event = Event::call("hourly figures", |run| println!("the hour from {}", run.occurrence()));
    /// schedule.add(event.hourly().on_one_server().catch_up_all(Duration::from_secs(24 * 3600), 24))?;
    /// let _ = schedule.run_due("2026-03-01T12:00:00Z".parse()?);
    /// clock.advance(Duration::from_secs(3 * 3600 + 60)); // no tick from 13:00 to 15:00
    /// let report = schedule.run_due("2026-03-01T15:01:00Z".parse()?);
    /// let hours: Vec<String> = report.entries().iter().map(|entry| entry.occurrence().format("%H").to_string()).collect();
    /// assert_eq!(hours, ["13", "14", "15"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn catch_up_all(self, window: Duration, most: usize) -> Self {
        self.say("catch_up_all", (window, most), |event| &mut event.protections.catch_up_all)
    }
}
