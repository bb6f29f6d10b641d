//! The orderly end of a process: nothing new starts, what is at work is told to stop, and nothing stays held.

use std::fmt;
use std::mem;
#[cfg(all(unix, feature = "signals"))]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::contain::contain;
use crate::base::process;
use crate::lease::holder::this_host;
use crate::task::run::Run;
use crate::time::clock::manual::Wake;
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, Waiting};

#[cfg(all(unix, feature = "signals"))]
mod signals;

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
    shared: Arc<Shared>,
}

struct Shared {
    /// Whether it was asked for, for whoever asks often.
    triggered: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// The process whose signals set it off; zero if none does.
    #[cfg(all(unix, feature = "signals"))]
    attended_in: AtomicU32,
}

struct State {
    grace: Duration,
    /// When the process will have ended, once it is to end.
    gone_by: Option<Moment>,
    /// The signal that set it off.
    signal: Option<i32>,
    /// Whether subscribers were told that it begins, or are being told.
    announced: bool,
    ticks: usize,
    at_work: Vec<Run>,
    /// Somebody has been told, and ends by themselves.
    heeded: bool,
}

/// The grace, unless it is said.
const USUAL_GRACE: Duration = Duration::from_secs(6);

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
        let state = State {
            grace: USUAL_GRACE,
            gone_by: None,
            signal: None,
            announced: false,
            ticks: 0,
            at_work: Vec::new(),
            heeded: false,
        };
        let shared = Shared {
            triggered: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
            #[cfg(all(unix, feature = "signals"))]
            attended_in: AtomicU32::new(0),
        };
        Self { shared: Arc::new(shared) }
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
        return signals::of_this_process();
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
        self.state().grace = grace;
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
        if let Some(news) = self.announce(None) {
            news.tell();
        }
        self.begin(None, Clock::system().moment());
    }

    /// Whether it was set off. Whoever is told so has the rest of the grace to end what there is to end.
    ///
    /// ```
    /// assert!(!soloist::Shutdown::new().is_triggered());
    /// ```
    pub fn is_triggered(&self) -> bool {
        self.follow_a_fork();
        let triggered = self.has_begun();
        if triggered {
            self.is_heeded();
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
        self.follow_a_fork();
        let triggered = self.wait_until(Clock::system().moment().plus(timeout), |state| state.gone_by.is_some());
        if triggered {
            self.is_heeded();
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
            // A second signal is heard meanwhile.
            let signal = self.state().signal;
            if let Some(signal) = signal {
                signals::end_by(signal);
            }
        }
    }

    /// What subscribers are to be told before anything is told to stop: whoever is may end the process. `None`: somebody
    /// sees to it.
    fn announce(&self, signal: Option<i32>) -> Option<News> {
        let mut state = self.state();
        let news = News { signal, grace: state.grace, runs: state.at_work.len() };
        (!mem::replace(&mut state.announced, true)).then_some(news)
    }

    /// Sets it off, by a signal if there was one, which came at this moment. `false`: it was.
    fn begin(&self, signal: Option<i32>, asked: Moment) -> bool {
        let (at_work, gone_by) = {
            let mut state = self.state();
            if state.gone_by.is_some() {
                return false;
            }
            let gone_by = asked.plus(state.grace);
            state.gone_by = Some(gone_by);
            state.signal = signal;
            self.shared.triggered.store(true, Ordering::Release);
            (state.at_work.clone(), gone_by)
        };
        let grace = gone_by.since(Clock::system().moment());
        for run in &at_work {
            run.tenure().shut_down(grace);
        }
        self.shared.changed.notify_all();
        true
    }

    /// Whether it was set off, for those whose work is ended by it.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.shared.triggered.load(Ordering::Acquire)
    }

    /// Without signals there is nothing to hear in another process.
    #[cfg(not(all(unix, feature = "signals")))]
    #[expect(clippy::unused_self, reason = "it is asked wherever there may be signals")]
    fn follow_a_fork(&self) {}

    /// Whoever knows of it may have more to do than a tick.
    fn is_heeded(&self) {
        self.state().heeded = true;
        self.shared.changed.notify_all();
    }

    /// A tick begins.
    pub(crate) fn tick(&self) -> Ticking<'_> {
        self.follow_a_fork();
        self.state().ticks += 1;
        Ticking(self)
    }

    /// Tells a run to stop if it comes to that, for as long as what this returns is there.
    pub(crate) fn watch<'a>(&'a self, run: &'a Run) -> AtWork<'a> {
        let mut state = self.state();
        state.at_work.push(run.clone());
        let gone_by = state.gone_by;
        drop(state);
        if let Some(gone_by) = gone_by {
            run.tenure().shut_down(gone_by.since(Clock::system().moment()));
        }
        AtWork { shutdown: self, run }
    }

    /// A thread that may sleep until moments of `clock`, or until it is set off.
    pub(crate) fn waiting(&self, clock: &Clock) -> Waiting {
        clock.waiting(&self.shared)
    }

    /// Sleeps until this moment, or until it is set off, and wakes up no more often than that.
    pub(crate) fn sleep_until(&self, enough: Moment, waiting: &Waiting) -> bool {
        self.wait_for(|state| state.gone_by.is_some(), || waiting.sleep_until(enough))
    }

    fn wait_until(&self, enough: Moment, done: impl Fn(&State) -> bool) -> bool {
        let waiting = Waiting::on_the_machine();
        self.wait_for(done, || waiting.patience(enough))
    }

    /// `patience`: for how long it may wait from now on.
    fn wait_for(&self, done: impl Fn(&State) -> bool, patience: impl Fn() -> Duration) -> bool {
        let mut state = self.state();
        while !done(&state) {
            let patience = patience();
            if patience.is_zero() {
                return false;
            }
            (state, _) = self.shared.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs while it is half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Shared {
    fn wake(&self) {
        drop(self.state());
        self.changed.notify_all();
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("triggered", &self.has_begun()).finish_non_exhaustive()
    }
}

/// That it is about to begin.
struct News {
    signal: Option<i32>,
    grace: Duration,
    runs: usize,
}

impl News {
    fn tell(&self) {
        let Self { signal, grace, runs } = *self;
        let _ = contain(|| {
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(
                target: "soloist", signal, runs, grace_ms, host = &*this_host(), pid = process::id(), "shutting down"
            );
        });
    }
}

/// A tick under way, which the process waits for.
pub(crate) struct Ticking<'a>(&'a Shutdown);

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        // A tick of its parent's is none of a forked child's.
        state.ticks = state.ticks.saturating_sub(1);
        drop(state);
        self.0.shared.changed.notify_all();
    }
}

/// A run at work.
pub(crate) struct AtWork<'a> {
    shutdown: &'a Shutdown,
    run: &'a Run,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut state = self.shutdown.state();
        if let Some(at) = state.at_work.iter().position(|run| Arc::ptr_eq(run.tenure(), self.run.tenure())) {
            state.at_work.swap_remove(at);
        }
        if state.gone_by.is_some() {
            self.shutdown.shared.changed.notify_all();
        }
    }
}
