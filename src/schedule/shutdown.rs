//! The orderly end of a process: no run starts, and running runs can finish during the drain. After the drain, the
//! remaining runs are cancelled. The leases are released when the runs have ended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::task::run::Run;
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, Waiting, manual::Wake};

#[cfg(all(unix, feature = "signals"))]
pub(crate) mod end_of_process;
#[cfg(all(unix, feature = "signals"))]
mod signals;
#[cfg(feature = "tokio")]
mod cancellation_token;
pub(crate) mod shutdown_state;

use shutdown_state::{Progress, RunGuard, ShutdownState, TickGuard, WatchedRun};

/// A handle that ends the work of schedules before the process ends. Pass it to
/// [`Schedule::with_shutdown`](crate::Schedule::with_shutdown). A signal or [`trigger`](Self::trigger) starts the
/// shutdown.
///
/// 1. From then on no run starts: due events are skipped as [`ShuttingDown`](crate::SkipReason::ShuttingDown).
/// 2. Running runs continue, and can finish, during the [**drain**](Self::with_drain): 20 seconds by default.
///    [`run_due`](crate::Schedule::run_due) returns as soon as all runs have ended.
/// 3. When the drain is over, runs that are still running are [cancelled](crate::Run::is_cancelled). A callback can
///    check for this, and return early. A future is dropped. A command is ended, with all processes that it has
///    started. Hooks run as always, then the leases are released. The time for all this is the
///    [**grace**](Self::with_grace): 6 seconds by default.
///
/// A run that is still running after the grace ends with the process. Its lease is not released, because the lease must
/// outlive the process. Instead, the lease is shortened to a few seconds. If a store is unavailable, this takes up to 3
/// seconds more. Drain, grace and these 3 seconds are 29 seconds together, less than the 30 seconds that Kubernetes
/// allows. `docker stop` allows 10 seconds: [the
/// book](https://docs.rs/crate/soloist/latest/source/docs/guide/service.md) says which settings to use there, and under
/// systemd.
///
/// A shutdown is cheap to clone, and all clones are handles of one shutdown.
///
/// ```no_run
/// # #[cfg(not(feature = "signals"))]
/// # fn main() {}
/// use soloist::{Event, FileMutex, Report, Schedule, Shutdown};
///
/// # #[cfg(feature = "signals")]
/// fn main() -> Result<Report, Box<dyn std::error::Error>> {
///     let shutdown = Shutdown::on_signals()?;
///     let schedule = Schedule::new(FileMutex::in_dir("/var/lib/myapp/locks")?).with_shutdown(&shutdown);
///     schedule.add(Event::exec("backup", "pg_dump app > /backup/app.sql").every_minute().without_overlapping())?;
///     Ok(schedule.run_due(chrono::Utc::now()))
/// }
/// ```
#[derive(Clone, Default)]
pub struct Shutdown {
    state: Arc<ShutdownState>,
    /// Whether the future that starts its runs with this handle has ended. `false` for ever if no future has the handle.
    future_ended: Arc<AtomicBool>,
}

impl Shutdown {
    /// Returns a shutdown that the application triggers itself.
    ///
    /// ```
    /// use soloist::{Event, Schedule, Shutdown, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shutdown = Shutdown::new();
    /// let schedule = Schedule::in_process().with_shutdown(&shutdown);
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// shutdown.trigger();
    /// let entry = schedule.run_event("reports", chrono::Utc::now())?;
    /// assert!(matches!(entry.verdict(), Verdict::Skipped(SkipReason::ShuttingDown)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a shutdown that `SIGTERM`, `SIGINT`, `SIGQUIT` and `SIGHUP` trigger. Such a signal also ends the
    /// process.
    ///
    /// The process ends by the signal itself, as its parent expects, at the first of these times:
    ///
    /// - All ticks have ended, and `main` has returned a [`Report`](crate::Report) or called [`finish`](Self::finish).
    /// - The last tick ended a second ago, and the application has not called [`wait`](Self::wait).
    /// - The grace is over. If runs are still running, the names of their events are printed on standard error.
    ///
    /// A second signal ends the drain: running runs are cancelled, and have their grace. A third signal, or the second
    /// if there is no drain, ends the commands and the process at once. Signals within a tenth of a second count as
    /// one, because a closed terminal sends two. A signal can't end process 1 of a container, so that process exits
    /// with 128 plus the number of the signal. The process waits only for schedules that were given this shutdown.
    ///
    /// The handlers belong to the process, and stay until it ends. Each call returns a handle of the one shutdown of
    /// this process. A child process made by `fork` ignores these signals until its first tick, or until it calls
    /// `on_signals` or [`wait`](Self::wait). From then on, the signals shut the child down. If this process was started
    /// with a signal ignored, as by `nohup`, the signal stays ignored. Handlers that other code has installed are
    /// called, too. If your application also ends other work on a signal, let it handle the signals, and call
    /// [`trigger`](Self::trigger).
    ///
    /// # Errors
    ///
    /// The handlers can't be installed, their thread can't be started, or the system is not Unix.
    #[cfg(feature = "signals")]
    pub fn on_signals() -> std::io::Result<Self> {
        #[cfg(unix)]
        return signals::shutdown_of_this_process().map(|state| Self { state, future_ended: Arc::default() });
        #[cfg(not(unix))]
        Err(std::io::Error::other("this system has no Unix signals: call `Shutdown::trigger`"))
    }

    /// Sets the drain for all handles of this shutdown: how long runs may continue before they are cancelled. The
    /// default is 20 seconds; with zero, runs are cancelled at once. After the shutdown has begun, this has no effect.
    ///
    /// Choose a drain that is a little longer than the tasks that should finish. The supervisor must not kill the
    /// process before the drain, the [grace](Self::with_grace) and 3 seconds are over. Time in which the machine is
    /// suspended counts, too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Shutdown;
    ///
    /// // 75 + 6 + 3 = 84 seconds, for the 90 seconds that systemd waits.
    /// let shutdown = Shutdown::new().with_drain(Duration::from_secs(75));
    /// # let _ = shutdown;
    /// ```
    #[must_use = "this returns the shutdown, for a chain of methods"]
    pub fn with_drain(self, drain: Duration) -> Self {
        self.state.lock().drain = Some(drain);
        self
    }

    /// Returns the drain: how long runs may continue after the shutdown has begun.
    #[cfg(feature = "cli")]
    pub(crate) fn drain(&self) -> Duration {
        self.state.lock().drain()
    }

    /// Sets the grace for all handles of this shutdown: how long runs may take to stop after the drain. After the
    /// shutdown has begun, this has no effect. Commands are killed a second before the grace is over, or at once if the
    /// grace is shorter than a second.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::Shutdown;
    ///
    /// // 0 + 6 + 3 = 9 seconds, for the 10 seconds that `docker stop` waits.
    /// let shutdown = Shutdown::new().with_drain(Duration::ZERO).with_grace(Duration::from_secs(6));
    /// # let _ = shutdown;
    /// ```
    #[must_use = "this returns the shutdown, for a chain of methods"]
    pub fn with_grace(self, grace: Duration) -> Self {
        self.state.lock().grace = Some(grace);
        self
    }

    /// Starts the shutdown, with its drain. This can't be undone; a second call does nothing. This does not end the
    /// process: your application ends it when its ticks have returned. A tick returns when all its runs have ended, so
    /// a callback that does not stop delays this.
    pub fn trigger(&self) {
        if let Some(tell) = self.state.announce(None) {
            tell();
        }
        self.state.begin(None, Clock::system().moment());
    }

    /// Ends the drain: running runs are cancelled now, and have their grace. If the shutdown has not begun, this starts
    /// it without a drain. Call this in an application that handles signals itself, when it gets a second signal.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{CancelReason, Event, Schedule, Shutdown};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shutdown = Shutdown::new();
    /// let schedule = Schedule::in_process().with_shutdown(&shutdown);
    /// let task = move |run: &soloist::Run| {
    ///     shutdown.trigger();
    ///     assert!(!run.is_cancelled()); // it may finish
    ///     shutdown.cancel_runs();
    ///     assert_eq!(run.cancel_reason(), Some(CancelReason::ShuttingDown));
    /// };
    /// schedule.add(Event::call("reports", task).every_minute())?;
    /// # assert!(!schedule.run_due(chrono::Utc::now()).is_failure());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel_runs(&self) {
        let ended = self.state.end_drain(Clock::system().moment());
        self.trigger();
        if ended {
            self.state.cancel_runs();
        }
    }

    /// Returns whether the shutdown has begun. If your application has other work to end when the shutdown begins, call
    /// [`wait`](Self::wait) with a `timeout` of zero instead: `wait` also keeps the process from ending too early.
    pub fn is_triggered(&self) -> bool {
        self.has_begun(&self.state.lock())
    }

    /// Waits until the shutdown begins, but not longer than `timeout`. A loop of your own can sleep in this way between
    /// two ticks. `false`: the `timeout` is over. `true`: the shutdown has begun, and the caller has the rest of the
    /// drain and the grace to end its own work. With a `timeout` of zero, this returns at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use chrono::Utc;
    /// use soloist::{Schedule, Shutdown};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shutdown = Shutdown::new();
    /// let schedule = Schedule::in_process().with_shutdown(&shutdown);
    /// # shutdown.trigger();
    /// loop {
    ///     println!("{}", schedule.run_due(Utc::now()));
    ///     let seconds = 60 - Utc::now().timestamp() % 60;
    ///     if shutdown.wait(Duration::from_secs(seconds.unsigned_abs())) {
    ///         break;
    ///     }
    /// }
    /// println!("the last tick has ended");
    /// shutdown.finish();
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self, timeout: Duration) -> bool {
        self.listen_after_fork();
        let triggered =
            self.state.wait_until(Clock::system().moment().plus(timeout), |progress| self.has_begun(progress));
        if triggered {
            self.mark_seen();
        }
        triggered
    }

    /// Returns a future that completes when the shutdown begins. Then the caller has the rest of the drain and the
    /// grace to end its own work.
    ///
    /// ```no_run
    /// # async fn serve(listener: tokio::net::TcpListener, shutdown: soloist::Shutdown) {
    /// tokio::select! {
    ///     connection = listener.accept() => println!("{connection:?}"),
    ///     () = shutdown.triggered() => println!("no more"),
    /// }
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    pub fn triggered(&self) -> impl Future<Output = ()> + Send + use<> {
        self.listen_after_fork();
        let this = self.clone();
        self.state.begins.wait_until(move || this.is_triggered().then(|| this.mark_seen()))
    }

    /// Returns a handle with which one future starts its runs. [`end_future`](Self::end_future) cancels these runs only.
    #[cfg(feature = "tokio")]
    pub(crate) fn for_future(&self) -> Self {
        Self { future_ended: Arc::default(), ..self.clone() }
    }

    /// Cancels the runs that a future has started with this handle, because the future has ended or was dropped. No
    /// further run starts with this handle. Subscribers are not notified, because the process does not shut down.
    #[cfg(feature = "tokio")]
    pub(crate) fn end_future(&self) {
        let progress = self.state.lock();
        self.future_ended.store(true, Ordering::Release);
        let is_its_own = |watched: &&WatchedRun| Arc::ptr_eq(&watched.future_ended, &self.future_ended);
        let runs: Vec<Run> = progress.running.iter().filter(is_its_own).map(|watched| watched.run.clone()).collect();
        let grace = progress.grace();
        drop(progress);
        for run in &runs {
            run.held.shut_down(Duration::ZERO, grace, None);
        }
        self.state.changed.notify_all();
    }

    /// Ends the process by the signal that triggered the shutdown. First shortens the leases that other threads still
    /// hold. If no signal triggered the shutdown, this returns. Call `finish` at the end of `main`. If `main` returns a
    /// [`Report`](crate::Report), the report calls `finish`.
    pub fn finish(&self) {
        #[cfg(all(unix, feature = "signals"))]
        {
            // The lock is released before the process ends, so that a second signal can be handled.
            let signal = self.state.lock().signal;
            if let Some(signal) = signal {
                end_of_process::end_by(signal);
            }
        }
    }

    /// Listens to signals in the child of a `fork`, because the listening thread exists only in the parent.
    #[cfg_attr(
        not(all(unix, feature = "signals")),
        expect(clippy::unused_self, reason = "without signals there is nothing to listen to")
    )]
    fn listen_after_fork(&self) {
        #[cfg(all(unix, feature = "signals"))]
        signals::listen_after_fork(&self.state);
    }

    /// Notes that the application has noticed the shutdown. The application may have work besides its ticks, so the
    /// process waits for it until the grace is over.
    pub(crate) fn mark_seen(&self) {
        let mut progress = self.state.lock();
        // A loop also ends when its future is dropped, before any shutdown.
        progress.seen_by_application |= progress.deadlines.is_some();
        drop(progress);
        self.state.changed.notify_all();
    }

    /// Notes that a tick begins. The process waits for the tick until the guard is dropped.
    pub(crate) fn tick(&self) -> TickGuard<'_> {
        self.listen_after_fork();
        self.state.lock().ticks += 1;
        TickGuard(&self.state)
    }

    /// Registers a run until the guard is dropped. When the shutdown begins, the run gets its deadlines. `None`: the
    /// shutdown has begun, so the run must not start.
    pub(crate) fn watch(&self, run: &Run) -> Option<RunGuard<'_>> {
        let mut progress = self.state.lock();
        if self.has_begun(&progress) {
            return None;
        }
        progress.running.push(WatchedRun { run: run.clone(), future_ended: Arc::clone(&self.future_ended) });
        Some(RunGuard { shutdown: &self.state, run: run.clone() })
    }

    /// Returns whether no more runs start with this handle.
    fn has_begun(&self, progress: &Progress) -> bool {
        progress.deadlines.is_some() || self.future_ended.load(Ordering::Acquire)
    }

    /// Registers a thread that will sleep until a moment of `clock`, or until the shutdown begins.
    pub(crate) fn waiting(&self, clock: &Clock) -> Waiting {
        clock.waiting(&self.state)
    }

    /// Sleeps until the moment `enough`, or until the shutdown begins. Returns whether the shutdown has begun.
    pub(crate) fn sleep_until(&self, enough: Moment, waiting: &Waiting) -> bool {
        self.sleep_unless(|| false, enough, waiting)
    }

    /// Sleeps until the moment `enough`, until the shutdown begins, or until `to_do` returns `true`. The
    /// [waker](Self::waker) makes the sleeping thread call `to_do`. Returns whether the sleep has ended early.
    pub(crate) fn sleep_unless(&self, to_do: impl Fn() -> bool, enough: Moment, waiting: &Waiting) -> bool {
        self.state.wait_for(|progress| self.has_begun(progress) || to_do(), |_| waiting.sleep_until(enough))
    }

    /// Returns a function that wakes the thread that sleeps with `waiting`.
    pub(crate) fn waker(&self, waiting: &Arc<Waiting>) -> impl Fn() + Send + Sync + use<> {
        let (state, waiting) = (Arc::clone(&self.state), Arc::clone(waiting));
        move || {
            waiting.is_needed();
            state.wake();
        }
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("triggered", &self.is_triggered()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_ends_before_a_shutdown_has_not_noticed_it() {
        let shutdown = Shutdown::new();
        shutdown.mark_seen();
        assert!(!shutdown.state.lock().seen_by_application);
        shutdown.trigger();
        shutdown.mark_seen();
        assert!(shutdown.state.lock().seen_by_application);
    }
}
