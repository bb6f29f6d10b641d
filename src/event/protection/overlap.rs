//! The answer to an overlap: an occurrence that meets a run of its event is skipped, waits in a queue, or replaces the run.

/// The answer of an event to an overlap, an occurrence that meets a run; see [`Event::on_overlap`](crate::Event::on_overlap).
///
/// ```
/// use soloist::{Event, Overlap, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
/// schedule.add(Event::call("import", |_| {}).every_minute().without_overlapping().on_overlap(Overlap::QueueOne))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// The occurrence does not run.
    #[default]
    Skip,
    /// The occurrence waits, unless another one waits already, and starts when the run has ended: one in the whole
    /// fleet.
    QueueOne,
    /// The occurrence waits, unless so many wait already, from 1 to 100 in the whole fleet. The occurrences that wait
    /// start one after another, first come, first served. On a store that does not say who
    /// [holds](crate::EventMutex::held) a name, they start in no particular order.
    QueueAll(usize),
    /// The run is [cancelled](crate::CancelReason::Replaced), wherever it is, and the occurrence starts when the run
    /// has ended. An earlier occurrence that waits is skipped. A function that does not stop is waited for.
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
