//! The behaviour of an event at an overlap. The new occurrence is skipped, waits in a queue, or replaces the run.

/// The behaviour of an event that is due while a run of the event is still running. See
/// [`Event::on_overlap`](crate::Event::on_overlap).
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
    /// The occurrence is skipped.
    #[default]
    Skip,
    /// The occurrence waits, and starts when the run has ended. At most one occurrence waits in the whole fleet. If
    /// another occurrence is waiting already, the new occurrence is skipped.
    QueueOne,
    /// The occurrence waits. At most this many occurrences wait in the whole fleet, from 1 to 100; further occurrences
    /// are skipped. Waiting occurrences start one after another, in the order in which they came. On a store that does
    /// not return the [holder](crate::EventMutex::held) of a name, they start in no particular order.
    QueueAll(usize),
    /// The run is [cancelled](crate::CancelReason::Replaced), even if it is running on another server. The occurrence
    /// starts when the run has ended. If an earlier occurrence is waiting, that earlier occurrence is skipped. A
    /// callback that ignores the cancellation is not ended by force: the occurrence waits until the callback returns.
    Replace,
}

impl Overlap {
    /// Returns how many occurrences can wait at a time. `None`: occurrences do not wait.
    pub(super) fn places(self) -> Option<usize> {
        match self {
            Self::Skip => None,
            Self::QueueOne => Some(1),
            Self::QueueAll(places) => Some(places),
            Self::Replace => Some(PLACES_TO_REPLACE),
        }
    }
}

/// The number of occurrences that can wait to replace a run. A waiting occurrence gives up when a later occurrence
/// comes, but notices the later occurrence only after about a second. So several occurrences can wait at a time.
const PLACES_TO_REPLACE: usize = 4;
