//! The wait for a lease guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use soloist::store::MutexErrorKind;
use soloist::time::ManualClock;
use soloist::{EventMutex, LeaseGuard, MemoryMutex, MutexName, Term};

use crate::scripted::Scripted;
use crate::support::until;

fn name() -> MutexName {
    MutexName::lease("migration").unwrap()
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn who_waits_for_a_name_has_it_when_it_is_given_back() {
    let store = Scripted::default();
    let held = LeaseGuard::acquire(&store, name(), Term::DEFAULT).unwrap();
    let waits = {
        let store = store.clone();
        thread::spawn(move || LeaseGuard::acquire_within(&store, name(), Term::DEFAULT, MINUTE))
    };
    let asked = store.calls();
    until(|| store.calls() > asked + 1).unwrap();
    assert!(!waits.is_finished());
    drop(held);
    assert!(waits.join().unwrap().unwrap().is_some());
    assert!(!store.exists(&name()).unwrap());
}

#[test]
fn a_wait_for_a_name_ends_with_its_patience() {
    let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
    let store = MemoryMutex::with_clock(&clock);
    let held = LeaseGuard::acquire(&store, name(), Term::MAX).unwrap();
    assert!(LeaseGuard::acquire_within(&store, name(), Term::MAX, Duration::ZERO).unwrap().is_none());
    let waits = {
        let store = store.clone();
        thread::spawn(move || LeaseGuard::acquire_within(&store, name(), Term::MAX, MINUTE))
    };
    for _ in 0..59 {
        clock.advance(Duration::from_secs(1));
    }
    assert!(!waits.is_finished());
    until(|| {
        clock.advance(Duration::from_secs(1));
        waits.is_finished()
    })
    .unwrap();
    assert!(waits.join().unwrap().unwrap().is_none());
    drop(held);
}

#[test]
fn a_store_that_is_out_is_asked_again_by_who_may_wait() {
    let is_out = Arc::new(AtomicBool::new(true));
    let out = Arc::clone(&is_out);
    let store = Scripted::default()
        .before(move |call| if call.is("admit") && out.load(Ordering::SeqCst) { call.times_out() } else { Ok(()) });
    let wait = |patience| LeaseGuard::acquire_within(&store, name(), Term::DEFAULT, patience);
    assert_eq!(wait(Duration::ZERO).unwrap_err().kind(), MutexErrorKind::Unavailable);
    let comes_back = {
        let (store, asked) = (store.clone(), store.calls());
        thread::spawn(move || {
            until(|| store.calls() > asked + 1).unwrap();
            is_out.store(false, Ordering::SeqCst);
        })
    };
    assert!(wait(MINUTE).unwrap().is_some());
    comes_back.join().unwrap();
    let too_short = Term::new(Duration::from_millis(1)).unwrap();
    let wrong = LeaseGuard::acquire_within(&store, name(), too_short, MINUTE).unwrap_err();
    assert_eq!(wrong.kind(), MutexErrorKind::Unusable, "there is nothing to wait for");
}
