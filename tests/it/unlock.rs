//! A run is cancelled by a marker, which is read when its lease is renewed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use chrono::TimeDelta;
use soloist::observe::{Notice, Step};
use soloist::store::LeaseRequest;
use soloist::time::{Clock, ManualClock};
use soloist::{CancelReason, Event, EventMutex, MemoryMutex, MutexName, Run, Schedule, TaskResult, Term};

use crate::scripted::Scripted;
use crate::support::{noon, until};

/// Writes an operator's marker with the token of the run.
fn ask_to_stop(store: &dyn EventMutex, clock: &Clock, token: u64) {
    let mark = MutexName::lease("reports").unwrap().mark("reports", format!("cancel {token}"));
    let request = LeaseRequest::new(mark, Term::new(Duration::from_secs(600)).unwrap(), clock).because("unlock");
    store.create(&request).unwrap().expect("nobody else asks");
}

#[test]
fn a_run_that_is_unlocked_is_told_at_its_next_renewal_and_by_whom() {
    let clock = ManualClock::at(noon());
    let store = MemoryMutex::with_clock(&clock);
    let operator = store.clone();
    let schedule = Schedule::new(store);
    let task = move |run: &Run| -> TaskResult {
        ask_to_stop(&operator, &operator.clock(), run.fencing_token().unwrap().get());
        assert_eq!(run.cancel_reason(), None, "nobody has looked yet");
        clock.advance(Duration::from_secs(25));
        until(|| run.is_cancelled())?;
        Ok(run.check()?)
    };
    schedule.add(Event::call("reports", task).every_minute().without_overlapping()).unwrap();
    let report = schedule.run_due(noon());
    let outcome = report.outcome("reports").expect("it ran");
    assert_eq!(outcome.cancel_reason(), Some(CancelReason::Unlocked));
    assert_eq!(
        outcome.asked_to_stop_by().map(|by| (by.pid(), by.reason())),
        Some((std::process::id(), Some("unlock")))
    );
    assert!(!report.is_failure(), "it did what it was asked to: {report}");
}

#[test]
fn observers_are_told_at_once_that_a_run_is_asked_to_stop_although_its_task_does_not_look() {
    let clock = ManualClock::at(noon());
    let (store, is_told) = (MemoryMutex::with_clock(&clock), Arc::<AtomicBool>::default());
    let (operator, seen) = (store.clone(), Arc::clone(&is_told));
    let schedule = Schedule::new(store).observe(move |notice: &Notice<'_>| {
        if let Step::Cancelled(CancelReason::Unlocked) = notice.step() {
            is_told.store(true, Ordering::SeqCst);
        }
    });
    let task = move |run: &Run| -> TaskResult {
        ask_to_stop(&operator, &operator.clock(), run.fencing_token().unwrap().get());
        clock.advance(Duration::from_secs(25));
        until(|| seen.load(Ordering::SeqCst))
    };
    schedule.add(Event::call("reports", task).every_minute().without_overlapping()).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
}

#[test]
fn the_request_to_stop_another_run_is_not_meant_for_this_one() {
    let clock = ManualClock::at(noon());
    let store = MemoryMutex::with_clock(&clock);
    let operator = store.clone();
    let schedule = Schedule::new(store);
    let task = move |run: &Run| {
        ask_to_stop(&operator, &operator.clock(), run.fencing_token().unwrap().get() - 1);
        clock.advance(Duration::from_secs(300));
        assert_eq!(run.cancel_reason(), None);
    };
    schedule.add(Event::call("reports", task).every_minute().without_overlapping()).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
}

#[test]
fn a_run_that_ends_before_its_first_renewal_is_looked_for_by_nobody() {
    let clock = ManualClock::at(noon());
    let store = Scripted::over(MemoryMutex::with_clock(&clock));
    let schedule = Schedule::new(store.clone());
    let looks = {
        let store = store.clone();
        move || store.asked(&["held"]).len()
    };
    let seen = looks.clone();
    // Adds a quarter of a minute to each minute; the lease is renewed after a third of its minute.
    let task = move |run: &Run| -> TaskResult {
        let quarters = (run.occurrence() - noon()).num_minutes();
        clock.advance(Duration::from_secs(15) * u32::try_from(quarters)?);
        until(|| seen() > 0 || quarters < 2)
    };
    schedule.add(Event::call("reports", task).every_minute().without_overlapping()).unwrap();
    for (minute, expected) in [(0, 0), (1, 0), (2, 1)] {
        let report = schedule.run_due(noon() + TimeDelta::minutes(minute));
        assert!(!report.is_failure(), "{report}");
        assert_eq!(looks(), expected, "after a run of {minute} quarters of a minute");
    }
}

// Lets a read hang. No call of a store can be cut short, so the renewal thread must not make it.
#[test]
fn a_look_that_hangs_loses_no_lease() {
    let clock = ManualClock::at(noon());
    let (end_look, look_ends) = mpsc::channel::<()>();
    let (look_ends, is_looking) = (Mutex::new(look_ends), Arc::new(AtomicBool::new(false)));
    let looks = Arc::clone(&is_looking);
    let store = Scripted::over(MemoryMutex::with_clock(&clock)).before(move |call| {
        if call.is("held") {
            looks.store(true, Ordering::SeqCst);
            let _ = look_ends.lock().unwrap().recv();
        }
        Ok(())
    });
    let schedule = Schedule::new(store);
    let task = move |run: &Run| {
        clock.advance(Duration::from_secs(600)); // ten terms
        assert!(is_looking.load(Ordering::SeqCst), "it was renewed, and the store was asked");
        assert_eq!(run.cancel_reason(), None);
        end_look.send(()).expect("the look hangs");
    };
    schedule.add(Event::call("reports", task).every_minute().without_overlapping()).unwrap();
    let report = schedule.run_due(noon());
    assert!(!report.is_failure(), "{report}");
}
