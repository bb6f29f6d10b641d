//! The queue between a loop and its workers: jobs to perform, and jobs that have ended.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::loop_signal::LoopSignal;
use super::waiting::{Condvar, Mutex, MutexGuard};
use crate::schedule::gate::BATCH_SIZE;

/// The most worker threads of one loop.
pub(super) const MAX_WORKERS: usize = 200;

/// How long to wait for another job to end before releasing those that have, and how often at most.
const LINGER: Duration = Duration::from_millis(5);
const MAX_LINGERS: usize = 10;

/// Jobs `J` for the workers, and those that have ended for the loop. The queue owns no threads: it says when to start one.
pub(super) struct WorkerQueue<J> {
    state: Mutex<QueueState<J>>,
    /// Wakes workers: there is a job, or the queue closes.
    wake_workers: Condvar,
    /// Wakes the loop.
    wake_loop: Arc<LoopSignal>,
}

struct QueueState<J> {
    jobs: VecDeque<J>,
    ended: Vec<J>,
    /// How many jobs were added and have not ended, or gone away; and how many are away.
    unfinished: usize,
    away: usize,
    /// How many workers there are, how many there may be, and how many are idle.
    workers: usize,
    max_workers: usize,
    idle: usize,
    /// The worker that was woken or started and has not taken a job yet. Each one wakes the next, so that a few workers do
    /// many quick jobs.
    waking: Option<Waking>,
    /// How many more jobs the loop wants to add at once.
    wanted: usize,
    /// Whether the loop waits, and how often it has for more jobs to end.
    loop_waits: bool,
    lingers: usize,
    closing: bool,
}

/// What the loop does next.
pub(super) enum Turn<J> {
    /// It asks its store: there is room for so many more jobs, or something has ended.
    Ask(usize),
    /// It performs this job itself, because no worker thread could be started.
    PerformHere(J),
    /// It looks after the jobs that are away.
    LookAway,
    /// Nothing: all jobs have ended and were handed out, and no more are wanted.
    Done,
}

/// What a worker has done since it last asked.
pub(super) enum Performed<J> {
    /// It has just started.
    Nothing,
    /// A job; `None`: it is away, and has not ended yet.
    Job(Option<J>),
}

/// A worker that is on its way to a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waking {
    /// An idle one that was woken.
    Idle,
    /// A new thread. That takes time, so an idle worker may be woken in addition.
    New,
}

/// Whether the caller has to start a worker for the jobs that are left.
#[must_use = "if no worker is started, the job is not run"]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    Met,
    NewWorker,
}

impl<J> WorkerQueue<J> {
    pub(super) fn new(wake_loop: Arc<LoopSignal>) -> Self {
        let state = QueueState {
            jobs: VecDeque::new(),
            ended: Vec::new(),
            unfinished: 0,
            away: 0,
            workers: 0,
            max_workers: MAX_WORKERS,
            idle: 0,
            waking: None,
            wanted: 0,
            loop_waits: false,
            lingers: 0,
            closing: false,
        };
        Self { state: Mutex::new(state), wake_workers: Condvar::new(), wake_loop }
    }

    pub(super) fn add(&self, jobs: impl IntoIterator<Item = J>) -> Demand {
        let mut state = self.state();
        let before = state.jobs.len();
        state.jobs.extend(jobs);
        state.unfinished += state.jobs.len() - before;
        self.wake_worker(&mut state)
    }

    /// Waits until there is room for the `wanted` jobs, or until jobs have ended, which it hands out: at once if nothing else
    /// is at work, and otherwise when nothing more has ended for a moment. One batch at most. Whatever wakes the loop
    /// may be about a job that is away, and it looks after these when its `patience` is over.
    pub(super) fn wait(&self, wanted: usize, patience: Option<Duration>, ended: &mut Vec<J>) -> Turn<J> {
        let mut state = self.state();
        state.wanted = wanted;
        loop {
            let room = state.room();
            let is_idle = state.unfinished == 0 && state.away == 0;
            if room > 0 || state.ended.len() >= BATCH_SIZE || is_idle {
                let is_done = room == 0 && state.ended.is_empty();
                return if is_done { Turn::Done } else { state.hand_out(ended, room) };
            }
            // Without any worker, one after another: what has ended is handed out before the next is performed.
            if state.max_workers == 0 && !state.ended.is_empty() {
                return state.hand_out(ended, 0);
            }
            if state.max_workers == 0
                && let Some(job) = state.jobs.pop_front()
            {
                return Turn::PerformHere(job);
            }
            let before = state.ended.len();
            let patience = if before == 0 { patience } else { Some(LINGER) };
            state.loop_waits = true;
            drop(state);
            let is_woken = self.wake_loop.wait(patience);
            state = self.state();
            state.loop_waits = false;
            if before > 0 {
                state.lingers += 1;
                let nothing_moves = state.ended.len() == before && state.jobs.is_empty();
                if !is_woken && (nothing_moves || state.lingers >= MAX_LINGERS) {
                    return state.hand_out(ended, 0);
                }
            }
            if state.away > 0 {
                return Turn::LookAway;
            }
        }
    }

    /// A job is about to go on elsewhere, where it takes no thread.
    pub(super) fn goes_away(&self) {
        self.state().away += 1;
    }

    /// A job that was away is back, and has ended if it is handed in.
    pub(super) fn came_back(&self, ended: Option<J>) {
        let mut state = self.state();
        state.away -= 1;
        state.ended.extend(ended);
    }

    /// The job that [`Turn::PerformHere`] handed out has ended, or is away.
    pub(super) fn performed_here(&self, ended: Option<J>) {
        self.state().end(ended);
    }

    /// A worker hands in the job that has ended, or is away, or says that it has just started; and waits for the next. `None`:
    /// there will be none.
    pub(super) fn exchange(&self, performed: Performed<J>) -> Option<(J, Demand)> {
        let mut state = self.state();
        match performed {
            Performed::Nothing => state.waking = None,
            Performed::Job(ended) => {
                state.end(ended);
                if state.loop_waits && state.wakes_loop() {
                    state.loop_waits = false;
                    self.wake_loop.wake();
                }
            }
        }
        loop {
            if let Some(job) = state.jobs.pop_front() {
                let demand = self.wake_worker(&mut state);
                return Some((job, demand));
            }
            if state.closing {
                return None;
            }
            state.idle += 1;
            state = self.wake_workers.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.waking = None;
        }
    }

    /// A new worker could not be started: the present ones have to do.
    pub(super) fn stop_growing(&self) {
        let mut state = self.state();
        state.workers -= 1;
        state.max_workers = state.workers;
        state.waking = None;
    }

    /// Lets the workers end when all jobs are done.
    pub(super) fn close(&self) {
        self.state().closing = true;
        self.wake_workers.notify_all();
    }

    /// Wakes an idle worker for the jobs that are left, or asks for a new one.
    fn wake_worker(&self, state: &mut QueueState<J>) -> Demand {
        if state.jobs.is_empty() || state.waking == Some(Waking::Idle) {
            return Demand::Met;
        }
        if state.idle > 0 {
            state.waking = Some(Waking::Idle);
            self.wake_workers.notify_one();
            return Demand::Met;
        }
        if state.waking.is_none() && state.workers < state.max_workers {
            state.waking = Some(Waking::New);
            state.workers += 1;
            return Demand::NewWorker;
        }
        Demand::Met
    }

    fn state(&self) -> MutexGuard<'_, QueueState<J>> {
        // No code that can panic runs while it is half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> QueueState<J> {
    /// How many of the wanted jobs to add now: all that the workers can ever perform at once, or none yet.
    fn room(&self) -> usize {
        let workers = self.max_workers.max(1);
        let wanted = self.wanted.min(workers);
        if self.unfinished + wanted <= workers { wanted } else { 0 }
    }

    fn end(&mut self, ended: Option<J>) {
        self.ended.extend(ended);
        self.unfinished -= 1;
    }

    /// Whether the job that has ended is the first one, or completes a batch, or was the last at work, or makes room; or none
    /// has, and the loop has to look after one that is away.
    fn wakes_loop(&self) -> bool {
        self.ended.len() <= 1 || self.ended.len() >= BATCH_SIZE || self.unfinished == 0 || self.room() > 0
    }

    fn hand_out(&mut self, into: &mut Vec<J>, room: usize) -> Turn<J> {
        self.lingers = 0;
        let batch = self.ended.len().min(BATCH_SIZE);
        into.extend(self.ended.drain(..batch));
        Turn::Ask(room)
    }
}
