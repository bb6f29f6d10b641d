//! The queue of an event in its store: a marker for each place, and a marker for each waiting occurrence.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::lease::{name::MutexName, term::Term};
use crate::time::clock::shown::Rfc3339;

const PLACE: &str = "queue ";

/// The highest number of places in a queue.
pub(super) const MOST_PLACES: usize = 100;

/// The times that `within` accepts.
pub(super) const WAITS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// The queue of an event. Its markers belong to the event's mutex name.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// The markers of the places, in their order. Events that share a mutex name share one queue.
    pub(crate) places: Vec<MutexName>,
    /// How long a place is held without renewal.
    pub(crate) term: Term,
    /// How long an occurrence may wait, counted from the time at which it should start. The default is the claim
    /// window.
    pub(crate) within: Duration,
    /// Whether a waiting occurrence cancels the run.
    pub(crate) replaces: bool,
}

impl Queue {
    pub(super) fn places(mutex: &MutexName, places: usize) -> Vec<MutexName> {
        let place = |number| mutex.mark(mutex.mutex(), format!("{PLACE}{number}"));
        (1..=places).map(place).collect()
    }

    /// Returns the queue as a text, as in `on_overlap QueueOne`.
    pub(super) fn in_words(&self) -> String {
        match self.places.len() {
            _ if self.replaces => "on_overlap Replace".to_owned(),
            1 => "on_overlap QueueOne".to_owned(),
            places => format!("on_overlap QueueAll {places}"),
        }
    }
}

/// Returns the name of the marker of a waiting occurrence. The marker is renewed while the occurrence waits.
pub(crate) fn waiter(mutex: &MutexName, event: &Arc<str>, occurrence: DateTime<Utc>) -> MutexName {
    mutex.mark(Arc::clone(event), format!("waits {}", Rfc3339(occurrence)))
}
