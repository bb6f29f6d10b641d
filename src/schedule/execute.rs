//! Runs what a tick has planned: in the foreground one after another, or in the background on worker threads.

use super::planned_run::Turn;
use super::report::Entry;

mod background;
mod foreground;
mod one_run;
mod worker_pool;

/// Runs these, and returns an entry for each in their order. `background`: whether some run beside the others.
pub(crate) fn run_planned<'a>(turns: impl Iterator<Item = Turn<'a>>, background: bool) -> Vec<Entry> {
    if background {
        return background::run_all(&turns.collect::<Vec<_>>());
    }
    let mut entries = Vec::with_capacity(turns.size_hint().0);
    foreground::run_all(turns, |entry| entries.push(entry));
    entries
}
