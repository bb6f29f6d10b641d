//! Pauses an event whose last runs have all failed, wherever in the fleet they ran.

use std::sync::Arc;

use chrono::TimeDelta;

use super::pause_error::PauseError;
use super::pauser::Pauser;
use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::{label::Label, name::MutexName, term::Term};
use crate::observe::notice::incident::Incident;
use crate::observe::paused::EVENT_PAUSED;
use crate::observe::run_record::{RunEnd, RunRecord, outcome_kind::OutcomeKind};
use crate::observe::tell::{log, observers::Observers};
use crate::schedule::registry::run_logger::{RunLogger, no_log};
use crate::store::{event_mutex::EventMutex, handle::Store};
use crate::time::clock::Clock;

/// The parts of a schedule with a name and a log of runs that pause a failing event.
#[derive(Clone, Copy)]
pub(crate) struct PauseOnFailure<'a> {
    pub(crate) logger: &'a Arc<RunLogger>,
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a Clock,
    pub(crate) observers: &'a Observers,
    /// The mark that pauses the schedule.
    pub(crate) mark: &'a MutexName,
    pub(crate) label: Option<&'a Arc<Label>>,
}

impl PauseOnFailure<'_> {
    /// Prepares for a run that ends the process: when the log has that, the event is paused if it was the last of so many.
    pub(crate) fn run_begins(&self, event: &Arc<str>, limit: usize) {
        self.logger.once_exited(event, self.pause_if_failing(event, limit));
    }

    /// A run has failed. When the log has it, the event is paused if that was the last of so many.
    pub(crate) fn run_failed(&self, event: &Arc<str>, limit: usize) {
        self.logger.once_written(event, self.pause_if_failing(event, limit));
    }

    fn pause_if_failing(&self, event: &Arc<str>, limit: usize) -> impl FnOnce() + Send + use<> {
        let mark = self.mark.mark(Arc::clone(event), EVENT_PAUSED);
        let (store, clock, observers) = (self.store.clone(), self.clock.clone(), self.observers.clone());
        let pauser = Pauser { store, clock, observers, mark, label: self.label.cloned() };
        let failing = Arc::clone(event);
        move || {
            let done = contain(|| pauser.pause_if_failing(&failing, limit)).unwrap_or_else(|message| {
                let error = MutexError::panicked("pause what keeps failing".to_owned(), &message);
                Err(PauseError::Store(error))
            });
            if let Err(error) = done {
                log(&Incident::FailingNotPaused { event: &failing, error: &error });
            }
        }
    }
}

impl Pauser {
    fn pause_if_failing(&self, event: &str, limit: usize) -> Result<(), PauseError> {
        let log = self.store.mutex.run_log().ok_or_else(|| PauseError::Store(no_log()))?;
        let runs = log.runs(event).map_err(PauseError::Store)?;
        // Whoever paused it already said why, and until when.
        if !have_failed(&runs, limit) || self.find()?.is_some() {
            return Ok(());
        }
        let longest = TimeDelta::from_std(Term::MAX.get()).unwrap_or(TimeDelta::MAX);
        let times = if limit == 1 { "failed".to_owned() } else { format!("failed {limit} times in a row") };
        self.begin(self.clock.now() + longest, &times)
    }
}

/// Whether the last `limit` of these runs have failed, where the newest is first. What is at work may succeed yet, and what was
/// cancelled says nothing.
fn have_failed(runs: &[RunRecord], limit: usize) -> bool {
    let results = runs.iter().filter_map(|run| run.end().map(RunEnd::result));
    let failures = results
        .filter(|result| *result != OutcomeKind::Cancelled)
        .take_while(|result| *result != OutcomeKind::Succeeded);
    failures.take(limit).count() == limit
}
