//! The builder's methods for claims (one start for each occurrence), permits (one start for each period), and missed
//! occurrences.

use std::time::Duration;

use super::Event;
use crate::time::period::Period;

impl Event {
    /// Starts each occurrence on exactly one of the servers that share the store: the first server that requests the
    /// claim. All servers must use the same store. Their clocks may differ by up to 5 minutes. A long task may still be
    /// overlapped by its next occurrence; use [`without_overlapping`](Self::without_overlapping) against that.
    ///
    /// A server requests the claim within a window after its tick began. If earlier events of the tick take longer than
    /// that window, the event is skipped as [`TooLate`](crate::SkipReason::TooLate). The window is ten periods of the
    /// event, but at least a minute and at most an hour. [`catch_up`](Self::catch_up) may make the window longer. The
    /// period is the shortest time between two occurrences. The claim is kept for 5 minutes longer than the window:
    ///
    /// | due | asked for within | kept for |
    /// | --- | --- | --- |
    /// | every second to every six seconds | 1 minute | 6 minutes |
    /// | every 30 seconds | 5 minutes | 10 minutes |
    /// | every minute | 10 minutes | 15 minutes |
    /// | every 5 minutes | 50 minutes | 55 minutes |
    /// | every 6 minutes or less often | 60 minutes | 65 minutes |
    ///
    /// An occurrence starts at most once: if the process dies after its admission, no other server runs it.
    pub fn on_one_server(mut self) -> Self {
        self.protections.one_server = true;
        self
    }

    /// Starts at most once in each civil [`Period`], in its [`timezone`](Self::timezone), on the first server that
    /// asks: there is one permit for each hour, day, week or month, and a permit is never released. With
    /// [`Period::Hour`], an event that is due at 15:01 on one server and at 15:02 on another runs once. An event that
    /// is due at 15:59 and at 16:00 runs twice. The period is that of the occurrence. So the timetable says when the
    /// event may start, and the permit lets it start only once.
    ///
    /// The permit is a claim like that of [`on_one_server`](Self::on_one_server), and replaces it where both are set:
    /// kept in a store that all servers see, taken together with the lease or not at all, and asked for within the same
    /// window after a tick began. It is kept until its period is over in any case, and for the window and 5 minutes more. Later runs are skipped as
    /// [`RanElsewhere`](crate::SkipReason::RanElsewhere) with its holder, also in the same process.
    ///
    /// The start uses up the period, even if the task fails or its process dies after the admission: the task runs
    /// again in the next period. A run [by hand](crate::Schedule::run_event) needs no permit.
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

    /// Makes up for a missed occurrence: no server was up, cron was late, or the store was unavailable. The first tick
    /// of a minute within `window` after the occurrence runs it, on the first server that requests it. The window is
    /// from a minute to a year. The event needs [`on_one_server`](Self::on_one_server) or [`once_per`](Self::once_per),
    /// because their claims show which occurrences were run.
    ///
    /// Only the latest occurrence is run, however many were missed before it. The run has its
    /// [occurrence](crate::Run::occurrence) and its [lateness](crate::Run::lateness), and so has the
    /// [report](crate::Entry::missed_by). A run that failed is not repeated.
    ///
    /// An occurrence that was skipped, because it overlapped or because the schedule was
    /// [paused](crate::Schedule::pause), counts as missed, too: it is tried again each minute until it runs, the next
    /// occurrence is due, or the window is over. While its filters refuse the occurrence, it waits, without an entry in
    /// the report. Filters get the time of the tick, and the time of the occurrence in
    /// [`Tick::scheduled`](crate::time::Tick::scheduled). An occurrence that [`between`](Self::between) kept from
    /// running was not missed. An occurrence that waits behind other events in a tick of this process was not missed,
    /// either. But another process, for example a process that cron starts each minute, can't know that. It may run the
    /// occurrence at the same time as those other events.
    ///
    /// An occurrence counts only if the store knew the event at that time. So a new event does not run at its
    /// deployment, nor does an event with another timetable, window or claim. The store learns of the event in the
    /// first tick when the event is due or a window is open, and when [`work`](crate::Schedule::work) begins. A window
    /// that is as long as the time between two occurrences is always open. If the store's clock was ahead then, and was
    /// set back since, the recorded time is useless: it is ignored, with a warning. If a definition comes back, for
    /// example after a rollback, the store has known it since it first saw it. This is also true if `catch_up` was left
    /// out for a while. If that matters, break the event's marker, whose name starts with `mark/` and the event's name,
    /// or deploy the event under another name. In a store that has lost its data, as Redis may after a restart, the
    /// event is new, and nothing is made up for.
    ///
    /// While a window is open, each such event costs one request to the store each minute, and two if no server has
    /// claimed the occurrence, until this process knows that the occurrence was run. A tick with such events due asks
    /// the store once more for all of them, and again after an hour. The other events of that tick start after these
    /// requests. The store must be able to tell who [holds](crate::EventMutex::held) a name, as all built-in stores
    /// are; otherwise missed occurrences are skipped as [`StoreUnavailable`](crate::SkipReason::StoreUnavailable). A
    /// claim is kept until the next occurrence or the end of the window, and 6 minutes more, and at least for as long
    /// as [without `catch_up`](Self::on_one_server).
    ///
    /// In a test, give the schedule and its store one [`ManualClock`](crate::time::ManualClock), and let time pass with
    /// [`advance`](crate::time::ManualClock::advance). Tick once before the occurrence that is to be missed, so that the
    /// store knows the event.
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
    /// clock.advance(Duration::from_secs(70 * 60)); // nobody ticks at 13:00
    /// let report = schedule.run_due("2026-03-01T13:10:00Z".parse()?);
    /// assert_eq!(report.entries()[0].missed_by(), Some(Duration::from_secs(10 * 60)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn catch_up(self, window: Duration) -> Self {
        self.say("catch_up", window, |event| &mut event.protections.catch_up)
    }

    /// Makes up for every missed occurrence: the next tick of a minute runs all occurrences that no server has claimed,
    /// oldest first, one after another. If there are more than `most`, it runs the latest `most`. The `window` is from
    /// a minute to a year, and `most` from 2 to 1,000. The event needs [`on_one_server`](Self::on_one_server), because
    /// its claims show which occurrences were run. [`catch_up`](Self::catch_up) runs only the latest occurrence; its
    /// documentation has more about windows, filters and new events.
    ///
    /// The missed occurrences of an event, and the occurrence that is due in that tick after them, run on a thread of
    /// their own: they delay no other event. Several servers, or the processes that cron starts each minute, share the
    /// missed occurrences. Add [`without_overlapping`](Self::without_overlapping), so that they run one at a time in
    /// the whole fleet.
    ///
    /// An occurrence that met a run of its event, and was therefore skipped, does not count as missed, unless that run
    /// made up for an earlier occurrence. An occurrence that was skipped while the event was paused, or while the store
    /// was unavailable, counts as missed. An occurrence whose turn comes after the end of the window is skipped as
    /// [`TooLate`](crate::SkipReason::TooLate): choose a window that is long enough for the runs before it.
    ///
    /// Each minute, one request asks the store which of the occurrences in the window were claimed, until this process
    /// knows all of them. A claim is kept for the window and 6 minutes more.
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
    /// clock.advance(Duration::from_secs(3 * 3600 + 60)); // nobody ticks from 13:00 to 15:00
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
