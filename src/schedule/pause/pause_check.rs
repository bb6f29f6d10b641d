//! The check for pauses, which all events of a tick share.

use std::collections::HashMap;
use std::slice;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::name::MutexName;
use crate::outcome::{paused::Pause, skip_reason::SkipReason};
use crate::schedule::tick_context::outages::Outages;
use crate::store::{described_store::Store, event_mutex::EventMutex, event_mutex::held::Names};
use crate::time::{clock::Clock, clock::moment::Moment};

/// The time after which a tick reads the pauses again. Until then, the tick uses the store's last answer. So for up to
/// a minute after a pause has begun, events can still start.
pub(crate) const RECHECK_AFTER: Duration = Duration::from_secs(60);

/// Reads, in one request, those of `marks` that the store has. Each such marker is a pause. The pause has a holder if the
/// store keeps holders.
pub(crate) fn find_pauses(
    mutex: &dyn EventMutex,
    marks: &[MutexName],
) -> Result<impl Iterator<Item = (MutexName, Pause)> + use<>, MutexError> {
    let held = mutex.held(Names::Each(marks))?;
    Ok(held.into_iter().map(|held| (held.name().clone(), Pause::by(held.into_holder()))))
}

/// Reads the pause of this marker. `None`: the store does not have the marker.
pub(crate) fn find_pause(mutex: &dyn EventMutex, mark: &MutexName) -> Result<Option<Pause>, MutexError> {
    Ok(find_pauses(mutex, slice::from_ref(mark))?.next().map(|(_, pause)| pause))
}

/// The check for pauses of one tick. It reads the store once for all events of the tick, and again when the answer is
/// too old.
pub(crate) struct PauseCheck<'a> {
    pub(crate) store: &'a Store,
    /// The marker that pauses the schedule.
    pub(crate) of_schedule: MutexName,
    /// The markers that pause single events of the tick, as far as this process must read the markers: see
    /// `PlannedRun::own_pause_to_read`.
    of_events: OnceLock<Vec<MutexName>>,
    read: Mutex<Option<(Moment, Found)>>,
}

/// The markers that were read, each with its pause. `None`: the store does not have the marker.
type Found = Result<HashMap<MutexName, Option<Pause>>, MutexError>;

impl<'a> PauseCheck<'a> {
    pub(crate) fn new(store: &'a Store, of_schedule: MutexName) -> Self {
        Self { store, of_schedule, of_events: OnceLock::new(), read: Mutex::default() }
    }

    /// Sets the markers that are read together with the marker of the schedule.
    pub(crate) fn watch(&self, of_events: Vec<MutexName>) {
        _ = self.of_events.set(of_events); // A tick sets them once.
    }

    /// Refuses a run if the marker `mark` pauses it. Uses the store's last answer if the answer is younger than
    /// `max_age`, and includes `mark`. Otherwise asks the store; meanwhile, callers on other threads wait for the
    /// new answer. With `outages`, a store that was unavailable a moment ago is not asked.
    pub(crate) fn allows(
        &self,
        mark: &MutexName,
        max_age: Duration,
        outages: Option<&Outages<'_>>,
        clock: &Clock,
    ) -> Result<(), SkipReason> {
        // A poisoned lock can still be used: `ask_store` catches panics of the store, so the answer is never
        // half-changed.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let tells = |(at, found): &&(Moment, Found)| {
            let is_fresh = clock.moment().since(*at) < max_age;
            is_fresh && found.as_ref().map_or(true, |found| found.contains_key(mark))
        };
        let found = match read.as_ref().filter(tells) {
            Some((_, found)) => found,
            None => &read.insert((clock.moment(), self.ask_store(mark, outages, clock))).1,
        };
        match found.as_ref().map(|found| found.get(mark)) {
            Ok(Some(Some(pause))) => Err(SkipReason::Paused(pause.holder().cloned())),
            Ok(_) => Ok(()),
            Err(error) => Err(SkipReason::StoreUnavailable(error.clone())),
        }
    }

    /// Reads the marker of the schedule, the markers of single events, and `mark`.
    fn ask_store(&self, mark: &MutexName, outages: Option<&Outages<'_>>, clock: &Clock) -> Found {
        let Self { store, of_schedule, of_events, .. } = self;
        let mut marks = vec![of_schedule.clone()];
        marks.extend(of_events.get().into_iter().flatten().cloned());
        if !marks.contains(mark) {
            marks.push(mark.clone());
        }
        let attempted = || format!("read {of_schedule}");
        let found = match outages {
            Some(outages) => outages.ask(store, clock, attempted, |mutex| find_pauses(mutex, &marks)),
            None => contain(|| find_pauses(&*store.mutex, &marks))
                .unwrap_or_else(|message| Err(MutexError::panicked(attempted(), &message))),
        };
        let found = found?;
        let mut known: HashMap<_, _> = marks.into_iter().map(|mark| (mark, None)).collect();
        known.extend(found.map(|(mark, pause)| (mark, Some(pause))));
        Ok(known)
    }
}
