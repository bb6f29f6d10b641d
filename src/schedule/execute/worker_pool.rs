//! The queues between the coordinator of a tick and its workers: jobs to run, and jobs that have ended.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::schedule::gate::BATCH_SIZE;

/// The most threads that the background events of one tick run on.
pub(super) const MAX_WORKERS: usize = 200;

/// How long to wait for another job to end before releasing those that have, and how often at most.
const LINGER: Duration = Duration::from_millis(5);
const MAX_LINGERS: usize = 10;

/// Jobs `J` for the workers, and ended jobs `E` for the coordinator. The pool owns no threads: it says when to start one.
pub(super) struct WorkerPool<J, E> {
    state: Mutex<PoolState<J, E>>,
    /// Wakes workers: there is a job, or the pool closes.
    wake_workers: Condvar,
    /// Wakes the coordinator.
    wake_coordinator: Condvar,
    /// Wakes the releaser, if there is one.
    wake_releaser: Condvar,
}

struct PoolState<J, E> {
    jobs: VecDeque<J>,
    ended: Vec<E>,
    /// How many jobs were added and have not ended.
    unfinished: usize,
    /// How many workers there are, how many there may be, and how many are idle.
    workers: usize,
    max_workers: usize,
    idle: usize,
    /// The worker that was woken or started and has not taken a job yet. Each one wakes the next, so that a few workers do
    /// many quick jobs.
    waking: Option<Waking>,
    /// How many more jobs the coordinator wants to add at once.
    wanted: Option<usize>,
    /// Whether the coordinator waits.
    coordinator_waits: bool,
    /// Whether a thread of its own, not the coordinator, releases what has ended.
    has_releaser: bool,
    closing: bool,
}

/// What the coordinator is to do next.
pub(super) enum NextStep<J, E> {
    /// Admit so many more: there are workers for them.
    Admit(usize),
    /// Release these.
    Release(Vec<E>),
    /// Run this job here, because no worker thread could be started.
    RunHere(J),
    /// Nothing: all jobs have ended and were handed out, and no more are wanted.
    Done,
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

impl<J, E> WorkerPool<J, E> {
    pub(super) fn new() -> Self {
        let state = PoolState {
            jobs: VecDeque::new(),
            ended: Vec::new(),
            unfinished: 0,
            workers: 0,
            max_workers: MAX_WORKERS,
            idle: 0,
            waking: None,
            wanted: None,
            coordinator_waits: false,
            has_releaser: false,
            closing: false,
        };
        Self {
            state: Mutex::new(state),
            wake_workers: Condvar::new(),
            wake_coordinator: Condvar::new(),
            wake_releaser: Condvar::new(),
        }
    }

    pub(super) fn add(&self, jobs: impl IntoIterator<Item = J>) -> Demand {
        let mut state = self.state();
        let before = state.jobs.len();
        state.jobs.extend(jobs);
        state.unfinished += state.jobs.len() - before;
        self.wake_worker(&mut state)
    }

    /// From now on, another thread than the coordinator releases what has ended.
    pub(super) fn set_releaser(&self) {
        self.state().has_releaser = true;
    }

    /// Waits for something to do, with `wanted` more jobs to add. Ended jobs are handed out together: at once if nothing
    /// else is at work, and otherwise when nothing more has ended for a moment.
    pub(super) fn next_step(&self, wanted: Option<usize>) -> NextStep<J, E> {
        let mut state = self.state();
        state.wanted = wanted;
        let mut lingers = 0;
        loop {
            if !state.has_releaser && state.ended.len() >= BATCH_SIZE {
                return NextStep::Release(state.take_ended());
            }
            if let Some(room) = state.room() {
                return NextStep::Admit(room);
            }
            if state.unfinished == 0 {
                let none_to_release = state.has_releaser || state.ended.is_empty();
                return if none_to_release { NextStep::Done } else { NextStep::Release(state.take_ended()) };
            }
            if state.max_workers == 0
                && let Some(job) = state.jobs.pop_front()
            {
                return NextStep::RunHere(job);
            }
            state.coordinator_waits = true;
            if state.has_releaser || state.ended.is_empty() {
                state = self.wake_coordinator.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                let more_ended;
                (state, more_ended) = linger(&self.wake_coordinator, state, &mut lingers);
                if !more_ended {
                    return NextStep::Release(state.take_ended());
                }
            }
            state.coordinator_waits = false;
        }
    }

    /// Waits for ended jobs to release, batched as in [`next_step`](Self::next_step). `None`: no more will end.
    pub(super) fn next_ended(&self) -> Option<Vec<E>> {
        let mut state = self.state();
        let mut lingers = 0;
        loop {
            if state.ended.len() >= BATCH_SIZE || (state.unfinished == 0 && !state.ended.is_empty()) {
                return Some(state.take_ended());
            }
            if state.closing && state.unfinished == 0 {
                return None;
            }
            if state.ended.is_empty() {
                state = self.wake_releaser.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                let more_ended;
                (state, more_ended) = linger(&self.wake_releaser, state, &mut lingers);
                if !more_ended {
                    return Some(state.take_ended());
                }
            }
        }
    }

    /// The job that [`NextStep::RunHere`] handed out has ended.
    pub(super) fn finished_here(&self) {
        self.state().unfinished -= 1;
    }

    /// A worker hands in the job that has ended, or `None` if it has just started, and waits for the next. `None`: there will
    /// be none.
    pub(super) fn exchange(&self, ended: Option<E>) -> Option<(J, Demand)> {
        let mut state = self.state();
        match ended {
            None => state.waking = None,
            Some(ended) => {
                state.ended.push(ended);
                state.unfinished -= 1;
                if state.has_releaser && state.wakes_releaser() {
                    self.wake_releaser.notify_one();
                }
                if state.coordinator_waits && state.wakes_coordinator() {
                    state.coordinator_waits = false;
                    self.wake_coordinator.notify_one();
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
        self.wake_releaser.notify_one();
    }

    /// Wakes an idle worker for the jobs that are left, or asks for a new one.
    fn wake_worker(&self, state: &mut PoolState<J, E>) -> Demand {
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

    fn state(&self) -> MutexGuard<'_, PoolState<J, E>> {
        // No code that can panic runs while it is half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J, E> PoolState<J, E> {
    /// How many of the wanted jobs to admit now: all that the workers can ever run at once, or none yet.
    fn room(&self) -> Option<usize> {
        let workers = self.max_workers.max(1);
        self.wanted.map(|wanted| wanted.min(workers)).filter(|wanted| self.unfinished + wanted <= workers)
    }

    fn wakes_coordinator(&self) -> bool {
        (!self.has_releaser && self.wakes_releaser()) || self.unfinished == 0 || self.room().is_some()
    }

    /// Whether the job that has ended is the first one, or completes a batch, or was the last at work.
    fn wakes_releaser(&self) -> bool {
        self.ended.len() == 1 || self.ended.len() >= BATCH_SIZE || self.unfinished == 0
    }

    /// The ended jobs to release in one request: all, or one batch.
    fn take_ended(&mut self) -> Vec<E> {
        if self.ended.len() <= BATCH_SIZE {
            return mem::replace(&mut self.ended, Vec::with_capacity(BATCH_SIZE));
        }
        let later = self.ended.split_off(BATCH_SIZE);
        mem::replace(&mut self.ended, later)
    }
}

/// Waits a moment for more jobs to end; `false` if none has, or if the wait was long enough.
fn linger<'a, J, E>(
    wake: &Condvar,
    state: MutexGuard<'a, PoolState<J, E>>,
    lingers: &mut usize,
) -> (MutexGuard<'a, PoolState<J, E>>, bool) {
    let ended = state.ended.len();
    let (state, look) = wake.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
    *lingers += 1;
    let nothing_moves = state.ended.len() == ended && state.jobs.is_empty();
    let enough = look.timed_out() && (nothing_moves || *lingers >= MAX_LINGERS);
    (state, !enough)
}
