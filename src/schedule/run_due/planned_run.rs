//! The planned runs of a tick, and the context that they share. A planned run has the checks before its start, and its
//! requests to the store.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::catch_panic::contain;
use crate::event::filter::{Filter, named};
use crate::event::protection::{backfill_claims::BackfillClaims, queue_markers::Queue};
use crate::event::{catch_up::Missed, definition::Definition};
use crate::lease::label::{BACKFILL, Label};
use crate::lease::{holder::Holder, name::MutexName, owner::Owner, request::LeaseRequest, term::Term};
use crate::observe::notice::{About, Step};
use crate::outcome::paused::EVENT_PAUSED;
use crate::outcome::{run_record::RunId, skip_reason::SkipReason};
use crate::schedule::history::EventHistory;
use crate::schedule::outages::Outages;
use crate::schedule::pause::pause_check::{PauseCheck, RECHECK_AFTER};
use crate::schedule::report::{Entry, Verdict};
use crate::schedule::schedule::{Schedule, registry::Registry};
use crate::store::described_store::Store;
use crate::store::event_mutex::{admission::Admission, batch::Batch};
use crate::task::future_task::RuntimeId;
use crate::time::{clock::Clock, clock::moment::Moment, tick::Tick};

/// The longest time for which runs that wait for their next attempts share one answer about pauses.
const SHARED_FOR: Duration = Duration::from_millis(500);

/// The context that the runs of a tick share: the cause and the time of the tick, the outages so far, the pauses.
pub(crate) struct TickContext<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) registry: &'a Registry,
    pub(crate) started_by: StartedBy<'a>,
    /// Whether events run even if their filters refuse them. But an event for another environment never runs.
    pub(crate) past_filters: bool,
    /// The beginning of the tick: the moment at which the clock showed the time of the tick.
    pub(crate) began: Moment,
    /// The time of the tick, or `MIN_UTC` if the runs belong to no tick. If an event has a jitter, the `Tick` of its
    /// run has an earlier time than this: the delay by the jitter is subtracted there.
    pub(crate) now: DateTime<Utc>,
    pub(crate) outages: Outages<'a>,
    /// The check for pauses; `None` if the schedule has no name, or the run was started by hand.
    pub(crate) pauses: Option<PauseCheck<'a>>,
    /// The label of the tick's requests, for example with the name of the application.
    pub(crate) label: Option<Arc<Label>>,
    /// The runtime whose only thread this tick blocks. No task is polled there before the tick ends.
    pub(crate) blocked: OnceLock<RuntimeId>,
}

/// The cause of the runs: the timetables in a tick, a caller of `Schedule::run_event`, or a backfill with its claims.
#[derive(Clone, Copy)]
pub(crate) enum StartedBy<'a> {
    Timetable,
    Caller,
    Backfill(&'a BackfillClaims),
}

impl<'a> TickContext<'a> {
    /// Returns the context of a tick that begins now.
    pub(in crate::schedule) fn new(schedule: &'a Schedule, registry: &'a Registry, started_by: StartedBy<'a>) -> Self {
        let pause_marker = schedule.pause_marker.as_ref().filter(|_| !matches!(started_by, StartedBy::Caller));
        let label = match started_by {
            StartedBy::Timetable | StartedBy::Caller => schedule.label.clone(),
            StartedBy::Backfill(_) => {
                let label = schedule.label.as_deref().cloned().unwrap_or_default();
                Some(Arc::new(Label { reason: Some(BACKFILL.into()), ..label }))
            }
        };
        Self {
            schedule,
            registry,
            started_by,
            past_filters: false,
            began: schedule.clock.moment(),
            now: DateTime::<Utc>::MIN_UTC,
            outages: Outages::new(schedule),
            pauses: pause_marker.map(|mark| PauseCheck::new(&schedule.store, mark.clone())),
            label,
            blocked: schedule.blocked.map(OnceLock::from).unwrap_or_default(),
        }
    }

    /// Plans these runs: for each, the index of its event in the registry, and its tick.
    pub(in crate::schedule) fn plan(&'a self, runs: &[(usize, Tick)]) -> Vec<PlannedRun<'a>> {
        runs.iter().map(|(event, tick)| PlannedRun::new(*event, *tick, self)).collect()
    }
}

/// A run that a tick, a backfill or a caller has planned, with everything that the run needs.
pub(crate) struct PlannedRun<'a> {
    pub(crate) id: RunId,
    pub(crate) event: &'a Definition,
    pub(crate) history: &'a EventHistory,
    pub(crate) tick: Tick,
    /// The time from the occurrence to the tick, without the delay by a jitter. Zero for a run that was started by hand.
    pub(crate) lateness: Duration,
    /// The result of the check for a missed occurrence. `None`: the event is due in this tick.
    pub(crate) missed: Option<Missed>,
    /// Whether this is one of several occurrences of its event in this tick. These occurrences run one after another.
    pub(crate) is_backlog: bool,
    pub(crate) context: &'a TickContext<'a>,
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a Clock,
    /// Whether the run needs an admission by the store.
    pub(crate) asks_store: bool,
    /// The claim window. `None`: the run makes no claim for the timetable. Such a claim shows other servers that the
    /// occurrence was run.
    pub(crate) claim_window: Option<Duration>,
    /// The places in the queue of the event. While an occurrence waits in one of them, the run is not admitted.
    pub(crate) places: &'a [MutexName],
    /// The markers that pause the run: the marker of the schedule, and the marker of the event. `None`: the run can't
    /// be paused, for example because it was started by hand.
    pub(crate) pauses: Option<[MutexName; 2]>,
    /// Whether the store refuses the admission during a pause. For this, the event must be protected in the store that
    /// has the pauses, and must have no filters. (A pause counts before the filters, and filters are called before the
    /// admission. So for an event with filters, the pauses are read earlier.)
    pub(crate) admission_checks_pauses: bool,
    /// The result, after the run has ended or was skipped.
    pub(crate) verdict: Mutex<Option<Verdict>>,
}

impl<'a> PlannedRun<'a> {
    /// Plans a run of the event with the index `event` in the registry.
    fn new(event: usize, tick: Tick, context: &'a TickContext<'a>) -> Self {
        let TickContext { schedule, registry, .. } = context;
        let (event, history) = (&*registry.events[event], &*registry.histories[event]);
        let (store, protection) = (&event.store, &event.protection);
        let is_backfill = matches!(context.started_by, StartedBy::Backfill(_));
        let is_by_hand = matches!(context.started_by, StartedBy::Caller);
        let (occurrence, lateness) =
            if is_by_hand { (tick.now(), Duration::ZERO) } else { (tick.occurrence(), tick.lateness()) };
        let queue = protection.queue.as_ref().filter(|_| !is_by_hand);
        let by_timetable = !is_by_hand && !is_backfill;
        let makes_claim = by_timetable && protection.claim.is_some();
        let claim_window = makes_claim.then(|| event.window_of_claim(occurrence));
        let asks_store = protection.lease.is_some() || claim_window.is_some() || is_backfill;
        let checked = context.pauses.as_ref().filter(|_| !event.even_when_paused);
        let own_pause = |of_schedule: &MutexName| of_schedule.mark(Arc::clone(&event.name), EVENT_PAUSED);
        Self {
            id: RunId { event: Arc::clone(&event.name), occurrence, is_backfill },
            event,
            history,
            tick,
            lateness,
            missed: None,
            is_backlog: false,
            context,
            store,
            clock: &schedule.clock,
            asks_store,
            claim_window,
            places: queue.map_or(&[], |queue| &queue.places),
            pauses: checked.map(|PauseCheck { of_schedule, .. }| [of_schedule.clone(), own_pause(of_schedule)]),
            admission_checks_pauses: asks_store
                && event.filters.is_empty()
                && checked.is_some_and(|checked| checked.store.id == store.id),
            verdict: Mutex::default(),
        }
    }

    /// Returns the claim of the run, with its term. `None`: the run makes no claim, for example because it was started
    /// by hand.
    pub(crate) fn claim(&self) -> Option<(MutexName, Term)> {
        let (Definition { name, protection, timetable, .. }, occurrence) = (self.event, self.id.occurrence);
        match self.context.started_by {
            StartedBy::Timetable => {
                let (claim, window) = (protection.claim?, self.claim_window?);
                Some(claim.name_and_term(&protection.mutex, name, occurrence, timetable, window))
            }
            StartedBy::Backfill(claims) => Some(claims.name_and_term(&protection.mutex, name, occurrence)),
            StartedBy::Caller => None,
        }
    }

    /// Makes the entry of the report.
    pub(crate) fn entry(&self, verdict: Verdict) -> Entry {
        let event = Arc::clone(&self.id.event);
        let missed_by = self.missed.is_some().then_some(self.lateness);
        Entry { event, occurrence: self.id.occurrence, missed_by, verdict }
    }

    /// Notifies the observers of a step.
    pub(crate) fn tell(&self, step: &Step<'_>) {
        let about = About { is_missed: self.missed.is_some(), ..About::from(&self.id) };
        self.context.schedule.observers.tell(about, step);
    }

    /// Returns a request to the run's store, for a lease, a claim or a marker of this name, that is sent after `now`.
    /// The holder of the name then shows the occurrence, unless the run was started by hand.
    pub(crate) fn request(&self, name: MutexName, term: Term, now: Moment) -> LeaseRequest {
        // With the timetable, other servers can compare it with their own.
        let label = self.claim_window.and_then(|_| self.event.claim_label(self.context.label.as_ref()));
        let label = label.or_else(|| self.context.label.clone());
        let request = LeaseRequest::by(Owner::unique(), name, term, now).labelled(label);
        match self.context.started_by {
            StartedBy::Caller => request,
            StartedBy::Timetable | StartedBy::Backfill(_) => request.for_occurrence(self.id.occurrence),
        }
    }

    /// Adds the admissions of the run to the batch, right before the batch is sent. There is one admission for each slot
    /// of the event, and the run needs only one grant. The store refuses the admissions while one of `places` is held.
    /// Refuses a run after its claim window: another server may have run the occurrence or period, and that server's
    /// claim may have expired. Then the store would grant the claim a second time.
    pub(crate) fn add_admissions(&self, places: &[MutexName], batch: &mut Batch) -> Result<(), SkipReason> {
        self.refuse_without_store()?;
        let missed_by = if self.missed.is_some() { self.lateness } else { Duration::ZERO };
        let now = self.clock.moment();
        let waited = now.since(self.context.began);
        if self.claim_window.is_some_and(|window| waited > window.saturating_sub(missed_by)) {
            return Err(SkipReason::TooLate);
        }
        let protection = &self.event.protection;
        // All admissions of the run have the same claim. A claim is granted only once, so the run gets only one slot.
        let own_claim = || (protection.slots.len() > 1).then(|| protection.claim_of_one_attempt());
        let claim = self.claim().or_else(own_claim);
        for slot in &protection.slots {
            let lease = protection.lease.map(|lease| self.request(slot.clone(), lease.term, now));
            let mut admission = match (lease, &claim) {
                (None, None) => unreachable!("a run without a lease and a claim asks no store"),
                (Some(lease), None) => Admission::lease_only(lease),
                (None, Some((claim, term))) => Admission::claim_only(self.request(claim.clone(), *term, now)),
                (Some(lease), Some((claim, term))) => {
                    let claim = lease.with(claim.clone(), *term);
                    Admission::both(lease, claim)
                }
            };
            self.exclude_pauses(&mut admission);
            admission.unless_any(places);
            batch.admit(admission);
        }
        Ok(())
    }

    /// Adds to `admission` the condition that no pause exists, if the store of the run has the pauses.
    pub(crate) fn exclude_pauses(&self, admission: &mut Admission) {
        if self.admission_checks_pauses {
            admission.unless_any(self.pauses.iter().flatten());
        }
    }

    /// Returns whether filters are called, or pauses are read, before an admission is requested. This may take long.
    pub(crate) fn needs_check(&self) -> bool {
        !self.event.filters.is_empty() || (self.pauses.is_some() && !self.admission_checks_pauses)
    }

    /// Checks the shutdown, the pauses and the filters, before an admission is requested.
    pub(crate) fn check_before_store(&self) -> Result<(), SkipReason> {
        self.refuse_without_store()?;
        // The filters of a missed occurrence were called by `check_missed`.
        if self.missed.is_some() { Ok(()) } else { self.ask_filters() }
    }

    /// Refuses a run because of a shutdown or a pause, or because it is not known whether the run's occurrence was
    /// missed.
    pub(crate) fn refuse_without_store(&self) -> Result<(), SkipReason> {
        if self.context.schedule.is_shutting_down() {
            return Err(SkipReason::ShuttingDown);
        }
        if self.pauses.is_some() && !self.admission_checks_pauses {
            self.look_for_pauses()?;
        }
        match &self.missed {
            Some(Missed::Unknown(reason)) => Err(reason.clone()),
            Some(Missed::Confirmed) | None => Ok(()),
        }
    }

    /// Calls the filters in their order, until one refuses.
    pub(crate) fn ask_filters(&self) -> Result<(), SkipReason> {
        let filters = &self.event.filters;
        for (at, filter) in filters.iter().enumerate() {
            let is_ignored = self.context.past_filters && !matches!(filter, Filter::OtherEnvironment(_));
            if !is_ignored && !contain(|| filter.allows(&self.tick)).map_err(SkipReason::FilterPanicked)? {
                return Err(SkipReason::Filtered(named(filters, at).into()));
            }
        }
        Ok(())
    }

    /// Returns [`SkipReason::Stuck`] if the run in `reason` has been running for too long, and otherwise `reason`. If the
    /// store keeps the lease for a command whose scheduler was killed, nothing ends the command at its timeout. So the
    /// timeout then counts as the limit, if the event has no other.
    pub(crate) fn or_stuck(&self, reason: SkipReason) -> SkipReason {
        let Definition { name, protection, stuck_after, timeout, .. } = self.event;
        let is_its_own = protection.mutex.mutex() == &**name;
        let has_no_timeout = is_its_own && reason.holder().is_some_and(Holder::has_ended);
        reason.or_stuck(stuck_after.or(timeout.filter(|_| has_no_timeout)), self.clock.now())
    }

    /// Returns `reason`, with a note if the holder in `reason` belongs to another application. If the name of the mutex
    /// is not the name of the event, applications may share the lease. Then a holder of the lease gets no note.
    pub(crate) fn note_other_application(&self, reason: SkipReason) -> SkipReason {
        let Definition { name, protection, .. } = self.event;
        let is_its_own = matches!(reason, SkipReason::RanElsewhere(_)) || protection.mutex.mutex() == &**name;
        let application = self.context.schedule.application().map(|name| &**name);
        reason.met_by(application.filter(|_| is_its_own))
    }

    /// Returns the marker that pauses the event alone, if this process must read the marker. The process must read the
    /// marker in two cases: the admission does not check the marker, or the event has retries. (The process reads the
    /// marker again before each retry.)
    pub(crate) fn own_pause_to_read(&self) -> Option<&MutexName> {
        let pauses = self.pauses.as_ref().filter(|_| self.event.retry.is_some() || !self.admission_checks_pauses);
        pauses.map(|[_, own_pause]| own_pause)
    }

    /// Checks for all pauses.
    pub(crate) fn look_for_pauses(&self) -> Result<(), SkipReason> {
        self.read_pauses(RECHECK_AFTER, Some(&self.context.outages))
    }

    /// Checks for all pauses, for a run that waits for its next attempt. If the attempt is due now (`is_due`), the
    /// store is asked. Otherwise, a recent answer is enough. A store that was unavailable a moment ago is asked, too, if
    /// the attempt begins only after an answer.
    pub(crate) fn look_for_pauses_again(&self, is_due: bool) -> Result<(), SkipReason> {
        let outages = self.context.schedule.runs_past_unknown_pauses.then_some(&self.context.outages);
        self.read_pauses(if is_due { Duration::ZERO } else { SHARED_FOR }, outages)
    }

    fn read_pauses(&self, max_age: Duration, outages: Option<&Outages<'_>>) -> Result<(), SkipReason> {
        let (Some(check), Some(pauses)) = (&self.context.pauses, &self.pauses) else { return Ok(()) };
        match check.allows(pauses, max_age, outages, self.clock) {
            Err(SkipReason::StoreUnavailable(_)) if self.context.schedule.runs_past_unknown_pauses => Ok(()),
            answer => answer,
        }
    }

    /// Returns the queue where the run waits if it overlaps a run of its event. A run that was started by hand, or by a
    /// backfill, does not wait.
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.event.protection.queue.as_ref().filter(|_| matches!(self.context.started_by, StartedBy::Timetable))
    }

    /// Claims the occurrence without running it. If the claim fails, another server that is late may still run the
    /// occurrence. A permit is not taken, because a later occurrence of its period may use the permit.
    pub(crate) fn claim_without_running(&self) {
        if let Some((claim, term)) = self.claim().filter(|(claim, _)| claim.occurrence().is_some()) {
            let admission = Admission::claim_only(self.request(claim, term, self.clock.moment()));
            let attempted = || format!("claim the occurrence of {}", self.event.name);
            let _ = self.context.outages.ask(self.store, attempted, |mutex| admission.ask(mutex));
        }
    }

    /// Returns the time at which the occurrence starts: its time in the timetable, plus its delay by the jitter.
    pub(crate) fn start(&self) -> DateTime<Utc> {
        self.event.start_of(self.tick.occurrence())
    }
}
