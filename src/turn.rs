//! Whose turn it is in a tick.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::catch_up::Missed;
use crate::clock::{Clock, Moment};
use crate::event::Definition;
use crate::keeper::Keepers;
use crate::lease::{MutexName, Owners};
use crate::mutex::{EventMutex, Store};
use crate::outage::Outages;
use crate::pause::Lookout;
use crate::protection::{CLAIM_WINDOW, Claimant};
use crate::shutdown::Shutdown;
use crate::tick::Tick;

/// What the turns of one tick have in common.
pub(crate) struct Round<'a> {
    pub(crate) cause: Cause,
    /// When the tick began.
    pub(crate) began: Moment,
    pub(crate) owners: Owners,
    pub(crate) outages: Outages,
    pub(crate) keepers: Keepers,
    pub(crate) shutdown: Option<&'a Shutdown>,
    /// What looks whether the schedule is paused, if that keeps anything of this round from starting.
    pub(crate) pause: Option<Lookout<'a>>,
    /// Whether failures are told one by one, because nobody gets the report.
    pub(crate) tells_of_failures: bool,
}

/// Why it is an event's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Due,
    ByHand,
}

impl<'a> Round<'a> {
    pub(crate) fn begin(cause: Cause, clock: &Clock, outages: Outages, shutdown: Option<&'a Shutdown>) -> Self {
        let keepers = Keepers::default();
        Self {
            cause,
            began: clock.moment(),
            owners: Owners::of_this_process(),
            outages,
            keepers,
            shutdown,
            pause: None,
            tells_of_failures: false,
        }
    }

    /// Whether nothing new may start.
    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some_and(Shutdown::has_begun)
    }
}

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

    /// For how long after its occurrence it may ask for what it claims.
    #[inline]
    pub(crate) fn claim_window(&self) -> Duration {
        let catch_up = self.event.catch_up.as_ref();
        let looked_for = catch_up.filter(|catch_up| catch_up.window > CLAIM_WINDOW);
        looked_for.map_or(CLAIM_WINDOW, |catch_up| {
            catch_up.is_looked_for(&self.event.timetable, self.tick.occurrence()).max(CLAIM_WINDOW)
        })
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
