//! The builder's methods for protections: leases, claims, `catch_up`, outages, and the store that keeps them.

use std::sync::Arc;
use std::time::Duration;

use super::builder::Event;
use super::outage_policy::OutagePolicy;
use crate::store::event_mutex::EventMutex;
use crate::store::handle::Store;
use crate::time::period::Period;

impl Event {
    /// Never runs while an earlier run of it is at work, however long that takes: it holds a lease, which is renewed
    /// until the task has ended.
    ///
    /// The lease has a term of 60 seconds, unless [`lease_term`](Self::lease_term) or
    /// [`Schedule::with_lease_term`](crate::Schedule::with_lease_term) says otherwise, and is renewed at a third of it.
    /// So a process that is killed leaves its event blocked for a minute at most, and on the file store not at all. A
    /// lease that can't be renewed in time is lost: the run is [cancelled](crate::Run::is_cancelled), and the report
    /// says so.
    ///
    /// The store must be able to extend a lease, as all that are built in are. For one that can't, there is
    /// [`without_overlapping_for`](Self::without_overlapping_for); `add` refuses an event with both.
    ///
    /// A lease is not re-entrant: a task that [runs](crate::Schedule::run) its own event meets its own lease, and that run
    /// is skipped as [`Overlapping`](crate::SkipReason::Overlapping).
    ///
    /// A lease keeps runs apart that overlap. Two servers whose clocks differ by two seconds tick two seconds apart, and
    /// a task of a millisecond has ended between them: it runs twice. That is what
    /// [`on_one_server`](Self::on_one_server) and [`hold_at_least`](Self::hold_at_least) are for.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports", |_| {}).every_minute().without_overlapping();
    /// ```
    pub fn without_overlapping(mut self) -> Self {
        self.protections.renewed = true;
        self
    }

    /// Never runs while an earlier run of it is at work, for a fixed `term` at the most: from 1 millisecond to ten
    /// years. The lease is not renewed: a task that is still at work when the term is over is
    /// [cancelled](crate::Run::is_cancelled) and may be overlapped; the report says that it lost its lease. A process
    /// that is killed leaves its event blocked for the rest of the term, except on the file store.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let event = Event::call("backup", |_| {}).daily_at("02:30").without_overlapping_for(Duration::from_secs(4 * 3600));
    /// ```
    pub fn without_overlapping_for(self, term: Duration) -> Self {
        self.say("without_overlapping_for", term, |event| &mut event.protections.fixed_term)
    }

    /// For how long the lease of [`without_overlapping`](Self::without_overlapping) is granted and renewed: from 100
    /// milliseconds to ten years, 60 seconds unless it is said.
    ///
    /// That long a killed process leaves its event blocked. That long, less the third after which it is renewed, a store
    /// may be out before a run is cancelled.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports", |_| {}).every_minute().without_overlapping().lease_term(Duration::from_secs(20));
    /// ```
    pub fn lease_term(self, term: Duration) -> Self {
        self.say("lease_term", term, |event| &mut event.protections.lease_term)
    }

    /// Holds its lease for at least so long, however soon the task has ended, and whether or not the process is there
    /// then: from 1 millisecond to ten years.
    ///
    /// A task that is shorter than the difference between two servers' clocks would otherwise run on both, one after
    /// the other: servers that are 2 s apart and a task of 1 ms make two runs, and with `hold_at_least` of 5 s one.
    /// Until it is over, others are told that it is still running. It goes with a lease: one that is renewed, of any term,
    /// or one for a fixed term that is not shorter. A process that is killed holds nothing longer than its term, and on the
    /// file store nothing at all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let event = Event::call("ping", |_| {}).every_minute().without_overlapping().hold_at_least(Duration::from_secs(5));
    /// ```
    pub fn hold_at_least(self, length: Duration) -> Self {
        self.say("hold_at_least", length, |event| &mut event.protections.hold_at_least)
    }

    /// What to do when the store gives no decision: it does not answer, or what it keeps under this name can't be used.
    /// The default is not to run, see [`OutagePolicy`].
    ///
    /// ```
    /// use soloist::{Event, OutagePolicy};
    ///
    /// let event = Event::call("heartbeat", |_| {}).every_minute().on_one_server().on_outage(OutagePolicy::RunUnprotected);
    /// ```
    pub fn on_outage(self, policy: OutagePolicy) -> Self {
        self.say("on_outage", policy, |event| &mut event.protections.on_outage)
    }

    /// Each occurrence starts on exactly one of the servers that share the store, whichever comes first. It needs a
    /// store that all of them see. Servers may be up to 5 minutes apart. Alone it does not keep a long task from being
    /// overlapped by its next occurrence: that is [`without_overlapping`](Self::without_overlapping).
    ///
    /// A server asks for the claim within a window after its tick began; later, because the events before it took that
    /// long, the event is skipped as [`TooLate`](crate::SkipReason::TooLate). The window is ten periods of the event,
    /// between a minute and an hour, and longer where [`catch_up`](Self::catch_up) says so. The period is the shortest
    /// time between two occurrences. The claim is kept for 5 minutes longer than the window:
    ///
    /// | due | asked for within | kept for |
    /// | --- | --- | --- |
    /// | every second to every six seconds | 1 minute | 6 minutes |
    /// | every 30 seconds | 5 minutes | 10 minutes |
    /// | every minute | 10 minutes | 15 minutes |
    /// | every 5 minutes | 50 minutes | 55 minutes |
    /// | every 6 minutes or less often | 60 minutes | 65 minutes |
    ///
    /// A process that dies after the gate has used up the occurrence: it starts at most once.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports", |_| {}).hourly().on_one_server().without_overlapping();
    /// ```
    pub fn on_one_server(mut self) -> Self {
        self.protections.one_server = true;
        self
    }

    /// Starts at most once in each civil [`Period`], in its [`timezone`](Self::timezone), on whichever server asks first:
    /// there is one permit for the hour, the day, the week or the month, and it is never released. With [`Period::Hour`]
    /// an event that is asked for at 15:01 here and at 15:02 there runs once; one at 15:59 and at 16:00 runs twice. The
    /// period is that of the occurrence, so its timetable says when it may start, and the permit that it does so once.
    ///
    /// The permit is a claim as that of [`on_one_server`](Self::on_one_server), and stands in its place where both are
    /// said: on a store that all servers see, taken together with the lease or not at all, and asked for within the same
    /// window after a tick began. It outlives its period by the window and 5 minutes. Who comes later is told who took it:
    /// [`RanElsewhere`](crate::SkipReason::RanElsewhere), also when that was this very process.
    ///
    /// The start uses up the period, and not the success: a task that fails, or whose process dies after the gate, runs
    /// again in the next period. Only [by hand](crate::Schedule::run) it runs whoever has the permit.
    ///
    /// ```
    /// use soloist::{Event, Period, Schedule, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
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

    /// Makes up for an occurrence that was missed, because no server was up, cron was late, or the store was out: the first
    /// tick of a minute within `window` after it runs it, on whichever server asks first. From a minute to a year; it needs
    /// [`on_one_server`](Self::on_one_server) or [`once_per`](Self::once_per), whose claims say what was run.
    ///
    /// Only the latest occurrence is run, however many were missed before it. The run
    /// [knows](crate::Run::occurrence) which one it is and [how late](crate::Run::lateness), and so does the
    /// [report](crate::Entry::missed_by). A run that failed is not repeated.
    ///
    /// An occurrence stays owed until somebody runs it, whatever kept it from running: one that overlapped, or that
    /// came while the schedule was [paused](crate::Schedule::pause), is tried again in each minute until it runs, the
    /// next one comes, or the window is over. While its filters refuse, it waits, without an entry in the report; they
    /// see the time of the tick, and of its occurrence in [`Tick::scheduled`](crate::Tick::scheduled). What
    /// [`between`](Self::between) kept from running at its time was not missed. What waits for its turn in a tick of
    /// this process is not missed either; another process, as cron starts one each minute, can't know that, and may run
    /// it beside the events that it waits for.
    ///
    /// What counts are the occurrences since its store has known the event, so that a new one, or one with another
    /// timetable, window or claim, does not run when it is deployed. The store learns of it in the first tick in which
    /// the event is due or a window is open, and when [`work`](crate::Schedule::work) begins; a window as long as the
    /// time between two occurrences is always open. A definition that comes back, as after a rollback, has been known
    /// since it was first seen, and so has one whose `catch_up` was left out for a while: break its mark, which starts
    /// with `mark/` and the event's name, or deploy it under another name, where that matters. A store that has lost
    /// its data, as Redis may when it is started anew, knows neither what was claimed nor what is owed: the event is
    /// new there, and nothing is made up for.
    ///
    /// While a window is open, each minute costs one look at the store for each such event, and two for what nobody has
    /// claimed, until this process knows that the occurrence was run; a tick in which such events are due asks the
    /// store once more for all of them, and again after an hour. What else is due in that tick begins after the looks.
    /// The store must be able to tell who [holds](EventMutex::holder) a name, as all that are built in are; else what
    /// is owed is skipped as [`StoreUnavailable`](crate::SkipReason::StoreUnavailable). A claim is kept until the next
    /// occurrence or the end of the window, and 6 minutes more, and at least for as long as
    /// [without `catch_up`](Self::on_one_server).
    ///
    /// In a test, let the schedule and its store be on one [`ManualClock`](crate::ManualClock), and let time pass with
    /// [`advance`](crate::ManualClock::advance): the store has to have known the event before the occurrence that was
    /// missed.
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
    /// use soloist::{Event, ManualClock, MemoryMutex, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::at("2026-03-01T12:00:00Z".parse()?);
    /// let mut schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
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

    /// Calls its lease so, instead of after the event: events with the same mutex name never run at the same time. It
    /// goes with [`without_overlapping`](Self::without_overlapping), which takes the lease.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("import", |_| {}).hourly().mutex_name("warehouse").without_overlapping())?;
    /// schedule.add(Event::call("export", |_| {}).daily().mutex_name("warehouse").without_overlapping())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn mutex_name(self, name: impl Into<Arc<str>>) -> Self {
        self.say("mutex_name", name.into(), |event| &mut event.protections.mutex_name)
    }

    /// Keeps its lease and claims in a store of its own, instead of the schedule's. Events that are given handles of one
    /// store share it, see [`EventMutex::identity`].
    ///
    /// ```
    /// use soloist::{Event, MemoryMutex};
    ///
    /// let event = Event::call("cache", |_| {}).every_minute().mutex(MemoryMutex::new()).without_overlapping();
    /// ```
    pub fn mutex(self, mutex: impl EventMutex + 'static) -> Self {
        self.say("mutex", Store::new(mutex), |event| &mut event.mutex)
    }
}
