//! What was missed: the occurrence that an event still owes, and since when it has been known to its store.
//!
//! An occurrence is owed if it is the latest one, lies within the window, and nobody has claimed it. An event that the
//! store has not known for that long owes nothing: it is new. So each one has a mark there, whose age says so, and whose
//! name has the timetable in it, because the times of another timetable are new, too.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::error::MutexError;
use crate::fault::contain;
use crate::lease::{LeaseRequest, MutexName, Term};
use crate::outcome::SkipReason;
use crate::report::Verdict;
use crate::timetable::Timetable;
use crate::turn::Turn;

/// How an event makes up for what was missed, and what this process knows of that.
pub(crate) struct CatchUp {
    pub(crate) window: Duration,
    mark: MutexName,
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
    /// `mutex`: the name of the event's lease.
    pub(crate) fn new(window: Duration, mutex: &MutexName, event: &str, timetable: &Timetable) -> Self {
        let mark = mutex.mark(event, format!("seen {timetable}"));
        Self { window, mark, known: Mutex::default() }
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

    fn is_marked(&self) -> bool {
        self.known().marked
    }

    fn has_been_marked(&self) {
        self.known().marked = true;
    }

    fn settle(&self, occurrence: DateTime<Utc>) {
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

impl Turn<'_> {
    /// Whether its occurrence, which may be owed, is. One look, and another one while nobody has claimed it.
    pub(crate) fn look_for_what_is_owed(&self) -> Option<Missed> {
        let catch_up = self.event.catch_up.as_ref()?;
        match self.owes(catch_up) {
            Ok(true) => Some(Missed::Owed),
            Ok(false) => {
                catch_up.settle(self.tick.occurrence());
                None
            }
            Err(error) => Some(Missed::Unknown(error)),
        }
    }

    fn owes(&self, catch_up: &CatchUp) -> Result<bool, MutexError> {
        let occurrence = self.tick.occurrence();
        let claim = self
            .claim_name()
            .map_or(Ok(true), |claim| self.ask(format!("look for {claim}"), |turn| turn.mutex().exists(&claim)))?;
        if claim {
            return Ok(false);
        }
        if let Some(since) = self.seen_since(catch_up)? {
            catch_up.has_been_marked();
            return Ok(since <= occurrence);
        }
        if self.note_that_it_was_seen(catch_up)? {
            return Ok(false);
        }
        // Somebody was quicker just now, or the store does not tell who holds a name.
        match self.seen_since(catch_up)? {
            Some(since) => Ok(since <= occurrence),
            None => Err(MutexError::unsupported("tell since when it has held a mark, which `catch_up` needs")),
        }
    }

    /// Sees to it that the store knows the event from now on, if it is not known that it does.
    pub(crate) fn is_seen(&self) {
        if let Some(catch_up) = self.event.catch_up.as_ref().filter(|catch_up| !catch_up.is_marked()) {
            // Whoever is asked next finds out what is wrong with the store, and the next tick tries again.
            let _ = self.note_that_it_was_seen(catch_up);
        }
    }

    fn seen_since(&self, catch_up: &CatchUp) -> Result<Option<DateTime<Utc>>, MutexError> {
        let mark = &catch_up.mark;
        let holder = self.ask(format!("look for {mark}"), |turn| turn.mutex().holder(mark))?;
        Ok(holder.map(|holder| holder.since()))
    }

    /// `true`: it was not known until now.
    fn note_that_it_was_seen(&self, catch_up: &CatchUp) -> Result<bool, MutexError> {
        let request = LeaseRequest::by(self.round.owners, catch_up.mark.clone(), Term::MAX, self.clock);
        let created = self.ask(format!("note {}", catch_up.mark), |turn| turn.mutex().create(&request))?;
        catch_up.has_been_marked();
        Ok(created.is_some())
    }

    /// Asks the store something, unless it was out a moment ago, and remembers if it is.
    fn ask<A>(&self, attempted: String, ask: impl FnOnce(&Self) -> Result<A, MutexError>) -> Result<A, MutexError> {
        let outages = &self.round.outages;
        if let Err(first) = outages.may_ask(self.store.id, self.clock) {
            return Err(MutexError::not_asked_again(attempted, &first));
        }
        let answer = contain(|| ask(self)).unwrap_or_else(|message| Err(MutexError::panicked(attempted, &message)));
        let outage = answer.as_ref().err().filter(|error| error.is_unavailable());
        outages.heard(self.store.id, self.clock, outage);
        answer
    }

    /// Notes what became of its occurrence, if that is settled: the next ticks need not look.
    pub(crate) fn note_if_settled(&self, verdict: &Verdict) {
        let Some(catch_up) = &self.event.catch_up else { return };
        if let Verdict::Ran(_) | Verdict::Skipped(SkipReason::RanElsewhere(_)) = verdict
            && self.claims()
        {
            catch_up.settle(self.tick.occurrence());
        }
    }
}
