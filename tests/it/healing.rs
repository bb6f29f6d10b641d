//! Leases that are renewed, lost, held longer than their tasks, or absent. The tests use a clock that they move,
//! or short real leases, without a server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use soloist::observe::{Ended, Fault, Notice, Release, Step};
use soloist::store::{Admission, Admitted, Holder, Lease, LeaseRequest, Scope};
use soloist::time::{Clock, ManualClock};
use soloist::{
    CancelReason, Event, EventMutex, FileMutex, LeaseGuard, MemoryMutex, MutexError, MutexName, OutagePolicy, Period,
    Report, Run, Schedule, Shutdown, SkipReason, TaskResult, Term,
};

use crate::scripted::{Admissions, Scripted, forward};
use crate::support::{self, Diary, HOUR, NO_THREADS, PATIENCE, at, entry, noon, ran, run_alone, skipped, until};

mod guard;
mod holding;
mod loss;
mod outage;
mod renewal;
mod timeout;

/// The term of a renewed lease, and the time of its renewal.
const TERM: Duration = Duration::from_secs(60);
const THIRD: Duration = Duration::from_secs(20);

const SECOND: Duration = Duration::from_secs(1);

type Store = Arc<dyn EventMutex>;

fn in_memory(clock: &ManualClock) -> Store {
    Arc::new(MemoryMutex::with_clock(clock))
}

/// Tries a promise of all stores on a store of this process and on one of this host.
fn in_memory_and_on_file(promise: impl Fn(&ManualClock, &Store)) {
    let clock = ManualClock::at(noon());
    promise(&clock, &in_memory(&clock));
    let (clock, dir) = (ManualClock::at(noon()), tempfile::tempdir().expect("a temporary directory"));
    promise(&clock, &(Arc::new(FileMutex::builder(dir.path()).clock(&clock).open().expect("it is ours")) as Store));
}

fn schedule(store: &Store, clock: &ManualClock, events: impl IntoIterator<Item = Event>) -> Schedule {
    let schedule = Schedule::new(Arc::clone(store)).with_clock(clock);
    for event in events {
        schedule.add(event).unwrap();
    }
    schedule
}

/// Ticks once at noon with an event `e` of this task.
#[track_caller]
fn tick(store: &Store, clock: &ManualClock, event: impl FnOnce(Event) -> Event, task: impl Task) -> Report {
    schedule(store, clock, [event(Event::call("e", task).every_minute())]).run_due(noon())
}

/// The protection of an event.
type Way = fn(Event) -> Event;

type Work = fn(&Run) -> TaskResult;

trait Task: Fn(&Run) -> TaskResult + Send + Sync + 'static {}

impl<T: Fn(&Run) -> TaskResult + Send + Sync + 'static> Task for T {}

/// Returns a task that takes this long, and notices nothing meanwhile.
fn takes(clock: &ManualClock, long: Duration) -> impl Task {
    let clock = clock.clone();
    move |_| {
        clock.advance(long);
        Ok(())
    }
}

fn lease(name: &str) -> MutexName {
    MutexName::lease(name).unwrap()
}

#[track_caller]
fn holder(store: &dyn EventMutex, name: &str) -> Holder {
    support::holder(store, &lease(name)).unwrap_or_else(|| panic!("nobody holds {name}"))
}

/// Returns the end of the lease with this name; `None`: the name is free.
fn held_until(store: &dyn EventMutex, name: &str) -> Option<DateTime<Utc>> {
    support::holder(store, &lease(name)).map(|holder| holder.until())
}

fn now(clock: &ManualClock) -> DateTime<Utc> {
    Clock::from(clock).now()
}

/// Lets a third of the term pass, and waits until the lease is renewed.
fn let_it_be_renewed(store: &dyn EventMutex, clock: &ManualClock, name: &str) -> TaskResult {
    clock.advance(THIRD);
    until(|| held_until(store, name) == Some(now(clock) + TERM))
}

/// A clock that runs until this is dropped.
struct Running(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

/// Lets the clock run, for threads that wait on it.
fn let_it_run(clock: &ManualClock) -> Running {
    let (over, clock) = (Arc::new(AtomicBool::new(false)), clock.clone());
    let seen = Arc::clone(&over);
    let runs = move || {
        while !seen.load(Ordering::SeqCst) {
            clock.advance(Duration::from_millis(100));
            thread::sleep(Duration::from_millis(1)); // a second takes ten milliseconds
        }
    };
    Running(over, Some(thread::spawn(runs)))
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.take().expect("it is stopped once").join().expect("it only moves the clock");
    }
}

/// Returns the result of this wait of `run`, in a thread of its own: a wait without an end fails the test instead
/// of hanging it.
#[track_caller]
fn cancelled(run: &Run, timeout: Duration) -> Option<CancelReason> {
    let run = run.clone();
    let waiting = thread::spawn(move || run.wait_cancelled(timeout));
    until(|| waiting.is_finished()).expect("the wait has an end");
    waiting.join().expect("it only waits")
}

/// Returns a store in memory that makes decisions in its own way.
fn odd(
    inner: &MemoryMutex,
    scope: Scope,
    admit: impl Fn(&dyn EventMutex, &mut Admissions) + Send + Sync + 'static,
) -> Arc<Scripted> {
    Arc::new(Scripted::over(inner.clone()).scope(scope).on_admit(admit))
}

/// Returns a store with the three required methods only. Each call for `slow` takes longer than a short term.
fn plain() -> Scripted {
    Scripted::default().three_methods().on_create(|inner, request| {
        if request.name().mutex() == "slow" {
            thread::sleep(request.term().get()); // the clock is the machine's
            // The inner lease is longer than requested, so that its release is visible.
            let lease = inner.create(&request.with(request.name().clone(), Term::MAX))?;
            return Ok(lease.map(|lease| request.granted(lease.token())));
        }
        inner.create(request)
    })
}
