//! The timetable of an event on another server, if it differs for longer than a deployment takes.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::lease::holder::Holder;
use crate::time::clock::Clock;

/// How long the timetables of two servers may differ before the difference is reported. A deployment takes less time.
const TOLERATED: TimeDelta = TimeDelta::hours(1);

/// The timetable of an event on another server; see [`EventStatus`](crate::observe::EventStatus::other_timetable).
///
/// ```
/// use soloist::Schedule;
///
/// for event in Schedule::in_process().status().events {
///     event.other_timetable.iter().for_each(|other| println!("{}: {} on {}", event.name, other.timetable, other.server));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OtherTimetable {
    /// The timetable with its zone, in words: `hourly, UTC`.
    pub timetable: Arc<str>,
    /// The server that claimed an occurrence with that timetable: `web-2, pid 17`.
    pub server: Arc<str>,
    /// The time at which this process first saw the difference.
    pub since: DateTime<Utc>,
}

/// A difference of two timetables. It is reported only after it has lasted for an hour.
#[derive(Clone)]
pub(super) struct Difference {
    own: Arc<str>,
    pub(super) other: OtherTimetable,
    last: DateTime<Utc>,
    pub(super) is_told: bool,
}

/// Compares the timetable `own` with the timetable of the server `claimed_by`, which claimed an occurrence. Returns the
/// other timetable once, when the difference has lasted for an hour. The difference is over if no claim shows it for an
/// hour, or if the timetable on this server changes.
pub(super) fn compare(
    difference: &mut Option<Difference>,
    own: &Arc<str>,
    claimed_by: Option<&Holder>,
    clock: &Clock,
) -> Option<OtherTimetable> {
    let other = claimed_by.and_then(|holder| Some((holder, holder.timetable()?)));
    let other = other.filter(|(holder, timetable)| *timetable != &**own && holder.other_application().is_none());
    difference.take_if(|known| known.own != *own);
    let Some((holder, timetable)) = other else {
        difference.take_if(|known| clock.now() - known.last >= TOLERATED);
        return None;
    };
    let now = clock.now();
    let (since, was_told) = difference.take().map_or((now, false), |known| (known.other.since, known.is_told));
    let is_told = was_told || now - since >= TOLERATED;
    let server = holder.process().into();
    let other = OtherTimetable { timetable: timetable.into(), server, since };
    *difference = Some(Difference { own: Arc::clone(own), other: other.clone(), last: now, is_told });
    (is_told && !was_told).then_some(other)
}
