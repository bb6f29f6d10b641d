//! Finds the occurrences that may have been missed. An event with `catch_up`, `catch_up_all` or a queue makes up for
//! missed occurrences.
//!
//! For each occurrence in a queue, there is a process that waits to run the occurrence. If this process dies, another
//! process makes up for the occurrence. If the event has no `catch_up`, only a process that has skipped the occurrence
//! as `Queued` can do so, because no other process knows that the occurrence was in the queue.
//!
//! An occurrence within the window was missed if no server has claimed it. But an occurrence from before the event was
//! deployed has no claim, either, and must not run. So each event has a marker in its store. The age of the marker
//! shows since when the store has known the event. Occurrences before that time do not count as missed. The name of the
//! marker encodes the timetable, the kind of claim and the window. If one of these changes, the event gets another
//! marker, and counts as new.

use std::collections::BTreeSet;
use std::iter;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::protection::{Protection, claim::MINUTE};
use crate::base::lock::lock;
use crate::lease::name::MutexName;
use crate::outcome::skip_reason::SkipReason;
use crate::time::timetable::Timetable;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The rule by which an event makes up for missed occurrences, and the state of its latest occurrences in this process.
pub(crate) struct CatchUp {
    pub(crate) window: Duration,
    /// The number of the event's latest occurrences that a tick checks. So a tick makes up for at most this many
    /// occurrences.
    pub(crate) most: usize,
    /// The marker that shows since when the store has known the event. `None`: the event has no `catch_up`, and only
    /// occurrences that waited in its queue are made up for.
    pub(crate) marker: Option<MutexName>,
    known: Mutex<KnownRuns>,
}

#[derive(Default)]
struct KnownRuns {
    /// The latest occurrences that need no run any more, for example because a server has claimed them. At most `most`
    /// occurrences are kept.
    settled: BTreeSet<DateTime<Utc>>,
    /// The occurrences that this process runs, or is about to run or to check.
    in_progress: BTreeSet<DateTime<Utc>>,
    /// The latest occurrence that this process skipped as `Queued`.
    queued: Option<DateTime<Utc>>,
    /// The time at which the store last confirmed that it has the marker.
    marker_confirmed: Option<Moment>,
}

/// A confirmed marker is written again after this time, because the store may have lost its data.
const RELIED_ON_FOR: Duration = Duration::from_secs(60 * 60);

impl CatchUp {
    /// Makes the rule of an event. `asked` has the window and the number of occurrences of `catch_up` or
    /// `catch_up_all`. `None`: the event has neither of them, and no queue.
    pub(super) fn new(
        asked: Option<(Duration, usize)>,
        event: &Arc<str>,
        protection: &Protection,
        timetable: &Timetable,
    ) -> Option<Self> {
        let marker = asked.zip(protection.claim).map(|((window, most), claim)| {
            let all = if most > 1 { ", all" } else { "" };
            let text = format!("seen {}, {claim}, {}s{all}", timetable.in_words_and_zone(), window.as_secs_f64());
            protection.mutex.mark(Arc::clone(event), text)
        });
        let (window, most) = asked.or_else(|| Some((protection.queue.as_ref()?.within, 1)))?;
        Some(Self { window, most, marker, known: Mutex::default() })
    }

    /// Returns the occurrences that may have been missed at `minute`, the oldest first, and notes them as in progress.
    /// If the event is due in this tick, `due` is its first due occurrence, and only earlier occurrences are returned.
    /// Occurrences that start later than `minute` are left out. Sends no request to a store: the caller checks the
    /// claims.
    pub(crate) fn begin_candidates(
        &self,
        timetable: &Timetable,
        minute: DateTime<Utc>,
        due: Option<DateTime<Utc>>,
    ) -> Vec<DateTime<Utc>> {
        if self.marker.is_some() && !timetable.makes_up_at(minute) {
            return Vec::new();
        }
        let mut known = lock(&self.known);
        let open_for = TimeDelta::from_std(self.window + timetable.jitter.longest()).unwrap_or(TimeDelta::MAX);
        let earliest = minute.checked_sub_signed(open_for).unwrap_or(DateTime::<Utc>::MIN_UTC);
        let last_up_to = |latest: DateTime<Utc>| timetable.last_open(earliest, latest);
        let last_before = |next: DateTime<Utc>| last_up_to(next - TimeDelta::seconds(1));
        let may_be_missed = |occurrence: &DateTime<Utc>| {
            (self.marker.is_some() || known.queued == Some(*occurrence))
                && !known.settled.contains(occurrence)
                && !known.in_progress.contains(occurrence)
        };
        let is_open = |occurrence: &DateTime<Utc>| {
            (minute - timetable.start_of(*occurrence)).to_std().unwrap_or_default() <= self.window
        };
        let latest = due.map_or_else(|| last_up_to(minute), last_before);
        // After a clock change, an occurrence can start later than the occurrence after it.
        let started = iter::successors(latest, |next| last_before(*next))
            .filter(|occurrence| timetable.start_of(*occurrence) <= minute);
        let count = self.most - usize::from(due.is_some());
        let mut missed: Vec<_> = started.take(count).take_while(is_open).filter(may_be_missed).collect();
        missed.reverse();
        known.in_progress.extend(&missed);
        missed
    }

    /// Notes that this process is about to run the occurrence, so that no other tick of this process checks whether the
    /// occurrence was missed.
    pub(crate) fn begin(&self, occurrence: DateTime<Utc>) {
        lock(&self.known).in_progress.insert(occurrence);
    }

    /// Notes that the run of this occurrence has ended.
    pub(crate) fn end(&self, occurrence: DateTime<Utc>) {
        lock(&self.known).in_progress.remove(&occurrence);
    }

    /// Notes that another process or another tick waits to run this occurrence.
    pub(crate) fn note_queued(&self, occurrence: DateTime<Utc>) {
        lock(&self.known).queued = Some(occurrence);
    }

    pub(crate) fn settle(&self, occurrence: DateTime<Utc>) {
        let mut known = lock(&self.known);
        known.settled.insert(occurrence);
        while known.settled.len() > self.most {
            known.settled.pop_first();
        }
    }

    /// Returns the length of the time in which ticks may read the claim on `occurrence`. The time begins with the start
    /// of the occurrence. It ends when the next occurrence starts or when the window ends, whichever is earlier. A
    /// minute is added, because ticks check only once a minute.
    pub(crate) fn claim_lookup_time(&self, timetable: &Timetable, occurrence: DateTime<Utc>) -> Duration {
        let next_start = timetable.next_open(occurrence).map(|next| timetable.start_of(next));
        let until_next = next_start.and_then(|next| (next - timetable.start_of(occurrence)).to_std().ok());
        until_next.map_or(self.window, |until_next| until_next.min(self.window)) + MINUTE
    }

    /// Returns whether the store has confirmed the marker within [`RELIED_ON_FOR`].
    pub(crate) fn has_marker(&self, clock: &Clock) -> bool {
        lock(&self.known).marker_confirmed.is_some_and(|confirmed| clock.moment().since(confirmed) < RELIED_ON_FOR)
    }

    pub(crate) fn confirm_marker(&self, clock: &Clock) {
        lock(&self.known).marker_confirmed = Some(clock.moment());
    }
}

/// The reason why a tick has an entry for an occurrence that is not due: the occurrence may have been missed.
#[derive(Clone, Debug)]
pub(crate) enum Missed {
    /// No server has claimed the occurrence, so it was missed.
    Confirmed,
    /// The process could not find out whether the occurrence was missed, for this reason.
    Unknown(SkipReason),
}
