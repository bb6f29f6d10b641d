//! What all handles of one shutdown share: whether it has begun, and the ticks and runs that it waits for.

use std::iter;
use std::mem;
#[cfg(all(unix, feature = "signals"))]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
#[cfg(feature = "tokio")]
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::hold::{release_on_drop::LeaseInHand, signal::Signal};
use crate::observe::{notice::Notice, tell::tell};
use crate::task::run::Run;
use crate::time::{clock::Clock, clock::Waiting, clock::manual::Wake, clock::moment::Moment};

/// What all handles of one shutdown share.
#[derive(Default)]
pub(super) struct ShutdownState {
    /// Whether it has begun, readable without the lock.
    has_begun: AtomicBool,
    progress: Mutex<Progress>,
    pub(super) changed: Condvar,
    /// Wakes the tasks that wait for it to begin.
    wakers: Signal,
    /// The shutdown that this is a part of: what is at work here is at work there, too.
    whole: Option<Arc<ShutdownState>>,
    /// The process whose signals trigger it; zero if none does.
    #[cfg(all(unix, feature = "signals"))]
    pub(super) listening_process: AtomicU32,
}

#[derive(Default)]
pub(super) struct Progress {
    /// `None`: [`DEFAULT_GRACE`].
    pub(super) grace: Option<Duration>,
    /// When the grace is over; `None` until the shutdown begins.
    pub(super) exit_by: Option<Moment>,
    /// The signal that triggered it.
    pub(super) signal: Option<i32>,
    /// Whether subscribers of `tracing` were told that it begins, or are being told.
    pub(super) announced: bool,
    pub(super) ticks: usize,
    pub(super) running: Vec<Run>,
    /// Those that begin when this begins.
    parts: Vec<Weak<ShutdownState>>,
    /// Whether the application has seen that it began, and ends by itself.
    pub(super) seen_by_application: bool,
}

const DEFAULT_GRACE: Duration = Duration::from_secs(6);

impl ShutdownState {
    /// Tells subscribers of `tracing` that it begins. The caller calls this before any run is told to stop, because a run may
    /// end the process. `None`: they were told already.
    pub(super) fn announce(&self, signal: Option<i32>) -> Option<impl FnOnce() + Send + use<>> {
        let mut progress = self.lock();
        let runs = progress.running.len();
        let grace = progress.grace.unwrap_or(DEFAULT_GRACE);
        let announce = move || tell(&Notice::ShutsDown { signal, runs, grace });
        (!mem::replace(&mut progress.announced, true)).then_some(announce)
    }

    /// Begins the shutdown that was `asked` for at this moment, by a signal or not. `false`: it had begun before.
    pub(super) fn begin(&self, signal: Option<i32>, asked: Moment) -> bool {
        let grace = self.and_whole().find_map(|state| state.lock().grace).unwrap_or(DEFAULT_GRACE);
        self.begin_until(signal, asked.plus(grace))
    }

    fn begin_until(&self, signal: Option<i32>, exit_by: Moment) -> bool {
        let (running, parts) = {
            let mut progress = self.lock();
            if progress.exit_by.is_some() {
                return false;
            }
            progress.exit_by = Some(exit_by);
            progress.signal = signal;
            self.has_begun.store(true, Ordering::Release);
            (progress.running.clone(), mem::take(&mut progress.parts))
        };
        let grace = exit_by.since(Clock::system().moment());
        for run in &running {
            run.in_hand().shut_down(grace);
        }
        for part in parts.iter().filter_map(Weak::upgrade) {
            part.begin_until(signal, exit_by);
        }
        self.changed.notify_all();
        self.wakers.wake();
        true
    }

    /// A part of this: it begins with it, or before. The whole waits for what is at work in it.
    #[cfg(feature = "tokio")]
    pub(super) fn part(self: &Arc<Self>) -> Arc<Self> {
        let part = Arc::new(Self { whole: Some(Arc::clone(self)), ..Self::default() });
        let mut progress = self.lock();
        progress.parts.retain(|part| part.strong_count() > 0);
        progress.parts.push(Arc::downgrade(&part));
        let (signal, exit_by) = (progress.signal, progress.exit_by);
        drop(progress);
        if let Some(exit_by) = exit_by {
            part.begin_until(signal, exit_by);
        }
        part
    }

    /// This, and what it is a part of.
    fn and_whole(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |state| state.whole.as_deref())
    }

    /// What this is a part of, or this.
    #[cfg(all(unix, feature = "signals"))]
    pub(super) fn outermost(&self) -> &Self {
        self.and_whole().last().unwrap_or(self)
    }

    /// The task of this waker does not wait any more.
    #[cfg(feature = "tokio")]
    pub(super) fn forget(&self, waker: &Waker) {
        self.wakers.forget(waker);
    }

    /// Whether it has begun; if not, `context` is woken when it does.
    #[cfg(feature = "tokio")]
    pub(super) fn poll_begun(&self, context: &mut Context<'_>) -> Poll<()> {
        let begun = || self.has_begun().then_some(());
        self.wakers.look_or_wake(context.waker(), begun).map_or(Poll::Pending, Poll::Ready)
    }

    /// Whether it has begun. Unlike `is_triggered`, this does not say that the application has seen it.
    #[inline]
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// The application has seen that it began: it may have more to do than its ticks.
    pub(super) fn mark_seen(&self) {
        self.lock().seen_by_application = true;
        self.changed.notify_all();
    }

    pub(super) fn wait_until(&self, enough: Moment, done: impl Fn(&Progress) -> bool) -> bool {
        let waiting = Waiting::on_the_machine();
        self.wait_for(done, || waiting.patience(enough))
    }

    /// Waits until `done`, for as long as `patience` says, which is asked again after each wake-up.
    pub(super) fn wait_for(&self, done: impl Fn(&Progress) -> bool, patience: impl Fn() -> Duration) -> bool {
        let mut progress = self.lock();
        while !done(&progress) {
            let patience = patience();
            if patience.is_zero() {
                return false;
            }
            (progress, _) = self.changed.wait_timeout(progress, patience).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        // No code that can panic runs while it is half-changed.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tick begins.
    pub(super) fn tick(&self) -> TickGuard<'_> {
        self.and_whole().for_each(|state| state.lock().ticks += 1);
        TickGuard(self)
    }

    /// Tells a run to stop when the shutdown begins, until the guard is dropped.
    pub(super) fn watch(&self, run: &Run) -> RunGuard<'_> {
        for state in self.and_whole() {
            let mut progress = state.lock();
            progress.running.push(run.clone());
            let exit_by = progress.exit_by;
            drop(progress);
            if let Some(exit_by) = exit_by {
                run.in_hand().shut_down(exit_by.since(Clock::system().moment()));
            }
        }
        RunGuard { shutdown: self, run: run.clone() }
    }
}

impl Wake for ShutdownState {
    fn wake(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }
}

/// A tick under way, which the process waits for.
pub(crate) struct TickGuard<'a>(&'a ShutdownState);

impl Drop for TickGuard<'_> {
    fn drop(&mut self) {
        for state in self.0.and_whole() {
            let mut progress = state.lock();
            // The child of a `fork` drops its parent's guards, but counts its own ticks only.
            progress.ticks = progress.ticks.saturating_sub(1);
            drop(progress);
            state.changed.notify_all();
        }
    }
}

/// A run under way, which is told to stop when the shutdown begins.
pub(crate) struct RunGuard<'a> {
    shutdown: &'a ShutdownState,
    run: Run,
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        for state in self.shutdown.and_whole() {
            let mut progress = state.lock();
            let is_it = |run: &Run| Arc::ptr_eq(run.in_hand(), self.run.in_hand());
            if let Some(at) = progress.running.iter().position(is_it) {
                progress.running.swap_remove(at);
            }
            if progress.exit_by.is_some() {
                state.changed.notify_all();
            }
        }
    }
}
