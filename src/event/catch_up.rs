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

use super::protection::{MINUTE, Protection};
use crate::lease::name::MutexName;
use crate::observe::skip_reason::SkipReason;
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;
use crate::time::timetable::Timetable;

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
    /// The occurrence whose turn it is in this process, or is about to be.
    taken_up: Option<DateTime<Utc>>,
    /// When the store was seen to have the mark.
    noted: Option<Moment>,
}

/// An occurrence, and how long it is the latest.
#[derive(Clone, Copy)]
struct Latest {
    occurrence: DateTime<Utc>,
    next: Option<DateTime<Utc>>,
}

/// How long a store that has the mark is believed to keep it: it may lose its data.
const BELIEVED: Duration = Duration::from_secs(60 * 60);

impl CatchUp {
    /// `None`: there is nothing that says what was missed.
    pub(crate) fn new(
        window: Duration,
        event: &Arc<str>,
        protection: &Protection,
        timetable: &Timetable,
    ) -> Option<Self> {
        let claim = protection.claim.as_ref()?;
        let text = format!("seen {timetable}, {claim}, {}s", window.as_secs_f64());
        let mark = protection.mutex.mark(Arc::clone(event), text);
        Some(Self { window, mark, known: Mutex::default() })
    }

    /// Takes up the occurrence that may be owed in this `minute`, without asking anybody. `None`: there is none, or it has
    /// its turn.
    pub(crate) fn take_up_what_may_be_owed(
        &self,
        timetable: &Timetable,
        minute: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        let mut known = self.known();
        let lasts = |latest: &Latest| latest.occurrence <= minute && latest.next.is_none_or(|next| minute < next);
        let latest = if let Some(latest) = known.latest.filter(lasts) {
            latest
        } else {
            let (occurrence, next) = (timetable.latest(minute)?, timetable.next(minute));
            *known.latest.insert(Latest { occurrence, next })
        };
        let occurrence = latest.occurrence;
        let is_open = (minute - occurrence).to_std().is_ok_and(|lateness| lateness <= self.window);
        if !is_open || known.settled == Some(occurrence) || known.taken_up == Some(occurrence) {
            return None;
        }
        known.taken_up = Some(occurrence);
        Some(occurrence)
    }

    /// Its turn for this occurrence is about to come: nobody else in this process need look whether it is owed.
    pub(crate) fn take_up(&self, occurrence: DateTime<Utc>) {
        self.known().taken_up = Some(occurrence);
    }

    /// It had its turn.
    pub(crate) fn let_go(&self, occurrence: DateTime<Utc>) {
        let mut known = self.known();
        known.taken_up = known.taken_up.filter(|taken_up| *taken_up != occurrence);
    }

    pub(crate) fn settle(&self, occurrence: DateTime<Utc>) {
        self.known().settled = Some(occurrence);
    }

    /// For how long after this occurrence anybody looks for its claim: until the next one or the end of the window, and as
    /// long as the minute lasts that begins then.
    pub(crate) fn is_looked_for(&self, timetable: &Timetable, occurrence: DateTime<Utc>) -> Duration {
        let latest = self.known().latest.filter(|latest| latest.occurrence == occurrence);
        let next = latest.map_or_else(|| timetable.next(occurrence), |latest| latest.next);
        let until_next = next.and_then(|next| (next - occurrence).to_std().ok());
        until_next.map_or(self.window, |until_next| until_next.min(self.window)) + MINUTE
    }

    /// Whether the store has the mark, as far as is known.
    pub(crate) fn is_noted(&self, clock: &Clock) -> bool {
        self.known().noted.is_some_and(|noted| clock.moment().since(noted) < BELIEVED)
    }

    pub(crate) fn has_been_noted(&self, clock: &Clock) {
        self.known().noted = Some(clock.moment());
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
    /// Whether it is owed is not known, for this reason.
    Unknown(SkipReason),
}
