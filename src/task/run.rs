//! One run of an event, as its task and its hooks see it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::hold::held_lease::HeldLease;
use crate::lease::{request::Lease, token::FencingToken};
use crate::observe::notice::{About, Step};
use crate::outcome::cancel::{CancelReason, Cancelled};
use crate::outcome::run_record::RunId;

/// One run of an event, as its task and its hooks see it. An owned, cheap handle: clone it into threads and futures.
/// The lease is given back when the task and its hooks have returned, whoever still has a clone: wait for what you start.
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
    held: Arc<HeldLease>,
}

impl Run {
    #[inline]
    pub(crate) fn new(event: Arc<str>, occurrence: DateTime<Utc>, lateness: Duration, held: HeldLease) -> Self {
        Self { id: RunId { event, occurrence }, lateness, held: Arc::new(held) }
    }

    pub(crate) fn id(&self) -> &RunId {
        &self.id
    }

    /// Returns the lease of the run, and all that ends the run early.
    #[inline]
    pub(crate) fn held(&self) -> &Arc<HeldLease> {
        &self.held
    }

    /// Tells of a step of it.
    #[inline]
    pub(crate) fn tell(&self, step: &Step<'_>) {
        let about = About { run: self.held.observed_run(), ..About::from(&self.id) };
        self.held.observers().tell(about, step);
    }

    /// Returns the event's name.
    pub fn name(&self) -> &str {
        &self.id.event
    }

    /// Returns the instant this run was scheduled for, the same on every server; by hand, the instant that was given.
    pub fn occurrence(&self) -> DateTime<Utc> {
        self.id.occurrence
    }

    /// Returns how long after its occurrence the tick came that it runs in: seconds, or, where it was missed in the tick for which
    /// it was due, as much as [`catch_up`](crate::Event::catch_up) allows. Zero by hand. How long it then waited for the
    /// events before it in that tick is not in it.
    pub fn lateness(&self) -> Duration {
        self.lateness
    }

    /// Returns the lease it runs under, as it was granted; `None` without `without_overlapping`, and in a run that is
    /// [unprotected](crate::OutagePolicy::RunUnprotected) because its store is out. How long it lasts after its
    /// renewals says [`remaining`](Self::remaining).
    pub fn lease(&self) -> Option<&Lease> {
        self.held.lease()
    }

    /// Returns which of the slots of [`at_most`](crate::Event::at_most) it holds, from 0 on: no other run of its event, or of those that
    /// share its mutex, has the same meanwhile. A run that is alone has 0; `None` without a lease.
    pub fn slot(&self) -> Option<usize> {
        self.lease()?.name().slot_number()
    }

    /// Returns the token of what it was granted; `None` without any protection, and in a run that is
    /// [unprotected](crate::OutagePolicy::RunUnprotected) because its store is out.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.held.token()
    }

    /// Returns whether the task should stop: its lease is lost, it took too long, or the process shuts down. Once it is, it stays
    /// so.
    ///
    /// It compares the deadlines with the clock itself, so that it is right in the moment in which a process that was
    /// suspended goes on. A task that works on after that may work beside another run.
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

    /// Returns why the task should stop, the first reason there was; `None`: it may go on.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.held.reason()
    }

    /// Returns an error if the task should stop, for loops that pass errors on.
    ///
    /// # Errors
    ///
    /// It should stop, for the reason that the error says.
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

    /// Waits until the task should stop, for `timeout` at most: a sleep that ends early. `None`: the time is over, and
    /// the task may go on.
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

    /// Waits until the task should stop, and says why: for `select!` in a task that is a future, see
    /// `Event::spawn`, with the feature `tokio`. It needs no runtime of a certain kind, and borrows nothing from the run. In a
    /// clone that outlives its run it is over when the run is.
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

    /// Returns how long the task may go on as things are: until its lease ends, its timeout, or the drain of a
    /// [`Shutdown`](crate::Shutdown) that has begun. A lease that is renewed ends later again and again. Zero when it is
    /// cancelled; `None`: nothing limits it.
    pub fn remaining(&self) -> Option<Duration> {
        self.held.remaining()
    }
}
