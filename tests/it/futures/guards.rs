//! The calls of a lease guard that block, as futures.

use soloist::{LeaseGuard, Term};

use super::*;
use crate::scripted::Scripted;

fn name() -> MutexName {
    MutexName::lease("migration").unwrap()
}

#[test]
fn a_wait_whose_future_is_dropped_ends_at_once_and_asks_no_more() {
    let runtime = one_thread();
    let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
    let inner = MemoryMutex::with_clock(&clock);
    let held = LeaseGuard::acquire(&inner, name(), Term::MAX).unwrap();
    let store = Arc::new(Scripted::over(inner));
    let wait = LeaseGuard::acquire_within_async(&store, name(), Term::MAX, PATIENCE);
    let asks_twice = async {
        while store.admissions().len() < 2 {
            clock.advance(Duration::from_millis(100)); // less than the rest between two questions
            tokio::time::sleep(Duration::from_millis(1)).await; // between two looks at another thread
        }
    };
    runtime.block_on(async {
        tokio::select! {
            _ = wait => panic!("it is held"),
            () = asks_twice => {}
        }
    });
    until(|| Arc::strong_count(&store) == 1).expect("its thread ends, although no time passes");
    assert_eq!(store.admissions().len(), 2, "it asks no more");
    drop(held);
    let waits = LeaseGuard::acquire_within_async(&store, name(), Term::MAX, PATIENCE);
    assert!(runtime.block_on(waits).unwrap().is_some());
}

#[test]
fn a_lease_that_is_granted_after_its_future_was_dropped_is_given_back() {
    let runtime = one_thread();
    let ((asked, asks), (go_on, waits)) = (mpsc::channel(), mpsc::channel());
    let waits = Mutex::new(waits);
    let inner = MemoryMutex::new();
    let store = Scripted::over(inner.clone()).before(move |call| {
        if call.is("admit") {
            asked.send(()).unwrap();
            waits.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        }
        Ok(())
    });
    let store = Arc::new(store);
    let mut wait = Box::pin(LeaseGuard::acquire_within_async(&store, name(), Term::DEFAULT, PATIENCE));
    runtime.block_on(async { poll_fn(|context| Poll::Ready(wait.as_mut().poll(context).is_pending())).await });
    asks.recv_timeout(PATIENCE).unwrap();
    drop(wait);
    go_on.send(()).unwrap();
    until(|| store.releases() == [1] && !inner.exists(&name()).unwrap()).unwrap();
}

#[test]
fn a_release_as_a_future_blocks_no_task() {
    let (go_on, waits) = mpsc::channel();
    let waits = Mutex::new(waits);
    let store = Scripted::default().before(move |call| {
        if call.is("release") {
            waits.lock().unwrap().recv_timeout(PATIENCE).expect("the task beside it has its turn");
        }
        Ok(())
    });
    let guard = LeaseGuard::acquire(&store, name(), Term::DEFAULT).unwrap().expect("it is free");
    let beside = async { go_on.send(()).unwrap() };
    let (released, ()) = one_thread().block_on(async { tokio::join!(guard.release_async(), beside) });
    assert!(released.unwrap());
    assert!(!store.exists(&name()).unwrap());
}
