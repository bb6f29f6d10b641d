//! The state that all handles of one shutdown share: whether the shutdown has begun, and for which ticks and runs it
//! waits.

use std::mem;
#[cfg(feature = "tokio")]
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
#[cfg(all(unix, feature = "signals"))]
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::lock::lock;
use crate::hold::change_signal::Signal;
use crate::observe::tell::{notice_queue::spawn_detached, trace};
use crate::task::run::Run;
use crate::time::{clock::Clock, clock::Waiting, clock::manual::Wake, clock::moment::Moment};

/// A future that completes when a token is cancelled.
#[cfg(feature = "tokio")]
type TokenFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
pub(super) struct ShutdownState {
    pub(super) progress: Mutex<Progress>,
    pub(super) changed: Condvar,
    /// The waker of the futures that wait for the beginning of the shutdown.
    pub(super) begins: Arc<Signal>,
    /// The future that waits for the cancellation of a token. `None`: the shutdown has no token, or the token was
    /// cancelled.
    #[cfg(feature = "tokio")]
    pub(super) cancelled: Mutex<Option<TokenFuture>>,
    /// The process whose signals trigger the shutdown. Zero: no signal triggers it.
    #[cfg(all(unix, feature = "signals"))]
    pub(super) listening_process: AtomicU32,
}

#[derive(Default)]
pub(super) struct Progress {
    /// The drain that was set. `None`: [`DEFAULT_DRAIN`].
    pub(super) drain: Option<Duration>,
    /// The grace that was set. `None`: [`DEFAULT_GRACE`].
    pub(super) grace: Option<Duration>,
    /// `None` until the shutdown begins.
    pub(super) deadlines: Option<Deadlines>,
    /// The signal that triggered the shutdown.
    pub(super) signal: Option<i32>,
    /// Whether subscribers of `tracing` were notified of the beginning, or are being notified.
    pub(super) announced: bool,
    pub(super) ticks: usize,
    pub(super) running: Vec<WatchedRun>,
    /// Whether the application has noticed the shutdown, and ends by itself.
    pub(super) seen_by_application: bool,
}

/// A running run.
pub(super) struct WatchedRun {
    pub(super) run: Run,
    /// The mark of the future that has started the run; see `Shutdown::future_ended`.
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "only a future that ends reads it"))]
    pub(super) future_ended: Arc<AtomicBool>,
}

/// The deadlines of a shutdown that has begun.
#[derive(Clone, Copy)]
pub(super) struct Deadlines {
    /// The end of the drain, when runs that are still running are cancelled.
    drained_by: Moment,
    /// The end of the grace.
    pub(super) exit_by: Moment,
}

impl Deadlines {
    fn after(drain: Duration, grace: Duration, asked: Moment) -> Self {
        let drained_by = asked.plus(drain);
        Self { drained_by, exit_by: drained_by.plus(grace) }
    }

    fn grace(self) -> Duration {
        self.exit_by.since(self.drained_by)
    }

    /// Passes the deadlines to a run, with the signal that triggered the shutdown.
    fn tell(self, run: &Run, signal: Option<i32>) {
        let now = Clock::system().moment();
        run.held.shut_down(self.drained_by.since(now), self.exit_by.since(now.max(self.drained_by)), signal);
    }
}

// The drain, the grace and 3 seconds for an unavailable store are 29 seconds together. Kubernetes waits for 30 seconds.
const DEFAULT_DRAIN: Duration = Duration::from_secs(20);
const DEFAULT_GRACE: Duration = Duration::from_secs(6);

impl Progress {
    pub(super) fn drain(&self) -> Duration {
        self.drain.unwrap_or(DEFAULT_DRAIN)
    }

    /// Returns the grace. After the shutdown has begun, [`with_grace`](super::Shutdown::with_grace) does not change it.
    pub(super) fn grace(&self) -> Duration {
        self.deadlines.map_or(self.grace.unwrap_or(DEFAULT_GRACE), Deadlines::grace)
    }

    pub(super) fn runs(&self) -> Vec<Run> {
        self.running.iter().map(|watched| watched.run.clone()).collect()
    }
}

impl ShutdownState {
    /// Returns a function that notifies subscribers of `tracing` that the shutdown begins. The caller calls this
    /// function before any run is cancelled, because a cancelled run may end the process. `None`: the subscribers were
    /// already notified.
    pub(super) fn announce(&self, signal: Option<i32>) -> Option<impl FnOnce() + Send + use<>> {
        let mut progress = self.lock();
        let runs = progress.running.len();
        let (drain, grace) = (progress.drain(), progress.grace());
        let announce = move || trace::shuts_down(signal, runs, drain, grace);
        (!mem::replace(&mut progress.announced, true)).then_some(announce)
    }

    /// Begins the shutdown that was requested at the moment `asked`. `signal` is the signal that made the request.
    /// `false`: the shutdown had already begun.
    pub(super) fn begin(self: &Arc<Self>, signal: Option<i32>, asked: Moment) -> bool {
        let mut progress = self.lock();
        if progress.deadlines.is_some() {
            return false;
        }
        let deadlines = Deadlines::after(progress.drain(), progress.grace(), asked);
        progress.deadlines = Some(deadlines);
        progress.signal = signal;
        self.tell_runs(progress);
        self.begins.wake();
        self.watch_drain(deadlines);
        true
    }

    /// Ends the drain at the moment `now`. If the shutdown has not begun, sets its drain to zero. Returns whether the
    /// caller must now cancel the runs by [`cancel_runs`](Self::cancel_runs). `false`: the drain was zero, or was over
    /// already. This function calls no code of users.
    pub(super) fn end_drain(&self, now: Moment) -> bool {
        let mut progress = self.lock();
        let Some(deadlines) = progress.deadlines else {
            let has_drain = !progress.drain().is_zero();
            progress.drain = Some(Duration::ZERO);
            return has_drain;
        };
        let is_draining = now < deadlines.drained_by;
        if is_draining {
            progress.deadlines = Some(Deadlines::after(Duration::ZERO, deadlines.grace(), now));
        }
        is_draining
    }

    /// Cancels the running runs, after [`end_drain`](Self::end_drain) has ended the drain.
    pub(super) fn cancel_runs(&self) {
        self.tell_runs(self.lock());
    }

    /// Passes the deadlines to the running runs, if the shutdown has begun.
    fn tell_runs(&self, progress: MutexGuard<'_, Progress>) {
        let Progress { deadlines: Some(deadlines), signal, .. } = *progress else { return };
        let running = progress.runs();
        drop(progress);
        for run in &running {
            deadlines.tell(run, signal);
        }
        self.changed.notify_all();
    }

    /// Starts a thread that waits for the end of the drain. If runs are still running then, the thread logs this. It
    /// also wakes the tasks that wait for the cancellation of a run, because these tasks have no timer. Runs are
    /// cancelled by their own clocks, so they do not need this thread.
    fn watch_drain(self: &Arc<Self>, deadlines: Deadlines) {
        let running = self.lock().runs();
        // The moment when the last run is cancelled, on the clock of the runs. The end of the drain in `deadlines` is a
        // moment of the machine's clock, so it is of no use here.
        let Some(end) = running.iter().map(|run| run.held.drained_by()).max() else { return };
        let clock = running[0].held.clock.clone();
        if end <= clock.moment() {
            return;
        }
        let (state, waiting) = (Arc::clone(self), clock.waiting(self));
        waiting.is_needed();
        spawn_detached(move || {
            let is_ended = |now: Option<Deadlines>| now.is_none_or(|now| now.drained_by != deadlines.drained_by);
            let done = |progress: &Progress| progress.running.is_empty() || is_ended(progress.deadlines);
            state.wait_for(done, |_| waiting.patience(end));
            let running = state.lock().runs();
            for run in &running {
                run.held.wake();
            }
            if !running.is_empty() {
                trace::drain_is_over(running.len(), deadlines.grace());
            }
            for run in &running {
                run.held.reason();
            }
        });
    }

    pub(super) fn wait_until(&self, enough: Moment, done: impl Fn(&Progress) -> bool) -> bool {
        let waiting = Waiting::on_the_machine();
        self.wait_for(done, |_| waiting.patience(enough))
    }

    /// Waits until `done` returns `true`. The wait ends early at the moment `enough`, or at the end of the grace if
    /// that comes first. Returns whether `done` returned `true`. The shutdown must have begun.
    #[cfg(all(unix, feature = "signals"))]
    pub(super) fn wait_for_exit(&self, enough: Moment, done: impl Fn(&Progress) -> bool) -> bool {
        let waiting = Waiting::on_the_machine();
        let exit_by = |progress: &Progress| progress.deadlines.map_or(Moment::BEGINNING, |it| it.exit_by);
        self.wait_for(done, |progress| waiting.patience(exit_by(progress).min(enough)))
    }

    /// Waits until `done` returns `true`, or until `patience` returns zero. `patience` returns the remaining time, and
    /// is called again at each wake-up. Returns whether `done` returned `true`.
    pub(super) fn wait_for(&self, done: impl Fn(&Progress) -> bool, patience: impl Fn(&Progress) -> Duration) -> bool {
        let mut progress = self.lock();
        while !done(&progress) {
            let patience = patience(&progress);
            if patience.is_zero() {
                return false;
            }
            (progress, _) = self.changed.wait_timeout(progress, patience).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }
}

impl Wake for ShutdownState {
    fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }
}

/// A running tick. The process waits for its end.
pub(crate) struct TickGuard<'a>(pub(super) &'a ShutdownState);

impl Drop for TickGuard<'_> {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        // The child of a `fork` counts only its own ticks, but also drops the guards of its parent. So the subtraction
        // stops at zero.
        progress.ticks = progress.ticks.saturating_sub(1);
        drop(progress);
        self.0.changed.notify_all();
    }
}

/// A registered run. When the shutdown begins, the run gets its deadlines.
pub(crate) struct RunGuard<'a> {
    pub(super) shutdown: &'a ShutdownState,
    pub(super) run: Run,
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        let mut progress = self.shutdown.lock();
        let is_it = |watched: &WatchedRun| Arc::ptr_eq(&watched.run.held, &self.run.held);
        if let Some(at) = progress.running.iter().position(is_it) {
            progress.running.swap_remove(at);
        }
        if progress.deadlines.is_some() {
            self.shutdown.changed.notify_all();
        }
    }
}
