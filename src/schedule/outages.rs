//! The outages during a tick. A store that did not answer is not asked again for a minute.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::base::error::{MutexError, ask_store};
use crate::base::lock::lock;
use crate::lease::store_id::StoreId;
use crate::observe::notice::{About, Step};
use crate::schedule::schedule::Schedule;
use crate::store::{described_store::Store, event_mutex::EventMutex, event_mutex::batch::Batch};
use crate::time::clock::moment::Moment;

/// The time for which an unavailable store is not asked again. Then it is asked again, because a tick may last for
/// hours.
const NOT_ASKED_FOR: Duration = Duration::from_secs(60);

/// The outages of one tick. The first request to a store is sent alone, and the other requests wait for its answer. So
/// an outage costs all requests together only one timeout.
pub(crate) struct Outages<'a> {
    schedule: &'a Schedule,
    known: Mutex<BTreeMap<StoreId, StoreState>>,
    heard: Condvar,
}

enum StoreState {
    /// The first request has no answer yet.
    Awaited,
    Answers,
    Out {
        first: MutexError,
        at: Moment,
    },
}

impl<'a> Outages<'a> {
    pub(crate) fn new(schedule: &'a Schedule) -> Self {
        Self { schedule, known: Mutex::default(), heard: Condvar::new() }
    }

    /// Sends a batch to a store. If the store was unavailable a moment ago, the admissions are refused, and only the
    /// releases are sent. If a release to a server fails, a later call sends it again.
    pub(crate) fn carry_out(&self, store: &Store, batch: &mut Batch) {
        let admits = !batch.admissions().is_empty();
        match if admits { self.may_ask(store.id) } else { Ok(false) } {
            Err(first) => batch.without_admissions(&first, |releases| self.carry_out(store, releases)),
            Ok(_) if batch.is_empty() => {}
            Ok(is_first) => {
                let outage = batch.ask(&*store.mutex);
                self.record(store.id, is_first, outage);
            }
        }
    }

    /// Calls `ask` with the store, unless the store was unavailable a moment ago. This is for a request outside of a
    /// batch. A panic of the store becomes an error with the text of `attempted`.
    pub(crate) fn ask<A>(
        &self,
        store: &Store,
        attempted: impl Fn() -> String,
        ask: impl FnOnce(&dyn EventMutex) -> Result<A, MutexError>,
    ) -> Result<A, MutexError> {
        let is_first = self.may_ask(store.id).map_err(|first| MutexError::not_asked_again(attempted(), &first))?;
        let answer = ask_store(attempted, || ask(&*store.mutex));
        self.record(store.id, is_first, answer.as_ref().err().filter(|error| error.is_outage()));
        answer
    }

    /// Returns an error if the store was unavailable a moment ago. `Ok(true)`: this is the first request, or the first
    /// after an outage. So the caller must ask the store, and pass the result to [`record`](Self::record), because other
    /// threads wait for this result.
    fn may_ask(&self, store: StoreId) -> Result<bool, MutexError> {
        let mut known = lock(&self.known);
        loop {
            match known.get(&store) {
                Some(StoreState::Answers) => return Ok(false),
                Some(StoreState::Out { first, at }) if self.schedule.clock.moment().since(*at) < NOT_ASKED_FOR => {
                    return Err(first.clone());
                }
                Some(StoreState::Awaited) => known = self.heard.wait(known).unwrap_or_else(PoisonError::into_inner),
                Some(StoreState::Out { .. }) | None => {
                    known.insert(store, StoreState::Awaited);
                    return Ok(true);
                }
            }
        }
    }

    /// Records whether a request failed because of an outage. `is_first` is the answer of [`may_ask`](Self::may_ask).
    /// After an outage, the store counts as unavailable until [`NOT_ASKED_FOR`] is over, even if it answers another
    /// request.
    fn record(&self, store: StoreId, is_first: bool, outage: Option<&MutexError>) {
        if !is_first && outage.is_none() {
            return; // This is known already.
        }
        let mut known = lock(&self.known);
        let state = match outage {
            None if matches!(known.get(&store), Some(StoreState::Out { .. })) => return,
            None => StoreState::Answers,
            Some(first) => StoreState::Out { first: first.clone(), at: self.schedule.clock.moment() },
        };
        known.insert(store, state);
        drop(known);
        self.heard.notify_all();
        let mut stores_out = lock(&self.schedule.stores_out);
        let is_news = if outage.is_some() { stores_out.insert(store) } else { stores_out.remove(&store) };
        drop(stores_out);
        if is_news {
            let step = outage.map_or(Step::StoreAvailable, Step::StoreUnavailable);
            self.schedule.observers.tell(About::default(), &step);
        }
    }
}
