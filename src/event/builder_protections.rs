//! The builder's methods for protections: leases, claims, `catch_up`, outages, and the store that keeps them.

use std::sync::Arc;
use std::time::Duration;

use super::definition::Event;
use super::outage_policy::OutagePolicy;
use super::protection::overlap::Overlap;
use crate::store::{event_mutex::EventMutex, handle::Store};
use crate::time::period::Period;

impl Event {
    /// Never runs while an earlier run of it is at work, however long that takes: it holds a lease, which is renewed
    /// until the task has ended.
    ///
    /// The lease has a term of 60 seconds, unless [`lease_term`](Self::lease_term) or
    /// [`Schedule::with_lease_term`](crate::Schedule::with_lease_term) says otherwise, and is renewed at a third of it.
    /// So a killed process blocks its event for a minute at most, and on the file store not at all. A lease that can't
    /// be renewed in time is lost: the run is [cancelled](crate::Run::is_cancelled), and the report says so.
    ///
    /// The store must be able to extend a lease, as all built-in stores are. For one that can't, use
    /// [`without_overlapping_for`](Self::without_overlapping_for); `add` refuses an event with both.
    ///
    /// A lease is not re-entrant: a task that [runs](crate::Schedule::run_event) its own event meets its own lease, and that run
    /// is skipped as [`Overlapping`](crate::SkipReason::Overlapping).
    ///
    /// A lease only prevents runs at the same time. Two servers whose clocks differ by two seconds tick two seconds
    /// apart; a task of a millisecond has ended in between, and runs twice. Use [`on_one_server`](Self::on_one_server)
    /// or [`hold_at_least`](Self::hold_at_least) against that.
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

    /// Up to `count` runs at a time, from 1 to 100, over all servers that share the store: of this event, or of all events that
    /// share its [`mutex_name`](Self::mutex_name), which must say the same number. With 1 it is
    /// [`without_overlapping`](Self::without_overlapping), and what that says of leases goes for each of them.
    ///
    /// A run holds one of so many slots, the first that is free. All of them are tried in one request. A run
    /// [knows](crate::Run::slot) its slot, so that runs beside one another can use different ports or folders.
    /// [Fencing tokens](crate::Run::fencing_token) rise over all slots: a resource that several runs use at a time can't tell
    /// a stale one by comparing tokens, unless it keeps the highest token of each slot.
    ///
    /// It does not make the event run [on one server](Self::on_one_server): without that, each server runs each occurrence, as
    /// far as there are slots. While servers of two versions say different numbers, the larger one counts. On the file store, the
    /// slot of a killed process is free when its term is over; only the first is at once.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("resize", |run| println!("in slot {:?}", run.slot())).every_second().at_most(3).on_one_server();
    /// ```
    pub fn at_most(self, count: usize) -> Self {
        self.say("at_most", count, |event| &mut event.protections.at_most)
    }

    /// Never runs while an earlier run of it is at work, for a fixed `term` at the most: from 1 millisecond to ten
    /// years. The lease is not renewed: a task that is still at work when the term is over is
    /// [cancelled](crate::Run::is_cancelled) and may be overlapped; the report says that it lost its lease. A killed
    /// process blocks its event for the rest of the term, except on the file store.
    pub fn without_overlapping_for(self, term: Duration) -> Self {
        self.say("without_overlapping_for", term, |event| &mut event.protections.fixed_term)
    }

    /// For how long the lease of [`without_overlapping`](Self::without_overlapping) is granted and renewed: from 100
    /// milliseconds to ten years. The default is 60 seconds.
    ///
    /// A killed process blocks its event for this long. A store may be out for two thirds of this time before a run is
    /// cancelled.
    pub fn lease_term(self, term: Duration) -> Self {
        self.say("lease_term", term, |event| &mut event.protections.lease_term)
    }

    /// Holds its lease for at least this long, even if the task and the process end earlier: from 1 millisecond to ten
    /// years.
    ///
    /// A task that is shorter than the difference between two servers' clocks would otherwise run on both, one after
    /// the other: servers that are 2 s apart and a task of 1 ms make two runs, and with `hold_at_least` of 5 s one.
    /// Until then, others skip it as still running. It needs a lease: a renewed one of any term, or one for a fixed
    /// term that is not shorter. A killed process holds its lease no longer than its term, and on the file store not at
    /// all.
    pub fn hold_at_least(self, length: Duration) -> Self {
        self.say("hold_at_least", length, |event| &mut event.protections.hold_at_least)
    }

    /// What becomes of an occurrence that meets a run of the event, wherever in the fleet that is: it is skipped, which is
    /// the default, waits for its turn in a [queue](Overlap::QueueOne), or [replaces](Overlap::Replace) the run. It goes with
    /// [`without_overlapping`](Self::without_overlapping), and makes the event run [on one
    /// server](Self::on_one_server). The store must be able to extend a lease, as all built-in stores are, and to say who
    /// [holds](EventMutex::held) it, for which [occurrence](crate::store::Holder::occurrence), for `Replace`; if it can't, what would
    /// replace a run is skipped as [`StoreUnavailable`](crate::SkipReason::StoreUnavailable).
    ///
    /// An occurrence that waits delays no other event: it has a thread of its own, which asks the store about once a second,
    /// and [`run_due`](crate::Schedule::run_due) returns when it has run. Until then no later occurrence of the event starts
    /// before it. It waits [`within`](Self::within) a time; after that it is skipped as
    /// [`QueuedTooLong`](crate::SkipReason::QueuedTooLong). Servers that come second with an occurrence that waits skip it as
    /// [`Queued`](crate::SkipReason::Queued), and those that find no room as [`QueueFull`](crate::SkipReason::QueueFull). What
    /// waits to replace a run leaves as [`Replaced`](crate::SkipReason::Replaced) when a later occurrence comes.
    ///
    /// If the server that waits is killed, shut down or paused, another one takes the occurrence over in its next tick, if that
    /// process skipped it as `Queued` before. A process that cron starts for each tick has not.
    /// [The guide](crate::guide::queues) says what happens in every case.
    /// Events that share a [`mutex_name`](Self::mutex_name) share its queue. Runs [by hand](crate::Schedule::run_event) do not wait.
    ///
    /// ```
    /// use soloist::{Event, Overlap};
    ///
    /// let event = Event::call("import", |_| {}).every_minute().without_overlapping().on_overlap(Overlap::QueueAll(3));
    /// ```
    pub fn on_overlap(self, overlap: Overlap) -> Self {
        self.say("on_overlap", overlap, |event| &mut event.protections.on_overlap)
    }

    /// How long after its occurrence an event that [waits](Self::on_overlap) may still start: from a second to a
    /// day. The default is as long as its [claim](Self::on_one_server) may be asked for: ten periods, at least a minute and at most an
    /// hour. Meanwhile those that find no room in the queue are skipped as [`QueueFull`](crate::SkipReason::QueueFull).
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Event, Overlap};
    ///
    /// let event = Event::call("import", |_| {})
    ///     .hourly()
    ///     .without_overlapping()
    ///     .on_overlap(Overlap::QueueOne)
    ///     .within(Duration::from_secs(20 * 60));
    /// ```
    pub fn within(self, time: Duration) -> Self {
        self.say("within", time, |event| &mut event.protections.within)
    }

    /// What to do when the store gives no decision: it does not answer, or what it keeps under this name can't be used.
    /// The default is not to run, see [`OutagePolicy`].
    pub fn on_outage(self, policy: OutagePolicy) -> Self {
        self.say("on_outage", policy, |event| &mut event.protections.on_outage)
    }

    /// Each occurrence starts on exactly one of the servers that share the store, the first that asks. It needs a store
    /// that all of them see. Their clocks may differ by up to 5 minutes. A long task may still be overlapped by its
    /// next occurrence; use [`without_overlapping`](Self::without_overlapping) against that.
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
    /// An occurrence starts at most once: if the process dies after its admission, no other server runs it.
    pub fn on_one_server(mut self) -> Self {
        self.protections.one_server = true;
        self
    }

    /// Starts at most once in each civil [`Period`], in its [`timezone`](Self::timezone), on whichever server asks first:
    /// there is one permit for the hour, the day, the week or the month, and it is never released. With [`Period::Hour`]
    /// an event that is asked for at 15:01 here and at 15:02 there runs once; one at 15:59 and at 16:00 runs twice. The
    /// period is that of the occurrence, so its timetable says when it may start, and the permit that it does so once.
    ///
    /// The permit is a claim like that of [`on_one_server`](Self::on_one_server), and replaces it where both are set:
    /// kept in a store that all servers see, taken together with the lease or not at all, and asked for within the same
    /// window after a tick began. It outlives its period by the window and 5 minutes. Later runs are skipped as
    /// [`RanElsewhere`](crate::SkipReason::RanElsewhere) with its holder, also in the same process.
    ///
    /// The start uses up the period, not the success: a task that fails, or whose process dies after its admission,
    /// runs again in the next period. A run [by hand](crate::Schedule::run_event) needs no permit.
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

    /// Makes up for an occurrence that was missed, because no server was up, cron was late, or the store was out: the
    /// first tick of a minute within `window` after it runs it, on the first server that asks. The window is from a
    /// minute to a year; it needs [`on_one_server`](Self::on_one_server) or [`once_per`](Self::once_per), whose claims
    /// tell which occurrences were run.
    ///
    /// Only the latest occurrence is run, however many were missed before it. The run
    /// [knows](crate::Run::occurrence) which one it is and [how late](crate::Run::lateness), and so does the
    /// [report](crate::Entry::missed_by). A run that failed is not repeated.
    ///
    /// An occurrence that was skipped, because it overlapped or because the schedule was
    /// [paused](crate::Schedule::pause), counts as missed, too: it is tried again each minute until it runs, the next
    /// one is due, or the window is over. While its filters refuse, it waits, without an entry in the report; filters
    /// see the time of the tick, and the time of the occurrence in [`Tick::scheduled`](crate::time::Tick::scheduled). An
    /// occurrence that [`between`](Self::between) kept from running was not missed. Nor was one that waits behind other
    /// events in a tick of this process; but another process, such as cron starts each minute, can't know that, and may
    /// run it at the same time as the events that it waits for.
    ///
    /// Only occurrences since its store has known the event count, so that a new event, or one with another timetable,
    /// window or claim, does not run when it is deployed. The store learns of it in the first tick in which the event
    /// is due or a window is open, and when [`work`](crate::Schedule::work) begins; a window as long as the time
    /// between two occurrences is always open. A definition that comes back, as after a rollback, has been known since
    /// it was first seen, and so has one whose `catch_up` was left out for a while: break its mark, which starts with
    /// `mark/` and the event's name, or deploy it under another name, where that matters. In a store that has lost its
    /// data, as Redis may after a restart, the event is new, and nothing is made up for.
    ///
    /// While a window is open, each such event costs one request to the store each minute, and two if nobody has
    /// claimed the occurrence, until this process knows that the occurrence was run. A tick in which such events are
    /// due asks the store once more for all of them, and again after an hour. The other events of that tick start after
    /// these requests. The store must be able to tell who [holds](EventMutex::held) a name, as all built-in stores
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

    /// The name of its lease, instead of the event's own: events with the same mutex name never run at the same time.
    /// It needs [`without_overlapping`](Self::without_overlapping), which takes the lease.
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

    /// Keeps its lease and claims in a store of its own, instead of the schedule's. Events with handles of one store
    /// share it, see [`Description::identity`](crate::store::Description::identity).
    pub fn mutex(self, mutex: impl EventMutex + 'static) -> Self {
        self.say("mutex", Store::new(mutex), |event| &mut event.mutex)
    }
}
