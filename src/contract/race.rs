//! Helpers for races between threads. The threads start together, and never wait for a thread that has failed.

use std::hint;
use std::ops::Range;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use super::subject::must;
use crate::base::lock::lock;
use crate::lease::name::MutexName;
use crate::time::clock::{Clock, moment::Moment};

/// The time that a case can spend on repetitions. On a slow store, the case makes fewer attempts in this time.
pub(super) struct TimeToRepeat {
    clock: Clock,
    began: Moment,
}

impl TimeToRepeat {
    pub(super) fn begin() -> Self {
        let clock = Clock::system();
        Self { began: clock.moment(), clock }
    }

    pub(super) fn is_over(&self) -> bool {
        self.has_passed(Duration::from_secs(10))
    }

    fn has_passed(&self, time: Duration) -> bool {
        self.clock.moment().since(self.began) >= time
    }
}

/// Calls `attempt` with each number below `times`. On a slow store, this stops after ten seconds, but makes at least
/// `least` calls. Returns the number of calls.
pub(super) fn repeat(least: usize, times: usize, mut attempt: impl FnMut(usize)) -> usize {
    let time = TimeToRepeat::begin();
    (0..times).take_while(|number| *number < least || !time.is_over()).inspect(|number| attempt(*number)).count()
}

/// Plays rounds. In each round, all threads call `attempt` at the same moment, with the numbers of the thread and of
/// the round. When all threads have their answers, each thread calls `afterwards`. Returns the answers of each round,
/// in the order of the threads.
///
/// The number of rounds depends on the store. It is `usual` if the store is neither fast nor slow. On a fast store, two
/// requests rarely meet in a round, so up to ten times as many rounds are played. On a slow store, the rounds stop
/// after ten seconds, but at least a twentieth of `usual` is played.
pub(super) fn rounds<T: Send>(
    threads: usize,
    usual: usize,
    attempt: impl Fn(usize, usize) -> T + Sync,
    afterwards: impl Fn(&T) + Sync,
) -> Vec<Vec<T>> {
    const EAGER: Duration = Duration::from_millis(50);
    let time = TimeToRepeat::begin();
    let mut answers = Vec::new();
    while (answers.len() < usual && !time.is_over()) || (answers.len() < usual * 10 && !time.has_passed(EAGER)) {
        let next = answers.len()..answers.len() + usual / 20;
        answers.extend(exactly(threads, next, &attempt, &afterwards));
    }
    answers
}

/// Plays exactly the rounds in the range `rounds`; see the function [`rounds()`].
pub(super) fn exactly<T: Send>(
    threads: usize,
    rounds: Range<usize>,
    attempt: impl Fn(usize, usize) -> T + Sync,
    afterwards: impl Fn(&T) + Sync,
) -> Vec<Vec<T>> {
    let line = StartLine { threads, arrived: AtomicUsize::new(0), failed: Mutex::new(false), opened: Condvar::new() };
    let mut by_thread = together(threads, |thread| {
        let _open = OpenOnPanic(&line);
        let mut answers = Vec::with_capacity(rounds.len());
        for round in rounds.clone() {
            if !line.wait() {
                break;
            }
            let answer = attempt(thread, round);
            if !line.wait() {
                break;
            }
            afterwards(&answer);
            answers.push(answer);
        }
        answers.into_iter()
    });
    rounds.clone().map(|_| by_thread.iter_mut().filter_map(Iterator::next).collect()).collect()
}

/// Runs `work` on several threads, and returns all results. If a thread panics, this function panics after all threads
/// have ended.
pub(super) fn together<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        join(threads)
    })
}

/// Repeats `hammer` on several threads while `work` runs. The threads stop after ten seconds even if `work` still runs:
/// otherwise, an unfair store could serve them for ever, and never serve `work`.
pub(super) fn beside<R>(threads: usize, hammer: impl Fn() + Sync, work: impl FnOnce() -> R) -> R {
    let (done, time) = (AtomicBool::new(false), TimeToRepeat::begin());
    let repeat = || {
        while !done.load(Ordering::SeqCst) && !time.is_over() {
            hammer();
        }
    };
    thread::scope(|scope| {
        let hammering: Vec<_> = (0..threads).map(|_| scope.spawn(repeat)).collect();
        let result = {
            let _done = SetOnDrop(&done);
            work()
        };
        join(hammering);
        result
    })
}

/// Repeats `attempt` until it returns an answer. Fails if there is no answer within 20 seconds.
#[track_caller]
pub(super) fn patiently<T>(promise: &str, name: &MutexName, mut attempt: impl FnMut() -> Option<T>) -> T {
    const PATIENCE: Duration = Duration::from_secs(20);
    let clock = Clock::system();
    let began = clock.moment();
    loop {
        if let Some(answer) = attempt() {
            return answer;
        }
        let in_time = clock.moment().since(began) < PATIENCE;
        must(in_time, promise, name, format_args!("it did not happen within {PATIENCE:?}"));
        thread::yield_now();
    }
}

/// A barrier that lets threads start when all threads have arrived. A waiting thread spins at first, so that all
/// threads start at nearly the same moment. If the store is slow, the thread then sleeps, and leaves the cores to the
/// store.
struct StartLine {
    threads: usize,
    arrived: AtomicUsize,
    failed: Mutex<bool>,
    /// Notified when all threads have arrived, or when a thread has failed.
    opened: Condvar,
}

impl StartLine {
    /// Waits until all threads have arrived. Returns `false` if a thread has failed and will never arrive.
    fn wait(&self) -> bool {
        let place = self.arrived.fetch_add(1, Ordering::SeqCst);
        let all = (place / self.threads + 1) * self.threads;
        let have_arrived = || self.arrived.load(Ordering::SeqCst) >= all;
        if place + 1 == all {
            self.open(false);
        }
        for _ in 0..20 {
            for _ in 0..200 {
                if have_arrived() {
                    return true;
                }
                hint::spin_loop();
            }
            thread::yield_now();
        }
        let failed = lock(&self.failed);
        let is_closed = |failed: &mut bool| !*failed && !have_arrived();
        drop(self.opened.wait_while(failed, is_closed).unwrap_or_else(PoisonError::into_inner));
        have_arrived()
    }

    fn open(&self, failed: bool) {
        *lock(&self.failed) |= failed;
        self.opened.notify_all();
    }
}

struct OpenOnPanic<'a>(&'a StartLine);

impl Drop for OpenOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.open(true);
        }
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn join<T>(threads: Vec<ScopedJoinHandle<'_, T>>) -> Vec<T> {
    let ends: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    ends.into_iter().map(|end| end.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
}
