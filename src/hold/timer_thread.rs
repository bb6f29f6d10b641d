//! The thread that does the jobs of a plan. It sleeps until the next job is due, and is woken for an earlier job.
//!
//! The thread lives only while there are jobs. When it wakes up and finds no job, it ends, and the next job starts a
//! new thread. If a job is removed from the plan, the thread is not woken.
//!
//! A process that exits must not wait for the lock of the plan, because the thread that holds the lock may never
//! continue. Instead, the exiting thread sends a signal to the timer thread, and waits until the timer thread has
//! handled the signal. The signals have a separate lock. A thread holds this lock only for an instant, and can't end
//! the process meanwhile.

use std::mem;
use std::sync::PoisonError;
use std::time::Duration;

use super::held_lease::NO_THREAD;
use super::renewal_plan::{Plan, PlanStep, PlannedJob, RenewalAnswers};
use super::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use crate::base::catch_panic::discard;
use crate::time::{clock::Waiting, clock::moment::Moment};

pub(super) struct TimerThread {
    state: Mutex<TimerState>,
    /// Whether a timer thread runs, or is about to start. The value changes only while `state` is locked. An atomic,
    /// because callers that can't lock `state` read the value, too.
    has_thread: AtomicBool,
    /// Never lock `state` while this is locked, because other threads lock `state` first.
    signals: Mutex<Signals>,
    woken: Condvar,
    handled: Condvar,
}

struct TimerState {
    plan: Plan,
    /// The moment when the thread wakes up by itself.
    wakes_at: Moment,
    /// The [`Waiting`] of the thread. `None`: there is no thread, or it has not begun.
    thread: Option<Waiting>,
}

/// The causes that wake the thread.
#[derive(Default)]
struct Signals {
    /// Whether the thread was woken since its last step.
    woken: bool,
    /// The number of the thread that ends the process, or [`NO_THREAD`] if no signal has named a thread.
    exits_on: usize,
    sent: u64,
    handled: u64,
}

impl TimerThread {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            state: Mutex::new(TimerState { plan, wakes_at: Moment::NEVER, thread: None }),
            has_thread: AtomicBool::new(false),
            signals: Mutex::new(Signals::default()),
            woken: Condvar::new(),
            handled: Condvar::new(),
        }
    }

    /// Calls `change` with the plan. `change` returns a result, and the time of the earliest job that it has planned,
    /// or `None` if it has planned no job. Returns the result, and whether the caller must start a thread that calls
    /// [`run`](Self::run).
    #[must_use = "the caller must start a thread if the second value is `true`"]
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Plan) -> (T, Option<Moment>)) -> (T, bool) {
        let mut state = self.state();
        let (changed, due) = change(&mut state.plan);
        let needs_thread = due.is_some_and(|due| self.plan_by(&mut state, due));
        let removed = state.plan.take_removed();
        // No lock is held, because the drop of a lease can drop an observer, which is code of the user.
        drop(state);
        discard(removed);
        (changed, needs_thread)
    }

    /// Lets the thread do a job that is due at `due`. Returns whether the caller must start the thread.
    fn plan_by(&self, state: &mut TimerState, due: Moment) -> bool {
        if !self.has_thread.load(Ordering::Relaxed) {
            self.has_thread.store(true, Ordering::Relaxed);
            state.wakes_at = due;
            return true;
        }
        if due < state.wakes_at {
            state.wakes_at = due;
            if let Some(thread) = &state.thread {
                thread.is_needed();
            }
            self.wake();
        }
        false
    }

    /// Notes that the thread could not be started, or has panicked.
    pub(super) fn thread_failed(&self) {
        self.end_thread(self.state());
    }

    fn end_thread(&self, mut state: MutexGuard<'_, TimerState>) {
        state.thread = None;
        self.has_thread.store(false, Ordering::Relaxed);
        // `wait_until_handled` checks `has_thread` while `signals` is locked. So `signals` is locked here, after the
        // change of `has_thread`. Then a thread in `wait_until_handled` either reads the new value, or is already
        // asleep and is woken below.
        drop(self.signals());
        self.handled.notify_all();
    }

    /// Wakes the thread, so that it reads the clock again.
    pub(super) fn wake(&self) {
        self.signals().woken = true;
        self.woken.notify_one();
    }

    /// Runs the due jobs on this thread, until no job is planned. `waiting` is the [`Waiting`] of this thread.
    pub(super) fn run(&self, waiting: Waiting, mut carry_out: impl FnMut(&PlannedJob) -> RenewalAnswers) {
        let _notice = PanicNotice(self);
        let clock = waiting.clock().clone();
        let mut state = self.state();
        state.thread = Some(waiting);
        let mut removed = Vec::new();
        let mut done = None;
        loop {
            let patience = state.thread.as_ref().map_or(Duration::ZERO, |thread| thread.patience(state.wakes_at));
            drop(state);
            discard((mem::take(&mut removed), done.take()));
            let (sent, exits_on) = self.wait_for_signals(patience);
            state = self.state();
            if let Some(thread) = exits_on {
                state.plan.begin_exit(thread);
            }
            let step = state.plan.next_step(clock.moment());
            removed = state.plan.take_removed();
            match step {
                PlanStep::Do(job) => {
                    // After the job, this thread reads the plan again, with all changes that were made during the job.
                    // So these changes need not wake the thread, and they do not: no job is due before `BEGINNING`.
                    state.wakes_at = Moment::BEGINNING;
                    drop(state);
                    let answers = carry_out(&job);
                    state = self.state();
                    state.plan.job_done(&job, answers, clock.moment());
                    done = Some(job);
                }
                PlanStep::SleepUntil(due) => state.wakes_at = due,
                PlanStep::End => {
                    self.end_thread(state);
                    return discard(removed);
                }
            }
            self.signals().handled = sent;
            self.handled.notify_all();
        }
    }

    /// Waits until the thread is woken, for `patience` at most. Returns how many signals were sent so far. If some
    /// signals are not handled yet, also returns the number of the exiting thread.
    fn wait_for_signals(&self, patience: Duration) -> (u64, Option<usize>) {
        let mut signals = self.signals();
        if !signals.woken && !patience.is_zero() {
            (signals, _) = self.woken.wait_timeout(signals, patience).unwrap_or_else(PoisonError::into_inner);
        }
        signals.woken = false;
        (signals.sent, (signals.sent != signals.handled).then_some(signals.exits_on))
    }

    fn state(&self) -> MutexGuard<'_, TimerState> {
        // A poisoned lock can still be used: after a panic, the state is never half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signals(&self) -> MutexGuard<'_, Signals> {
        // A poisoned lock can still be used: after a panic, the signals are never half-changed.
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Functions for the exit of the process, which must not wait for the lock of the state.
#[cfg(any(unix, test))]
impl TimerThread {
    /// Sends the signal that the process exits. `exits_on` is the number of the exiting thread. Wakes the timer thread,
    /// if there is one, and does not wait for it.
    pub(super) fn signal(&self, exits_on: usize) {
        let mut signals = self.signals();
        if exits_on != NO_THREAD {
            signals.exits_on = exits_on;
        }
        signals.sent += 1;
        signals.woken = true;
        drop(signals);
        self.woken.notify_one();
    }

    /// Waits until all signals are handled, or until the moment `until`, if that comes first. Does not wait if no job
    /// is running and no lease is held, because then there is nothing to release.
    pub(super) fn wait_until_handled(&self, waiting: &Waiting, until: Moment) {
        if self.is_seen_idle() {
            return;
        }
        let mut signals = self.signals();
        while self.has_thread.load(Ordering::Relaxed) && signals.handled != signals.sent {
            let patience = waiting.patience(until);
            if patience.is_zero() {
                break;
            }
            (signals, _) = self.handled.wait_timeout(signals, patience).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns whether no job is running and no lease is held. Returns `false` if the state is locked, because then the
    /// answer is not known.
    fn is_seen_idle(&self) -> bool {
        let Ok(state) = self.state.try_lock() else { return false };
        state.wakes_at != Moment::BEGINNING && !state.plan.has_leases()
    }
}

/// A guard that notes a panic of the thread, so that the next job starts a new thread.
struct PanicNotice<'a>(&'a TimerThread);

impl Drop for PanicNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.thread_failed();
        }
    }
}
