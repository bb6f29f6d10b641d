//! What a tick remembers of its stores: one that gave no answer is not asked again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::contain::contain;
use crate::base::error::MutexError;
use crate::store::event_mutex::EventMutex;
use crate::store::handle::{Store, StoreId};
use crate::time::clock::{Clock, Moment};

/// How long a store that was out is left alone: a tick may last for hours, and the store is back by then.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// The outages of one tick.
pub(crate) struct Outages {
    /// Events of this tick ask beside one another. Until a store has given its first answer, one of them asks and the
    /// others listen, so that an outage makes all of them wait once.
    beside: bool,
    /// Whether there was any, so that nobody else need look.
    any: AtomicBool,
    known: Mutex<Vec<(StoreId, Word)>>,
    heard: Condvar,
}

/// What was heard of a store.
enum Word {
    /// Somebody is asking it for the first time.
    Awaited,
    Answers,
    Out {
        first: MutexError,
        at: Moment,
    },
}

impl Outages {
    pub(crate) fn none(beside: bool) -> Self {
        Self { beside, any: AtomicBool::new(false), known: Mutex::default(), heard: Condvar::new() }
    }

    /// Whether a store may be asked, or what it said when it was out. Whoever may ask calls
    /// [`heard`](Self::heard) afterwards, whatever came of it.
    #[inline]
    pub(crate) fn may_ask(&self, store: StoreId, clock: &Clock) -> Result<(), MutexError> {
        if self.nothing_to_look_up() { Ok(()) } else { self.look_up(store, clock) }
    }

    /// Says what came of asking a store: an outage, or anything else.
    #[inline]
    pub(crate) fn heard(&self, store: StoreId, clock: &Clock, outage: Option<&MutexError>) {
        if outage.is_some() || !self.nothing_to_look_up() {
            self.write_down(store, clock, outage);
        }
    }

    /// Asks a store something that is no admission, unless it was out a moment ago. Whatever it does is an answer or an
    /// error that says what was `attempted`.
    pub(crate) fn ask<A>(
        &self,
        store: &Store,
        clock: &Clock,
        attempted: impl Fn() -> String,
        ask: impl FnOnce(&dyn EventMutex) -> Result<A, MutexError>,
    ) -> Result<A, MutexError> {
        self.may_ask(store.id, clock).map_err(|first| MutexError::not_asked_again(attempted(), &first))?;
        let answer = contain(|| ask(&*store.mutex));
        let answer = answer.unwrap_or_else(|message| Err(MutexError::panicked(attempted(), &message)));
        self.heard(store.id, clock, answer.as_ref().err().filter(|error| error.is_outage()));
        answer
    }

    /// As long as nothing was out and nobody waits for another's answer, which is so in most ticks.
    #[inline]
    fn nothing_to_look_up(&self) -> bool {
        !self.beside && !self.any.load(Ordering::Acquire)
    }

    fn look_up(&self, store: StoreId, clock: &Clock) -> Result<(), MutexError> {
        let mut known = self.known();
        loop {
            let at = known.iter().position(|(known, _)| *known == store);
            match at.map(|at| &known[at].1) {
                Some(Word::Answers) => return Ok(()),
                Some(Word::Out { first, at }) if clock.moment().since(*at) < LEFT_ALONE => return Err(first.clone()),
                Some(Word::Awaited) => known = self.heard.wait(known).unwrap_or_else(PoisonError::into_inner),
                Some(Word::Out { .. }) | None => {
                    put(&mut known, store, Word::Awaited);
                    return Ok(());
                }
            }
        }
    }

    fn write_down(&self, store: StoreId, clock: &Clock, outage: Option<&MutexError>) {
        let mut known = self.known();
        let was_out = known.iter().any(|(known, word)| *known == store && matches!(word, Word::Out { .. }));
        match outage {
            // What answers to one and not to another is out as long as the other remembers it.
            None if was_out => {}
            None => put(&mut known, store, Word::Answers),
            Some(first) => {
                self.any.store(true, Ordering::Release);
                put(&mut known, store, Word::Out { first: first.clone(), at: clock.moment() });
            }
        }
        self.heard.notify_all();
    }

    fn known(&self) -> MutexGuard<'_, Vec<(StoreId, Word)>> {
        // No code that can panic runs while it is half-changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(known: &mut Vec<(StoreId, Word)>, store: StoreId, word: Word) {
    match known.iter_mut().find(|(known, _)| *known == store) {
        Some((_, before)) => *before = word,
        None => known.push((store, word)),
    }
}
