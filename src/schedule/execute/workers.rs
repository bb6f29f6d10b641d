//! The worker threads of one loop, which perform background runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use crossbeam_channel::{Receiver, Select, Sender, unbounded};

use super::awaited_runs::AwaitedRuns;
use super::one_run::ActiveRun;
use super::retry_wait::Awaited;
use crate::base::{catch_panic::contain, threads};
use crate::observe::notice::incident::{Incident, ThreadFor};
use crate::observe::{tell::log, tell::trace::TraceSpan};
use crate::schedule::run_admission::BATCH_SIZE;
use crate::time::clock::Clock;

/// The most worker threads of one loop.
const MAX_WORKERS: usize = 200;

/// How long to wait for another run to end before releasing those that have, and for how long in all.
const LINGER: Duration = Duration::from_millis(5);
const MOST_LINGERING: Duration = Duration::from_millis(50);

/// The worker threads of a loop, and the runs that the loop has handed on.
pub(super) struct Workers<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    pool: &'scope Pool<'a>,
    /// The workers end when the loop drops this sender, also after a panic.
    queue: Sender<ActiveRun<'a>>,
    performed: Receiver<Performed<'a>>,
    /// The number of runs that are in the queue or with a worker.
    unfinished: usize,
    /// The runs whose tasks are futures, and those that wait for a retry.
    awaited: AwaitedRuns<'a>,
    ended: Vec<ActiveRun<'a>>,
}

/// A run that was performed up to its end, or until its task, a future, is to be started, or it has to wait for a retry.
type Performed<'a> = (ActiveRun<'a>, Option<Awaited<'a>>);

/// Calls `drive` with worker threads, which end when it returns.
pub(super) fn with_workers<'a>(drive: impl FnOnce(Workers<'_, '_, 'a>)) {
    let ((queue, queued), (performed, heard)) = (unbounded(), unbounded());
    let pool = Pool {
        queued,
        performed,
        idle: AtomicUsize::new(0),
        workers: AtomicUsize::new(0),
        max_workers: AtomicUsize::new(MAX_WORKERS),
    };
    thread::scope(|scope| {
        let awaited = AwaitedRuns::default();
        drive(Workers { scope, pool: &pool, queue, performed: heard, unfinished: 0, awaited, ended: Vec::new() });
    });
}

impl<'a> Workers<'_, '_, 'a> {
    /// Waits until there is room for some of so many `wanted` runs, or until runs have ended; returns the room. Adds the runs that
    /// have ended to `ended`, one batch at most: at once if no other run is running, and otherwise when no more have ended for a
    /// moment. `None`: no run is under way, and none is wanted.
    pub(super) fn wait(&mut self, wanted: usize, ended: &mut Vec<ActiveRun<'a>>) -> Option<usize> {
        let mut enough = None;
        let room = loop {
            self.hear();
            let patience = self.awaited.look_after();
            // All that the workers can ever perform at once, or none yet.
            let max_workers = self.pool.max_workers.load(Ordering::SeqCst);
            let wanted = wanted.min(max_workers.max(1));
            let room = if self.unfinished + wanted <= max_workers.max(1) { wanted } else { 0 };
            let is_idle = self.unfinished == 0 && self.awaited.is_empty();
            if room > 0 || is_idle || self.ended.len() >= BATCH_SIZE {
                break room;
            }
            // Without any worker, one after another: a run that has ended is released before the next is performed.
            if max_workers == 0 && self.ended.is_empty() && self.perform_here() {
                continue;
            }
            if self.ended.is_empty() {
                self.hears_within(patience);
                continue;
            }
            let now = Clock::system().moment();
            let is_enough = max_workers == 0 || now >= *enough.get_or_insert(now.plus(MOST_LINGERING));
            if is_enough || !self.hears_within(LINGER) {
                break 0;
            }
        };
        ended.extend(self.ended.drain(..self.ended.len().min(BATCH_SIZE)));
        (room > 0 || !ended.is_empty()).then_some(room)
    }

    /// Starts these runs, which have room, and takes them out.
    pub(super) fn start(&mut self, ready: &mut Vec<ActiveRun<'a>>) {
        ready.drain(..).for_each(|run| self.perform(run));
        self.pool.grow(self.scope);
    }

    /// Performs the next part of a run: on this thread if that takes no time, otherwise on that of a worker.
    fn perform(&mut self, mut run: ActiveRun<'a>) {
        if run.needs_no_thread() {
            let awaited = run.perform();
            self.take_back((run, awaited));
        } else {
            self.unfinished += 1;
            let _ = self.queue.send(run); // The pool has a receiver.
        }
    }

    /// Performs a run of the queue on this thread, because there is no other; `false` if the queue is empty.
    fn perform_here(&mut self) -> bool {
        let Ok(mut run) = self.pool.queued.try_recv() else { return false };
        self.unfinished -= 1;
        let awaited = run.perform();
        self.take_back((run, awaited));
        true
    }

    /// Takes a run that has ended, or starts its task or its wait.
    fn take_back(&mut self, (run, awaited): Performed<'a>) {
        match awaited {
            Some(awaited) => self.awaited.start(run, awaited),
            None => self.ended.push(run),
        }
    }

    /// Takes back the runs that workers have performed, and the runs whose tasks or waits have ended: some need a
    /// thread for their hooks, or for the next attempt.
    fn hear(&mut self) {
        while let Ok(performed) = self.performed.try_recv() {
            self.unfinished -= 1;
            self.take_back(performed);
        }
        self.awaited.take_ended().into_iter().for_each(|run| self.perform(run));
        self.pool.grow(self.scope);
    }

    /// Waits for a worker, for the end of a task, or for a change of its run; `false` if none of them came.
    fn hears_within(&self, patience: Duration) -> bool {
        let mut either = Select::new();
        either.recv(&self.performed);
        either.recv(self.awaited.arrivals());
        either.ready_timeout(patience).is_ok()
    }
}

/// The part of the workers that these share.
struct Pool<'a> {
    queued: Receiver<ActiveRun<'a>>,
    performed: Sender<Performed<'a>>,
    /// The number of workers that wait for a run, or were just started: if a run waits too, one of these will take it.
    idle: AtomicUsize,
    workers: AtomicUsize,
    /// Less than [`MAX_WORKERS`] once the system had no thread.
    max_workers: AtomicUsize,
}

impl Pool<'_> {
    /// Starts a worker if runs wait and no worker does. Each worker calls this when it has taken a run, so that a few workers
    /// perform many quick tasks.
    fn grow<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if self.queued.is_empty() || self.idle.load(Ordering::SeqCst) > 0 {
            return;
        }
        let more = |workers| (workers < self.max_workers.load(Ordering::SeqCst)).then_some(workers + 1);
        if self.workers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
            return;
        }
        self.idle.fetch_add(1, Ordering::SeqCst);
        if !start_thread(scope, "soloist-worker", move || self.work(scope)) {
            self.idle.fetch_sub(1, Ordering::SeqCst);
            self.max_workers.store(self.workers.fetch_sub(1, Ordering::SeqCst) - 1, Ordering::SeqCst);
        }
    }

    /// Performs runs until the loop is over.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        while let Ok(mut run) = self.queued.recv() {
            self.idle.fetch_sub(1, Ordering::SeqCst);
            // Only a subscriber of `tracing` can panic here.
            let _ = contain(|| self.grow(scope));
            let awaited = run.perform();
            // Before the loop hears of it, so that it starts no further worker.
            self.idle.fetch_add(1, Ordering::SeqCst);
            let _ = self.performed.send((run, awaited)); // The loop has the receiver, unless it panicked.
        }
    }
}

/// Starts a thread of a tick; `false` if the system has none. A panic of a subscriber of `tracing` must not end it.
pub(super) fn start_thread<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> bool {
    let tick = TraceSpan::current();
    let started = threads::start_in(scope, name, move || {
        let _in_span = contain(|| tick.enter());
        work();
    });
    if let Err(error) = &started {
        let _ = contain(|| log(&Incident::NoThread(ThreadFor::BackgroundEvents, error)));
    }
    started.is_ok()
}
