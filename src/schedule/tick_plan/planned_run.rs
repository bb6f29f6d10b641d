//! A planned run of one event, with everything that the run needs.

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

/// The longest time for which runs that wait for their next attempts share one answer about pauses.
const SHARED_FOR: Duration = Duration::from_millis(500);

/// A run that a tick, a backfill or a caller has planned, with everything that the run needs.
pub(crate) struct PlannedRun<'a> {
    pub(crate) id: RunId,
    pub(crate) event: &'a Definition,
    pub(crate) history: &'a EventHistory,
    pub(crate) tick: Tick,
    /// The result of the check for a missed occurrence. `None`: the event is due in this tick.
    pub(crate) missed: Option<Missed>,
    /// Whether this is one of several occurrences of its event in this tick. These occurrences run one after another.
    pub(crate) is_backlog: bool,
    pub(crate) context: &'a TickContext<'a>,
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a Clock,
    /// The marker that pauses this event alone. `None`: the event can't be paused, or the run was started by hand.
    pub(crate) own_pause: Option<MutexName>,
    /// Whether the run needs an admission by the store.
    pub(crate) asks_store: bool,
    /// Whether the run makes a claim for the timetable. Such a claim shows other servers that the occurrence was run.
    pub(crate) claims_for_timetable: bool,
    /// The entry of the report, after the run has ended or was skipped.
    pub(crate) result: OnceLock<Entry>,
}

impl<'a> PlannedRun<'a> {
    /// Plans a run of the event with the index `event` in the registry.
    pub(in crate::schedule) fn new(event: usize, tick: Tick, context: &'a TickContext<'a>) -> Self {
        let TickContext { schedule, registry, .. } = context;
        let (event, history) = (&*registry.events[event], &*registry.histories[event]);
        let pauses = context.pauses.as_ref().filter(|_| !event.even_when_paused);
        let own_pause = pauses.map(|pauses| pauses.of_schedule.mark(Arc::clone(&event.name), EVENT_PAUSED));
        let protection = &event.protection;
        let (occurrence, is_backfill, claims_for_timetable) = match context.started_by {
            StartedBy::Timetable => (tick.occurrence(), false, protection.claim.is_some()),
            StartedBy::Backfill(_) => (tick.occurrence(), true, false),
            StartedBy::Caller => (tick.now(), false, false),
        };
        Self {
            id: RunId { event: Arc::clone(&event.name), occurrence, is_backfill },
            event,
            history,
            tick,
            missed: None,
            is_backlog: false,
            context,
            store: schedule.store_of(event),
            clock: &schedule.clock,
            own_pause,
            asks_store: protection.lease.is_some() || claims_for_timetable || is_backfill,
            claims_for_timetable,
            result: OnceLock::new(),
        }
    }

    /// Returns the entry of the report. The run has ended, or was skipped.
    pub(crate) fn into_entry(self) -> Entry {
        self.result.into_inner().expect("each run has its entry")
    }

    /// Notifies the observers of a step.
    #[inline]
    pub(crate) fn tell(&self, step: &Step<'_>) {
        self.context.schedule.observers.tell(About::from(&self.id), step);
    }

    /// Returns the observers for this run, which has the id `owner`.
    pub(crate) fn observers(&self, owner: Owner) -> RunObservers {
        RunObservers { observers: self.context.schedule.observers.clone(), run: self.id.clone(), owner }
    }

    pub(crate) fn renewal_thread(&self) -> Arc<RenewalThread> {
        RenewalThread::of(self.store, self.clock)
    }

    /// Returns a request to the run's store, for a lease, a claim or a marker of this name.
    pub(crate) fn request(&self, name: MutexName, term: Term) -> LeaseRequest {
        LeaseRequest::new(name, term, self.clock).labelled(self.label().as_ref())
    }

    /// Returns the label of the run's requests. If the run makes a claim, the label has the timetable, so that other
    /// servers can compare it with their own.
    pub(crate) fn label(&self) -> Option<Arc<Label>> {
        let of_tick = self.context.label.as_ref();
        match &self.event.claimed_timetable {
            Some(timetable) if self.claims_for_timetable => {
                let timetable = Some(Arc::clone(timetable));
                Some(Arc::new(Label { timetable, ..of_tick.map(|label| (**label).clone()).unwrap_or_default() }))
            }
            _ => of_tick.cloned(),
        }
    }

    /// Returns `reason`, with a note if the holder in `reason` belongs to another application. If the name of the mutex
    /// is not the name of the event, applications may share the lease. Then a holder of the lease gets no note.
    pub(crate) fn note_other_application(&self, reason: SkipReason) -> SkipReason {
        let Definition { name, protection, .. } = self.event;
        let is_its_own = matches!(reason, SkipReason::RanElsewhere(_)) || protection.mutex.mutex() == &**name;
        let application = self.context.schedule.application().map(|name| &**name);
        reason.met_by(application.filter(|_| is_its_own))
    }

    /// Compares the timetable of the event with that of the server that claimed the occurrence. Reports a difference
    /// that has lasted for an hour.
    pub(crate) fn compare_timetables(&self, verdict: &Verdict) {
        let Some(own) = self.event.claimed_timetable.as_ref().filter(|_| self.claims_for_timetable) else { return };
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

    /// Returns whether the run was started by hand.
    #[inline]
    pub(crate) fn is_by_hand(&self) -> bool {
        matches!(self.context.started_by, StartedBy::Caller)
    }

    /// Returns the name and the term of the claim. `None`: the run makes no claim, for example because it was started
    /// by hand.
    #[inline]
    pub(crate) fn claim(&self) -> Option<(MutexName, Term)> {
        let (event, occurrence) = (self.event, self.tick.occurrence());
        match self.context.started_by {
            StartedBy::Timetable => event.claim(occurrence, event.claim_window(occurrence)),
            StartedBy::Caller => None,
            StartedBy::Backfill(claims) => Some(claims.name_and_term(&event.protection.mutex, &event.name, occurrence)),
        }
    }

    /// Returns the markers that pause the run: the marker of the schedule, and the marker of the event.
    fn pause_markers(&self) -> impl Iterator<Item = &MutexName> {
        let of_schedule = self.context.pauses.as_ref().map(|pauses| &pauses.of_schedule);
        of_schedule.into_iter().chain(&self.own_pause).filter(|_| !self.event.even_when_paused)
    }

    /// Returns whether the store refuses the admission during a pause. For this, the event must be protected in the
    /// store that has the pauses, and must have no filters. (A pause counts before the filters, and filters are called
    /// before the admission. So for an event with filters, the pauses are read earlier.)
    #[inline]
    fn is_refused_while_paused(&self) -> bool {
        let is_store_of_pauses = |pauses: &PauseCheck<'_>| pauses.store.id == self.store.id;
        self.asks_store && self.event.filters.is_empty() && self.context.pauses.as_ref().is_some_and(is_store_of_pauses)
    }

    /// Returns the marker that pauses the event alone, if this process must read the marker. The process must read the
    /// marker in two cases: the admission does not check the marker, or the event has retries. (The process reads the
    /// marker again before each retry.)
    pub(crate) fn own_pause_to_read(&self) -> Option<&MutexName> {
        self.own_pause.as_ref().filter(|_| self.event.retry.is_some() || !self.is_refused_while_paused())
    }

    /// Adds to `admission` the condition that no pause exists. Leaves the admission unchanged if the store does not
    /// check for pauses: see [`is_refused_while_paused`](Self::is_refused_while_paused).
    #[inline]
    pub(crate) fn unless_paused(&self, admission: Admission) -> Admission {
        if self.is_refused_while_paused() {
            self.pause_markers().cloned().fold(admission, Admission::unless)
        } else {
            admission
        }
    }

    /// Returns whether the store refused the admission because of a pause. `name` is the held name that excluded the
    /// admission.
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

    /// Checks for all pauses, even for those that the admission normally checks. An event that runs unprotected needs
    /// this check, because it has no answer to its admission.
    pub(crate) fn look_for_each_pause(&self) -> Result<(), SkipReason> {
        let TickContext { outages, pauses: Some(pauses), .. } = self.context else { return Ok(()) };
        self.pause_markers().try_for_each(|mark| pauses.allows(mark, RECHECK_AFTER, Some(outages), self.clock))
    }

    /// Returns whether a pause can stop the run.
    pub(crate) fn can_be_paused(&self) -> bool {
        self.pause_markers().next().is_some()
    }

    /// Checks for all pauses, for a run that waits for its next attempt. If the attempt is due now (`is_due`), the
    /// store is asked. Otherwise, a recent answer is enough. A store that was unavailable a moment ago is asked, too,
    /// because the attempt begins only after an answer.
    pub(crate) fn look_for_pauses_again(&self, is_due: bool) -> Result<(), SkipReason> {
        let Some(pauses) = &self.context.pauses else { return Ok(()) };
        let max_age = if is_due { Duration::ZERO } else { SHARED_FOR };
        self.pause_markers().try_for_each(|mark| pauses.allows(mark, max_age, None, self.clock))
    }

    /// Returns the queue where the run waits if it overlaps a run of its event. A run that was started by hand, or by a
    /// backfill, does not wait.
    #[inline]
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.event.protection.queue.as_ref().filter(|_| matches!(self.context.started_by, StartedBy::Timetable))
    }

    /// Returns the places in the queue of the event. While an occurrence waits in one of them, the run is not admitted.
    #[inline]
    pub(crate) fn places_before_it(&self) -> &[MutexName] {
        let queue = self.event.protection.queue.as_ref();
        queue.filter(|_| !self.is_by_hand()).map_or(&[], |queue| &queue.places)
    }

    /// Returns whether the first step of the run is its admission by the store. Then the run has no filter, and the
    /// admission checks its pauses, or it can't be paused.
    #[inline]
    pub(crate) fn asks_store_first(&self) -> bool {
        let needs_no_look = || self.is_refused_while_paused() || self.pause_markers().next().is_none();
        self.asks_store && self.event.filters.is_empty() && needs_no_look()
    }

    pub(crate) fn claim_name(&self) -> Option<MutexName> {
        self.claim().map(|(name, _)| name)
    }

    /// Claims the occurrence without running it. If the claim fails, another server that is late may still run the
    /// occurrence. A permit is not taken, because a later occurrence of its period may use the permit.
    pub(crate) fn claim_without_running(&self) {
        if let Some((claim, term)) = self.claim().filter(|(claim, _)| claim.occurrence().is_some()) {
            let admission = Admission::claim_only(self.request(claim, term));
            let attempted = || format!("claim the occurrence of {}", self.event.name);
            let _ = self.context.outages.ask(self.store, self.clock, attempted, |mutex| admission.ask(mutex));
        }
    }

    /// Returns the time from the occurrence to the tick, without the delay by a jitter.
    #[inline]
    pub(crate) fn lateness(&self) -> Duration {
        (self.tick.now() - self.id.occurrence).to_std().unwrap_or_default()
    }

    /// Returns the time at which the occurrence starts: its time in the timetable, plus its delay by the jitter.
    pub(crate) fn start(&self) -> DateTime<Utc> {
        self.event.start_of(self.tick.occurrence())
    }
}
