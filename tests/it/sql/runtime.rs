//! Calls inside another asynchronous runtime: they block, as any task does, and nothing panics.

use std::sync::Arc;
use std::thread;

use soloist::{EventMutex, LeaseGuard, MutexName, Schedule, Term};
use tokio::runtime::{Builder, Runtime};

use super::batches::extend;
use super::trouble::{Trouble, assert_ran, minute, report, request, schedule};
use super::{LONG, on_both};
use crate::servers::proxy::{Fault, Proxy};
use crate::support::{Diary, holder, noon};

on_both!(
    everything_can_be_asked_in_a_runtime_of_one_thread,
    everything_can_be_asked_in_a_runtime_of_many_threads,
    a_schedule_ticks_in_a_blocking_task,
    a_last_handle_may_be_dropped_in_a_task_with_something_owed
);

fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.worker_threads(2).enable_all().build().expect("a runtime"))
}

/// Makes every call of a handle.
fn ask_everything<S: Trouble>(mutex: &S::Mutex, name: &str) {
    S::create_table(mutex).unwrap();
    let lease = mutex.create(&request(name)).unwrap().expect("it is free");
    assert!(mutex.exists(lease.name()).unwrap() && holder(&mutex, lease.name()).is_some());
    assert!(extend(&mutex, std::slice::from_ref(&lease), Term::MAX).remove(0).unwrap());
    assert!(mutex.forget(&lease).unwrap());
    let name = MutexName::lease(name).expect("a name");
    let guard = LeaseGuard::acquire(mutex, name.clone(), Term::MAX).unwrap().expect("it is free");
    assert!(mutex.break_lease(&name).unwrap().is_some());
    drop(guard);
    S::purge(mutex).unwrap();
    mutex.check().unwrap();
}

fn everything_can_be_asked_in_a_runtime_of_one_thread<S: Trouble>() {
    let [runtime, _] = runtimes();
    let mutex = S::shared().mutex();
    runtime.block_on(async move { ask_everything::<S>(&mutex, "runtime:one") });
}

fn everything_can_be_asked_in_a_runtime_of_many_threads<S: Trouble>() {
    let [_, runtime] = runtimes();
    // Made, and used, outside of it at first: its connection moves into tasks, and out of them.
    let mutex = S::shared().mutex();
    mutex.exists(request("runtime:many").name()).unwrap();
    let tasks = (0..4).map(|number| {
        let mutex = mutex.clone();
        runtime.spawn(async move { ask_everything::<S>(&mutex, &format!("runtime:many:{number}")) })
    });
    for task in tasks.collect::<Vec<_>>() {
        runtime.block_on(task).expect("no panic");
    }
    assert!(!mutex.exists(request("runtime:many").name()).unwrap());
}

fn a_schedule_ticks_in_a_blocking_task<S: Trouble>() {
    for runtime in runtimes() {
        let (server, diary) = (S::start(), Diary::default());
        let schedule = Arc::new(schedule(server.mutex(), &diary));
        let ticks = Arc::clone(&schedule);
        let tick = runtime.spawn_blocking(move || assert_ran(&ticks.run_due(noon())));
        runtime.block_on(tick).expect("no panic");
        runtime.block_on(async { assert_ran(&schedule.run_due(minute(1))) });
        let theirs = server.mutex();
        runtime.block_on(async move {
            let schedule = Schedule::new(theirs);
            schedule.add(report(&Diary::default()).in_background()).expect("an event");
            assert_ran(&schedule.run_due(minute(2)));
        });
        assert_eq!(diary.lines().len(), 2);
    }
}

fn a_last_handle_may_be_dropped_in_a_task_with_something_owed<S: Trouble>() {
    for runtime in runtimes() {
        let server = S::start();
        let proxy = Proxy::of(&server);
        runtime.block_on(async {
            let mutex = S::open(&proxy.url(), LONG);
            let spare = mutex.clone();
            proxy.fault_once_after_then(Fault::ReplyCut, 1, Fault::Cut);
            mutex.create(&request("report")).expect_err("the answer is lost");
            proxy.mend();
            thread::spawn(move || drop(spare)).join().expect("no panic");
            drop(mutex);
        });
        assert!(server.held().is_empty());
        drop(runtime);
    }
}
