//! Background runs of a tick: admitted in batches, run on worker threads, released in batches.
//!
//! One thread, the coordinator, admits and releases, so that a store is asked once for up to a hundred events; it is the
//! caller's own thread if nothing runs in the foreground. It admits no more runs than there are workers for, because a lease
//! runs down while its run waits, and it runs no event itself, so that a slow event delays no other.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread::{self, Scope};

use tracing::Span;

use super::foreground;
use crate::base::catch_panic::contain;
use crate::hold::{release_on_drop::ReleaseOnDrop, release_together::release_together};
use crate::lease::store_id::StoreId;
use crate::observe::outcome::{Ended, RunOutcome};
use crate::observe::{fault::Fault, log::log_or_print, skip_reason::SkipReason};
use crate::schedule::gate::{self, AdmittedRun, BATCH_SIZE};
use crate::schedule::{planned_run::PlannedRun, report::Entry};
use crate::store::event_mutex::EventMutex;
use crate::task::run::Run;

use super::worker_pool::{Demand, NextStep, WorkerPool};

/// Runs all of these, the background ones at the same time as the others, and returns an entry for each in their order.
pub(crate) fn run_all(planned: &[PlannedRun<'_>]) -> Vec<Entry> {
    let (background, foreground): (Vec<usize>, Vec<usize>) =
        (0..planned.len()).partition(|index| planned[*index].event.background);
    let entries = planned.iter().map(|_| OnceLock::new()).collect();
    let runs = BackgroundRuns { planned, background, entries, pool: WorkerPool::new(), tick: Span::current() };
    thread::scope(|scope| {
        let workers = Workers { scope, runs: &runs };
        let beside = !foreground.is_empty() && workers.start("soloist", Workers::coordinate);
        let mut entered = foreground.iter();
        foreground::run_all(foreground.iter().map(|index| &planned[*index]), |entry| {
            runs.enter(*entered.next().expect("each run has one entry"), entry);
        });
        if !beside {
            workers.coordinate();
        }
    });
    runs.entries.into_iter().map(|entry| entry.into_inner().expect("each run has its entry")).collect()
}

/// What the threads of one tick share.
struct BackgroundRuns<'a> {
    planned: &'a [PlannedRun<'a>],
    background: Vec<usize>,
    entries: Vec<OnceLock<Entry>>,
    pool: WorkerPool<AdmittedJob<'a>, EndedJob<'a>>,
    tick: Span,
}

/// A run that the gate has admitted.
struct AdmittedJob<'a> {
    index: usize,
    span: Span,
    admitted_run: AdmittedRun<'a>,
}

/// A run that has ended and is not released yet; `None` if it did not start after all, and has its entry.
struct EndedJob<'a>(Option<EndedRun<'a>>);

struct EndedRun<'a> {
    index: usize,
    span: Span,
    outcome: RunOutcome,
    admitted_run: AdmittedRun<'a>,
}

/// What is left of a run when its lease has been given back.
struct ReleasedRun {
    index: usize,
    span: Span,
    outcome: RunOutcome,
}

impl<'a> EndedRun<'a> {
    fn split(self) -> (ReleasedRun, ReleaseOnDrop<&'a dyn EventMutex, Run>) {
        let Self { index, span, outcome, admitted_run } = self;
        (ReleasedRun { index, span, outcome }, admitted_run.held)
    }
}

/// A run that the gate has refused.
struct RefusedJob {
    index: usize,
    span: Span,
    reason: SkipReason,
}

/// The threads of one tick.
#[derive(Clone, Copy)]
struct Workers<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    runs: &'scope BackgroundRuns<'a>,
}

impl<'scope> Workers<'scope, '_, '_> {
    /// Starts a thread; `false` if the system has none.
    fn start(self, name: &str, work: impl FnOnce(Self) + Send + 'scope) -> bool {
        // Other threads wait for this one, so a subscriber of `tracing` that panics must not end it.
        let work = move || {
            let _in_span = contain(|| self.runs.tick.enter());
            work(self);
        };
        let started = thread::Builder::new().name(name.into()).spawn_scoped(self.scope, work);
        if let Err(error) = &started {
            log_or_print(format_args!("no thread for background events, so that they run on fewer: {error}"), || {
                tracing::warn!(target: "soloist", %error, "no thread for background events: they run on fewer");
            });
        }
        started.is_ok()
    }

    fn coordinate(self) {
        let BackgroundRuns { planned, background, pool, .. } = self.runs;
        if let [alone] = **background {
            return self.runs.enter(alone, planned[alone].run());
        }
        // While the store decides on the next batch, another thread releases what has ended.
        if background.len() > BATCH_SIZE && self.start("soloist-release", Workers::release_ended) {
            pool.set_releaser();
        }
        let all = catch_unwind(AssertUnwindSafe(|| self.admit_and_release(by_store(planned, background))));
        // Also after a panic, because the workers wait for this.
        pool.close();
        all.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Admits and queues runs until none is left, and releases those that have ended.
    fn admit_and_release(self, mut queues: VecDeque<VecDeque<usize>>) {
        let BackgroundRuns { pool, .. } = self.runs;
        loop {
            match pool.next_step(queues.front().map(|queue| queue.len().min(BATCH_SIZE))) {
                NextStep::Admit(room) => {
                    let queue = queues.front_mut().expect("there is room for what is in the first queue");
                    let (admitted, refused) = self.runs.gate(queue, room);
                    if queue.is_empty() {
                        queues.pop_front();
                    }
                    self.start_worker_for(pool.add(admitted));
                    for refused in refused {
                        self.runs.refuse(refused);
                    }
                }
                NextStep::Release(done) => self.runs.release(done),
                NextStep::RunHere(admitted) => {
                    let done = self.runs.run(admitted);
                    pool.finished_here();
                    self.runs.release(vec![done]);
                }
                NextStep::Done => return,
            }
        }
    }

    fn release_ended(self) {
        while let Some(done) = self.runs.pool.next_ended() {
            self.runs.release(done);
        }
    }

    /// A worker thread: runs one job after another.
    fn work(self) {
        let mut done = None;
        while let Some((admitted, demand)) = self.runs.pool.exchange(done) {
            let _ = contain(|| self.start_worker_for(demand));
            done = Some(self.runs.run(admitted));
        }
    }

    fn start_worker_for(self, demand: Demand) {
        if demand == Demand::NewWorker && !self.start("soloist-worker", Self::work) {
            self.runs.pool.stop_growing();
        }
    }
}

impl<'a> BackgroundRuns<'a> {
    /// Takes runs from the queue until the filters have allowed `most`, and asks the store that they share for all of
    /// these in one request.
    fn gate(&self, queue: &mut VecDeque<usize>, most: usize) -> (Vec<AdmittedJob<'a>>, Vec<RefusedJob>) {
        let (mut admitted, mut refused) = (Vec::with_capacity(most), Vec::new());
        let mut agreed = Vec::with_capacity(most);
        while agreed.len() < most
            && let Some(index) = queue.pop_front()
        {
            let span = self.planned[index].span();
            match span.in_scope(|| gate::check_before_store(&self.planned[index])) {
                Ok(()) => agreed.push((index, span)),
                Err(reason) => refused.push(RefusedJob { index, span, reason }),
            }
        }
        let _still = agreed.first().map(|(index, _)| self.planned[*index].clock.stand_still());
        let (mut asking, mut admissions) = (Vec::with_capacity(agreed.len()), Vec::with_capacity(agreed.len()));
        for (index, span) in agreed {
            match gate::build_admission(&self.planned[index]) {
                Ok(Some(admission)) => {
                    asking.push((index, span));
                    admissions.push(admission);
                }
                Ok(None) => admitted.push(AdmittedJob {
                    admitted_run: gate::begin_run(&self.planned[index], None),
                    index,
                    span,
                }),
                Err(reason) => refused.push(RefusedJob { index, span, reason }),
            }
        }
        let planned: Vec<_> = asking.iter().map(|(index, _)| &self.planned[*index]).collect();
        let mut asking = asking.into_iter();
        gate::admit_batch(&planned, &admissions, |decision| {
            let (index, span) = asking.next().expect("there are as many decisions as admissions");
            match decision {
                Err(reason) => refused.push(RefusedJob { index, span, reason }),
                Ok(admitted_run) => admitted.push(AdmittedJob { index, span, admitted_run }),
            }
        });
        (admitted, refused)
    }

    fn refuse(&self, RefusedJob { index, span, reason }: RefusedJob) {
        self.enter(index, span.in_scope(|| self.planned[index].skip(reason)));
    }

    fn run(&self, AdmittedJob { index, span, admitted_run }: AdmittedJob<'a>) -> EndedJob<'a> {
        let admitted_run = match span.in_scope(|| gate::may_still_start(&self.planned[index], admitted_run)) {
            Ok(admitted_run) => admitted_run,
            Err(reason) => {
                self.refuse(RefusedJob { index, span, reason });
                return EndedJob(None);
            }
        };
        // Tasks and hooks contain their panics, so this one is of a subscriber of `tracing`. The other runs go on.
        let outcome = contain(|| span.in_scope(|| self.planned[index].perform(&admitted_run)));
        let outcome = outcome.unwrap_or_else(|message| {
            RunOutcome::new(Ended::Faulted(Fault::Panicked(message)), admitted_run.run().fencing_token())
        });
        EndedJob(Some(EndedRun { index, span, outcome, admitted_run }))
    }

    /// Releases these with one request to each store, and enters their results.
    fn release(&self, done: Vec<EndedJob<'a>>) {
        let mut done: VecDeque<_> = done.into_iter().filter_map(|EndedJob(ran)| ran).collect();
        while let Some(first) = done.front() {
            let PlannedRun { store, .. } = self.planned[first.index];
            let of_this_store = |done: &EndedRun<'_>| self.planned[done.index].store.id == store.id;
            let (these, others) = done.into_iter().partition::<VecDeque<_>, _>(of_this_store);
            done = others;
            let (these, held): (Vec<_>, Vec<_>) = these.into_iter().map(EndedRun::split).unzip();
            let released = release_together(&*store.mutex, held);
            if let Some(ReleasedRun { index, .. }) = these.first() {
                let ran = these.iter().zip(&released).map(|(released, (run, _))| (&released.outcome, run));
                gate::give_back_claims(&self.planned[*index], ran);
            }
            for (run, released) in these.into_iter().zip(released) {
                let ReleasedRun { index, span, outcome } = run;
                self.enter(index, span.in_scope(|| self.planned[index].enter_released(outcome, released)));
            }
        }
    }

    fn enter(&self, index: usize, entry: Entry) {
        // Each run is entered once.
        let _ = self.entries[index].set(entry);
    }
}

/// The runs grouped by the store that they ask, in the order in which each store is first asked; those that ask none come
/// first.
fn by_store(planned: &[PlannedRun<'_>], of: &[usize]) -> VecDeque<VecDeque<usize>> {
    let mut queues = VecDeque::from([VecDeque::new()]);
    let mut queue_of: HashMap<StoreId, usize> = HashMap::new();
    for index in of {
        let PlannedRun { event, store, .. } = planned[*index];
        let queue = if event.protection.is_some() { *queue_of.entry(store.id).or_insert(queues.len()) } else { 0 };
        if queue == queues.len() {
            queues.push_back(VecDeque::new());
        }
        queues[queue].push_back(*index);
    }
    queues.retain(|queue| !queue.is_empty());
    queues
}
