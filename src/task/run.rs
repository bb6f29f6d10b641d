//! A run of an event, as its task and its hooks see it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::hold::held_lease::HeldLease;
use crate::lease::{request::Lease, token::FencingToken};
use crate::observe::notice::{About, Step};
use crate::outcome::cancel::{CancelReason, Cancelled};
use crate::outcome::run_record::RunId;

/// A run of an event, as its task and its hooks see it. It is an owned, cheap handle: clone it into threads and futures. The
/// lease is released when the task and its hooks have returned, also if a clone is left: wait for the threads that you start.
///
/// ```
/// use soloist::{Event, Run, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// fn import(run: &Run) {
///     let run = run.clone();
///     std::thread::spawn(move || println!("{} for {}", run.name(), run.occurrence())).join().expect("it only prints");
/// }
/// Schedule::in_process().add(Event::call("import", import).hourly())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    id: RunId,
    lateness: Duration,
    attempt: u32,
    held: Arc<HeldLease>,
}

/// The time that is reserved for the end of a task whose grace is over: of a killed command, or of a future's last poll.
pub(crate) const ENDING_TAKES: Duration = Duration::from_secs(1);

/// The default grace, the time from the cancellation of a task to its end by force.
pub(crate) const USUAL_GRACE: Duration = Duration::from_secs(5);

/// The longest grace. A task is cancelled as long before the deadline of its lease as its grace says.
pub(crate) const LONGEST_GRACE: Duration = Duration::from_secs(60 * 60);

impl Run {
    #[inline]
    pub(crate) fn new(id: RunId, lateness: Duration, held: HeldLease) -> Self {
        Self { id, lateness, attempt: 1, held: Arc::new(held) }
    }

    pub(crate) fn id(&self) -> &RunId {
        &self.id
    }

    /// Begins to count the next attempt.
    pub(crate) fn count_attempt(&mut self) {
        self.attempt += 1;
    }

    /// Returns the lease of the run, with the reasons that cancel the run.
    #[inline]
    pub(crate) fn held(&self) -> &Arc<HeldLease> {
        &self.held
    }

    /// Returns how long after its cancellation the task is ended by force.
    pub(crate) fn grace(&self) -> Duration {
        self.held.stopping.saturating_sub(ENDING_TAKES)
    }

    /// Reports a step of the run.
    #[inline]
    pub(crate) fn tell(&self, step: &Step<'_>) {
        let about = About { run: self.held.observed_run(), ..About::from(&self.id) };
        self.held.observers().tell(about, step);
    }

    /// Returns the event's name.
    pub fn name(&self) -> &str {
        &self.id.event
    }

    /// Returns the instant at which this run was due. All servers have this instant. For a run by hand, it is
    /// the time that the caller passed.
    pub fn occurrence(&self) -> DateTime<Utc> {
        self.id.occurrence
    }

    /// Returns whether a [backfill](crate::Schedule::backfill) runs the occurrence again, as an operator has asked. A command has
    /// `1` in the variable `SOLOIST_BACKFILL` then.
    pub fn is_backfill(&self) -> bool {
        self.id.is_backfill
    }

    /// Returns how long after the start of the occurrence the tick of this run came: seconds, or, if the occurrence was missed in its
    /// own tick, as much as [`catch_up`](crate::Event::catch_up) allows. A [jitter](crate::Event::jitter) does not count. Zero for a run by hand; the age of the occurrence in a
    /// [backfill](Self::is_backfill). The wait for earlier events in the tick does not
    /// count.
    pub fn lateness(&self) -> Duration {
        self.lateness
    }

    /// Returns the number of the attempt, from 1: how often the task of this run was started, with the
    /// [retries](crate::Event::retry). A hook that runs after the task gets the number of the last attempt. A clone of
    /// the run keeps its number.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Event, Retry};
    ///
    /// let event = Event::call("import", |run| println!("attempt {} of 4", run.attempt()))
    ///     .hourly()
    ///     .retry(Retry::times(3).after(Duration::from_secs(10)));
    /// ```
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the lease of the run, as it was granted. `None`: the event is not `without_overlapping`, or the run is
    /// [unprotected](crate::OutagePolicy::RunUnprotected) because its store is unavailable. [`remaining`](Self::remaining) counts the
    /// renewals, too.
    pub fn lease(&self) -> Option<&Lease> {
        self.held.lease()
    }

    /// Returns the number of the run's slot of [`at_most`](crate::Event::at_most), from 0. No other run of this mutex
    /// has this slot at the same time. If only one run is allowed, its slot is 0. `None`: the run has no lease.
    pub fn slot(&self) -> Option<usize> {
        self.lease()?.name().slot_number()
    }

    /// Returns the fencing token of the grant. `None`: the event has no protection, or the run is
    /// [unprotected](crate::OutagePolicy::RunUnprotected) because its store is unavailable.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.held.token()
    }

    /// Returns whether the run is cancelled, so that the task should stop; [`CancelReason`] lists the reasons. A cancelled run stays
    /// cancelled.
    ///
    /// Each call compares the deadlines with the clock, so that the answer is right as soon as a suspended process continues. A
    /// task that ignores the answer may run while another run is running.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("import", |run| {
    ///     for row in 0..1000 {
    ///         if run.is_cancelled() {
    ///             return println!("the rest is for the next run, from row {row} on");
    ///         }
    ///     }
    /// });
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.cancel_reason().is_some()
    }

    /// Returns the first reason why the run is cancelled. `None`: the task may continue.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.held.reason()
    }

    /// Returns an error if the run is cancelled, for loops that pass errors on.
    ///
    /// # Errors
    ///
    /// The run is cancelled, for the reason in the error.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("import", |run| {
    ///     for row in std::fs::read_to_string("/var/lib/myapp/rows")?.lines() {
    ///         run.check()?;
    ///         println!("importing {row}");
    ///     }
    ///     Ok(())
    /// });
    /// ```
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cancel_reason().map_or(Ok(()), |reason| Err(Cancelled::new(reason)))
    }

    /// Waits until the run is cancelled, for `timeout` at most: a sleep that ends early. `None`: the time is over, and the task may
    /// continue.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Event;
    ///
    /// let event = Event::call("poll", |run| {
    ///     while run.wait_cancelled(Duration::from_secs(10)).is_none() {
    ///         println!("anything new?");
    ///     }
    /// });
    /// ```
    pub fn wait_cancelled(&self, timeout: Duration) -> Option<CancelReason> {
        self.held.wait(timeout)
    }

    /// Waits until the run is cancelled, and returns the reason. Use it in a `select!` of a task that is a future; see
    /// `Event::spawn` of the feature `tokio`. The returned future works on any runtime, and borrows nothing from the
    /// run. If a clone outlives its run, the future of the clone completes when the run ends.
    ///
    /// ```
    /// use soloist::{Event, Run};
    ///
    /// async fn poll(run: Run) {
    ///     println!("it should stop: {}", run.cancelled().await);
    /// }
    /// ```
    pub fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + use<> {
        self.held.cancelled()
    }

    /// Returns how long the task may continue without another renewal: until the lease's deadline, the timeout, or the end of the
    /// drain of a [`Shutdown`](crate::Shutdown) that has begun. Each renewal moves the lease's deadline. Zero if the run is cancelled.
    /// `None`: nothing limits the run.
    pub fn remaining(&self) -> Option<Duration> {
        self.held.remaining()
    }
}
