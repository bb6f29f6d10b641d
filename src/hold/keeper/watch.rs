//! One thread that sleeps until the next thing is due, and is woken for what is due before that.
//!
//! It is there only while there is something to watch: it ends when it wakes up and finds nothing, and the next thing to
//! watch starts another. So what ends before it is due costs neither a wake-up nor a thread.
//!
//! Some callers must not wait for the lock of what is watched: the thread that holds it may never go on. They ring the bell,
//! and wait until the thread has answered. Everybody locks the bell only for an instant, and no code that can end the
//! process runs meanwhile.

use std::sync::PoisonError;
use std::time::Duration;

use super::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use crate::time::clock::Waiting;
use crate::time::clock::moment::Moment;

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
    /// Whether there is a thread that watches. It changes while the state is locked, and is read by who can't lock it.
    attended: AtomicBool,
    /// Locked after the state, or alone.
    bell: Mutex<Bell>,
    rung: Condvar,
    heeded: Condvar,
}

struct State<D> {
    duty: D,
    /// When the thread looks by itself.
    alarm: Moment,
    /// The thread, once it has begun.
    thread: Option<Waiting>,
}

/// What wakes the thread.
#[derive(Default)]
struct Bell {
    /// Since the thread last looked.
    rung: bool,
    /// What was said last by whoever called and had something to say.
    said: usize,
    calls: u64,
    /// How many of the calls were heeded.
    heeded: u64,
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
            state: Mutex::new(State { duty, alarm: Moment::NEVER, thread: None }),
            attended: AtomicBool::new(false),
            bell: Mutex::new(Bell::default()),
            rung: Condvar::new(),
            heeded: Condvar::new(),
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
            state.thread.iter().for_each(Waiting::is_needed);
            self.ring();
        }
        (changed, Need::Nobody)
    }

    /// The thread that was needed could not be had.
    pub(crate) fn is_unattended(&self) {
        self.rest(self.state());
    }

    /// There is no thread from here on.
    fn rest(&self, mut state: MutexGuard<'_, State<D>>) {
        state.thread = None;
        self.attended.store(false, Ordering::Relaxed);
        // Whoever waits for the thread looks at that while the bell is locked.
        drop(self.bell());
        self.heeded.notify_all();
    }

    /// Lets the thread look at the clock again.
    pub(crate) fn ring(&self) {
        self.bell().rung = true;
        self.rung.notify_one();
    }

    /// Does what is due until nothing is left, on this thread, which is `waiting`.
    pub(crate) fn attend(&self, waiting: Waiting, mut carry_out: impl FnMut(&D::Errand) -> D::Answer) {
        let _left = Leaving(self);
        let clock = waiting.clock().clone();
        let mut state = self.state();
        state.thread = Some(waiting);
        loop {
            let patience = state.thread.as_ref().map_or(Duration::ZERO, |thread| thread.patience(state.alarm));
            drop(state);
            let (calls, said) = self.listen(patience);
            state = self.state();
            if let Some(said) = said {
                state.duty.hear(said);
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
                Step::Rest => return self.rest(state),
            }
            self.bell().heeded = calls;
            self.heeded.notify_all();
        }
    }

    /// Waits for the bell. How often it was called, and what was said if some of it is not heeded yet.
    fn listen(&self, patience: Duration) -> (u64, Option<usize>) {
        let mut bell = self.bell();
        if !bell.rung && !patience.is_zero() {
            (bell, _) = self.rung.wait_timeout(bell, patience).unwrap_or_else(PoisonError::into_inner);
        }
        bell.rung = false;
        (bell.calls, (bell.calls != bell.heeded).then_some(bell.said))
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        // No code that can panic runs while it is half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bell(&self) -> MutexGuard<'_, Bell> {
        // The same.
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For whoever may not wait for the state.
#[cfg(any(unix, test))]
impl<D: Duty> Watch<D> {
    /// Calls the thread, if there is one, without waiting for it. [`NOTHING`] leaves what was said before.
    pub(crate) fn call(&self, said: usize) {
        let mut bell = self.bell();
        if said != NOTHING {
            bell.said = said;
        }
        bell.calls += 1;
        bell.rung = true;
        drop(bell);
        self.rung.notify_one();
    }

    /// Waits until all that was called is heeded, or there is nothing to watch; no longer than until then.
    pub(crate) fn wait_until_heeded(&self, waiting: &Waiting, enough: Moment) {
        let mut bell = self.bell();
        while self.attended.load(Ordering::Relaxed) && bell.heeded != bell.calls {
            let patience = waiting.patience(enough);
            if patience.is_zero() {
                break;
            }
            (bell, _) = self.heeded.wait_timeout(bell, patience).unwrap_or_else(PoisonError::into_inner);
        }
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
