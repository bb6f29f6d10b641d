//! The worker threads of one loop, which perform background runs.

use std::sync::Arc;
use std::thread::{self, Scope};

use super::awaited_runs::AwaitedRuns;
use super::one_run::ActiveRun;
use super::worker_queue::{Demand, Performed, Turn, WorkerQueue};
use crate::base::{catch_panic::contain, threads};
use crate::observe::notice::incident::{Incident, ThreadFor};
use crate::observe::tell::{log, trace::TraceSpan};

/// Calls `drive` with worker threads, which end when it returns.
pub(super) fn with_workers<'a>(drive: impl FnOnce(Workers<'_, '_, 'a>)) {
    let (awaited, tick) = (AwaitedRuns::default(), TraceSpan::current());
    let queue = WorkerQueue::new(Arc::clone(awaited.signal()));
    thread::scope(|scope| {
        let _end = EndWorkers(&queue);
        drive(Workers { scope, queue: &queue, awaited: &awaited, tick: &tick });
    });
}

/// Starts a thread of a tick; `false` if the system has none.
pub(super) fn start_thread<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> bool {
    let started = threads::start_in(scope, name, work);
    if let Err(error) = &started {
        log(&Incident::NoThread(ThreadFor::BackgroundEvents, error));
    }
    started.is_ok()
}

/// The worker threads of one loop.
#[derive(Clone, Copy)]
pub(super) struct Workers<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    queue: &'scope WorkerQueue<ActiveRun<'a>>,
    /// Those whose tasks are futures.
    awaited: &'scope AwaitedRuns<'a>,
    tick: &'scope TraceSpan,
}

impl<'a> Workers<'_, '_, 'a> {
    /// Waits until runs have ended, which it adds to `ended`, or until there is room for some of so many `wanted` ones; returns the
    /// room. `None`: no run is under way, and none is wanted.
    pub(super) fn wait(&self, wanted: usize, ended: &mut Vec<ActiveRun<'a>>) -> Option<usize> {
        loop {
            self.take_back();
            let patience = self.awaited.look_after();
            match self.queue.wait(wanted, patience, ended) {
                Turn::Ask(room) => return Some(room),
                Turn::Done => return None,
                Turn::LookAway => {}
                Turn::PerformHere(run) => self.queue.performed_here(self.perform(run)),
            }
        }
    }

    /// Starts these, for which there was room, and takes them out.
    pub(super) fn start(&self, ready: &mut Vec<ActiveRun<'a>>) {
        for run in ready.extract_if(.., |run| run.needs_no_thread()) {
            // The process has begun to shut down, if it has ended.
            if let Some(ended) = self.perform(run) {
                self.queue.goes_away();
                self.queue.came_back(Some(ended));
            }
        }
        if !ready.is_empty() {
            self.start_for(self.queue.add(ready.drain(..)));
        }
    }

    /// Performs a run up to its end, which it returns, or until its task is awaited.
    fn perform(self, mut run: ActiveRun<'a>) -> Option<ActiveRun<'a>> {
        match run.perform() {
            None => Some(run),
            Some(task) => {
                self.queue.goes_away();
                self.awaited.start(run, task);
                None
            }
        }
    }

    /// Takes back the runs whose tasks have ended: some need a thread for their hooks.
    fn take_back(self) {
        for run in self.awaited.take_ended() {
            if run.needs_no_thread() {
                self.queue.came_back(self.perform(run));
            } else {
                self.queue.came_back(None);
                self.start_for(self.queue.add([run]));
            }
        }
    }

    fn start_for(self, demand: Demand) {
        let work = move || {
            // The others wait for this thread, so a subscriber of `tracing` that panics must not end it.
            let _in_span = contain(|| self.tick.enter());
            let mut performed = Performed::Nothing;
            while let Some((run, demand)) = self.queue.exchange(performed) {
                let _ = contain(|| self.start_for(demand));
                performed = Performed::Job(self.perform(run));
            }
        };
        if demand == Demand::NewWorker && !start_thread(self.scope, "soloist-worker", work) {
            self.queue.stop_growing();
        }
    }
}

/// Lets the workers end, also after a panic: the scope waits for them.
struct EndWorkers<'q, J>(&'q WorkerQueue<J>);

impl<J> Drop for EndWorkers<'_, J> {
    fn drop(&mut self) {
        self.0.close();
    }
}
