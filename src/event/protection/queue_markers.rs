//! The queue of an event in its store: a marker for each place, and one for each occurrence that waits.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::lease::{name::MutexName, term::Term};
use crate::time::clock::shown::Rfc3339;

const PLACE: &str = "queue ";

/// The longest queue.
pub(super) const MOST_PLACES: usize = 100;

/// The waits that may be set.
pub(super) const WAITS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// The queue of an event. All of its names are markers of the event's mutex.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// The places in it, from the first on. Events that share a mutex share them.
    pub(crate) places: Vec<MutexName>,
    /// For how long a place is held, unless it is renewed.
    pub(crate) term: Term,
    /// How long after its occurrence an event waits at most. If that was not set: as long as its claim may be asked for.
    pub(crate) within: Duration,
    /// Whether an occurrence that waits replaces the run that it waits for.
    pub(crate) replaces: bool,
}

impl Queue {
    pub(super) fn places(mutex: &MutexName, places: usize) -> Vec<MutexName> {
        let place = |number| mutex.mark(mutex.mutex(), format!("{PLACE}{number}"));
        (1..=places).map(place).collect()
    }

    /// Returns the words that ask for it.
    pub(super) fn in_words(&self) -> String {
        match self.places.len() {
            _ if self.replaces => "on_overlap Replace".to_owned(),
            1 => "on_overlap QueueOne".to_owned(),
            places => format!("on_overlap QueueAll {places}"),
        }
    }
}

/// Returns the marker of an occurrence that waits. It is renewed while the occurrence waits.
pub(crate) fn waiter(mutex: &MutexName, event: &Arc<str>, occurrence: DateTime<Utc>) -> MutexName {
    mutex.mark(Arc::clone(event), format!("waits {}", Rfc3339(occurrence)))
}
