//! The check for a pause, once for all that it stops in a tick.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::outages::Outages;
use crate::base::error::MutexError;
use crate::lease::name::MutexName;
use crate::observe::{paused::Pause, skip_reason::SkipReason};
use crate::store::{event_mutex::EventMutex, event_mutex::held::Names, handle::Store};
use crate::time::{clock::Clock, clock::moment::Moment};

/// A tick that takes longer asks again, so that no event starts later than this after the pause began.
const RECHECK_AFTER: Duration = Duration::from_secs(60);

/// The pause whose mark the store has, if any, with its holder if the store keeps that.
pub(crate) fn find_pause(mutex: &dyn EventMutex, mark: &MutexName) -> Result<Option<Pause>, MutexError> {
    // A store may not know holders: only `exists` tells for sure.
    if !mutex.exists(mark)? {
        return Ok(None);
    }
    match mutex.held(Names::Exactly(mark)) {
        Err(error) if error.is_outage() => Err(error),
        held => Ok(Some(Pause::by(held.ok().and_then(|mut held| held.pop()?.into_holder())))),
    }
}

/// The check for a pause that the events of one tick share: the store is asked once, and again a minute later.
pub(crate) struct PauseCheck<'a> {
    pub(crate) store: &'a Store,
    pub(crate) mark: MutexName,
    found: Mutex<Option<(Moment, Found)>>,
}

type Found = Result<Option<Pause>, MutexError>;

impl<'a> PauseCheck<'a> {
    pub(crate) fn new(store: &'a Store, mark: MutexName) -> Self {
        Self { store, mark, found: Mutex::default() }
    }

    /// Whether an event that a pause stops may start.
    pub(crate) fn allows_start(&self, outages: &Outages<'_>, clock: &Clock) -> Result<(), SkipReason> {
        self.find(outages, clock)?.map_or(Ok(()), |pause| Err(SkipReason::Paused(pause.holder().cloned())))
    }

    /// The pause, if there is one. The first caller asks the store; the others wait for its answer.
    pub(crate) fn find(&self, outages: &Outages<'_>, clock: &Clock) -> Result<Option<Pause>, SkipReason> {
        // `outages.ask` contains panics of the store, so the value is never half-changed.
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |(at, _): &&(Moment, Found)| clock.moment().since(*at) < RECHECK_AFTER;
        let known = match found.as_ref().filter(is_fresh) {
            Some((_, known)) => known,
            None => &found.insert((clock.moment(), self.ask_store(outages, clock))).1,
        };
        known.clone().map_err(SkipReason::StoreUnavailable)
    }

    fn ask_store(&self, outages: &Outages<'_>, clock: &Clock) -> Found {
        let Self { store, mark, .. } = self;
        outages.ask(store, clock, || format!("look at {mark}"), |mutex| find_pause(mutex, mark))
    }
}
