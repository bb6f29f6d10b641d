//! Checks for `catch_up` whether the whole fleet missed an occurrence. Also writes the markers that show since when a
//! store knows an event.

use chrono::{DateTime, TimeDelta, Utc};

use super::planned_run::{PlannedRun, TickContext};
use crate::base::error::MutexError;
use crate::event::catch_up::{CatchUp, Missed};
use crate::event::definition::Definition;
use crate::event::protection::claim::MINUTE;
use crate::event::protection::queue_markers;
use crate::lease::{holder::Holder, name::MutexName, request::LeaseRequest, term::Term};
use crate::observe::tell::trace;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::report::Verdict;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{BATCH_SIZE, Batch};
use crate::store::event_mutex::held::{Held, Names};

/// The age at which the claim of another server becomes final. That server releases a younger claim if its task can't
/// be started.
const FINAL_AFTER: TimeDelta = TimeDelta::minutes(10);

/// Returns the missed occurrences of one event that are to run now. Calls the filters first. If the filters refuse an
/// occurrence, it can run later, when the filters allow it. Then asks the store which occurrences were claimed. If some
/// were not claimed, asks the store since when it knows the event.
pub(crate) fn check_missed(candidates: Vec<PlannedRun<'_>>) -> Vec<PlannedRun<'_>> {
    let mut missed = Vec::new();
    let mut asked = Vec::new();
    for planned in candidates {
        match planned.ask_filters() {
            _ if planned.context.schedule.is_shutting_down() => planned.end_catch_up(),
            Ok(()) => asked.push(planned),
            Err(SkipReason::Filtered(_)) => planned.end_catch_up(),
            Err(reason) => missed.push(PlannedRun { missed: Some(Missed::Unknown(reason)), ..planned }),
        }
    }
    let are_missed = find_missed(&asked);
    let latest = asked.len().saturating_sub(1);
    for (at, planned) in asked.into_iter().enumerate() {
        let finding = match &are_missed {
            Ok(are_missed) => are_missed[at].then_some(Missed::Confirmed),
            // The report needs only one entry about the unavailable store.
            Err(error) => (at == latest).then(|| Missed::Unknown(SkipReason::StoreUnavailable(error.clone()))),
        };
        if finding.is_none() {
            planned.end_catch_up();
        } else {
            missed.push(PlannedRun { missed: finding, ..planned });
        }
    }
    missed
}

/// Asks the store which of these occurrences of one event were missed. The first request reads the claims and the
/// queue. If some occurrences may have been missed, a second request reads since when the store knows the event. An
/// occurrence that waits in a queue, or whose claim is not final yet, does not count as missed, but is checked again
/// later. An occurrence is never checked again if its claim is final, or if it came before the store knew the event.
fn find_missed(candidates: &[PlannedRun<'_>]) -> Result<Vec<bool>, MutexError> {
    let Some((first, catch_up)) = candidates.first().and_then(|first| Some((first, first.event.catch_up.as_ref()?)))
    else {
        return Ok(Vec::new());
    };
    let PlannedRun { event, store, context, .. } = first;
    let waiter = |planned: &PlannedRun<'_>| {
        queue_markers::waiter(&event.protection.mutex, &event.name, planned.tick.occurrence())
    };
    let waiters: Vec<_> = candidates.iter().filter(|planned| planned.queue().is_some()).map(waiter).collect();
    let claims: Vec<_> = candidates.iter().filter_map(|planned| Some(planned.claim()?.0)).collect();
    let names: Vec<_> = waiters.iter().chain(&claims).cloned().collect();
    let attempted = || format!("look for missed occurrences of {}", event.name);
    let held = context.outages.ask(store, attempted, |mutex| mutex.held(Names::Each(&names)))?;
    let find = |name: Option<&MutexName>| held.iter().find(|held| Some(held.name()) == name);
    let is_final = |claim: &Held| claim.holder().is_none_or(|holder| first.clock.now() - holder.since() >= FINAL_AFTER);
    let settle = |planned: &PlannedRun<'_>| {
        catch_up.settle(planned.tick.occurrence());
        false
    };
    let is_missed = |(at, planned)| match (find(waiters.get(at)), find(claims.get(at))) {
        (Some(_), _) => false,
        (None, Some(claim)) => is_final(claim) && settle(planned),
        (None, None) => true,
    };
    let mut are_missed: Vec<bool> = candidates.iter().enumerate().map(is_missed).collect();
    if let Some(marker) = &catch_up.marker
        && are_missed.contains(&true)
    {
        let known_since = first.known_since(marker)?;
        for (planned, is_missed) in candidates.iter().zip(&mut are_missed) {
            *is_missed = *is_missed && (planned.start() >= known_since || settle(planned));
        }
    }
    Ok(are_missed)
}

impl PlannedRun<'_> {
    fn end_catch_up(&self) {
        if let Some(catch_up) = &self.event.catch_up {
            catch_up.end(self.tick.occurrence());
        }
    }

    /// Returns since when the store knows the event. If the store has no marker of the event, writes the marker, and
    /// returns the latest possible time, so that no occurrence counts as missed.
    fn known_since(&self, marker: &MutexName) -> Result<DateTime<Utc>, MutexError> {
        let note = || format!("write {}", marker.in_words());
        match self.context.outages.ask(self.store, note, |mutex| marker_admission(marker, self.context).ask(mutex))? {
            Admitted::ClaimTaken(Some(holder)) => match holder.clock_set_back_by() {
                // The time of the marker is useless, because the store's clock was ahead when the marker was written.
                Some(by) if holder.since() > self.start() => {
                    trace::marker_from_the_future(&self.event.name, by);
                    Ok(DateTime::<Utc>::MIN_UTC)
                }
                _ => Ok(holder.since()),
            },
            Admitted::Granted(_) => Ok(DateTime::<Utc>::MAX_UTC),
            _ => Err(MutexError::unsupported("tell since when it has held a marker, which `catch_up` needs")),
        }
    }

    /// Claims a due occurrence that was skipped because a run of its event is running, if the event has `catch_up_all`.
    /// So no later tick makes up for the occurrence. There is one exception: if the running run began more than a
    /// minute late, for example in a backfill, the skipped occurrence is not claimed. Then a later tick makes up for
    /// the occurrence.
    pub(crate) fn settle_overlapped(&self, run: Option<&Holder>) {
        let is_due = self.missed.is_none() && !self.is_backlog && self.claim_window.is_some();
        let all = self.event.catch_up.as_ref().filter(|catch_up| is_due && catch_up.most > 1);
        let start = |run: &Holder| run.occurrence().map(|occurrence| self.event.start_of(occurrence));
        let lateness = |run: &Holder| start(run).and_then(|start| (run.since() - start).to_std().ok());
        if let Some(catch_up) = all
            && run.and_then(lateness).is_none_or(|lateness| lateness <= MINUTE)
        {
            self.claim_without_running();
            catch_up.settle(self.tick.occurrence());
        }
    }

    /// Remembers that this process ran the occurrence, or that the occurrence is in the queue, where another process or
    /// tick waits to run it. A claim of another server is not remembered as a run, because that server releases the
    /// claim if it loses the lease before the task starts.
    pub(crate) fn settle_occurrence(&self, catch_up: &CatchUp, verdict: &Verdict) {
        if matches!(verdict, Verdict::Skipped(SkipReason::Queued(_))) {
            catch_up.note_queued(self.tick.occurrence());
        }
        if matches!(verdict, Verdict::Ran(outcome) if !outcome.leaves_its_occurrence()) {
            catch_up.settle(self.tick.occurrence());
        }
        catch_up.end(self.tick.occurrence());
    }
}

/// Returns the admission that writes the marker `marker`. A marker has no end.
fn marker_admission(marker: &MutexName, context: &TickContext<'_>) -> Admission {
    let request = LeaseRequest::new(marker.clone(), Term::MAX, &context.schedule.clock);
    Admission::claim_only(request.labelled(context.label.clone()))
}

/// Writes the markers of these events to their stores in batches. Leaves out the markers that the stores are known to
/// have. Ignores errors: the admissions that follow report them, and the next tick tries again.
pub(crate) fn write_markers<'e>(events: impl Iterator<Item = &'e Definition>, context: &TickContext<'_>) {
    let clock = &context.schedule.clock;
    let all = events.filter_map(|event| {
        let catch_up = event.catch_up.as_ref().filter(|catch_up| !catch_up.has_marker(clock))?;
        Some((&event.store, catch_up, catch_up.marker.as_ref()?))
    });
    let unknown: Vec<_> = all.collect();
    for store in context.schedule.stores() {
        let of_store: Vec<_> = unknown.iter().filter(|(of, ..)| of.id == store.id).collect();
        for these in of_store.chunks(BATCH_SIZE) {
            let mut batch = Batch::new();
            for (.., marker) in these {
                batch.admit(marker_admission(marker, context));
            }
            context.outages.carry_out(&store, &mut batch);
            for ((_, catch_up, _), slot) in these.iter().zip(batch.admissions()) {
                if let Some(Ok(_)) = slot.answer() {
                    catch_up.confirm_marker(clock);
                }
            }
        }
    }
}
