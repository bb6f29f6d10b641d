//! What lies between the one who gates and releases and the hands that run: turns to be taken, and runs that ended.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::schedule::gate::BATCH_SIZE;

/// The most threads that the background events of one tick run on.
pub(super) const HANDS: usize = 200;

/// So many ended runs are released at once without waiting for more.
const ENOUGH: usize = BATCH_SIZE;

/// How long nothing more ends before what has ended is released, and how often that is looked at.
const LINGER: Duration = Duration::from_millis(5);
const LOOKS: usize = 10;

/// A desk with work on it, taken by hands, and with what they bring back.
pub(super) struct Desk<W, E> {
    state: Mutex<State<W, E>>,
    /// For hands: there is work, or the desk closes.
    work: Condvar,
    /// For the one who gates.
    news: Condvar,
    /// For the one who releases, if that is another.
    ends: Condvar,
}

struct State<W, E> {
    work: VecDeque<W>,
    ended: Vec<E>,
    /// How much was put and has not ended.
    at_work: usize,
    /// How many hands there are, how many there may be, and how many have nothing to do.
    hands: usize,
    most_hands: usize,
    idle: usize,
    /// Which hand was called and has not come yet. One calls the next, so that quick work is done by few.
    on_its_way: Option<Coming>,
    /// How much more work there is to put, for which there must be hands.
    wanted: Option<usize>,
    /// Whoever gates waits for news.
    watched: bool,
    /// Somebody else than the one who gates releases what ends.
    clearer: bool,
    closing: bool,
}

/// What there is to do for the one who waits at the desk.
pub(super) enum News<W, E> {
    /// There are hands for so much more work.
    Room(usize),
    /// These are to be released.
    Ended(Vec<E>),
    /// No hand could be found for this.
    NoHandFor(W),
    /// All that was put has ended and was handed out, and no more is wanted.
    AllDone,
}

/// A hand that was called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// One that was idle.
    Idle,
    /// A new thread, which takes its time: an idle hand is called beside it.
    New,
}

/// Whom to call because there is work left.
#[must_use = "work that nobody is called for is not done"]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Nobody,
    NewHand,
}

impl<W, E> Desk<W, E> {
    pub(super) fn new() -> Self {
        let state = State {
            work: VecDeque::new(),
            ended: Vec::new(),
            at_work: 0,
            hands: 0,
            most_hands: HANDS,
            idle: 0,
            on_its_way: None,
            wanted: None,
            watched: false,
            clearer: false,
            closing: false,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), news: Condvar::new(), ends: Condvar::new() }
    }

    pub(super) fn put(&self, work: impl IntoIterator<Item = W>) -> Call {
        let mut state = self.state();
        let before = state.work.len();
        state.work.extend(work);
        state.at_work += state.work.len() - before;
        self.call(&mut state)
    }

    /// From now on, somebody else clears away what ended.
    pub(super) fn has_a_clearer(&self) {
        self.state().clearer = true;
    }

    /// Waits until there is something to do, if `wanted` more are to be put. What ended is handed out together: as soon
    /// as nothing else is at work, and otherwise when nothing more ends for a moment.
    pub(super) fn wait(&self, wanted: Option<usize>) -> News<W, E> {
        let mut state = self.state();
        state.wanted = wanted;
        let mut looks = 0;
        loop {
            if !state.clearer && state.ended.len() >= ENOUGH {
                return News::Ended(state.take_ended());
            }
            if let Some(room) = state.room() {
                return News::Room(room);
            }
            if state.at_work == 0 {
                let none_to_release = state.clearer || state.ended.is_empty();
                return if none_to_release { News::AllDone } else { News::Ended(state.take_ended()) };
            }
            if state.most_hands == 0
                && let Some(work) = state.work.pop_front()
            {
                return News::NoHandFor(work);
            }
            state.watched = true;
            if state.clearer || state.ended.is_empty() {
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                let moved;
                (state, moved) = linger(&self.news, state, &mut looks);
                if !moved {
                    return News::Ended(state.take_ended());
                }
            }
            state.watched = false;
        }
    }

    /// Waits for what is to be cleared away, together as [`wait`](Self::wait) hands it out. `None`: no more will end.
    pub(super) fn wait_for_ends(&self) -> Option<Vec<E>> {
        let mut state = self.state();
        let mut looks = 0;
        loop {
            if state.ended.len() >= ENOUGH || (state.at_work == 0 && !state.ended.is_empty()) {
                return Some(state.take_ended());
            }
            if state.closing && state.at_work == 0 {
                return None;
            }
            if state.ended.is_empty() {
                state = self.ends.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                let moved;
                (state, moved) = linger(&self.ends, state, &mut looks);
                if !moved {
                    return Some(state.take_ended());
                }
            }
        }
    }

    /// What was handed out because there is no hand has ended.
    pub(super) fn done_without_a_hand(&self) {
        self.state().at_work -= 1;
    }

    /// A hand brings back what ended, and takes the next, as soon as there is one. `None`: there will be none. One that
    /// brings nothing has just come.
    pub(super) fn exchange(&self, ended: Option<E>) -> Option<(W, Call)> {
        let mut state = self.state();
        match ended {
            None => state.on_its_way = None,
            Some(ended) => {
                state.ended.push(ended);
                state.at_work -= 1;
                if state.clearer && state.is_end_of_several() {
                    self.ends.notify_one();
                }
                if state.watched && state.is_news() {
                    state.watched = false;
                    self.news.notify_one();
                }
            }
        }
        loop {
            if let Some(work) = state.work.pop_front() {
                let call = self.call(&mut state);
                return Some((work, call));
            }
            if state.closing {
                return None;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.on_its_way = None;
        }
    }

    /// A new hand was called, and can't come: there are no more than there are.
    pub(super) fn no_more_hands(&self) {
        let mut state = self.state();
        state.hands -= 1;
        state.most_hands = state.hands;
        state.on_its_way = None;
    }

    /// Lets the hands go home when all the work is done.
    pub(super) fn close(&self) {
        self.state().closing = true;
        self.work.notify_all();
        self.ends.notify_one();
    }

    /// Sees to it that somebody comes for the work that is left.
    fn call(&self, state: &mut State<W, E>) -> Call {
        if state.work.is_empty() || state.on_its_way == Some(Coming::Idle) {
            return Call::Nobody;
        }
        if state.idle > 0 {
            state.on_its_way = Some(Coming::Idle);
            self.work.notify_one();
            return Call::Nobody;
        }
        if state.on_its_way.is_none() && state.hands < state.most_hands {
            state.on_its_way = Some(Coming::New);
            state.hands += 1;
            return Call::NewHand;
        }
        Call::Nobody
    }

    fn state(&self) -> MutexGuard<'_, State<W, E>> {
        // No code that can panic runs while it is half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W, E> State<W, E> {
    /// How much of what is wanted there are hands for: all of it that they can ever take at once, or nothing yet.
    fn room(&self) -> Option<usize> {
        let hands = self.most_hands.max(1);
        self.wanted.map(|wanted| wanted.min(hands)).filter(|wanted| self.at_work + wanted <= hands)
    }

    fn is_news(&self) -> bool {
        (!self.clearer && self.is_end_of_several()) || self.at_work == 0 || self.room().is_some()
    }

    /// Whether what ended is the first, or enough, or all.
    fn is_end_of_several(&self) -> bool {
        self.ended.len() == 1 || self.ended.len() >= ENOUGH || self.at_work == 0
    }

    /// What is to be released at once: all, or as many as make a full call.
    fn take_ended(&mut self) -> Vec<E> {
        if self.ended.len() <= ENOUGH {
            return mem::replace(&mut self.ended, Vec::with_capacity(ENOUGH));
        }
        let later = self.ended.split_off(ENOUGH);
        mem::replace(&mut self.ended, later)
    }
}

/// Waits a moment for more to end; `false` if nothing moved meanwhile, or if that was long enough.
fn linger<'a, W, E>(
    told: &Condvar,
    state: MutexGuard<'a, State<W, E>>,
    looks: &mut usize,
) -> (MutexGuard<'a, State<W, E>>, bool) {
    let ended = state.ended.len();
    let (state, look) = told.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
    *looks += 1;
    let nothing_moves = state.ended.len() == ended && state.work.is_empty();
    let enough = look.timed_out() && (nothing_moves || *looks >= LOOKS);
    (state, !enough)
}
