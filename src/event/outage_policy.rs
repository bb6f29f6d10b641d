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
    /// It runs all the same, perhaps beside another run of it, here or elsewhere, without a lease and without a fencing
    /// token. Each time there is a warning, the report is marked, and the process fails, so that somebody learns of the
    /// outage. It does not run while it is not known whether its schedule is
    /// [paused](crate::Schedule::pausable_as); that is [`even_when_paused`](crate::Event::even_when_paused).
    RunUnprotected,
}
