//! The orderly end of a process: nothing new starts, what is at work is told to stop, and nothing stays held.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::task::run::Run;
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, Waiting};

#[cfg(all(unix, feature = "signals"))]
mod signals;
pub(crate) mod state;

use state::{RunGuard, ShutdownState, TickGuard};

/// Ends the work of schedules when the process is to end: [`Schedule::with_shutdown`](crate::Schedule::with_shutdown)
/// takes it, and a signal or [`trigger`](Self::trigger) sets it off.
///
/// From then on nothing new starts: what is due is skipped as
/// [`ShuttingDown`](crate::SkipReason::ShuttingDown). Runs at work are [cancelled](crate::Run::is_cancelled), so that a
/// callback that looks returns early; commands are ended, with all that they have started. Hooks run as always, then the
/// leases are given back, and [`run_due`](crate::Schedule::run_due) returns.
///
/// All of that may take as long as the **grace** says: 6 seconds. What is still at work then is left behind when the
/// process ends. Its lease is shortened to a few seconds, longer than the process takes to end, and never given back under
/// it. That takes 3 seconds more if a store is out, and no time otherwise: together less than the 10 seconds that
/// containers are mostly given.
///
/// A cheap handle: clones are one shutdown.
///
/// ```no_run
/// # #[cfg(not(feature = "signals"))]
/// # fn main() {}
/// use soloist::{Event, FileMutex, Report, Schedule, Shutdown};
///
/// # #[cfg(feature = "signals")]
/// fn main() -> Result<Report, Box<dyn std::error::Error>> {
///     let shutdown = Shutdown::on_signals()?;
///     let mut schedule = Schedule::new(FileMutex::in_dir("/var/lib/myapp/locks")?).with_shutdown(&shutdown);
///     schedule.add(Event::exec("backup", "pg_dump app > /backup/app.sql").every_minute().without_overlapping())?;
///     Ok(schedule.run_due(chrono::Utc::now()))
/// }
/// ```
#[derive(Clone)]
pub struct Shutdown {
    state: Arc<ShutdownState>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// One that the application sets off itself, when it has heard that it is to end.
    ///
    /// ```
    /// use soloist::{Event, Schedule, Shutdown, SkipReason, Verdict};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shutdown = Shutdown::new();
    /// let mut schedule = Schedule::in_process().with_shutdown(&shutdown);
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// shutdown.trigger();
    /// let entry = schedule.run("reports", chrono::Utc::now())?;
    /// assert!(matches!(entry.verdict(), Verdict::Skipped(SkipReason::ShuttingDown)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new() -> Self {
        Self { state: ShutdownState::new() }
    }

    /// One that `SIGTERM`, `SIGINT`, `SIGQUIT` and `SIGHUP` set off, and that then ends the process.
    ///
    /// The process ends by the signal itself, which is what whoever started it expects: when all ticks have
    /// ended and `main` has returned a [`Report`](crate::Report) or called [`finish`](Self::finish); a second after the
    /// last tick has ended, if nobody has asked [`wait`](Self::wait) or [`is_triggered`](Self::is_triggered) by then; and
    /// when the grace is over, whatever is at work: what is left behind is named on standard error. A second signal ends
    /// commands and the process at once, unless it comes within the same tenth of a second: a closed terminal sends two.
    /// Process 1 of a container, which no signal ends, exits with 128 and the signal's number. A schedule that was not
    /// given this shutdown is not waited for.
    ///
    /// The handlers belong to the process and stay for as long as it lives: to ask again is to get another handle of the
    /// same shutdown. A child process made by `fork` ignores these signals until its first tick, or until it calls
    /// this, [`wait`](Self::wait) or [`is_triggered`](Self::is_triggered). From then on they shut it down.
    /// A signal that this process was started to ignore, as by `nohup`, stays ignored. Handlers that
    /// others have installed are called as well. An application that ends other work too handles signals itself, and
    /// calls [`trigger`](Self::trigger).
    ///
    /// # Errors
    ///
    /// The handlers or their thread can't be had. Elsewhere than on Unix there are none.
    ///
    /// ```no_run
    /// use soloist::Shutdown;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shutdown = Shutdown::on_signals()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "signals")]
    #[cfg_attr(docsrs, doc(cfg(feature = "signals")))]
    pub fn on_signals() -> std::io::Result<Self> {
        #[cfg(unix)]
        return signals::shutdown_of_this_process().map(|state| Self { state });
        #[cfg(not(unix))]
        Err(std::io::Error::other("there are no such signals here: call `Shutdown::trigger`"))
    }

    /// The same shutdown, which takes so long at most, for all of its handles; once it was set off, that is too late to be
    /// said. Commands are killed a second before, or at once if it is shorter.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let shutdown = soloist::Shutdown::new().with_grace(Duration::from_secs(25));
    /// ```
    #[must_use = "it reads as a part of what makes the shutdown"]
    pub fn with_grace(self, grace: Duration) -> Self {
        self.state.lock().grace = grace;
        self
    }

    /// Sets it off. It can't be taken back; to do it again does nothing. To end the process is left to the application:
    /// its ticks return when all that they run has ended, and a callback that does not stop holds them up.
    ///
    /// ```
    /// let shutdown = soloist::Shutdown::new();
    /// shutdown.trigger();
    /// assert!(shutdown.is_triggered());
    /// ```
    pub fn trigger(&self) {
        if let Some(notice) = self.state.announce(None) {
            notice.tell();
        }
        self.state.begin(None, Clock::system().moment());
    }

    /// Whether it was set off. Whoever is told so has the rest of the grace to end what there is to end.
    ///
    /// ```
    /// assert!(!soloist::Shutdown::new().is_triggered());
    /// ```
    pub fn is_triggered(&self) -> bool {
        self.listen_after_fork();
        let triggered = self.has_begun();
        if triggered {
            self.state.mark_seen();
        }
        triggered
    }

    /// Waits until it is set off, for `timeout` at most: a sleep between two ticks that ends early. `false`: the time is
    /// over. Whoever is told so has the rest of the grace to end what there is to end.
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
    /// println!("what there is to say at the end");
    /// shutdown.finish();
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self, timeout: Duration) -> bool {
        self.listen_after_fork();
        let triggered =
            self.state.wait_until(Clock::system().moment().plus(timeout), |progress| progress.exit_by.is_some());
        if triggered {
            self.state.mark_seen();
        }
        triggered
    }

    /// Ends the process as the signal would have that has set it off, with leases that are in hand elsewhere shortened.
    /// Without such a signal it returns. What `main` calls last, unless it returns a [`Report`](crate::Report), which
    /// does the same.
    ///
    /// ```no_run
    /// use soloist::{Schedule, Shutdown};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "signals")]
    /// let shutdown = Shutdown::on_signals()?;
    /// # #[cfg(not(feature = "signals"))]
    /// # let shutdown = Shutdown::new();
    /// let schedule = Schedule::in_process().with_shutdown(&shutdown);
    /// println!("{}", schedule.run_due(chrono::Utc::now()));
    /// shutdown.finish();
    /// # Ok(())
    /// # }
    /// ```
    pub fn finish(&self) {
        #[cfg(all(unix, feature = "signals"))]
        {
            // The lock is free while the process ends, so that a second signal gets through.
            let signal = self.state.lock().signal;
            if let Some(signal) = signal {
                signals::end_by(signal);
            }
        }
    }

    /// Whether it has begun. Unlike [`is_triggered`](Self::is_triggered), this does not say that the application has seen
    /// it.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.state.has_begun()
    }

    /// The child of a `fork` has to listen to signals by itself.
    #[cfg_attr(
        not(all(unix, feature = "signals")),
        expect(clippy::unused_self, reason = "without signals there is nothing to listen to")
    )]
    fn listen_after_fork(&self) {
        #[cfg(all(unix, feature = "signals"))]
        signals::listen_after_fork(&self.state);
    }

    /// A tick begins. The process waits for it until the guard is dropped.
    pub(crate) fn tick(&self) -> TickGuard<'_> {
        self.listen_after_fork();
        self.state.tick()
    }

    /// Tells a run to stop when the shutdown begins, until the guard is dropped.
    pub(crate) fn watch<'a>(&'a self, run: &'a Run) -> RunGuard<'a> {
        self.state.watch(run)
    }

    /// A thread that may sleep until moments of `clock`, or until it is set off.
    pub(crate) fn waiting(&self, clock: &Clock) -> Waiting {
        clock.waiting(&self.state)
    }

    /// Sleeps until this moment, or until it is set off, and wakes up no more often than that.
    pub(crate) fn sleep_until(&self, enough: Moment, waiting: &Waiting) -> bool {
        self.state.wait_for(|progress| progress.exit_by.is_some(), || waiting.sleep_until(enough))
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("triggered", &self.has_begun()).finish_non_exhaustive()
    }
}
