//! Checks for `catch_up` whether an occurrence was missed in the whole fleet, and writes the markers that tell since when a store knows an
//! event.

use super::planned_run::PlannedRun;
use crate::base::error::MutexError;
use crate::event::catch_up::{CatchUp, Missed};
use crate::event::protection::queue_markers;
use crate::lease::{name::MutexName, term::Term};
use crate::observe::{notice::incident::Incident, tell::log};
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::report::Verdict;
use crate::schedule::run_admission::{self, BATCH_SIZE};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::Batch;

/// The store's knowledge of an occurrence.
enum Finding {
    Missed,
    /// The occurrence waits in a queue, so that it need not be made up for yet.
    InItsQueue,
    NotMissed,
}

impl PlannedRun<'_> {
    /// Returns whether to make up for its occurrence: asks the filters, then the store whether it was claimed, and if not, since
    /// when the store knows the event. An occurrence that the filters refuse may run later, when they allow it.
    pub(crate) fn check_missed(&self) -> Option<Missed> {
        let catch_up = self.event.catch_up.as_ref()?;
        let occurrence = self.tick.occurrence();
        let missed = match run_admission::ask_filters(self) {
            _ if self.context.is_shutting_down() => None,
            Ok(()) => match self.is_missed(catch_up) {
                Ok(Finding::Missed) => Some(Missed::Confirmed),
                Ok(Finding::InItsQueue) => None,
                Ok(Finding::NotMissed) => {
                    catch_up.settle(occurrence);
                    None
                }
                Err(error) => Some(Missed::Unknown(SkipReason::StoreUnavailable(error))),
            },
            Err(SkipReason::Filtered(_)) => None,
            Err(reason) => Some(Missed::Unknown(reason)),
        };
        if missed.is_none() {
            catch_up.end(occurrence);
        }
        missed
    }

    fn is_missed(&self, catch_up: &CatchUp) -> Result<Finding, MutexError> {
        let (outages, event, occurrence) = (&self.context.outages, &self.event.name, self.tick.occurrence());
        let exists = |name: &MutexName| {
            outages.ask(self.store, self.clock, || format!("look at {name}"), |mutex| mutex.exists(name))
        };
        if self.queue().is_some() && exists(&queue_markers::waiter(&self.event.protection.mutex, event, occurrence))? {
            return Ok(Finding::InItsQueue);
        }
        let Some(claim) = self.claim_name() else { return Ok(Finding::NotMissed) };
        if exists(&claim)? {
            return Ok(Finding::NotMissed);
        }
        let Some(mark) = &catch_up.marker else { return Ok(Finding::Missed) };
        let note = || format!("note {mark}");
        match outages.ask(self.store, self.clock, note, |mutex| self.marker(mark).ask(mutex))? {
            Admitted::ClaimTaken(Some(holder)) if holder.since() <= occurrence => Ok(Finding::Missed),
            // It says nothing: the store's clock was ahead when the mark was written.
            Admitted::ClaimTaken(Some(holder)) if holder.clock_set_back_by().is_some() => {
                let by = holder.clock_set_back_by().unwrap_or_default();
                log(&Incident::MarkFromTheFuture { event, by });
                Ok(Finding::Missed)
            }
            // The event is new to the store, perhaps since just now.
            Admitted::Granted(_) | Admitted::ClaimTaken(Some(_)) => Ok(Finding::NotMissed),
            _ => Err(MutexError::unsupported("tell since when it has held a mark, which `catch_up` needs")),
        }
    }

    fn marker(&self, mark: &MutexName) -> Admission {
        Admission::claim_only(self.request(mark.clone(), Term::MAX))
    }

    /// Remembers that its occurrence was run, or waits elsewhere. The claim of another server does not settle it: a claim is given back if its
    /// lease is lost before the task starts.
    pub(crate) fn settle_occurrence(&self, verdict: &Verdict) {
        let Some(catch_up) = self.event.catch_up.as_ref().filter(|_| self.claims()) else { return };
        if matches!(verdict, Verdict::Skipped(SkipReason::Queued(_))) {
            catch_up.note_queued(self.tick.occurrence());
        }
        if matches!(verdict, Verdict::Ran(outcome) if !outcome.leaves_its_occurrence()) {
            catch_up.settle(self.tick.occurrence());
        }
        catch_up.end(self.tick.occurrence());
    }
}

/// Writes the markers of these events to their stores, where they are not known to be there, in batches. Errors are ignored:
/// the admissions that follow report them, and the next tick tries again.
pub(crate) fn write_markers(planned_runs: &[PlannedRun<'_>]) {
    let all = planned_runs.iter().filter_map(|planned| {
        let catch_up = planned.event.catch_up.as_ref()?;
        Some((planned, catch_up, catch_up.marker.as_ref()?))
    });
    let mut unknown: Vec<_> = all.filter(|(planned, catch_up, _)| !catch_up.has_marker(planned.clock)).collect();
    while let Some((PlannedRun { store, .. }, ..)) = unknown.first() {
        let (these, others) = unknown.into_iter().partition::<Vec<_>, _>(|(planned, ..)| planned.store.id == store.id);
        these.chunks(BATCH_SIZE).for_each(write_batch_of_markers);
        unknown = others;
    }
}

/// Writes one batch of markers to the store that these runs share.
fn write_batch_of_markers(these: &[(&PlannedRun<'_>, &CatchUp, &MutexName)]) {
    let Some((PlannedRun { store, context, clock, .. }, ..)) = these.first() else { return };
    let mut marks = Batch::new();
    for (planned, _, mark) in these {
        marks.admit(planned.marker(mark));
    }
    context.outages.carry_out(store, clock, &mut marks);
    for ((_, catch_up, _), slot) in these.iter().zip(marks.admissions()) {
        if let Some(Ok(_)) = slot.answer() {
            catch_up.confirm_marker(clock);
        }
    }
}
