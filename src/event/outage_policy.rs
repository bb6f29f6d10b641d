//! What an event does when its store gives no decision.

/// What an event does when its store gives no decision; see [`Event::on_outage`](crate::Event::on_outage).
///
/// ```
/// use soloist::{Event, OutagePolicy};
///
/// let event = Event::call("heartbeat", |_| {}).every_minute().without_overlapping().on_outage(OutagePolicy::RunUnprotected);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutagePolicy {
    /// It does not run. The report says why, and the process fails.
    #[default]
    Skip,
    /// It runs all the same, without a lease and without a fencing token, perhaps at the same time as another run of
    /// it. Each such run is logged as a warning and marked in the report, and the process fails, so that somebody
    /// learns of the outage. A schedule with a [name](crate::Schedule::named) that can't ask its store whether it is
    /// paused skips the event, unless it is [`even_when_paused`](crate::Event::even_when_paused).
    RunUnprotected,
}
