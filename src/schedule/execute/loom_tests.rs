//! Tests with `loom` of the queue between a loop and its workers, in every order that their steps can take.
//!
//! The queue's source is compiled a second time here, and waits with what `loom` has. There a time-out never comes, so that a
//! loop or a worker that nobody wakes waits for ever, and `loom` tells of it.

use std::sync::Arc;

use loom::thread;

use worker_queue::{Demand, Performed, Turn, WorkerQueue};

mod waiting {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "loop_signal.rs"]
#[expect(clippy::duplicate_mod, reason = "it waits with other means here")]
mod loop_signal;

#[path = "worker_queue.rs"]
#[expect(clippy::duplicate_mod, reason = "it waits with other means here")]
mod worker_queue;

type Queue = Arc<WorkerQueue<u8>>;

fn in_every_order(model: impl Fn() + Send + Sync + 'static) {
    // `loom::model` would show what is traced, each time.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A worker thread, which starts another where one is asked for, if the system has `threads` for it.
fn work(queue: &Queue, threads: usize) -> thread::JoinHandle<()> {
    let queue = Arc::clone(queue);
    thread::spawn(move || {
        let (mut performed, mut started) = (Performed::Nothing, Vec::new());
        while let Some((job, demand)) = queue.exchange(performed) {
            started.extend(start_for(demand, &queue, threads));
            performed = Performed::Job(Some(job));
        }
        for worker in started {
            worker.join().expect("it does not panic");
        }
    })
}

fn start_for(demand: Demand, queue: &Queue, threads: usize) -> Option<thread::JoinHandle<()>> {
    match (demand, threads) {
        (Demand::Met, _) => None,
        (Demand::NewWorker, 0) => {
            queue.stop_growing();
            None
        }
        (Demand::NewWorker, _) => Some(work(queue, threads - 1)),
    }
}

/// Adds these jobs one after another, and takes what ends, as a loop does.
fn drive(queue: &Queue, jobs: &[u8], threads: usize) {
    let (mut wanted, mut ended, mut workers) = (jobs.iter().copied(), Vec::new(), Vec::new());
    let (mut all, mut at_work) = (Vec::new(), None);
    loop {
        match queue.wait(wanted.len().min(1), None, &mut ended) {
            Turn::Done => break,
            Turn::LookAway => unreachable!("none of them is away"),
            Turn::PerformHere(job) => {
                assert!(at_work.replace(job).is_none(), "the one before was handed out");
                queue.performed_here(Some(job));
            }
            Turn::Ask(room) => {
                all.append(&mut ended);
                at_work = None;
                let demand = queue.add(wanted.by_ref().take(room));
                workers.extend(start_for(demand, queue, threads));
            }
        }
    }
    queue.close();
    for worker in workers {
        worker.join().expect("it does not panic");
    }
    all.sort_unstable();
    assert_eq!(all, jobs, "each job ended once");
}

#[test]
fn each_job_is_performed_once_and_the_loop_hears_of_it() {
    in_every_order(|| drive(&Arc::new(WorkerQueue::new(Arc::default())), &[1, 2], 1));
}

#[test]
fn two_workers_share_the_jobs_and_both_end() {
    in_every_order(|| drive(&Arc::new(WorkerQueue::new(Arc::default())), &[1, 2, 3], 2));
}

#[test]
fn without_any_thread_the_loop_performs_the_jobs_itself() {
    in_every_order(|| drive(&Arc::new(WorkerQueue::new(Arc::default())), &[1, 2], 0));
}

#[test]
fn workers_end_when_the_queue_closes_while_they_are_idle_or_at_work() {
    in_every_order(|| {
        let queue: Queue = Arc::new(WorkerQueue::new(Arc::default()));
        let demand = queue.add([1]);
        let worker = start_for(demand, &queue, 1).expect("the first job needs a worker");
        queue.close();
        worker.join().expect("it does not panic");
        let mut ended = Vec::new();
        assert!(matches!(queue.wait(0, None, &mut ended), Turn::Ask(0)));
        assert_eq!(ended, [1], "what was added is performed");
        assert!(matches!(queue.wait(0, None, &mut ended), Turn::Done));
    });
}

/// A worker passes on one of two jobs, which ends elsewhere: the loop misses neither.
fn drive_with_one_away(away: u8) {
    let signal = Arc::<loop_signal::LoopSignal>::default();
    let queue: Queue = Arc::new(WorkerQueue::new(Arc::clone(&signal)));
    let arrived = Arc::new(loom::sync::Mutex::new(None));
    assert!(queue.add([1, 2]) == Demand::NewWorker);
    let worker = thread::spawn({
        let (queue, arrived) = (Arc::clone(&queue), Arc::clone(&arrived));
        move || {
            let (mut performed, mut elsewhere) = (Performed::Nothing, None);
            while let Some((job, _)) = queue.exchange(performed) {
                performed = Performed::Job((job != away).then_some(job));
                if job == away {
                    queue.goes_away();
                    let (signal, arrived) = (Arc::clone(&signal), Arc::clone(&arrived));
                    elsewhere = Some(thread::spawn(move || {
                        *arrived.lock().expect("nobody panics") = Some(job);
                        signal.wake();
                    }));
                }
            }
            elsewhere.expect("it was passed on").join().expect("it does not panic");
        }
    });
    let (mut ended, mut all) = (Vec::new(), Vec::new());
    loop {
        if let Some(job) = arrived.lock().expect("nobody panics").take() {
            queue.came_back(Some(job));
        }
        match queue.wait(0, None, &mut ended) {
            Turn::Ask(_) => all.append(&mut ended),
            Turn::LookAway => {}
            Turn::Done => break,
            Turn::PerformHere(_) => unreachable!("there is a worker"),
        }
    }
    queue.close();
    worker.join().expect("it does not panic");
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
}

#[test]
fn the_loop_hears_of_a_job_that_ends_elsewhere_before_the_others() {
    in_every_order(|| drive_with_one_away(1));
}

#[test]
fn the_loop_hears_of_a_job_that_ends_elsewhere_after_the_others() {
    in_every_order(|| drive_with_one_away(2));
}
