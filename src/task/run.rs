//! A run of an event, for its task and its hooks.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::hold::held_lease::HeldLease;
use crate::lease::{request::Lease, token::FencingToken};
use crate::outcome::cancel::{CancelReason, Cancelled};
use crate::outcome::run_record::RunId;

/// A run of an event. The task and the hooks of the event receive a handle of this type. Clones of the handle are
/// cheap, and threads and futures can own them. The lease is released when the task and its hooks have returned, even
/// if a thread still has a clone. So a task should wait for the threads that it starts.
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
    pub(crate) id: RunId,
    pub(crate) lateness: Duration,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    /// The lease of the run, with the reasons that cancel the run.
    pub(crate) held: Arc<HeldLease>,
}

/// The time that is reserved after the grace, for the end of a killed command or for the last poll of a future.
pub(crate) const ENDING_TAKES: Duration = Duration::from_secs(1);

/// The default grace, the time from the cancellation of a task to its end by force.
pub(crate) const USUAL_GRACE: Duration = Duration::from_secs(5);

/// The longest grace.
pub(crate) const LONGEST_GRACE: Duration = Duration::from_secs(60 * 60);

impl Run {
    /// Returns the time from the cancellation of the task to its end by force.
    pub(crate) fn grace(&self) -> Duration {
        self.held.stopping.saturating_sub(ENDING_TAKES)
    }

    /// Returns the event's name.
    pub fn name(&self) -> &str {
        &self.id.event
    }

    /// Returns the instant at which this run was due. This instant is equal on all servers. For a run by hand, it is
    /// the time that the caller passed.
    pub fn occurrence(&self) -> DateTime<Utc> {
        self.id.occurrence
    }

    /// Returns whether a [backfill](crate::Schedule::backfill) started this run. The command of such a run has the
    /// variable `SOLOIST_BACKFILL` with the value `1`.
    pub fn is_backfill(&self) -> bool {
        self.id.is_backfill
    }

    /// Returns the lateness of the run: the time from the start of its occurrence to its tick. The lateness is usually
    /// a few seconds. If the occurrence was missed, the lateness can be as long as the window of
    /// [`catch_up`](crate::Event::catch_up). In a [backfill](Self::is_backfill), the lateness is the age of the
    /// occurrence. For a run by hand, it is zero. A [jitter](crate::Event::jitter) does not count, and neither does the
    /// wait for earlier events of the tick.
    pub fn lateness(&self) -> Duration {
        self.lateness
    }

    /// Returns the number of the attempt: 1 for the first start of the task, and one more for each
    /// [retry](crate::Event::retry). In a hook after the task, this is the number of the last attempt. A clone keeps
    /// the number of the attempt in which the clone was made.
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

    /// Returns the lease of the run, as it was granted. `None`: the event has no lease, or the run is
    /// [unprotected](crate::OutagePolicy::RunUnprotected) because its store is unavailable. A renewal does not change
    /// the deadline in the returned lease; see [`remaining`](Self::remaining) for the time that is left.
    pub fn lease(&self) -> Option<&Lease> {
        self.held.lease()
    }

    /// Returns the number of the run's slot of [`at_most`](crate::Event::at_most), from 0. No other run with this mutex
    /// name has this slot at the same time. If only one run at a time is allowed, the slot is 0. `None`: the run has no
    /// lease.
    pub fn slot(&self) -> Option<usize> {
        self.lease()?.name().slot_number()
    }

    /// Returns the fencing token of the grant. `None`: the event has no protection, or the run is
    /// [unprotected](crate::OutagePolicy::RunUnprotected) because its store is unavailable.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.held.token()
    }

    /// Returns whether the run is cancelled. If so, the task should stop. [`CancelReason`] lists the reasons. A
    /// cancelled run stays cancelled.
    ///
    /// Each call compares the deadlines with the clock. So the answer is correct even if the process was suspended
    /// before the call. A task that ignores a cancellation can overlap the next run.
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

    /// Returns an error if the run is cancelled. Use this method with `?` in a loop.
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
        match self.cancel_reason() {
            Some(reason) => Err(Cancelled::new(reason)),
            None => Ok(()),
        }
    }

    /// Waits until the run is cancelled, but at most for `timeout`, and returns the reason. This is a sleep that a
    /// cancellation ends. `None`: the run was not cancelled within `timeout`, and the task may continue.
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

    /// Waits until the run is cancelled, and returns the reason. Use this method in a `select!` of a task that is a
    /// future; see `Event::spawn` of the feature `tokio`. The returned future works on any runtime, and borrows nothing
    /// from the run. If a clone outlives its run, the future of the clone completes when the run ends.
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

    /// Returns how long the task may continue if its lease is not renewed again. The earliest of these times counts:
    /// the lease's deadline, the timeout, and, during a [`Shutdown`](crate::Shutdown), the end of the drain. Each
    /// renewal moves the lease's deadline. If the run is cancelled, the answer is zero. `None`: nothing limits the run.
    pub fn remaining(&self) -> Option<Duration> {
        self.held.remaining()
    }
}
