//! A thread that sleeps until the next job is due, and is woken for jobs that are due before that.
//!
//! It lives only while there are jobs: it ends when it wakes up and finds none, and the next job starts another. So a job
//! that is called off before it is due costs neither a wake-up nor a thread.
//!
//! Some callers must not wait for the lock of the jobs: the thread that holds it may never go on. They send a signal, and
//! wait until the thread has handled it. Everybody locks the signals only for an instant, and no code that can end the
//! process runs meanwhile.

use std::sync::PoisonError;
use std::time::Duration;

use super::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use crate::time::{clock::Waiting, clock::moment::Moment};

/// Jobs, each with its time.
pub(crate) trait TimedJobs {
    /// Something that takes a while, and is done while others change the jobs.
    type Job;
    type Answer;

    fn next_step(&mut self, now: Moment) -> TimedStep<Self::Job>;

    /// A signal has come with this value. The job of the next step is done before the signal counts as handled.
    fn on_signal(&mut self, value: usize);

    /// Whether a signal gives it something to do.
    fn heeds_signals(&self) -> bool;

    fn job_done(&mut self, job: &Self::Job, answer: Self::Answer, now: Moment);
}

/// What the thread does next.
#[derive(Debug)]
pub(crate) enum TimedStep<J> {
    Do(J),
    /// Nothing before this moment.
    Wait(Moment),
    /// Nothing at all.
    Rest,
}

pub(crate) struct TimerThread<J> {
    state: Mutex<TimerState<J>>,
    /// It changes while the state is locked. Callers that can't lock the state read it too.
    has_thread: AtomicBool,
    /// Locked after the state, or alone.
    signals: Mutex<Signals>,
    woken: Condvar,
    handled: Condvar,
}

struct TimerState<J> {
    jobs: J,
    /// When the thread looks by itself.
    wakes_at: Moment,
    /// The thread, once it has begun.
    thread: Option<Waiting>,
}

/// What wakes the thread.
#[derive(Default)]
struct Signals {
    /// Whether the thread was woken since it last looked.
    woken: bool,
    /// The last value that was not [`NO_VALUE`].
    value: usize,
    sent: u64,
    handled: u64,
}

/// The value of a signal that leaves the value before it.
pub(crate) const NO_VALUE: usize = 0;

/// Whether a thread has to be started.
#[must_use = "without a thread no job is done"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nobody,
    /// A thread that calls [`TimerThread::run`].
    Thread,
}

impl<J: TimedJobs> TimerThread<J> {
    pub(crate) fn new(jobs: J) -> Self {
        Self {
            state: Mutex::new(TimerState { jobs, wakes_at: Moment::NEVER, thread: None }),
            has_thread: AtomicBool::new(false),
            signals: Mutex::new(Signals::default()),
            woken: Condvar::new(),
            handled: Condvar::new(),
        }
    }

    /// Changes the jobs. `change` says when there is something to do because of it, if ever.
    #[inline]
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut J) -> (T, Option<Moment>)) -> (T, Need) {
        let mut state = self.state();
        let (changed, due) = change(&mut state.jobs);
        let Some(due) = due else { return (changed, Need::Nobody) };
        if !self.has_thread.load(Ordering::Relaxed) {
            self.has_thread.store(true, Ordering::Relaxed);
            state.wakes_at = due;
            return (changed, Need::Thread);
        }
        if due < state.wakes_at {
            state.wakes_at = due;
            state.thread.iter().for_each(Waiting::is_needed);
            self.wake();
        }
        (changed, Need::Nobody)
    }

    /// The thread could not be started, or panics.
    pub(crate) fn thread_failed(&self) {
        self.rest(self.state());
    }

    /// There is no thread from here on.
    fn rest(&self, mut state: MutexGuard<'_, TimerState<J>>) {
        state.thread = None;
        self.has_thread.store(false, Ordering::Relaxed);
        // Whoever waits for the thread looks at that while the signals are locked.
        drop(self.signals());
        self.handled.notify_all();
    }

    /// Lets the thread look at the clock again.
    pub(crate) fn wake(&self) {
        self.signals().woken = true;
        self.woken.notify_one();
    }

    /// Does the jobs that are due, until none is left, on this thread, which is `waiting`.
    pub(crate) fn run(&self, waiting: Waiting, mut carry_out: impl FnMut(&J::Job) -> J::Answer) {
        let _notice = PanicNotice(self);
        let clock = waiting.clock().clone();
        let mut state = self.state();
        state.thread = Some(waiting);
        loop {
            let patience = state.thread.as_ref().map_or(Duration::ZERO, |thread| thread.patience(state.wakes_at));
            drop(state);
            let (sent, value) = self.wait_for_signals(patience);
            state = self.state();
            if let Some(value) = value {
                state.jobs.on_signal(value);
            }
            match state.jobs.next_step(clock.moment()) {
                TimedStep::Do(job) => {
                    // Jobs that come meanwhile are seen afterwards; nobody has to wake this thread for them.
                    state.wakes_at = Moment::BEGINNING;
                    drop(state);
                    let answer = carry_out(&job);
                    state = self.state();
                    state.jobs.job_done(&job, answer, clock.moment());
                }
                TimedStep::Wait(until) => state.wakes_at = until,
                TimedStep::Rest => return self.rest(state),
            }
            self.signals().handled = sent;
            self.handled.notify_all();
        }
    }

    /// Returns how many signals were sent, and their value if some are not handled yet.
    fn wait_for_signals(&self, patience: Duration) -> (u64, Option<usize>) {
        let mut signals = self.signals();
        if !signals.woken && !patience.is_zero() {
            (signals, _) = self.woken.wait_timeout(signals, patience).unwrap_or_else(PoisonError::into_inner);
        }
        signals.woken = false;
        (signals.sent, (signals.sent != signals.handled).then_some(signals.value))
    }

    fn state(&self) -> MutexGuard<'_, TimerState<J>> {
        // No code that can panic runs while it is half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signals(&self) -> MutexGuard<'_, Signals> {
        // The same.
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For callers that may not wait for the state.
#[cfg(any(unix, test))]
impl<J: TimedJobs> TimerThread<J> {
    /// Signals the thread, if there is one, and does not wait for it.
    pub(crate) fn signal(&self, value: usize) {
        let mut signals = self.signals();
        if value != NO_VALUE {
            signals.value = value;
        }
        signals.sent += 1;
        signals.woken = true;
        drop(signals);
        self.woken.notify_one();
    }

    /// Waits until all signals are handled, or there is nothing to do for them, or the time is `until`.
    pub(crate) fn wait_until_handled(&self, waiting: &Waiting, until: Moment) {
        if self.is_seen_to_rest() {
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

    /// Whether nothing is under way, and a signal changes nothing. `false`: somebody may be changing it just now.
    fn is_seen_to_rest(&self) -> bool {
        let Ok(state) = self.state.try_lock() else { return false };
        state.wakes_at != Moment::BEGINNING && !state.jobs.heeds_signals()
    }
}

/// Notices that the thread panics, so that the next job starts another.
struct PanicNotice<'a, J: TimedJobs>(&'a TimerThread<J>);

impl<J: TimedJobs> Drop for PanicNotice<'_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.thread_failed();
        }
    }
}
