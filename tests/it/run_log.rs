//! The log of runs: what the fleet ran, who died at it, and what a store that is out costs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::{
    Event, EventMutex, Lease, LeaseRequest, ManualClock, MemoryMutex, MutexError, MutexName, Owner, Run, RunLog,
    RunRecord, RunResult, RunState, Schedule,
};

use crate::scripted::Scripted;
use crate::support::{noon, until};

fn minute(number: i64) -> DateTime<Utc> {
    noon() + TimeDelta::minutes(number)
}

fn store() -> (ManualClock, MemoryMutex) {
    let clock = ManualClock::at(noon());
    let mutex = MemoryMutex::with_clock(&clock);
    (clock, mutex)
}

fn logged(mutex: &MemoryMutex) -> Schedule {
    Schedule::new(mutex.clone()).with_run_log(3).expect("it keeps a log")
}

#[test]
fn the_last_runs_of_the_fleet_are_on_record_whichever_server_had_them() {
    let (_clock, mutex) = store();
    let event = || {
        let fails = |run: &Run| if run.occurrence() == minute(1) { Err("no paper".into()) } else { Ok(()) };
        Event::call("a", fails).every_minute().on_one_server().without_overlapping()
    };
    let (mut one, mut other) = (logged(&mutex), logged(&mutex));
    one.add(event()).unwrap();
    other.add(event()).unwrap();
    for number in 0..5 {
        let (first, second) = if number % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let ran = first.run_due(minute(number));
        assert!(second.run_due(minute(number)).skip("a").is_some());
        let token = ran.ran("a").and_then(soloist::RunOutcome::fencing_token);
        let newest = one.runs("a").unwrap().remove(0);
        assert_eq!((newest.record().occurrence(), newest.record().fencing_token()), (minute(number), token));
    }
    let runs = other.runs("a").unwrap();
    assert_eq!(runs, one.runs("a").unwrap());
    assert_eq!(runs.iter().map(|run| run.record().occurrence()).collect::<Vec<_>>(), [4, 3, 2].map(minute));
    assert!(runs.iter().all(|run| run.state() == RunState::Ended && run.record().pid() == std::process::id()));
    let in_status = other.status().events.remove(0).log.expect("it has one");
    assert_eq!(in_status, runs);
}

#[test]
fn a_failure_is_on_record_with_its_error_and_the_last_success_stays() {
    let (_clock, mutex) = store();
    let mut schedule = logged(&mutex);
    let fails = |run: &Run| if run.occurrence() > noon() { Err("no\npaper".into()) } else { Ok(()) };
    schedule.add(Event::call("a", fails).every_minute()).unwrap();
    (0..6).for_each(|number| drop(schedule.run_due(minute(number))));
    let runs = schedule.runs("a").unwrap();
    assert_eq!(runs.iter().map(|run| run.record().occurrence()).collect::<Vec<_>>(), [5, 4, 0].map(minute));
    let end = runs[0].record().end().unwrap();
    assert_eq!((end.result(), end.error()), (RunResult::Failed, Some(r"no\npaper")));
    assert!(runs[2].record().is_success());
}

#[test]
fn a_run_at_work_is_on_record_and_one_whose_lease_is_gone_is_presumed_dead() {
    let (clock, mutex) = store();
    let mut schedule = logged(&mutex);
    let seen = Arc::new(Mutex::new(None));
    let (shared, inner) = (Arc::clone(&seen), Arc::new(Mutex::new(None::<Schedule>)));
    let nested = Arc::clone(&inner);
    let task = move |_: &Run| {
        let schedule = nested.lock().unwrap().clone().expect("it was put there");
        until(|| schedule.runs("a").unwrap().len() == 1)?;
        *shared.lock().unwrap() = Some(schedule.runs("a").unwrap());
        Ok(())
    };
    schedule.add(Event::call("a", task).every_minute().without_overlapping()).unwrap();
    schedule.add(Event::call("bare", |_| {}).yearly()).unwrap();
    *inner.lock().unwrap() = Some(schedule.clone());
    assert!(!schedule.run_due(noon()).is_failure());
    let at_work = seen.lock().unwrap().take().expect("it looked").remove(0);
    assert_eq!(at_work.state(), RunState::AtWork, "{at_work}");
    assert_eq!(schedule.runs("a").unwrap()[0].state(), RunState::Ended);

    // What a server leaves behind that was killed.
    let log = mutex.run_log().expect("it has one");
    clock.advance(Duration::from_secs(60));
    let dead = |event: &str| RunRecord::started(event, Owner::unique(), minute(1), None, minute(1)).on("web-2", 17);
    log.write(&[dead("a"), dead("bare")], 3).unwrap();
    let runs = schedule.runs("a").unwrap();
    assert_eq!(runs[0].state(), RunState::PresumedDead);
    assert_eq!(
        runs[0].to_string(),
        "2026-03-01T12:01:00Z started at 2026-03-01T12:01:00Z on web-2, pid 17: presumed dead"
    );
    assert_eq!(schedule.runs("bare").unwrap()[0].state(), RunState::Unknown, "it has no lease");
    inner.lock().unwrap().take();
}

/// Takes no record while it is out. Its mutexes are as good as ever.
#[derive(Clone, Debug, Default)]
struct OutLog(MemoryMutex, Arc<AtomicBool>);

impl EventMutex for OutLog {
    fn inner(&self) -> Option<&dyn EventMutex> {
        Some(&self.0)
    }
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.0.create(request)
    }
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.0.exists(name)
    }
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.0.forget(lease)
    }
    fn run_log(&self) -> Option<&dyn RunLog> {
        Some(self)
    }
}

impl RunLog for OutLog {
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        if self.1.load(Ordering::Relaxed) {
            return Err(MutexError::unavailable("write the log of runs", "out of paper"));
        }
        RunLog::write(&self.0, records, keep)
    }
    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        RunLog::runs(&self.0, event)
    }
}

#[test]
fn a_log_that_is_out_delays_no_run_and_is_written_when_it_is_back() {
    let store = OutLog::default();
    let mut schedule = Schedule::new(store.clone()).with_run_log(100).unwrap();
    schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping()).unwrap();
    store.1.store(true, Ordering::Relaxed);
    for number in 0..5 {
        assert!(schedule.run_due(minute(number)).ran("a").is_some());
    }
    assert!(schedule.runs("a").unwrap().is_empty());
    store.1.store(false, Ordering::Relaxed);
    let is_written = || schedule.runs("a").unwrap().iter().filter(|run| run.state() == RunState::Ended).count() == 5;
    until(is_written).unwrap();
    let times: Vec<_> = schedule.runs("a").unwrap().iter().map(|run| run.record().occurrence()).collect();
    assert_eq!(times, [4, 3, 2, 1, 0].map(minute));
}

#[test]
fn a_store_without_a_log_is_refused() {
    let refused = Schedule::new(Scripted::default().three_methods()).with_run_log(3).unwrap_err();
    assert_eq!(refused.to_string(), "this store can't keep a log of runs");
}
