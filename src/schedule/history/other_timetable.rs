//! The timetable of an event on another server, where it differs from that of this one for longer than a deploy takes.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::lease::holder::Holder;

/// How long the timetables of two servers may differ, as during a deploy.
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
    /// The timetable with its zone, in plain English: `hourly, UTC`.
    pub timetable: Arc<str>,
    /// The server that claimed an occurrence by it: `web-2, pid 17`.
    pub server: Arc<str>,
    /// Since when this process has seen a difference.
    pub since: DateTime<Utc>,
}

/// The difference that this process sees, perhaps not for long yet.
#[derive(Clone, Default)]
pub(super) struct SeenDifference(Option<Difference>);

#[derive(Clone)]
struct Difference {
    own: Arc<str>,
    other: OtherTimetable,
    last: DateTime<Utc>,
    is_told: bool,
}

impl SeenDifference {
    /// Compares this server's timetable with that of the server that claimed an occurrence. Returns the other timetable once, when the
    /// difference has lasted. An hour without a difference ends it, and so does another timetable of this server.
    pub(super) fn compare(
        &mut self,
        own: &Arc<str>,
        claimed_by: Option<&Holder>,
        now: DateTime<Utc>,
    ) -> Option<OtherTimetable> {
        let other = claimed_by.and_then(|holder| Some((holder, holder.timetable()?)));
        let other = other.filter(|(holder, timetable)| *timetable != &**own && holder.other_application().is_none());
        let known = self.0.take().filter(|known| known.own == *own);
        let Some((holder, timetable)) = other else {
            self.0 = known.filter(|known| now - known.last < TOLERATED);
            return None;
        };
        let (since, was_told) = known.map_or((now, false), |known| (known.other.since, known.is_told));
        let is_told = was_told || now - since >= TOLERATED;
        let server = holder.process().to_string().into();
        let other = OtherTimetable { timetable: timetable.into(), server, since };
        self.0 = Some(Difference { own: Arc::clone(own), other: other.clone(), last: now, is_told });
        (is_told && !was_told).then_some(other)
    }

    /// Returns the other timetable, if the difference has lasted.
    pub(super) fn told(self) -> Option<OtherTimetable> {
        self.0.filter(|difference| difference.is_told).map(|difference| difference.other)
    }
}
