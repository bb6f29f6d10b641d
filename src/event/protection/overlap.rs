//! What becomes of an occurrence that meets a run of its event: it is skipped, waits for its turn in a queue, or replaces the
//! run.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::lease::name::MutexName;
use crate::lease::term::Term;

/// What becomes of an occurrence that meets a run of its event; see [`Event::on_overlap`](crate::Event::on_overlap).
///
/// ```
/// use soloist::{Event, Overlap, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut schedule = Schedule::in_process();
/// schedule.add(Event::call("import", |_| {}).every_minute().without_overlapping().on_overlap(Overlap::QueueOne))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It does not run.
    #[default]
    Skip,
    /// It waits, unless another one waits already, and starts when the run has ended: one in the whole fleet.
    QueueOne,
    /// It waits, unless so many wait already, from 1 to 100 in the whole fleet. They start one after another, in the order in
    /// which they began to wait. On a store that does not say who [holds](crate::EventMutex::held) a name, they start in no
    /// particular order.
    QueueAll(usize),
    /// The run is [cancelled](crate::CancelReason::Replaced), wherever it is, and the occurrence starts when it has ended; an
    /// earlier one that waits is skipped. A function that does not stop is waited for.
    Replace,
}

impl Overlap {
    /// Returns how many may wait; `None`: none does.
    pub(super) fn places(self) -> Option<usize> {
        match self {
            Self::Skip => None,
            Self::QueueOne => Some(1),
            Self::QueueAll(places) => Some(places),
            Self::Replace => Some(PLACES_TO_LEAVE),
        }
    }
}

/// An occurrence that waits to replace a run leaves when a later one comes, and checks for that about once a second. Meanwhile
/// more may come.
const PLACES_TO_LEAVE: usize = 4;

/// The longest queue.
pub(super) const MOST_PLACES: usize = 100;

/// The waits that may be set.
pub(super) const WAITS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// The queue of an event. All of its names are marks of the event's mutex.
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
        let place = |number| mutex.mark(mutex.mutex(), format!("queue {number}"));
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

/// Returns the mark that says that this occurrence waits. It is renewed.
pub(crate) fn waiter(mutex: &MutexName, event: &Arc<str>, occurrence: DateTime<Utc>) -> MutexName {
    mutex.mark(Arc::clone(event), format!("waits {}", occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true)))
}
