//! The worker threads of one loop: hands that perform background runs.

use std::thread::{self, Scope};

use super::hands::Hands;
use super::one_run::ActiveRun;
use super::worker_queue::{Demand, Turn, WorkerQueue};
use crate::base::catch_panic::contain;
use crate::observe::notice::{Notice, ThreadFor};
use crate::observe::tell::{tell, trace::TraceSpan};

/// Calls `drive` with worker threads, which end when it returns.
pub(super) fn with_workers<'a>(drive: impl FnOnce(&mut Workers<'_, '_, 'a>)) {
    let (queue, tick) = (WorkerQueue::new(), TraceSpan::current());
    thread::scope(|scope| {
        let _end = EndWorkers(&queue);
        drive(&mut Workers { scope, queue: &queue, tick: &tick });
    });
}

/// Starts a thread of a tick; `false` if the system has none.
pub(super) fn start_thread<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> bool {
    let started = thread::Builder::new().name(name.into()).spawn_scoped(scope, work);
    if let Err(error) = &started {
        tell(&Notice::NoThread(ThreadFor::BackgroundEvents, error));
    }
    started.is_ok()
}

/// The worker threads of one loop.
#[derive(Clone, Copy)]
pub(super) struct Workers<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    queue: &'scope WorkerQueue<ActiveRun<'a>>,
    tick: &'scope TraceSpan,
}

impl<'a> Hands<'a> for Workers<'_, '_, 'a> {
    const IN_ORDER: bool = false;

    fn wait(&mut self, wanted: usize, ended: &mut Vec<ActiveRun<'a>>) -> Option<usize> {
        loop {
            match self.queue.wait(wanted, ended) {
                Turn::Ask(room) => return Some(room),
                Turn::Done => return None,
                Turn::PerformHere(mut run) => {
                    run.perform();
                    self.queue.performed_here(run);
                }
            }
        }
    }

    fn start(&mut self, ready: &mut Vec<ActiveRun<'a>>, _: &mut Vec<ActiveRun<'a>>) {
        if !ready.is_empty() {
            self.start_for(self.queue.add(ready.drain(..)));
        }
    }
}

impl Workers<'_, '_, '_> {
    fn start_for(self, demand: Demand) {
        let work = move || {
            // The others wait for this thread, so a subscriber of `tracing` that panics must not end it.
            let _in_span = contain(|| self.tick.enter());
            let mut ended = None;
            while let Some((mut run, demand)) = self.queue.exchange(ended) {
                let _ = contain(|| self.start_for(demand));
                run.perform();
                ended = Some(run);
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
