//! Who performs runs: the trait `Hands`, and the thread that asks.

use std::mem;

use super::awaited_runs::await_here;
use super::one_run::ActiveRun;

/// Performs runs for a loop.
pub(super) trait Hands<'a> {
    /// Whether one run follows another: what has ended is released before any code of the next event runs.
    const IN_ORDER: bool;

    /// Waits until runs have ended, which it adds to `ended`, or until there is room for some of so many `wanted` ones;
    /// returns the room. `None`: nothing is at work, and nothing is wanted.
    fn wait(&mut self, wanted: usize, ended: &mut Vec<ActiveRun<'a>>) -> Option<usize>;

    /// Starts these, for which there was room, and takes them out. What ends at once is added to `ended`, which is empty.
    fn start(&mut self, ready: &mut Vec<ActiveRun<'a>>, ended: &mut Vec<ActiveRun<'a>>);
}

/// Performs one run after another, at once.
pub(super) struct OnThisThread;

impl<'a> Hands<'a> for OnThisThread {
    const IN_ORDER: bool = true;

    #[inline]
    fn wait(&mut self, wanted: usize, ended: &mut Vec<ActiveRun<'a>>) -> Option<usize> {
        (wanted > 0 || !ended.is_empty()).then_some(1)
    }

    #[inline]
    fn start(&mut self, ready: &mut Vec<ActiveRun<'a>>, ended: &mut Vec<ActiveRun<'a>>) {
        for run in &mut *ready {
            if let Some(task) = run.perform() {
                let planned = run.pass.planned;
                run.task_has_ended(await_here(task, planned.clock));
                run.perform();
            }
        }
        mem::swap(ready, ended);
    }
}
