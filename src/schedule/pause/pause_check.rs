//! The check for pauses, which all events of a tick share.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::base::error::MutexError;
use crate::base::lock::lock;
use crate::lease::name::MutexName;
use crate::outcome::{paused::Pause, skip_reason::SkipReason};
use crate::schedule::outages::Outages;
use crate::store::described_store::{HeldAnswer, Store, read_each};
use crate::store::event_mutex::held::Names;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The time after which a tick reads the pauses again. Until then, the tick uses the store's last answer. So for up to
/// a minute after a pause has begun, events can still start.
pub(crate) const RECHECK_AFTER: Duration = Duration::from_secs(60);

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

/// The markers that were read, each with its pause, or with the error if only this marker could not be read. `None`: the
/// store does not have the marker.
type Found = Result<HashMap<MutexName, Result<Option<Pause>, MutexError>>, MutexError>;

impl<'a> PauseCheck<'a> {
    pub(crate) fn new(store: &'a Store, of_schedule: MutexName) -> Self {
        Self { store, of_schedule, of_events: OnceLock::new(), read: Mutex::default() }
    }

    /// Sets the markers that are read together with the marker of the schedule.
    pub(crate) fn watch(&self, of_events: Vec<MutexName>) {
        _ = self.of_events.set(of_events); // A tick sets them once.
    }

    /// Refuses a run if one of its `marks` pauses it. Uses the store's last answer if the answer is younger than
    /// `max_age`, and includes the `marks`. Otherwise asks the store; meanwhile, callers on other threads wait for the
    /// new answer. With `outages`, a store that was unavailable a moment ago is not asked.
    pub(crate) fn allows(
        &self,
        marks: &[MutexName; 2],
        max_age: Duration,
        outages: Option<&Outages<'_>>,
        clock: &Clock,
    ) -> Result<(), SkipReason> {
        let mut read = lock(&self.read);
        let tells = |(at, found): &&(Moment, Found)| {
            // With `outages`, a failed read is repeated: `outages` limits how often an unavailable store is asked.
            let is_reused = |_: &MutexError| outages.is_none();
            let is_fresh = clock.moment().since(*at) < max_age;
            let includes_all = |found: &HashMap<_, _>| marks.iter().all(|mark| found.contains_key(mark));
            is_fresh && found.as_ref().map_or_else(is_reused, includes_all)
        };
        let found = match read.as_ref().filter(tells) {
            Some((_, found)) => found,
            None => &read.insert((clock.moment(), self.read_markers(marks, outages))).1,
        };
        let unavailable = |error: &MutexError| SkipReason::StoreUnavailable(error.clone());
        let found = found.as_ref().map_err(unavailable)?;
        for answer in marks.iter().filter_map(|mark| found.get(mark)) {
            if let Some(pause) = answer.as_ref().map_err(unavailable)? {
                return Err(SkipReason::Paused(pause.holder().cloned()));
            }
        }
        Ok(())
    }

    /// Reads the markers of single events, and `own_marks`: the marker of the schedule, and that of one event.
    fn read_markers(&self, own_marks: &[MutexName; 2], outages: Option<&Outages<'_>>) -> Found {
        let Self { store, of_schedule, of_events, .. } = self;
        let mut marks = own_marks.to_vec();
        marks.extend(of_events.get().into_iter().flatten().filter(|mark| !own_marks.contains(mark)).cloned());
        let ask = |names: Names<'_>| match outages {
            Some(outages) => {
                outages.ask(store, || format!("read {}", of_schedule.in_words()), |mutex| mutex.held(names))
            }
            None => store.held(names),
        };
        let answers = read_each(&marks, ask)?;
        let pause = |answer: HeldAnswer| answer.map(|held| held.map(|held| Pause::by(held.into_holder())));
        Ok(marks.into_iter().zip(answers.into_iter().map(pause)).collect())
    }
}
