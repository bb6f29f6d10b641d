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
            clock.advance(Duration::from_millis(100)); // less than the pause between two requests
            tokio::time::sleep(Duration::from_millis(1)).await; // between two checks of another thread
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
fn while_sixteen_dropped_calls_wait_for_a_store_it_is_asked_by_no_other() {
    let runtime = one_thread();
    let (go_on, waits) = mpsc::channel();
    let (asked, waits) = (Arc::new(AtomicUsize::new(0)), Mutex::new(waits));
    let counted = Arc::clone(&asked);
    let store = Scripted::default().before(move |call| {
        if call.is("admit") {
            counted.fetch_add(1, Ordering::SeqCst);
            waits.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        }
        Ok(())
    });
    let store = Arc::new(store);
    let schedule = Schedule::new(Arc::clone(&store));
    schedule.add(Event::call("reports", |_| {}).every_minute().without_overlapping()).unwrap();
    let asked_by = |count| until(|| asked.load(Ordering::SeqCst) == count).expect("the store is asked");
    runtime.block_on(async {
        for calls in 1..=16 {
            let wait = LeaseGuard::acquire_within_async(&store, name(), Term::DEFAULT, PATIENCE);
            let mut wait = pin!(wait);
            assert!(poll_fn(|context| Poll::Ready(wait.as_mut().poll(context).is_pending())).await);
            asked_by(calls);
        }
        let mut tick = pin!(schedule.run_due_async(noon()));
        assert!(poll_fn(|context| Poll::Ready(tick.as_mut().poll(context).is_pending())).await);
        thread::sleep(Duration::from_millis(100)); // in which it would ask
        asked_by(16);
        (0..17).for_each(|_| go_on.send(()).unwrap());
        let report = tokio::time::timeout(PATIENCE, tick).await.expect("it asks when one of them has ended");
        assert!(matches!(ran(&report, "reports").release(), Some(Release::Released)), "{report}");
    });
    asked_by(17);
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
