//! A thousand futures at once, on one Redis: they take a handful of threads.

use std::collections::BTreeMap;

use soloist::RedisMutex;

use super::*;
use crate::servers::redis::Redis;

const MANY: usize = 1_000;

/// Returns the threads of this process, by their names.
fn threads() -> BTreeMap<String, usize> {
    let mut threads = BTreeMap::new();
    for thread in std::fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        *threads.entry(name.trim().to_owned()).or_default() += 1;
    }
    threads
}

#[test]
#[cfg(target_os = "linux")]
fn a_thousand_futures_that_are_due_at_once_take_sixteen_threads_at_most() {
    // Other tests have threads, too.
    let alone = run_alone("futures::many::a_thousand_futures_that_are_due_at_once_take_sixteen_threads_at_most", &[]);
    if alone.is_some() {
        return;
    }
    let (server, runtime) = (Redis::start(), many_threads());
    let (begun, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(BTreeMap::new())));
    let events = (0..MANY).map(|number| {
        let (begun, seen) = (Arc::clone(&begun), Arc::clone(&seen));
        let task = move |_| {
            let (begun, seen) = (Arc::clone(&begun), Arc::clone(&seen));
            async move {
                if begun.fetch_add(1, Ordering::SeqCst) + 1 == MANY {
                    *seen.lock().unwrap() = threads();
                }
                // Each run goes on until the last one begins.
                let patience = std::time::Instant::now() + 3 * PATIENCE;
                while begun.load(Ordering::SeqCst) < MANY && std::time::Instant::now() < patience {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        };
        Event::spawn(format!("e{number}"), task).without_overlapping().on_one_server().in_background()
    });
    let store = RedisMutex::builder(&server.url()).timeout(PATIENCE).build().unwrap();
    let schedule = schedule(store, &runtime, events);
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{}", report.entries().iter().find(|entry| entry.is_failure()).unwrap());
    assert_eq!(report.entries().len(), MANY);
    let seen = seen.lock().unwrap();
    // With the runtime's own two, that of the test, and those that read the server's output.
    assert!((1..=16).contains(&seen.values().sum::<usize>()), "{seen:?}");
    eprintln!("{seen:?}");
}
