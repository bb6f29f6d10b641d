//! Outages that a tick has seen: a store that gave no answer is not asked again for a minute.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::store_id::StoreId;
use crate::observe::notice::{About, Step};
use crate::observe::tell::observers::Observers;
use crate::store::{event_mutex::EventMutex, event_mutex::batch::Batch, handle::Store};
use crate::time::{clock::Clock, clock::moment::Moment};

/// How long a store that was out is not asked again: a tick may last for hours, in which the store comes back.
const NOT_ASKED_FOR: Duration = Duration::from_secs(60);

/// The stores that gave no answer when a tick of the schedule last asked them.
#[derive(Default)]
pub(crate) struct StoresOut {
    /// Whether there is any, readable without the lock.
    any: AtomicBool,
    stores: Mutex<Vec<StoreId>>,
}

impl StoresOut {
    /// Notes whether this store is out. `true`: it was not, or it was, before.
    fn note(&self, store: StoreId, is_out: bool) -> bool {
        // No code that can panic runs while it is half-changed.
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let at = stores.iter().position(|known| *known == store);
        match (at, is_out) {
            (None, true) => stores.push(store),
            (Some(at), false) => drop(stores.swap_remove(at)),
            _ => return false,
        }
        self.any.store(!stores.is_empty(), Ordering::Release);
        true
    }
}

/// The outages of one tick.
pub(crate) struct Outages<'a> {
    stores_out: &'a StoresOut,
    observers: &'a Observers,
    /// Whether events of this tick run at the same time. If so, the first one asks a store and the others wait for that
    /// answer, so that an outage costs all of them one time-out together.
    concurrent: bool,
    /// Whether there was any outage, readable without the lock.
    any: AtomicBool,
    known: Mutex<Vec<(StoreId, StoreState)>>,
    heard: Condvar,
}

/// What is known of a store.
enum StoreState {
    /// The first question to it is under way.
    Awaited,
    Answers,
    Out {
        first: MutexError,
        at: Moment,
    },
}

impl<'a> Outages<'a> {
    pub(crate) fn new(concurrent: bool, stores_out: &'a StoresOut, observers: &'a Observers) -> Self {
        Self {
            stores_out,
            observers,
            concurrent,
            any: AtomicBool::new(false),
            known: Mutex::default(),
            heard: Condvar::new(),
        }
    }

    /// Has a store carry out a batch. If the store was out a moment ago, it is asked for the releases alone: it can only give
    /// back what it is asked to, now or when it answers again.
    pub(crate) fn carry_out(&self, store: &Store, clock: &Clock, batch: &mut Batch) {
        let admits = !batch.admissions().is_empty();
        match if admits { self.may_ask(store.id, clock) } else { Ok(()) } {
            Err(first) => batch.without_admissions(&first, |releases| self.carry_out(store, clock, releases)),
            Ok(()) if batch.is_empty() => {}
            Ok(()) => {
                batch.ask(&*store.mutex);
                let outage = batch.outage();
                if admits || outage.is_some() {
                    self.record(store.id, clock, outage);
                }
            }
        }
    }

    /// Whether a store may be asked, or the error of its outage. After `Ok` the caller asks the store, and passes the
    /// result to [`record`](Self::record) in any case.
    #[inline]
    fn may_ask(&self, store: StoreId, clock: &Clock) -> Result<(), MutexError> {
        if self.is_fast_path() { Ok(()) } else { self.look_up(store, clock) }
    }

    /// Records the result of asking a store: an outage, or anything else.
    #[inline]
    fn record(&self, store: StoreId, clock: &Clock, outage: Option<&MutexError>) {
        if outage.is_some() || !self.is_fast_path() || self.stores_out.any.load(Ordering::Acquire) {
            self.record_slowly(store, clock, outage);
        }
    }

    /// Asks a store something other than an admission, unless it was out a moment ago. A panic becomes an error that says
    /// what was `attempted`.
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
        self.record(store.id, clock, answer.as_ref().err().filter(|error| error.is_outage()));
        answer
    }

    /// The fast path of most ticks: no outage so far, and no other thread to wait for.
    #[inline]
    fn is_fast_path(&self) -> bool {
        !self.concurrent && !self.any.load(Ordering::Acquire)
    }

    fn look_up(&self, store: StoreId, clock: &Clock) -> Result<(), MutexError> {
        let mut known = self.known();
        loop {
            let at = known.iter().position(|(known, _)| *known == store);
            match at.map(|at| &known[at].1) {
                Some(StoreState::Answers) => return Ok(()),
                Some(StoreState::Out { first, at }) if clock.moment().since(*at) < NOT_ASKED_FOR => {
                    return Err(first.clone());
                }
                Some(StoreState::Awaited) => known = self.heard.wait(known).unwrap_or_else(PoisonError::into_inner),
                Some(StoreState::Out { .. }) | None => {
                    put(&mut known, store, StoreState::Awaited);
                    return Ok(());
                }
            }
        }
    }

    fn record_slowly(&self, store: StoreId, clock: &Clock, outage: Option<&MutexError>) {
        let mut known = self.known();
        let was_out = known.iter().any(|(known, word)| *known == store && matches!(word, StoreState::Out { .. }));
        let is_known = match outage {
            // A store that answers one event after failing another stays out until the outage expires.
            None if was_out => true,
            None => {
                put(&mut known, store, StoreState::Answers);
                false
            }
            Some(first) => {
                self.any.store(true, Ordering::Release);
                put(&mut known, store, StoreState::Out { first: first.clone(), at: clock.moment() });
                false
            }
        };
        drop(known);
        self.heard.notify_all();
        if !is_known && self.stores_out.note(store, outage.is_some()) {
            self.observers.tell(About::default(), &outage.map_or(Step::StoreBack, Step::StoreOut));
        }
    }

    fn known(&self) -> MutexGuard<'_, Vec<(StoreId, StoreState)>> {
        // No code that can panic runs while it is half-changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(known: &mut Vec<(StoreId, StoreState)>, store: StoreId, word: StoreState) {
    match known.iter_mut().find(|(known, _)| *known == store) {
        Some((_, before)) => *before = word,
        None => known.push((store, word)),
    }
}
