//! The builder's methods for leases: overlaps, slots, queues, outages, and the store that keeps them.

use std::sync::Arc;
use std::time::Duration;

use super::Event;
use crate::event::protection::OutagePolicy;
use crate::event::protection::overlap::Overlap;
use crate::store::{described_store::Store, event_mutex::EventMutex};

impl Event {
    /// Never starts the event while an earlier run of it is running, however long that takes. A run holds a lease,
    /// which is renewed until the task has ended.
    ///
    /// The lease has a term of 60 seconds, unless [`lease_term`](Self::lease_term) or
    /// [`Schedule::with_lease_term`](crate::Schedule::with_lease_term) says otherwise, and is renewed at a third of it.
    /// So a killed process blocks its event for a minute at most, and on the file store it does not block the event at
    /// all. A lease that can't be renewed in time is lost: the run is [cancelled](crate::Run::is_cancelled), and the
    /// report says so.
    ///
    /// The store must be able to extend a lease; all built-in stores are. For another store, use
    /// [`without_overlapping_for`](Self::without_overlapping_for). `add` refuses an event with both methods.
    ///
    /// A lease is not re-entrant: if a task [runs](crate::Schedule::run_event) its own event, that second run meets the
    /// lease of the first, and is skipped as [`Overlapping`](crate::SkipReason::Overlapping).
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

    /// Allows up to `count` runs at a time, from 1 to 100, over all servers that share the store. The number limits the
    /// runs of this event, or of all events with its [`mutex_name`](Self::mutex_name): all these events must have equal
    /// numbers. With 1, this method is [`without_overlapping`](Self::without_overlapping). With a larger number, each
    /// run holds a lease like the one described there, and `add` refuses `without_overlapping` together with this
    /// method.
    ///
    /// A run holds one of `count` slots: the first free one. One request tries all of them. A run has the number of its
    /// [slot](crate::Run::slot), so that runs at the same time can use different ports or folders. [Fencing
    /// tokens](crate::Run::fencing_token) rise over all slots. If several runs use one resource, that resource can
    /// recognise a stale token only if it keeps the highest token of each slot.
    ///
    /// This method does not make the event run [on one server](Self::on_one_server): without it, each server runs each
    /// occurrence, as long as there are free slots. While servers of two versions have different numbers, the larger
    /// number counts. On the file store, the first slot of a killed process is free at once; any other slot is free
    /// when its term is over.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("resize", |run| println!("in slot {:?}", run.slot())).every_second().at_most(3).on_one_server();
    /// ```
    pub fn at_most(self, count: usize) -> Self {
        self.say("at_most", count, |event| &mut event.protections.at_most)
    }

    /// Never starts the event while an earlier run of it is running, but only for a fixed `term` from the start of that
    /// run: from 1 millisecond to ten years. The lease is not renewed. A task that is still running after the term is
    /// [cancelled](crate::Run::is_cancelled), and may be overlapped. The report says that the term was over. A killed
    /// process blocks its event for the rest of the term, except on the file store.
    pub fn without_overlapping_for(self, term: Duration) -> Self {
        self.say("without_overlapping_for", term, |event| &mut event.protections.fixed_term)
    }

    /// Sets the term of each grant and renewal of the lease of [`without_overlapping`](Self::without_overlapping): from
    /// 100 milliseconds to ten years. The default is 60 seconds.
    ///
    /// A killed process blocks its event for this long. A store may be unavailable for two thirds of this time before a
    /// run is cancelled.
    pub fn lease_term(self, term: Duration) -> Self {
        self.say("lease_term", term, |event| &mut event.protections.lease_term)
    }

    /// Holds the lease for at least this long, even if the task and the process end earlier: from 1 millisecond to ten
    /// years.
    ///
    /// Otherwise a task that is shorter than the difference between two servers' clocks would run on both servers, one
    /// after the other. For example, with clocks 2 s apart, a task of 1 ms runs twice; with a `hold_at_least` of 5 s,
    /// it runs once. While the lease is held, other servers skip the event as still running. This method needs a lease:
    /// a renewed lease of any term, or a lease for a fixed term that is not shorter than `length`. A killed process
    /// holds its lease no longer than its term, and on the file store not at all.
    pub fn hold_at_least(self, length: Duration) -> Self {
        self.say("hold_at_least", length, |event| &mut event.protections.hold_at_least)
    }

    /// Sets the answer to an overlap: an occurrence that meets a run of the event, anywhere in the fleet. The
    /// occurrence is skipped (the default), waits in a [queue](Overlap::QueueOne), or [replaces](Overlap::Replace) the
    /// run. This method needs [`without_overlapping`](Self::without_overlapping), and makes the event run [on one
    /// server](Self::on_one_server). The store must be able to extend a lease; all built-in stores are. For `Replace`,
    /// the store must also return the [holder](EventMutex::held) of the lease with its
    /// [occurrence](crate::store::Holder::occurrence). If it can't, an occurrence that would replace a run is skipped
    /// as [`StoreUnavailable`](crate::SkipReason::StoreUnavailable).
    ///
    /// A waiting occurrence delays no other event. It has a thread of its own, which asks the store about once a
    /// second. [`run_due`](crate::Schedule::run_due) returns after the waiting occurrence has run. No later occurrence
    /// of the event starts before it. It waits for the time of [`within`](Self::within) at most; then it is skipped as
    /// [`QueuedTooLong`](crate::SkipReason::QueuedTooLong). If another server already waits with the occurrence, it is
    /// skipped as [`Queued`](crate::SkipReason::Queued). If the queue has no room, it is skipped as
    /// [`QueueFull`](crate::SkipReason::QueueFull). An occurrence that waits to replace a run leaves as
    /// [`Replaced`](crate::SkipReason::Replaced) when a later occurrence comes.
    ///
    /// If the waiting server is killed, shut down or paused, another server takes the occurrence over in its next tick,
    /// if the process there skipped the occurrence as `Queued` before. A process that cron starts for each tick can't
    /// know that. [The book](https://docs.rs/crate/soloist/latest/source/docs/guide/queues.md) describes every case.
    /// Events that share a [`mutex_name`](Self::mutex_name) share its queue. Runs [by hand](crate::Schedule::run_event)
    /// do not wait.
    ///
    /// ```
    /// use soloist::{Event, Overlap};
    ///
    /// let event = Event::call("import", |_| {}).every_minute().without_overlapping().on_overlap(Overlap::QueueAll(3));
    /// ```
    pub fn on_overlap(self, overlap: Overlap) -> Self {
        self.say("on_overlap", overlap, |event| &mut event.protections.on_overlap)
    }

    /// Sets how long after its time a [waiting](Self::on_overlap) occurrence may still start: from a second to a day.
    /// The default is the window of its [claim](Self::on_one_server): ten periods, at least a minute and at most an
    /// hour. During this time, occurrences that find no room in the queue are skipped as
    /// [`QueueFull`](crate::SkipReason::QueueFull).
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

    /// Sets the policy for an outage: the store does not answer, or its entry for this event can't be used. By default,
    /// the event does not run; see [`OutagePolicy`].
    pub fn on_outage(self, policy: OutagePolicy) -> Self {
        self.say("on_outage", policy, |event| &mut event.protections.on_outage)
    }

    /// Sets the name of the lease, instead of the event's own: events with the same mutex name never run at the same
    /// time. The name needs [`without_overlapping`](Self::without_overlapping), which takes the lease.
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

    /// Keeps the lease and the claims of the event in this store, instead of the schedule's store. Events with handles
    /// to one store share that store; see [`Description::identity`](crate::store::Description::identity).
    pub fn mutex(self, mutex: impl EventMutex + 'static) -> Self {
        self.say("mutex", Store::new(mutex), |event| &mut event.store)
    }
}
