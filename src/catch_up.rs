//! What was missed: the occurrence that an event still owes, and since when it has been known to its store.
//!
//! An occurrence is owed if it is the latest one, lies within the window, and nobody has claimed it. An event that the
//! store has not known for that long owes nothing: it is new. So each one has a mark there, whose age says so. Its name has
//! all in it on which depends what was claimed until now, and for how long: an event is new when its timetable is, or what
//! it claims, or its window, since claims that were made for a shorter one are gone already.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::error::MutexError;
use crate::lease::MutexName;
use crate::protection::Protection;
use crate::timetable::Timetable;

/// How an event makes up for what was missed, and what this process knows of that.
pub(crate) struct CatchUp {
    pub(crate) window: Duration,
    pub(crate) mark: MutexName,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    latest: Option<Latest>,
    /// The latest occurrence that is known to be nobody's any more.
    settled: Option<DateTime<Utc>>,
    /// Whether the store has the mark.
    marked: bool,
}

/// An occurrence, and how long it is the latest.
#[derive(Clone, Copy)]
struct Latest {
    occurrence: DateTime<Utc>,
    next: Option<DateTime<Utc>>,
}

impl CatchUp {
    /// `None`: the event does not make up for anything.
    pub(crate) fn of(event: &Arc<str>, protection: &Protection, timetable: &Timetable) -> Option<Self> {
        let (window, claim) = (protection.catch_up?, protection.claim.as_ref()?);
        let text = format!("seen {timetable}, {claim}, {}s", window.as_secs_f64());
        let mark = protection.mutex.mark(Arc::clone(event), text);
        Some(Self { window, mark, known: Mutex::default() })
    }

    /// The occurrence that may be owed at `now`, without asking anybody.
    pub(crate) fn may_owe(&self, timetable: &Timetable, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut known = self.known();
        let lasts = |latest: &Latest| latest.occurrence <= now && latest.next.is_none_or(|next| now < next);
        let latest = if let Some(latest) = known.latest.filter(lasts) {
            latest
        } else {
            let (occurrence, next) = (timetable.latest(now)?, timetable.next(now));
            *known.latest.insert(Latest { occurrence, next })
        };
        let lateness = (now - latest.occurrence).to_std().ok()?;
        (lateness <= self.window && known.settled != Some(latest.occurrence)).then_some(latest.occurrence)
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.known().marked
    }

    pub(crate) fn has_been_marked(&self) {
        self.known().marked = true;
    }

    pub(crate) fn settle(&self, occurrence: DateTime<Utc>) {
        self.known().settled = Some(occurrence);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // No code that can panic runs while it is half-changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatchUp").field("window", &self.window).field("mark", &self.mark).finish_non_exhaustive()
    }
}

/// Why an event has its turn in a tick for which it is not due.
#[derive(Clone, Debug)]
pub(crate) enum Missed {
    /// Nobody has claimed its occurrence.
    Owed,
    /// The store did not say whether anybody has.
    Unknown(MutexError),
}
