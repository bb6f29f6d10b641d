//! One event of a tick, with all that running it needs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::protection::queue_markers::Queue;
use crate::event::{catch_up::Missed, definition::Definition};
use crate::hold::renewal_thread::RenewalThread;
use crate::lease::{label::Label, name::MutexName, owner::Owner, request::LeaseRequest, term::Term};
use crate::observe::notice::{About, Step};
use crate::observe::tell::{observers::RunObservers, trace};
use crate::outcome::paused::EVENT_PAUSED;
use crate::outcome::{run_record::RunId, skip_reason::SkipReason};
use crate::schedule::history::EventHistory;
use crate::schedule::pause::pause_check::{PauseCheck, RECHECK_AFTER};
use crate::schedule::report::{Entry, Verdict};
use crate::schedule::tick_context::{StartedBy, TickContext};
use crate::store::described_store::Store;
use crate::store::event_mutex::admission::Admission;
use crate::time::{clock::Clock, tick::Tick};

/// How long the runs of a tick that wait for their next attempts share one answer about pauses.
const SHARED_FOR: Duration = Duration::from_millis(500);

/// An event that a tick, a backfill, or a caller by hand has planned to run, with all that the run needs.
pub(crate) struct PlannedRun<'a> {
    pub(crate) id: RunId,
    pub(crate) event: &'a Definition,
    pub(crate) history: &'a EventHistory,
    pub(crate) tick: Tick,
    /// Set if the event is not due in this tick, and is to make up for a missed occurrence.
    pub(crate) missed: Option<Missed>,
    /// Whether it is one of several occurrences of its event in this tick, which run one after another.
    pub(crate) is_backlog: bool,
    pub(crate) context: &'a TickContext<'a>,
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a Clock,
    /// The marker that pauses it alone; `None` if nothing can pause it, or the run was started by hand.
    pub(crate) own_pause: Option<MutexName>,
    /// The entry of the report, once it has run or was skipped.
    pub(crate) result: OnceLock<Entry>,
}

impl<'a> PlannedRun<'a> {
    /// Plans the run of the event at this place of its schedule.
    pub(in crate::schedule) fn new(event: usize, tick: Tick, context: &'a TickContext<'a>) -> Self {
        let TickContext { schedule, registry, .. } = context;
        let (event, history) = (&*registry.events[event], &*registry.histories[event]);
        let pauses = context.pauses.as_ref().filter(|_| !event.even_when_paused);
        let own_pause = pauses.map(|pauses| pauses.of_schedule.mark(Arc::clone(&event.name), EVENT_PAUSED));
        let (store, clock, result) = (schedule.store_of(event), &schedule.clock, OnceLock::new());
        let (missed, is_backlog) = (None, false);
        let occurrence = match context.started_by {
            StartedBy::Timetable | StartedBy::Backfill(_) => tick.occurrence(),
            StartedBy::Caller => tick.now(),
        };
        let is_backfill = matches!(context.started_by, StartedBy::Backfill(_));
        let id = RunId { event: Arc::clone(&event.name), occurrence, is_backfill };
        Self { id, event, history, tick, missed, is_backlog, context, store, clock, own_pause, result }
    }

    /// Returns the entry of a run that is over.
    pub(crate) fn into_entry(self) -> Entry {
        self.result.into_inner().expect("each run has its entry")
    }

    /// Notifies the observers of a step.
    #[inline]
    pub(crate) fn tell(&self, step: &Step<'_>) {
        self.context.schedule.observers.tell(About::from(&self.id), step);
    }

    /// Returns the observers of the run with this owner.
    pub(crate) fn observers(&self, owner: Owner) -> RunObservers {
        RunObservers { observers: self.context.schedule.observers.clone(), run: self.id.clone(), owner }
    }

    /// Returns the thread that renews the leases of its store.
    pub(crate) fn renewal_thread(&self) -> Arc<RenewalThread> {
        RenewalThread::of(self.store, self.clock)
    }

    /// Returns a request for its store.
    pub(crate) fn request(&self, name: MutexName, term: Term) -> LeaseRequest {
        LeaseRequest::new(name, term, self.clock).labelled(self.label().as_ref())
    }

    /// Returns the words for people in its requests. With a claim they have the timetable, which other servers compare with theirs.
    pub(crate) fn label(&self) -> Option<Arc<Label>> {
        let of_tick = self.context.label.as_ref();
        match &self.event.claimed_timetable {
            Some(timetable) if self.claims_for_timetable() => {
                let timetable = Some(Arc::clone(timetable));
                Some(Arc::new(Label { timetable, ..of_tick.map(|label| (**label).clone()).unwrap_or_default() }))
            }
            _ => of_tick.cloned(),
        }
    }

    /// Returns this reason to skip it, which notes whether another application has the name. Leases of a mutex that events share on
    /// purpose are left out.
    pub(crate) fn note_other_application(&self, reason: SkipReason) -> SkipReason {
        let Definition { name, protection, .. } = self.event;
        let is_its_own = matches!(reason, SkipReason::RanElsewhere(_)) || protection.mutex.mutex() == &**name;
        let application = self.context.schedule.application().map(|name| &**name);
        reason.met_by(application.filter(|_| is_its_own))
    }

    /// Compares the timetable with that of the server that claimed the occurrence, and tells of a difference that has lasted.
    pub(crate) fn compare_timetables(&self, verdict: &Verdict) {
        let Some(own) = self.event.claimed_timetable.as_ref().filter(|_| self.claims_for_timetable()) else { return };
        let claimed_by = match verdict {
            Verdict::Ran(_) => None,
            Verdict::Skipped(SkipReason::RanElsewhere(holder)) => holder.as_ref(),
            Verdict::Skipped(_) => return,
        };
        let event = &self.event.name;
        if let Some(other) = self.history.compare_timetables(own, claimed_by, self.clock.now()) {
            trace::timetables_differ(event, own, &other.timetable, &other.server);
        }
    }

    /// Returns whether a caller runs it by hand.
    #[inline]
    pub(crate) fn is_by_hand(&self) -> bool {
        matches!(self.context.started_by, StartedBy::Caller)
    }

    /// Returns the claim that the run makes, and its term; `None` by hand, because such a run makes no claim.
    #[inline]
    pub(crate) fn claim(&self) -> Option<(MutexName, Term)> {
        let Definition { name: event, protection, .. } = self.event;
        match self.context.started_by {
            StartedBy::Timetable => self.event.claim(self.tick.occurrence(), self.claim_window()),
            StartedBy::Caller => None,
            StartedBy::Backfill(claims) => Some(claims.name_and_term(&protection.mutex, event, self.tick.occurrence())),
        }
    }

    /// Returns for how long after its tick began it may ask for its claim: while no server's claim on it can have expired.
    #[inline]
    pub(crate) fn claim_window(&self) -> Duration {
        self.event.claim_window(self.tick.occurrence())
    }

    /// Returns whether the store decides on it. By hand, nothing is claimed.
    #[inline]
    pub(crate) fn asks_store(&self) -> bool {
        self.event.protection.lease.is_some() || self.claims()
    }

    /// Returns the markers that pause it: that of the schedule, and its own.
    fn pause_markers(&self) -> impl Iterator<Item = &MutexName> {
        let of_schedule = self.context.pauses.as_ref().map(|pauses| &pauses.of_schedule);
        of_schedule.into_iter().chain(&self.own_pause).filter(|_| !self.event.even_when_paused)
    }

    /// Returns whether the store refuses its admission while it is paused. It does not if the event asks no store or another
    /// store, or has filters, which run before the store is asked.
    #[inline]
    fn is_refused_while_paused(&self) -> bool {
        let is_store_of_pauses = |pauses: &PauseCheck<'_>| pauses.store.id == self.store.id;
        self.asks_store()
            && self.event.filters.is_empty()
            && self.context.pauses.as_ref().is_some_and(is_store_of_pauses)
    }

    /// Returns the marker that pauses it alone, if the admission does not check it, or a retry checks it again.
    pub(crate) fn own_pause_to_read(&self) -> Option<&MutexName> {
        self.own_pause.as_ref().filter(|_| self.event.retry.is_some() || !self.is_refused_while_paused())
    }

    /// Returns the admission, which the store refuses while one of these pauses lasts.
    #[inline]
    pub(crate) fn unless_paused(&self, admission: Admission) -> Admission {
        if self.is_refused_while_paused() {
            self.pause_markers().cloned().fold(admission, Admission::unless)
        } else {
            admission
        }
    }

    /// Returns whether this name, which excluded its admission, is that of a pause.
    pub(crate) fn is_pause(&self, name: &MutexName) -> bool {
        self.pause_markers().any(|mark| mark == name)
    }

    /// Checks for the pauses that the admission does not check.
    #[inline]
    pub(crate) fn look_for_pauses(&self) -> Result<(), SkipReason> {
        if self.context.pauses.is_none() || self.is_refused_while_paused() {
            Ok(())
        } else {
            self.look_for_each_pause()
        }
    }

    /// Checks for all pauses, also because the admission had no answer.
    pub(crate) fn look_for_each_pause(&self) -> Result<(), SkipReason> {
        let TickContext { outages, pauses: Some(pauses), .. } = self.context else { return Ok(()) };
        self.pause_markers().try_for_each(|mark| pauses.allows(mark, RECHECK_AFTER, Some(outages), self.clock))
    }

    /// Returns whether a pause stops it.
    pub(crate) fn can_be_paused(&self) -> bool {
        self.pause_markers().next().is_some()
    }

    /// Checks for all pauses, for a run that waits for its next attempt. `is_due`: no pause may have begun before this call. A
    /// store that was unavailable is asked again, because the run waits for its answer.
    pub(crate) fn look_for_pauses_again(&self, is_due: bool) -> Result<(), SkipReason> {
        let Some(pauses) = &self.context.pauses else { return Ok(()) };
        let max_age = if is_due { Duration::ZERO } else { SHARED_FOR };
        self.pause_markers().try_for_each(|mark| pauses.allows(mark, max_age, None, self.clock))
    }

    /// Returns the queue that it waits in if it meets a run of its event. By hand, it does not wait.
    #[inline]
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.event.protection.queue.as_ref().filter(|_| matches!(self.context.started_by, StartedBy::Timetable))
    }

    /// Returns the places in the queue of its event. While an occurrence waits in one of them, it is not admitted.
    #[inline]
    pub(crate) fn places_before_it(&self) -> &[MutexName] {
        let queue = self.event.protection.queue.as_ref();
        queue.filter(|_| !self.is_by_hand()).map_or(&[], |queue| &queue.places)
    }

    /// Returns whether the store decides before anything else is asked: no filter, and no check for a pause.
    #[inline]
    pub(crate) fn asks_store_first(&self) -> bool {
        let needs_no_look = || self.is_refused_while_paused() || self.pause_markers().next().is_none();
        self.asks_store() && self.event.filters.is_empty() && needs_no_look()
    }

    /// Returns whether the run makes a claim: on its occurrence or period, or that of a backfill.
    pub(crate) fn claims(&self) -> bool {
        match self.context.started_by {
            StartedBy::Timetable => self.event.protection.claim.is_some(),
            StartedBy::Caller => false,
            StartedBy::Backfill(_) => true,
        }
    }

    /// Returns whether the run makes a claim that tells other servers that its occurrence was run by the timetable.
    pub(crate) fn claims_for_timetable(&self) -> bool {
        self.claims() && !self.id.is_backfill
    }

    /// Returns the name of the claim that the run makes.
    pub(crate) fn claim_name(&self) -> Option<MutexName> {
        self.claim().map(|(name, _)| name)
    }

    /// Claims its occurrence, which does not run. Should that fail, a server that comes late may still run it. A period is left to a
    /// later occurrence.
    pub(crate) fn claim_without_running(&self) {
        if let Some((claim, term)) = self.claim().filter(|(claim, _)| claim.occurrence().is_some()) {
            let admission = Admission::claim_only(self.request(claim, term));
            let attempted = || format!("claim the occurrence of {}", self.event.name);
            let _ = self.context.outages.ask(self.store, self.clock, attempted, |mutex| admission.ask(mutex));
        }
    }

    /// Returns how long after the start of its occurrence the tick came.
    #[inline]
    pub(crate) fn lateness(&self) -> Duration {
        (self.tick.now() - self.id.occurrence).to_std().unwrap_or_default()
    }

    /// Returns the lateness of a missed occurrence; zero for a due one.
    pub(crate) fn missed_by(&self) -> Duration {
        if self.missed.is_some() { self.lateness() } else { Duration::ZERO }
    }

    /// Returns when its occurrence starts by the timetable.
    pub(crate) fn start(&self) -> DateTime<Utc> {
        self.event.start_of(self.tick.occurrence())
    }
}
