//! Pauses an event that keeps failing; see [`Event::pause_on_failure`](crate::Event::pause_on_failure).

use std::sync::Arc;

use chrono::TimeDelta;

use super::pause_error::PauseError;
use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::{name::MutexName, owner::Owner, term::Term};
use crate::observe::tell::trace;
use crate::outcome::run_record::{RunRecord, outcome_kind::OutcomeKind};
use crate::schedule::schedule::Schedule;

impl Schedule {
    /// Prepares a pause of an event that has a failure limit. If the `run` that begins now fails, the log is read. If
    /// the log then shows `limit` failed runs in a row, the event is paused.
    pub(crate) fn pause_if_it_fails(&self, run: Owner, event: &Arc<str>, limit: usize) {
        let Some(logger) = &self.run_logger else { return };
        let Ok(mark) = self.event_pause_marker(event) else { return };
        let (schedule, failing) = (self.clone(), Arc::clone(event));
        logger.after_failure(run, move || {
            let done = contain(|| schedule.pause_if_failing(&mark, &failing, limit)).unwrap_or_else(|message| {
                let error = MutexError::panicked("pause an event that keeps failing".to_owned(), &message);
                Err(PauseError::Store(error))
            });
            if let Err(error) = done {
                trace::failing_not_paused(&failing, &error);
            }
        });
    }

    /// Pauses an event whose last `limit` runs have all failed, wherever in the fleet they ran.
    fn pause_if_failing(&self, mark: &MutexName, event: &str, limit: usize) -> Result<(), PauseError> {
        let runs = self.store.read_log(|log| log.runs(event))?;
        // An existing pause keeps its own reason and end.
        if !have_failed(&runs, limit) || self.find_pause(mark)?.is_some() {
            return Ok(());
        }
        let longest = TimeDelta::from_std(Term::MAX.get()).unwrap_or(TimeDelta::MAX);
        let times = if limit == 1 { "failed".to_owned() } else { format!("failed {limit} times in a row") };
        self.begin_pause(mark, self.clock.now() + longest, &times)
    }
}

/// Returns whether the last `limit` of these runs have failed. `runs` begins with the newest run. A run that is still
/// running or was cancelled does not count.
fn have_failed(runs: &[RunRecord], limit: usize) -> bool {
    let counts = |run: &&RunRecord| run.end().is_some_and(|end| end.result() != OutcomeKind::Cancelled);
    let failures = runs.iter().filter(counts).take_while(|run| !run.is_success());
    failures.take(limit).count() == limit
}
