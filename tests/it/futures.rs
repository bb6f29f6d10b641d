//! Tasks that are futures: they keep the promises of callbacks, and no poll begins after the end of their lease.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use soloist::observe::{Ended, Fault, Release};
use soloist::store::Names;
use soloist::time::{Clock, ManualClock};
use soloist::{AddErrorKind, Event, EventMutex, MemoryMutex, MutexName, Report, Run, Schedule, Shutdown, SkipReason};
use tokio::runtime::{Builder, Runtime};

use crate::support::{Diary, PATIENCE, entry, noon, ran, run_alone, skipped, until};

mod as_futures;
mod async_store;
mod cancelled;
mod guards;
mod inside;
#[cfg(feature = "redis")]
mod many;
mod operator;
mod waiters;

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn many_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

pub(crate) fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub(crate) fn one_worker() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Returns a schedule of these events, whose futures this runtime drives.
fn schedule(store: impl EventMutex + 'static, runtime: &Runtime, events: impl IntoIterator<Item = Event>) -> Schedule {
    let schedule = Schedule::new(store).with_runtime(runtime.handle().clone());
    for event in events {
        schedule.add(event.every_minute()).unwrap();
    }
    schedule
}

/// Says when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_future_is_a_task_in_all_respects() {
    let (runtime, diary) = (many_threads(), Diary::default());
    let noted = diary.clone();
    let import = move |run: Run| {
        let diary = noted.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            diary.note(format!("{} {}", run.name(), run.fencing_token().is_some()));
            Ok(std::fs::metadata("/").map(drop)?)
        }
    };
    let import = Event::spawn("import", import).without_overlapping().before(diary.task("before"));
    let import = import.then(diary.hook("then")).on_success(diary.hook("on success"));
    let fails =
        Event::spawn("fails", |_| async { Err::<(), _>("no paper".into()) }).on_failure(diary.hook("on failure"));
    let panics = Event::spawn("panics", |_| async { panic!("out of ink") });
    let schedule = schedule(MemoryMutex::new(), &runtime, [import, fails, panics]);
    for report in [schedule.run_due(noon()), schedule.run_due(noon())] {
        assert!(matches!(ran(&report, "import").release(), Some(Release::Released)));
        assert!(entry(&report, "fails").to_string().ends_with(": no paper"), "{report}");
        assert!(
            matches!(ran(&report, "panics").ended(), Ended::Faulted(Fault::Panicked(message)) if &**message == "out of ink")
        );
    }
    let lines = ["before", "import true", "then", "on success", "on failure"];
    assert_eq!(diary.lines(), [lines, lines].concat());
}

#[test]
fn in_the_background_futures_run_beside_each_other_and_take_no_threads() {
    const MANY: usize = 1_000;
    // Other tests start threads, too.
    if run_alone("futures::in_the_background_futures_run_beside_each_other_and_take_no_threads", &[]).is_some() {
        return;
    }
    let runtime = many_threads();
    let (begun, threads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let events = (0..MANY).map(|number| {
        let (begun, threads) = (Arc::clone(&begun), Arc::clone(&threads));
        let task = move |_| {
            let (begun, threads) = (Arc::clone(&begun), Arc::clone(&threads));
            async move {
                if begun.fetch_add(1, Ordering::SeqCst) + 1 == MANY {
                    threads.store(own_threads(), Ordering::SeqCst);
                }
                // Each run goes on until the last one begins.
                let patience = std::time::Instant::now() + PATIENCE;
                while begun.load(Ordering::SeqCst) < MANY && std::time::Instant::now() < patience {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        };
        Event::spawn(format!("e{number}"), task).without_overlapping().in_background()
    });
    let schedule = schedule(MemoryMutex::new(), &runtime, events);
    let before = own_threads();
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert_eq!(report.entries().len(), MANY);
    assert!(
        report.entries().iter().all(|entry| matches!(ran(&report, entry.event()).release(), Some(Release::Released)))
    );
    // The runtime's own two are among those before.
    let more = threads.load(Ordering::SeqCst).saturating_sub(before);
    assert!(more < 200, "{more} threads more than before");
}

/// Counts the threads of this process.
fn own_threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[test]
fn hooks_of_futures_in_the_background_have_threads_of_their_own() {
    let (runtime, diary) = (many_threads(), Diary::default());
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let slow = Event::spawn("slow", |_| async {}).in_background();
    let slow = slow.then(move |_, _| Ok(wait.lock().unwrap().recv_timeout(PATIENCE)?));
    let noted = diary.clone();
    let quick = Event::spawn("quick", |_| async {}).in_background().before(|_| {}).then(move |_, _| {
        noted.note("quick");
        Ok(go_on.send(())?)
    });
    let report = schedule(MemoryMutex::new(), &runtime, [slow, quick]).run_due(noon());
    assert!(!report.is_failure(), "{report}");
    assert_eq!(diary.lines(), ["quick"], "it waits for nobody else's hook");
}

#[test]
fn a_future_never_runs_beside_itself() {
    let (runtime, store) = (many_threads(), MemoryMutex::new());
    let (entered, wait_for_entry) = mpsc::channel();
    let task = move |run: Run| {
        let entered = entered.clone();
        async move {
            entered.send(()).unwrap();
            run.cancelled().await;
        }
    };
    let shutdown = Shutdown::new().with_drain(Duration::ZERO);
    let event = || Event::spawn("import", task.clone()).without_overlapping().grace(PATIENCE / 3);
    let first = schedule(store.clone(), &runtime, [event()]).with_shutdown(&shutdown);
    let second = schedule(store, &runtime, [event()]);
    thread::scope(|scope| {
        let first = scope.spawn(|| first.run_due(noon()));
        wait_for_entry.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(skipped(&second.run_due(noon()), "import"), SkipReason::Overlapping(Some(_))));
        shutdown.trigger();
        assert!(ran(&first.join().unwrap(), "import").is_success(), "it returned when it was told to stop");
    });
}

#[test]
fn an_occurrence_is_one_servers() {
    let (runtime, store, count) = (many_threads(), MemoryMutex::new(), Arc::new(AtomicUsize::new(0)));
    let run_due = |_| {
        let count = Arc::clone(&count);
        let task = move |_| {
            let count = Arc::clone(&count);
            async move { _ = count.fetch_add(1, Ordering::SeqCst) }
        };
        schedule(store.clone(), &runtime, [Event::spawn("e", task).on_one_server().in_background()]).run_due(noon())
    };
    let reports: Vec<Report> = (0..4).map(run_due).collect();
    assert!(matches!(skipped(&reports[3], "e"), SkipReason::RanElsewhere(_)));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn an_event_whose_future_nobody_drives_is_refused_and_told_why() {
    let error = Schedule::in_process().add(Event::spawn("e", |_| async {}).daily()).unwrap_err();
    assert_eq!(error.kind(), AddErrorKind::Runtime);
    assert!(error.to_string().ends_with("or set one with `Schedule::with_runtime(..)`"), "{error}");
    let runtime = many_threads();
    let _inside = runtime.enter();
    let schedule = Schedule::in_process();
    schedule.add(Event::spawn("e", |_| async {}).every_minute()).expect("it is the runtime's");
}

#[test]
fn a_future_whose_runtime_has_ended_fails_and_leaves_its_occurrence_to_another_server() {
    let store = MemoryMutex::new();
    let run_due = |ends: bool| {
        let runtime = many_threads();
        let [foreground, background] = ["foreground", "background"].map(|name| {
            Event::spawn(name, |_| async {}).without_overlapping().on_one_server().hold_at_least(59 * SECOND)
        });
        let schedule = schedule(store.clone(), &runtime, [foreground, background.in_background()]);
        if ends {
            runtime.shutdown_background();
        }
        schedule.run_due(noon())
    };
    let report = run_due(true);
    for name in ["foreground", "background"] {
        assert!(entry(&report, name).to_string().contains("the event ended"), "{report}");
        assert!(matches!(ran(&report, name).release(), Some(Release::Released)));
    }
    assert!(store.held(Names::LeasesWithPrefix("")).unwrap().is_empty());
    assert!(!run_due(false).is_failure());
}
