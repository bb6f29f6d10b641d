//! Blocking calls inside another runtime: nothing hangs, and a call that cannot run says what to do.

use chrono::TimeDelta;
use soloist::RunOutcome;
use tokio::task::{LocalSet, spawn_blocking};
use tokio::time::timeout;

use super::*;

/// Makes a future in the foreground, one in the background, and a callback.
fn mixed(runtime: &Runtime, store: MemoryMutex) -> Schedule {
    let events = [
        Event::spawn("foreground", |_| async {}).without_overlapping().on_one_server(),
        Event::spawn("background", |_| async {}).without_overlapping().on_one_server().in_background(),
        Event::call("callback", |_| {}),
    ];
    schedule(store, runtime, events)
}

#[track_caller]
fn assert_advised(report: &Report, store: &MemoryMutex) {
    for name in ["foreground", "background"] {
        assert!(entry(report, name).to_string().contains("use `run_due_async`"), "{report}");
        assert!(matches!(ran(report, name).release(), Some(Release::Released)), "{report}");
    }
    assert!(ran(report, "callback").is_success());
    // Another server can run the events that did not start.
    let other = mixed(&many_threads(), store.clone()).run_due(noon());
    assert!(!other.is_failure() && ["foreground", "background"].iter().all(|name| ran(&other, name).is_success()));
}

#[test]
fn in_a_task_that_blocks_its_runtime_the_events_say_what_to_use() {
    let (runtime, store) = (one_thread(), MemoryMutex::new());
    let schedule = mixed(&runtime, store.clone());
    let report = runtime.block_on(async { tokio::spawn(async move { schedule.run_due(noon()) }).await });
    assert_advised(&report.expect("no panic"), &store);
}

#[test]
fn in_the_main_task_of_a_runtime_of_one_thread_too() {
    let (runtime, store) = (one_thread(), MemoryMutex::new());
    let schedule = mixed(&runtime, store.clone());
    assert_advised(&runtime.block_on(async { schedule.run_due(noon()) }), &store);
}

#[test]
fn in_a_task_of_a_runtime_that_can_have_other_threads_all_events_run() {
    for runtime in [one_worker(), many_threads()] {
        for in_main in [true, false] {
            let schedule = mixed(&runtime, MemoryMutex::new());
            let tick = async move { schedule.run_due(noon()) };
            let report = if in_main {
                runtime.block_on(tick)
            } else {
                runtime.block_on(async {
                    timeout(PATIENCE, tokio::spawn(tick)).await.expect("no deadlock").expect("no panic")
                })
            };
            assert!(!report.is_failure(), "{report}");
        }
    }
}

#[test]
fn events_of_another_runtime_run_while_their_neighbours_are_told() {
    let (blocked, free) = (one_thread(), many_threads());
    let events = || [Event::spawn("here", |_| async {}), Event::spawn("elsewhere", |_| async {})];
    for background in [false, true] {
        let schedule = Schedule::in_process();
        for (event, runtime) in events().into_iter().zip([&blocked, &free]) {
            let _in_it = runtime.enter();
            let event = if background { event.in_background() } else { event };
            schedule.add(event.every_minute().without_overlapping()).unwrap();
        }
        let report = blocked.block_on(async { schedule.run_due(noon()) });
        assert!(entry(&report, "here").to_string().contains("use `run_due_async`"), "{report}");
        assert!(ran(&report, "elsewhere").is_success(), "{report}");
    }
}

#[test]
fn the_hook_of_a_future_that_can_not_start_holds_up_no_other_run() {
    let (runtime, caller) = (one_thread(), thread::current().id());
    let (sender, hooks) = mpsc::channel();
    let schedule = Schedule::in_process().with_runtime(runtime.handle().clone());
    for name in ["a", "b"] {
        let sender = sender.clone();
        let notes = move |_: &Run, _: &RunOutcome| sender.send(thread::current().id()).expect("the test listens");
        schedule.add(Event::spawn(name, |_| async {}).every_minute().in_background().on_failure(notes)).unwrap();
    }
    let report = runtime.block_on(async { schedule.run_due(noon()) });
    assert!(entry(&report, "a").to_string().contains("use `run_due_async`"), "{report}");
    let hooks: Vec<_> = hooks.try_iter().collect();
    assert!(hooks.len() == 2 && !hooks.contains(&caller), "the loop, on the caller's thread, calls no hook: {hooks:?}");
}

#[test]
fn a_loop_that_blocks_the_only_thread_says_what_to_use() {
    let (runtime, shutdown) = (one_thread(), Shutdown::new());
    let (sender, reports) = mpsc::channel();
    let ends = shutdown.clone();
    let schedule = Schedule::in_process().with_runtime(runtime.handle().clone()).on_report(move |report| {
        sender.send(report.clone()).expect("the test listens");
        ends.trigger();
    });
    schedule.add(Event::spawn("e", |_| async {}).every_second()).unwrap();
    runtime.block_on(async { schedule.work(&shutdown) });
    let of_work = reports.recv().expect("it has ticked");
    let of_a_minute = runtime.block_on(async { schedule.run_minute(noon() + TimeDelta::seconds(58)) });
    for report in [of_work, of_a_minute] {
        assert!(entry(&report, "e").to_string().contains("`work_async`"), "{report}");
    }
    // Another thread does not block the runtime.
    let handle = runtime.handle().clone();
    let _in_runtime = handle.enter();
    thread::spawn(move || runtime.block_on(async { tokio::time::sleep(PATIENCE).await }));
    assert!(!schedule.run_minute(noon() + TimeDelta::seconds(58)).is_failure());
}

#[test]
fn a_loop_on_the_only_worker_of_a_runtime_runs_futures() {
    let (runtime, shutdown) = (one_worker(), Shutdown::new());
    let ends = shutdown.clone();
    let schedule = Schedule::in_process().with_runtime(runtime.handle().clone()).on_report(move |_| ends.trigger());
    schedule.add(Event::spawn("e", |_| async {}).every_second()).unwrap();
    let minute = schedule.clone();
    runtime.block_on(async {
        let work = tokio::spawn(async move { schedule.work(&shutdown) });
        timeout(PATIENCE, work).await.expect("no deadlock").expect("no panic");
        let minute = tokio::spawn(async move { minute.run_minute(noon() + TimeDelta::seconds(58)) });
        let report = timeout(PATIENCE, minute).await.expect("no deadlock").expect("no panic");
        assert!(!report.is_failure(), "{report}");
    });
}

#[test]
fn in_a_local_set_too() {
    let (runtime, local, store) = (one_thread(), LocalSet::new(), MemoryMutex::new());
    let schedule = mixed(&runtime, store.clone());
    let report =
        local.block_on(&runtime, async { tokio::task::spawn_local(async move { schedule.run_due(noon()) }).await });
    assert_advised(&report.expect("no panic"), &store);
}

#[test]
fn in_a_blocking_task_all_events_run() {
    for runtime in [one_thread(), one_worker(), many_threads()] {
        let schedule = mixed(&runtime, MemoryMutex::new());
        let report =
            runtime.block_on(async { timeout(PATIENCE, spawn_blocking(move || schedule.run_due(noon()))).await });
        let report = report.expect("no deadlock").expect("no panic");
        assert!(!report.is_failure(), "{report}");
    }
}

#[test]
fn as_a_future_a_tick_runs_all_events_anywhere() {
    for runtime in [one_thread(), one_worker(), many_threads()] {
        let schedule = mixed(&runtime, MemoryMutex::new());
        runtime.block_on(async {
            let in_main = schedule.run_due_async(noon());
            assert!(!timeout(PATIENCE, in_main).await.expect("no deadlock").is_failure());
            let in_task = tokio::spawn(timeout(PATIENCE, schedule.run_minute_async(noon())));
            assert!(!in_task.await.expect("no panic").expect("no deadlock").is_failure());
        });
    }
    let (runtime, local) = (one_thread(), LocalSet::new());
    let schedule = mixed(&runtime, MemoryMutex::new());
    let report = local.block_on(&runtime, async { timeout(PATIENCE, schedule.run_due_async(noon())).await });
    assert!(!report.expect("no deadlock").is_failure());
}

#[test]
fn in_a_blocking_task_a_runtime_that_another_task_holds_up_is_waited_for() {
    for runtime in [one_thread(), one_worker()] {
        let schedule = mixed(&runtime, MemoryMutex::new());
        let report = runtime.block_on(async {
            let tick = spawn_blocking(move || schedule.run_due(noon()));
            let stall = || thread::sleep(Duration::from_millis(1_500)); // nothing is polled meanwhile
            tokio::spawn(async move { stall() });
            stall();
            timeout(PATIENCE, tick).await
        });
        let report = report.expect("no deadlock").expect("no panic");
        assert!(!report.is_failure(), "{report}");
    }
}
