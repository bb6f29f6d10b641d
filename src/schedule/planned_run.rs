//! Whose turn it is in a tick.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::tick_context::{Cause, Round};
use crate::event::builder::Definition;
use crate::event::catch_up::Missed;
use crate::event::protection::{Claimant, MINUTE};
use crate::lease::name::MutexName;
use crate::store::event_mutex::EventMutex;
use crate::store::handle::Store;
use crate::time::clock::Clock;
use crate::time::tick::Tick;

/// An event whose turn it is, and all that its run needs.
pub(crate) struct Turn<'a> {
    pub(crate) event: &'a Definition,
    pub(crate) tick: Tick,
    /// Why it is its turn although it is not due.
    pub(crate) missed: Option<Missed>,
    pub(crate) round: &'a Round<'a>,
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a Clock,
}

impl<'a> Turn<'a> {
    #[inline]
    pub(crate) fn mutex(&self) -> &'a dyn EventMutex {
        &*self.store.mutex
    }

    /// Who claims, if the event does; nobody by hand, which runs whoever else did.
    pub(crate) fn claimant(&self) -> Option<Claimant<'_>> {
        let (event, zone) = (&self.event.name, &self.event.timetable.zone);
        let window = self.claim_window();
        (self.round.cause == Cause::Due).then_some(Claimant { event, tick: &self.tick, zone, window })
    }

    /// For how long after its tick began it may ask for what it claims: as long as every claim on that lives for certain.
    #[inline]
    pub(crate) fn claim_window(&self) -> Duration {
        let Definition { claim_window, catch_up, timetable, .. } = self.event;
        match catch_up.as_ref().filter(|catch_up| catch_up.window + MINUTE > *claim_window) {
            Some(catch_up) => catch_up.is_looked_for(timetable, self.tick.occurrence()).max(*claim_window),
            None => *claim_window,
        }
    }

    /// Whether a run of it claims its occurrence or period.
    pub(crate) fn claims(&self) -> bool {
        self.event.protection.claim.is_some() && self.round.cause == Cause::Due
    }

    /// What a run of it claims.
    pub(crate) fn claim_name(&self) -> Option<MutexName> {
        self.claimant().and_then(|claimant| self.event.protection.claim_name(claimant))
    }

    /// How long after its occurrence the tick came.
    #[inline]
    pub(crate) fn lateness(&self) -> Duration {
        (self.tick.now() - self.occurrence()).to_std().unwrap_or_default()
    }

    /// The same, if it was missed in the tick for which it was due.
    pub(crate) fn missed_by(&self) -> Duration {
        if self.missed.is_some() { self.lateness() } else { Duration::ZERO }
    }

    pub(crate) fn occurrence(&self) -> DateTime<Utc> {
        match self.round.cause {
            Cause::Due => self.tick.occurrence(),
            Cause::ByHand => self.tick.now(),
        }
    }
}
