//! Runs what a tick has planned: in the foreground one after another, or in the background on worker threads.

use super::planned_run::PlannedRun;
use super::report::Entry;

mod background;
mod foreground;
mod one_run;
mod worker_pool;

/// Runs these, and returns an entry for each in their order. `background`: whether some run beside the others.
pub(crate) fn run_planned<'a>(planned_runs: impl Iterator<Item = PlannedRun<'a>>, background: bool) -> Vec<Entry> {
    if background {
        return background::run_all(&planned_runs.collect::<Vec<_>>());
    }
    let mut entries = Vec::with_capacity(planned_runs.size_hint().0);
    foreground::run_all(planned_runs, |entry| entries.push(entry));
    entries
}
