//! One thread that sleeps until the next thing is due, and is woken for what is due before that.
//!
//! It is there only while there is something to watch: it ends when it wakes up and finds nothing, and the next thing to
//! watch starts another. So what ends before it is due costs neither a wake-up nor a thread.
//!
//! Whoever may not wait for a lock, because this thread may hold it or anybody who never goes on, calls the thread and
//! looks whether it has heeded that. A call that is made while the thread falls asleep may be missed, and is repeated.

use std::sync::PoisonError;

use super::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};
use crate::clock::{Clock, Moment};

/// What is watched.
pub(crate) trait Duty {
    /// Something that takes a while, and is done while others change what is watched.
    type Errand;
    type Answer;

    fn step(&mut self, now: Moment) -> Step<Self::Errand>;

    /// Somebody has called and said this. What the next step is to do is done before the call is heeded.
    fn hear(&mut self, said: usize);

    fn done(&mut self, errand: &Self::Errand, answer: Self::Answer, now: Moment);
}

/// What there is to do.
#[derive(Debug)]
pub(crate) enum Step<E> {
    Do(E),
    /// Nothing before this moment.
    Wait(Moment),
    /// Nothing at all.
    Rest,
}

pub(crate) struct Watch<D> {
    state: Mutex<State<D>>,
    woken: Condvar,
    /// Whether there is a thread that watches. It changes while the state is locked, and is read by who can't lock it.
    attended: AtomicBool,
    /// What was said last by whoever called and had something to say.
    said: AtomicUsize,
    calls: AtomicU64,
    /// How many of the calls were heeded.
    heeded: AtomicU64,
}

struct State<D> {
    duty: D,
    /// When the thread looks by itself.
    alarm: Moment,
}

/// What is said by a call that only wakes the thread.
pub(crate) const NOTHING: usize = 0;

/// Who is needed for what is due.
#[must_use = "what nobody attends to is not done"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nobody,
    /// A thread that calls [`Watch::attend`].
    Thread,
}

impl<D: Duty> Watch<D> {
    pub(crate) fn new(duty: D) -> Self {
        Self {
            state: Mutex::new(State { duty, alarm: Moment::NEVER }),
            woken: Condvar::new(),
            attended: AtomicBool::new(false),
            said: AtomicUsize::new(NOTHING),
            calls: AtomicU64::new(0),
            heeded: AtomicU64::new(0),
        }
    }

    /// Changes what is watched. `change` says when there is something to do because of it, if ever.
    #[inline]
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut D) -> (T, Option<Moment>)) -> (T, Need) {
        let mut state = self.state();
        let (changed, due) = change(&mut state.duty);
        let Some(due) = due else { return (changed, Need::Nobody) };
        if !self.attended.load(Ordering::Relaxed) {
            self.attended.store(true, Ordering::Relaxed);
            state.alarm = due;
            return (changed, Need::Thread);
        }
        if due < state.alarm {
            state.alarm = due;
            self.woken.notify_one();
        }
        (changed, Need::Nobody)
    }

    /// The thread that was needed could not be had.
    pub(crate) fn is_unattended(&self) {
        let _state = self.state();
        self.attended.store(false, Ordering::Release);
    }

    /// Does what is due until nothing is left.
    pub(crate) fn attend(&self, clock: &Clock, mut carry_out: impl FnMut(&D::Errand) -> D::Answer) {
        let _left = Leaving(self);
        let mut state = self.state();
        loop {
            let patience = clock.patience(state.alarm);
            if !patience.is_zero() && self.calls() == self.heeded.load(Ordering::Relaxed) {
                (state, _) = self.woken.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            }
            let calls = self.calls();
            if calls != self.heeded.load(Ordering::Relaxed) {
                state.duty.hear(self.said.load(Ordering::Relaxed));
            }
            match state.duty.step(clock.moment()) {
                Step::Do(errand) => {
                    // What comes meanwhile is seen afterwards without being told.
                    state.alarm = Moment::BEGINNING;
                    drop(state);
                    let answer = carry_out(&errand);
                    state = self.state();
                    state.duty.done(&errand, answer, clock.moment());
                }
                Step::Wait(until) => state.alarm = until,
                Step::Rest => {
                    self.attended.store(false, Ordering::Release);
                    return;
                }
            }
            self.heeded.store(calls, Ordering::Release);
        }
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        // No code that can panic runs while it is half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For whoever may not wait for a lock.
#[cfg(any(unix, test))]
impl<D: Duty> Watch<D> {
    /// Calls the thread, if there is one, without waiting for anybody. [`NOTHING`] leaves what was said before.
    pub(crate) fn call(&self, said: usize) {
        if said != NOTHING {
            self.said.store(said, Ordering::Relaxed);
        }
        self.calls.fetch_add(1, Ordering::Release);
        self.woken.notify_one();
    }

    /// The thread may have fallen asleep while it was called.
    pub(crate) fn call_again(&self) {
        self.woken.notify_one();
    }

    /// Whether all that was called is heeded, or there is nothing to watch.
    pub(crate) fn has_heeded(&self) -> bool {
        !self.attended.load(Ordering::Acquire)
            || self.heeded.load(Ordering::Acquire) == self.calls.load(Ordering::Relaxed)
    }
}

/// A thread that watches, and is missed if it panics: the next thing to watch starts another.
struct Leaving<'a, D: Duty>(&'a Watch<D>);

impl<D: Duty> Drop for Leaving<'_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_unattended();
        }
    }
}
