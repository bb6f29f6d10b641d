//! A store on an async driver, as `examples/async_store.rs` has it: it keeps the contract, and a runtime that stalls or ends is an
//! error in time.

use soloist::store::LeaseRequest;
use soloist::{MutexError, Term};

use super::*;

#[path = "../../../examples/async_store.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod example;

use example::{AsyncStore, OnRuntime};

soloist::contract_tests!(OnRuntime::new());

fn on(runtime: &Runtime, timeout: Duration) -> AsyncStore {
    AsyncStore::new(Clock::system(), runtime.handle().clone(), timeout)
}

#[test]
fn it_protects_events_of_a_service_in_the_same_runtime() {
    let runtime = many_threads();
    let (mutex, count) = (on(&runtime, PATIENCE), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    let event = Event::spawn("count", move |_| {
        let count = Arc::clone(&counted);
        async move { _ = count.fetch_add(1, Ordering::SeqCst) }
    });
    let schedule = schedule(mutex, &runtime, [event.without_overlapping().on_one_server()]);
    let reports =
        runtime.block_on(async { [schedule.run_due_async(noon()).await, schedule.run_due_async(noon()).await] });
    assert!(ran(&reports[0], "count").is_success(), "{}", reports[0]);
    assert!(matches!(skipped(&reports[1], "count"), SkipReason::RanElsewhere(_)), "{}", reports[1]);
}

/// Asserts that `error` says that the store is unavailable, and ends with these words.
#[track_caller]
fn assert_unavailable(error: &MutexError, words: &str) {
    assert!(error.is_unavailable() && error.to_string().ends_with(words), "{error}");
}

#[test]
fn a_lease_that_is_granted_too_late_is_given_back() {
    let (runtime, name) = (one_thread(), MutexName::lease("late").unwrap());
    let mutex = on(&runtime, Duration::from_millis(100));
    // Nothing drives the runtime yet.
    let error = mutex.create(&LeaseRequest::new(name.clone(), Term::DEFAULT, &Clock::system())).unwrap_err();
    assert_unavailable(&error, "no answer within 100ms: the store is slow, or its runtime is busy or blocked");
    runtime.block_on(async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    });
    let is_free = || {
        let (mutex, name) = (mutex.clone(), name.clone());
        matches!(runtime.block_on(runtime.spawn_blocking(move || mutex.exists(&name))), Ok(Ok(false)))
    };
    until(is_free).expect("the late grant is released");
}

#[test]
fn a_check_asks_the_store_and_warns_that_it_shares_a_runtime() {
    let runtime = many_threads();
    let mutex = on(&runtime, PATIENCE);
    assert_eq!(mutex.check().unwrap().len(), 1);
    runtime.shutdown_background();
    assert_unavailable(&mutex.check().unwrap_err(), "or its runtime has ended");
}
