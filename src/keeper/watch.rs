//! One thread that sleeps until the next thing is due, and is woken for what is due before that.
//!
//! It is there only while there is something to watch: it ends when it wakes up and finds nothing, and the next thing to
//! watch starts another. So what ends before it is due costs neither a wake-up nor a thread.

use std::sync::PoisonError;

use super::sync::{Condvar, Mutex, MutexGuard};
use crate::clock::{Clock, Moment};

/// What is watched.
pub(crate) trait Duty {
    /// Something that takes a while, and is done while others change what is watched.
    type Errand;
    type Answer;

    fn step(&mut self, now: Moment) -> Step<Self::Errand>;

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
}

struct State<D> {
    duty: D,
    /// Whether there is a thread that watches.
    attended: bool,
    /// When the thread looks by itself.
    alarm: Moment,
}

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
        Self { state: Mutex::new(State { duty, attended: false, alarm: Moment::NEVER }), woken: Condvar::new() }
    }

    /// Changes what is watched. `change` says when there is something to do because of it, if ever.
    #[inline]
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut D) -> (T, Option<Moment>)) -> (T, Need) {
        let mut state = self.state();
        let (changed, due) = change(&mut state.duty);
        let Some(due) = due else { return (changed, Need::Nobody) };
        if !state.attended {
            (state.attended, state.alarm) = (true, due);
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
        self.state().attended = false;
    }

    /// Does what is due until nothing is left.
    pub(crate) fn attend(&self, clock: &Clock, mut carry_out: impl FnMut(&D::Errand) -> D::Answer) {
        let _left = Leaving(self);
        let mut state = self.state();
        loop {
            let patience = clock.patience(state.alarm);
            if !patience.is_zero() {
                (state, _) = self.woken.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
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
                    state.attended = false;
                    return;
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        // No code that can panic runs while it is half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
