//! The builder's methods for leases: overlaps, slots, queues, outages, and the event's own store.

use std::sync::Arc;
use std::time::Duration;

use super::Event;
use crate::event::protection::OutagePolicy;
use crate::event::protection::overlap::Overlap;
use crate::store::{described_store::Store, event_mutex::EventMutex};

impl Event {
    /// Prevents overlaps: no run of the event starts while an earlier run of the event is running, however long that
    /// run takes. Each run holds a lease, which is renewed until the run has ended.
    ///
    /// The term of the lease is 60 seconds, unless [`lease_term`](Self::lease_term) or
    /// [`Schedule::with_lease_term`](crate::Schedule::with_lease_term) sets another term. The lease is renewed after a
    /// third of its term. If a process is killed, nothing renews its lease, and the lease blocks the event for the rest
    /// of the term: with the default term, for at most a minute. On the file store, a killed process does not block its
    /// event at all. A lease that can't be renewed in time is lost. Then the run is
    /// [cancelled](crate::Run::is_cancelled), and the report says that the lease was lost.
    ///
    /// The store must be able to extend a lease, as all built-in stores can. For a store that can't, use
    /// [`without_overlapping_for`](Self::without_overlapping_for). `add` refuses an event with both methods.
    ///
    /// A lease is not re-entrant: if a task [runs](crate::Schedule::run_event) its own event, the second run does not
    /// get the lease, because the first run holds it. The second run is skipped as
    /// [`Overlapping`](crate::SkipReason::Overlapping).
    ///
    /// A lease only prevents two runs at the same time. If the clocks of two servers differ by two seconds, their ticks
    /// are two seconds apart. A task that takes a millisecond has ended before the second tick, and runs on both
    /// servers. [`on_one_server`](Self::on_one_server) or [`hold_at_least`](Self::hold_at_least) prevents that.
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

    /// Allows up to `count` runs at a time, from 1 to 100. The runs on all servers that share the store are counted. If
    /// several events have one [`mutex_name`](Self::mutex_name), `count` limits the runs of all these events together,
    /// and must be equal for all of them. With a `count` of 1, this method does what
    /// [`without_overlapping`](Self::without_overlapping) does. With a larger `count`, each run holds a lease that is
    /// renewed until the run has ended. `add` then refuses `without_overlapping` together with this method.
    ///
    /// There are `count` slots, and each run holds the first free slot. One request tries all slots.
    /// [`Run::slot`](crate::Run::slot) returns the number of the slot, so that runs at the same time can use different
    /// ports or folders. All slots share one sequence of [fencing tokens](crate::Run::fencing_token). A resource that
    /// several runs use must keep the highest token of each slot. Otherwise it can't recognise a stale token.
    ///
    /// Without [`on_one_server`](Self::on_one_server), each server runs each occurrence, as long as there are free
    /// slots. If servers have different values of `count`, for example during a deployment, the largest value applies.
    /// If a process is killed, its slot is free when the term is over. On the file store, slot 0 of a killed process is
    /// free at once.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("resize", |run| println!("in slot {:?}", run.slot())).every_second().at_most(3).on_one_server();
    /// ```
    pub fn at_most(self, count: usize) -> Self {
        self.say("at_most", count, |event| &mut event.protections.at_most)
    }

    /// Prevents overlaps with a lease of a fixed `term`, from 1 millisecond to ten years. The term begins with the run,
    /// and the lease is not renewed. Until the run has ended or the term is over, no other run of the event starts. A
    /// task that is still running after the term is [cancelled](crate::Run::is_cancelled), and the next run can overlap
    /// it. The report says that the term was over. A killed process blocks its event for the rest of the term, except
    /// on the file store.
    pub fn without_overlapping_for(self, term: Duration) -> Self {
        self.say("without_overlapping_for", term, |event| &mut event.protections.fixed_term)
    }

    /// Sets the term of the lease of [`without_overlapping`](Self::without_overlapping), from 100 milliseconds to ten
    /// years. Each renewal extends the lease by this term. The default is 60 seconds. For a command or a future, it must
    /// be at least twice the sum of the [`grace`](Self::grace) and a second: 12 seconds with the usual grace.
    ///
    /// A killed process blocks its event until the term is over. A store can be unavailable for up to two thirds of the
    /// term before a run is cancelled.
    pub fn lease_term(self, term: Duration) -> Self {
        self.say("lease_term", term, |event| &mut event.protections.lease_term)
    }

    /// Holds the lease for at least `length`, from 1 millisecond to ten years, even if the task and its process end
    /// earlier.
    ///
    /// Without this method, a short task can run on two servers, one after the other, because their clocks differ. For
    /// example, if the clocks differ by 2 s, a task of 1 ms runs twice. With a `hold_at_least` of 5 s, it runs once.
    /// While the lease is held, other servers skip the event as still running, even if the run has ended. So `add`
    /// refuses a `length` that lasts until the next occurrence, which a jitter can bring closer. This method needs a
    /// lease. A lease with a fixed term must not be shorter than `length`. If the process is killed, or if the release
    /// fails, the lease ends when its term is over. On the file store, the lease then ends at once.
    pub fn hold_at_least(self, length: Duration) -> Self {
        self.say("hold_at_least", length, |event| &mut event.protections.hold_at_least)
    }

    /// Sets the behaviour at an overlap. An overlap is an occurrence that is due while a run of its event is still
    /// running anywhere in the fleet. The new occurrence is skipped (the default), waits in a
    /// [queue](Overlap::QueueOne), or [replaces](Overlap::Replace) the run. This method needs a lease, for example of
    /// [`without_overlapping`](Self::without_overlapping), and makes the event run [on one
    /// server](Self::on_one_server). The store must be able to extend a lease, as all built-in stores can. For
    /// `Replace`, the store must also return the [holder](EventMutex::held) of the lease with its
    /// [occurrence](crate::store::Holder::occurrence). If the store can't return the holder, an occurrence that would
    /// replace a run is skipped as [`StoreUnavailable`](crate::SkipReason::StoreUnavailable).
    ///
    /// A waiting occurrence has its own thread, which asks the store about once a second. So it delays no other event.
    /// [`run_due`](crate::Schedule::run_due) returns after the waiting occurrence has run. No later occurrence of the
    /// event starts before the waiting occurrence. An occurrence that can't start is skipped, for one of these reasons:
    ///
    /// - [`QueuedTooLong`](crate::SkipReason::QueuedTooLong): the occurrence waited as long as [`within`](Self::within)
    ///   allows.
    /// - [`Queued`](crate::SkipReason::Queued): another server already waits to run this occurrence.
    /// - [`QueueFull`](crate::SkipReason::QueueFull): the queue has no room.
    /// - [`Replaced`](crate::SkipReason::Replaced): the occurrence waited to replace a run, and a later occurrence
    ///   came.
    ///
    /// If the server of waiting occurrences is killed, shut down or paused, the next tick of another server takes over
    /// the latest of them. Without [`catch_up`](Self::catch_up), only a process that skipped this occurrence as `Queued`
    /// can take it over. So a process that cron starts for each tick can't take it over. [The
    /// book](https://docs.rs/crate/soloist/latest/source/docs/guide/queues.md) describes every case. Events with one
    /// [`mutex_name`](Self::mutex_name) have one queue. Runs [by hand](crate::Schedule::run_event) do not wait.
    ///
    /// ```
    /// use soloist::{Event, Overlap};
    ///
    /// let event = Event::call("import", |_| {}).every_minute().without_overlapping().on_overlap(Overlap::QueueAll(3));
    /// ```
    pub fn on_overlap(self, overlap: Overlap) -> Self {
        self.say("on_overlap", overlap, |event| &mut event.protections.on_overlap)
    }

    /// Sets how long an occurrence may [wait](Self::on_overlap), from a second to a day. The time counts from the
    /// occurrence, or from its delayed start if the event has a [jitter](Self::jitter). The default is the [claim
    /// window](Self::on_one_server): ten periods, but at least a minute and at most an hour.
    /// While the queue is full, further occurrences are skipped as [`QueueFull`](crate::SkipReason::QueueFull).
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

    /// Sets the behaviour of the event if the store does not answer, or if the store's entry for this event can't be
    /// used. By default, the event does not run; see [`OutagePolicy`].
    pub fn on_outage(self, policy: OutagePolicy) -> Self {
        self.say("on_outage", policy, |event| &mut event.protections.on_outage)
    }

    /// Sets the name of the lease. The default is the name of the event. Events with the same mutex name never run at
    /// the same time. This method needs a lease, for example that of
    /// [`without_overlapping`](Self::without_overlapping).
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("import", |_| {}).hourly().mutex_name("warehouse").without_overlapping())?;
    /// schedule.add(Event::call("export", |_| {}).daily().mutex_name("warehouse").without_overlapping())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn mutex_name(self, name: impl Into<Arc<str>>) -> Self {
        self.say("mutex_name", name.into(), |event| &mut event.protections.mutex_name)
    }

    /// Keeps the lease and the claims of the event in the store `mutex`, and not in the schedule's store. If events
    /// have different handles to one store, the schedule treats these handles as one store; see
    /// [`Description::identity`](crate::store::Description::identity).
    pub fn mutex(self, mutex: impl EventMutex + 'static) -> Self {
        self.say("mutex", Store::new(mutex), |event| &mut event.store)
    }
}
