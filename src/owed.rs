//! Whether an occurrence that was missed is owed: what the store says of it.

use chrono::{DateTime, Utc};

use crate::catch_up::{CatchUp, Missed};
use crate::error::MutexError;
use crate::lease::{LeaseRequest, Term};
use crate::mutex::EventMutex;
use crate::outcome::SkipReason;
use crate::report::Verdict;
use crate::turn::Turn;

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
        let Some(claim) = self.claim_name() else { return Ok(false) };
        if self.ask(|| format!("look at {claim}"), |mutex| mutex.exists(&claim))? {
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
        let holder = self.ask(|| format!("look at {mark}"), |mutex| mutex.holder(mark))?;
        Ok(holder.map(|holder| holder.since()))
    }

    /// `true`: it was not known until now.
    fn note_that_it_was_seen(&self, catch_up: &CatchUp) -> Result<bool, MutexError> {
        let request = LeaseRequest::by(self.round.owners, catch_up.mark.clone(), Term::MAX, self.clock);
        let created = self.ask(|| format!("note {}", catch_up.mark), |mutex| mutex.create(&request))?;
        catch_up.has_been_marked();
        Ok(created.is_some())
    }

    fn ask<A>(
        &self,
        attempted: impl Fn() -> String,
        ask: impl FnOnce(&dyn EventMutex) -> Result<A, MutexError>,
    ) -> Result<A, MutexError> {
        self.round.outages.ask(self.store, self.clock, attempted, ask)
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
