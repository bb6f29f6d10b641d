//! The worker threads of one loop, which perform background runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::awaited_runs::AwaitedRuns;
use super::one_run::ActiveRun;
use crate::base::{catch_panic::contain, threads};
use crate::observe::tell::trace;
use crate::store::event_mutex::batch::BATCH_SIZE;
use crate::time::clock::Clock;

/// The largest number of worker threads of one loop.
const MAX_WORKERS: usize = BATCH_SIZE;

/// The longest wait for further runs to end, so that one request releases the leases of several runs.
const LINGER: Duration = Duration::from_millis(10);

/// The worker threads of a loop, and the runs that the loop has given them.
pub(super) struct Workers<'scope, 'env, 'a> {
    pool: Arc<Pool<'scope, 'env, 'a>>,
    /// The workers end when the loop drops this sender, also after a panic. The runs are boxed, because the channel
    /// clears room for 31 messages at a time.
    queue: Sender<Box<ActiveRun<'a>>>,
    performed: Receiver<Box<ActiveRun<'a>>>,
    /// The number of runs that wait in the queue, or that a worker performs.
    unfinished: usize,
    /// The runs whose tasks are futures, and the runs that wait for a retry.
    awaited: AwaitedRuns<'a>,
    ended: Vec<ActiveRun<'a>>,
}

impl<'scope, 'env, 'a: 'scope> Workers<'scope, 'env, 'a> {
    /// Returns workers without a thread. Threads start when runs need them.
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        let ((queue, queued), (performed, heard)) = (unbounded(), unbounded());
        let idle = AtomicUsize::new(0);
        let threads = AtomicUsize::new(0);
        let most_threads = AtomicUsize::new(MAX_WORKERS);
        let pool = Arc::new(Pool { scope, queued, performed, idle, threads, most_threads });
        let (awaited, ended) = (AwaitedRuns::default(), Vec::new());
        Self { pool, queue, performed: heard, unfinished: 0, awaited, ended }
    }

    /// Waits until the workers have room for runs, or until runs have ended. Returns how many runs may start now, at
    /// most `wanted`, and the runs that have ended, at most one batch. If there is no room for all wanted runs, waits up
    /// to 10 ms for further runs to end. `None`: no run is running, and none is wanted.
    pub(super) fn wait(&mut self, wanted: usize) -> Option<(usize, Vec<ActiveRun<'a>>)> {
        let mut enough = None;
        let room = loop {
            self.hear();
            let patience = self.awaited.look_after();
            let most_threads = self.pool.most_threads.load(SeqCst);
            let most = most_threads.max(1);
            let wanted = wanted.min(most);
            let room = wanted.min(most.saturating_sub(self.unfinished));
            let is_idle = self.unfinished == 0 && self.awaited.is_empty();
            if (room > 0 && room == wanted) || is_idle || self.ended.len() >= BATCH_SIZE {
                break room;
            }
            if room == 0 && self.ended.is_empty() {
                // Without workers, this thread performs one run after another. The lease of a run is released before
                // the next run starts.
                if most_threads == 0
                    && let Ok(mut run) = self.pool.queued.try_recv()
                {
                    self.unfinished -= 1;
                    run.perform();
                    self.take_back(*run);
                } else {
                    self.awaited.hears_within(patience, &self.performed);
                }
                continue;
            }
            let now = Clock::system().moment();
            let left = enough.get_or_insert(now.plus(LINGER)).since(now);
            if most_threads == 0 || left.is_zero() || !self.awaited.hears_within(left, &self.performed) {
                break room;
            }
        };
        let ended: Vec<_> = self.ended.drain(..self.ended.len().min(BATCH_SIZE)).collect();
        (room > 0 || !ended.is_empty()).then_some((room, ended))
    }

    /// Performs the next part of a run: on this thread if the part needs no other thread, otherwise on a worker. The caller
    /// has [waited](Self::wait) for room.
    pub(super) fn perform(&mut self, mut run: ActiveRun<'a>) {
        if run.needs_no_thread() {
            run.perform();
            return self.take_back(run);
        }
        self.unfinished += 1;
        let _ = self.queue.send(Box::new(run)); // The pool has a receiver, so this can't fail.
        self.pool.grow();
    }

    /// Takes back a run from a worker. If the run has not ended, starts its future or its wait.
    fn take_back(&mut self, mut run: ActiveRun<'a>) {
        if run.awaited().is_some() {
            self.awaited.start(run);
        } else {
            self.ended.push(run);
        }
    }

    /// Takes back the runs from workers. Continues the runs whose futures or waits have ended.
    fn hear(&mut self) {
        while let Ok(performed) = self.performed.try_recv() {
            self.unfinished -= 1;
            self.take_back(*performed);
        }
        self.awaited.take_ended().into_iter().for_each(|run| self.perform(run));
    }
}

/// The data that the loop and its worker threads share.
struct Pool<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    queued: Receiver<Box<ActiveRun<'a>>>,
    performed: Sender<Box<ActiveRun<'a>>>,
    /// The number of workers that wait for a run, or are starting.
    idle: AtomicUsize,
    threads: AtomicUsize,
    /// The largest number of threads: [`MAX_WORKERS`], or fewer after the system could not start a thread.
    most_threads: AtomicUsize,
}

impl<'scope, 'a: 'scope> Pool<'scope, '_, 'a> {
    /// Starts a worker if a run waits in the queue and no worker is idle. Each worker calls this function after it has
    /// taken a run. So a few threads perform many quick tasks, and each slow task has its own thread.
    fn grow(self: &Arc<Self>) {
        let is_full = self.threads.load(SeqCst) >= self.most_threads.load(SeqCst);
        if is_full || self.queued.is_empty() || self.idle.load(SeqCst) > 0 {
            return;
        }
        self.threads.fetch_add(1, SeqCst);
        self.idle.fetch_add(1, SeqCst);
        let pool = Arc::clone(self);
        if let Err(error) = start_thread(self.scope, "soloist-worker", move || pool.work()) {
            log_fewer_threads(&error);
            self.idle.fetch_sub(1, SeqCst);
            self.most_threads.store(self.threads.fetch_sub(1, SeqCst) - 1, SeqCst);
        }
    }

    /// Performs runs from the queue until the loop is over.
    fn work(self: &Arc<Self>) {
        for mut run in &self.queued {
            self.idle.fetch_sub(1, SeqCst);
            let _ = contain(|| self.grow()); // A subscriber of `tracing` may panic.
            run.perform();
            self.idle.fetch_add(1, SeqCst); // Before `send`, because the loop may then queue a run at once.
            let _ = self.performed.send(run); // The loop has the receiver, unless it panicked.
        }
    }
}

/// Starts a thread of a tick, inside the tick's span. A panic of a subscriber of `tracing` does not keep the thread from
/// its work.
pub(super) fn start_thread<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    let tick = trace::Span::current();
    threads::start_in(scope, name, move || {
        let _in_span = contain(|| tick.enter());
        work();
    })
}

/// Logs that background events have fewer threads.
pub(super) fn log_fewer_threads(error: &io::Error) {
    trace::no_thread("background events", "they run on fewer threads", error);
}
