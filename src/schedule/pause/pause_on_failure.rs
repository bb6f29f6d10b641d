//! Pauses an event whose last runs have all failed, wherever in the fleet they ran.

use std::sync::Arc;

use chrono::TimeDelta;

use super::pause_error::PauseError;
use super::pauser::Pauser;
use crate::base::{catch_panic::contain, error::MutexError};
use crate::event::definition::Definition;
use crate::lease::term::Term;
use crate::observe::notice::incident::Incident;
use crate::observe::tell::log;
use crate::outcome::{
    run_record::outcome_kind::OutcomeKind,
    run_record::{RunEnd, RunRecord},
};
use crate::schedule::history::run_logger::no_log;
use crate::schedule::schedule::Schedule;
use crate::store::event_mutex::EventMutex;

impl Schedule {
    /// Pauses the event if the run that begins now fails, and was the last of so many: when the log has it.
    pub(crate) fn pause_if_it_fails(&self, event: &Definition) {
        let (Some(limit), Some(logger)) = (event.failure_limit, &self.run_logger) else { return };
        let Ok(mark) = self.event_pause_marker(&event.name) else { return };
        let (pauser, failing) = (self.pauser(mark), Arc::clone(&event.name));
        logger.after_failure(&event.name, move || {
            let done = contain(|| pauser.pause_if_failing(&failing, limit)).unwrap_or_else(|message| {
                let error = MutexError::panicked("pause what keeps failing".to_owned(), &message);
                Err(PauseError::Store(error))
            });
            if let Err(error) = done {
                log(&Incident::FailingNotPaused { event: &failing, error: &error });
            }
        });
    }
}

impl Pauser {
    fn pause_if_failing(&self, event: &str, limit: usize) -> Result<(), PauseError> {
        let log = self.store.mutex.run_log().ok_or_else(|| PauseError::Store(no_log()))?;
        let runs = log.runs(event)?;
        // A pause that exists has its own reason and end.
        if !have_failed(&runs, limit) || self.find()?.is_some() {
            return Ok(());
        }
        let longest = TimeDelta::from_std(Term::MAX.get()).unwrap_or(TimeDelta::MAX);
        let times = if limit == 1 { "failed".to_owned() } else { format!("failed {limit} times in a row") };
        self.begin(self.clock.now() + longest, &times)
    }
}

/// Returns whether the last `limit` of these runs have failed, where the newest is first. A running run may succeed yet, and a cancelled
/// one says nothing.
fn have_failed(runs: &[RunRecord], limit: usize) -> bool {
    let results = runs.iter().filter_map(|run| run.end().map(RunEnd::result));
    let failures = results
        .filter(|result| *result != OutcomeKind::Cancelled)
        .take_while(|result| *result != OutcomeKind::Succeeded);
    failures.take(limit).count() == limit
}
