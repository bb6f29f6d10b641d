//! Finds the occurrences that may have been missed, as far as this process knows.
//!
//! If a process dies while an occurrence waits in its queue, that occurrence is made up for, too: by another process,
//! whose own tick was refused because the occurrence was waiting.
//!
//! An occurrence was missed if it is among the latest ones, lies within the window, and no server has claimed it. If
//! the store first saw the event after the occurrence, it can't know about claims. So each event has a marker in its
//! store, and the age of the marker shows since when the store has known the event. The name of the marker encodes the
//! timetable, the kind of claim and the window. If one of these changes, earlier claims mean nothing, and the event
//! counts as new.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::protection::{Protection, claim::MINUTE, queue_markers::Queue};
use crate::lease::name::MutexName;
use crate::outcome::skip_reason::SkipReason;
use crate::time::{clock::Clock, clock::moment::Moment, timetable::Timetable};

/// An event's rule for making up for missed occurrences, and the occurrences that this process knows of.
pub(crate) struct CatchUp {
    pub(crate) window: Duration,
    /// The number of latest occurrences that are made up for.
    pub(crate) most: usize,
    /// `None`: only occurrences that waited in a queue are made up for.
    pub(crate) marker: Option<MutexName>,
    known: Mutex<KnownRuns>,
}

#[derive(Default)]
struct KnownRuns {
    /// The latest occurrences, at most `most`, that are known to need no run any more.
    settled: BTreeSet<DateTime<Utc>>,
    /// The occurrences that this process runs, or is about to.
    in_progress: BTreeSet<DateTime<Utc>>,
    /// The latest occurrence that was skipped here because it waited on another server.
    queued: Option<DateTime<Utc>>,
    /// When the store last confirmed that it has the marker.
    marker_confirmed: Option<Moment>,
}

/// The time until the marker is written again, because the store may lose its data.
const RELIED_ON_FOR: Duration = Duration::from_secs(60 * 60);

impl CatchUp {
    /// `None`: the event makes no claims, so it is not known which occurrences were run.
    pub(crate) fn new(
        window: Duration,
        most: usize,
        event: &Arc<str>,
        protection: &Protection,
        timetable: &Timetable,
    ) -> Option<Self> {
        let claim = protection.claim.as_ref()?;
        let all = if most > 1 { ", all" } else { "" };
        let text = format!("seen {}, {claim}, {}s{all}", timetable.in_words_and_zone(), window.as_secs_f64());
        let marker = protection.mutex.mark(Arc::clone(event), text);
        Some(Self { window, most, marker: Some(marker), known: Mutex::default() })
    }

    /// Makes up for what waited in this queue.
    pub(crate) fn of_queue(queue: &Queue) -> Self {
        Self { window: queue.within, most: 1, marker: None, known: Mutex::default() }
    }

    /// Returns the occurrences before `minute` that may have been missed, and that came before the first `due` occurrence, oldest first. They count as in progress from now on. An occurrence whose start has not come was not
    /// missed. Sends no request to a store.
    pub(crate) fn begin_candidates(
        &self,
        timetable: &Timetable,
        minute: DateTime<Utc>,
        due: Option<DateTime<Utc>>,
    ) -> Vec<DateTime<Utc>> {
        if self.marker.is_some() && !timetable.makes_up_at(minute) {
            return Vec::new();
        }
        let mut known = self.known();
        let (latest, count) = match due {
            Some(_) if self.most == 1 => return Vec::new(), // The due occurrence replaces the one that was missed before it.
            Some(due) => (timetable.previous(due), self.most - 1),
            None => (timetable.latest_started(minute), self.most),
        };
        let may_be_missed = |occurrence: DateTime<Utc>| {
            (self.marker.is_some() || known.queued == Some(occurrence))
                && timetable.start_of(occurrence) <= minute
                && !known.settled.contains(&occurrence)
                && !known.in_progress.contains(&occurrence)
        };
        let is_open = |occurrence: DateTime<Utc>| {
            (minute - timetable.start_of(occurrence)).to_std().unwrap_or_default() <= self.window
        };
        let (mut missed, mut latest) = (Vec::new(), latest);
        for looked_at in 1..=count {
            let Some(occurrence) = latest.filter(|latest| is_open(*latest)) else { break };
            missed.extend(may_be_missed(occurrence).then_some(occurrence));
            latest = if looked_at < count { timetable.previous(occurrence) } else { None };
        }
        missed.reverse();
        known.in_progress.extend(&missed);
        missed
    }

    /// Notes that this process is about to run the occurrence, so that no other tick checks whether it was missed.
    pub(crate) fn begin(&self, occurrence: DateTime<Utc>) {
        self.known().in_progress.insert(occurrence);
    }

    /// Notes that the run of this occurrence has ended.
    pub(crate) fn end(&self, occurrence: DateTime<Utc>) {
        self.known().in_progress.remove(&occurrence);
    }

    /// Notes that this occurrence waits elsewhere.
    pub(crate) fn note_queued(&self, occurrence: DateTime<Utc>) {
        self.known().queued = Some(occurrence);
    }

    pub(crate) fn settle(&self, occurrence: DateTime<Utc>) {
        let mut known = self.known();
        known.settled.insert(occurrence);
        while known.settled.len() > self.most {
            known.settled.pop_first();
        }
    }

    /// Returns for how long after the start of this occurrence a tick may read its claim: until the next occurrence
    /// starts or the window ends. A minute is added, because ticks check once a minute.
    pub(crate) fn claim_lookup_time(&self, timetable: &Timetable, occurrence: DateTime<Utc>) -> Duration {
        let next_start = timetable.next(occurrence).map(|next| timetable.start_of(next));
        let until_next = next_start.and_then(|next| (next - timetable.start_of(occurrence)).to_std().ok());
        until_next.map_or(self.window, |until_next| until_next.min(self.window)) + MINUTE
    }

    /// Returns whether the store is known to have the marker.
    pub(crate) fn has_marker(&self, clock: &Clock) -> bool {
        self.known().marker_confirmed.is_some_and(|confirmed| clock.moment().since(confirmed) < RELIED_ON_FOR)
    }

    pub(crate) fn confirm_marker(&self, clock: &Clock) {
        self.known().marker_confirmed = Some(clock.moment());
    }

    fn known(&self) -> MutexGuard<'_, KnownRuns> {
        // No code that can panic runs while the value behind this lock is half-changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why an event runs in a tick although it is not due.
#[derive(Clone, Debug)]
pub(crate) enum Missed {
    /// No server has claimed its latest occurrence.
    Confirmed,
    /// It is not known whether the latest occurrence was missed, for this reason.
    Unknown(SkipReason),
}
