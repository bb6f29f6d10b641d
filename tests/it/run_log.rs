//! The log of runs: the fleet's runs, the dead ones, and the cost of an unavailable store.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::observe::{LoggedRun, Notice, OutcomeKind, RunLogError, RunRecord, RunState, SkipCount, Step};
use soloist::store::{Holder, LeaseRequest, Owner};
use soloist::testing::TestStore;
use soloist::time::{Clock, ManualClock};
use soloist::{
    Event, EventMutex, FencingToken, FileMutex, MemoryMutex, MutexError, MutexName, Run, Schedule, Shutdown,
    SkipReason, TaskResult, Term,
};

use crate::scripted::{Call, Scripted};
use crate::support::{PATIENCE, noon, until};

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

/// Waits until the end of the run of this minute is on record. A tick waits for three seconds at most, and then the log
/// is written later.
#[track_caller]
fn is_on_record(schedule: &Schedule, number: i64) {
    until(|| {
        let runs = schedule.runs("a").unwrap();
        runs.iter().any(|run| run.record().occurrence() == minute(number) && run.state() == RunState::Ended)
    })
    .unwrap();
}

#[test]
fn the_last_runs_of_the_fleet_are_on_record_whichever_server_had_them() {
    let (_clock, mutex) = store();
    let event = || {
        let fails = |run: &Run| if run.occurrence() == minute(1) { Err("no paper".into()) } else { Ok(()) };
        Event::call("a", fails).every_minute().on_one_server().without_overlapping()
    };
    let (one, other) = (logged(&mutex), logged(&mutex));
    one.add(event()).unwrap();
    other.add(event()).unwrap();
    for number in 0..5 {
        let (first, second) = if number % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let ran = first.run_due(minute(number));
        assert!(second.run_due(minute(number)).skip_reason("a").is_some());
        let token = ran.outcome("a").and_then(soloist::RunOutcome::fencing_token);
        is_on_record(&one, number);
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
fn a_schedule_without_a_log_says_so_and_not_that_nothing_ran() {
    let (_clock, mutex) = store();
    let schedule = Schedule::new(mutex.clone());
    schedule.add(Event::call("a", |_| {}).every_minute()).unwrap();
    for error in [schedule.runs("a").unwrap_err(), schedule.skips("a").unwrap_err()] {
        assert!(matches!(error, RunLogError::NotKept), "{error}");
        assert!(error.to_string().contains("call `schedule.with_run_log(20)`"), "{error}");
    }
    assert!(matches!(schedule.runs("b").unwrap_err(), RunLogError::UnknownEvent(_)));
    for keep in [0, 1_001] {
        let error = Schedule::new(mutex.clone()).with_run_log(keep).unwrap_err();
        assert_eq!(error.to_string(), format!("`with_run_log({keep})`: use 1 to 1000"));
    }
    assert!([1, 1_000].into_iter().all(|keep| Schedule::new(mutex.clone()).with_run_log(keep).is_ok()));
}

/// Refuses a second log, which would trim the first, and count each skip once more.
#[test]
fn a_schedule_keeps_one_log() {
    let schedule = Schedule::in_process().with_run_log(2).unwrap();
    assert_eq!(
        schedule.with_run_log(50).unwrap_err().to_string(),
        "`with_run_log(50)`: the schedule keeps a log of runs already: call `with_run_log(..)` once"
    );
}

#[test]
fn a_failure_is_on_record_with_its_error_and_the_last_success_stays() {
    let (_clock, mutex) = store();
    let schedule = logged(&mutex);
    let fails = |run: &Run| if run.occurrence() > noon() { Err("no\npaper".into()) } else { Ok(()) };
    schedule.add(Event::call("a", fails).every_minute()).unwrap();
    for number in 0..6 {
        let _ = schedule.run_due(minute(number));
        is_on_record(&schedule, number);
    }
    let runs = schedule.runs("a").unwrap();
    assert_eq!(runs.iter().map(|run| run.record().occurrence()).collect::<Vec<_>>(), [5, 4, 0].map(minute));
    let end = runs[0].record().end().unwrap();
    assert_eq!((end.result(), end.error()), (OutcomeKind::Failed, Some(r"no\npaper")));
    assert!(runs[2].record().is_success());
}

#[test]
fn a_run_whose_hook_fails_after_a_success_is_a_failure_wherever_it_is_told() {
    let (_clock, mutex) = store();
    let schedule = Schedule::new(mutex).named("shop").unwrap().with_run_log(3).unwrap();
    let event = Event::call("a", |_| {}).every_minute().then(|_, _| panic!("no mail"));
    schedule.add(event.pause_on_failure(2)).unwrap();
    for number in 0..2 {
        assert!(schedule.run_due(minute(number)).is_failure());
        is_on_record(&schedule, number);
    }
    let run = schedule.runs("a").unwrap().remove(0);
    let end = run.record().end().unwrap();
    assert_eq!((end.result(), end.error()), (OutcomeKind::Succeeded, Some("`then` hook 1 panicked: no mail")));
    assert!(!run.record().is_success());
    let status = schedule.status();
    let event = status.event("a").expect("it was added");
    assert_eq!((event.consecutive_failures, &event.last_success), (2, &None));
    assert_eq!(event.last_run.as_ref().unwrap().error.as_deref(), Some("`then` hook 1 panicked: no mail"));
    is_paused(&schedule);
}

#[test]
fn a_run_at_work_is_on_record_and_one_whose_lease_is_gone_is_presumed_dead() {
    let (clock, mutex) = store();
    let schedule = logged(&mutex);
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
    assert_eq!(at_work.state(), RunState::Running, "{at_work}");
    is_on_record(&schedule, 0);

    // The record of a killed server.
    let log = mutex.run_log().expect("it has one");
    clock.advance(Duration::from_secs(60));
    let dead = |event: &str, token: Option<u64>| {
        let token = token.map(FencingToken::new);
        RunRecord::started(event, Owner::unique(), minute(1), token, minute(1)).on("web-2", 17)
    };
    log.write(&[dead("a", None)], 3).unwrap();
    assert_eq!(schedule.runs("a").unwrap()[0].state(), RunState::Unknown, "it began without a lease, in an outage");
    log.write(&[dead("a", Some(9)), dead("bare", None)], 3).unwrap();
    let runs = schedule.runs("a").unwrap();
    assert_eq!(runs[0].state(), RunState::PresumedDead);
    assert_eq!(
        runs[0].to_string(),
        "2026-03-01 12:01:00 UTC started at 2026-03-01 12:01:00 UTC on web-2, pid 17: presumed dead"
    );
    assert_eq!(schedule.runs("bare").unwrap()[0].state(), RunState::Unknown, "it has no lease");
    inner.lock().unwrap().take();
}

#[test]
fn a_run_that_began_while_the_leases_were_read_is_running() {
    let (_, mutex) = store();
    let begin = |mutex: &MemoryMutex, number: i64| {
        let token = Some(FencingToken::new(number.unsigned_abs()));
        let run = RunRecord::started("a", Owner::unique(), minute(number), token, minute(number));
        mutex.run_log().expect("it has one").write(&[run], 3)
    };
    begin(&mutex, 1).unwrap();
    let log = mutex.clone();
    let store = Scripted::over(mutex).after(move |call| if call.is("held") { begin(&log, 2) } else { Ok(()) });
    let schedule = Schedule::new(store).with_run_log(3).expect("it keeps a log");
    schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping()).unwrap();
    let states: Vec<RunState> = schedule.runs("a").unwrap().iter().map(LoggedRun::state).collect();
    assert_eq!(states, [RunState::Running, RunState::PresumedDead]);
}

/// Returns a store with a switch that makes its log unavailable, but not its mutexes.
fn with_log_out() -> (Arc<AtomicBool>, Scripted) {
    let out = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&out);
    let is_out =
        move |call: &Call| if call.is("write") && switch.load(Ordering::Relaxed) { call.times_out() } else { Ok(()) };
    (out, Scripted::default().before(is_out))
}

#[test]
fn a_log_that_is_out_delays_no_run_and_is_written_when_it_is_back() {
    let (out, store) = with_log_out();
    let schedule = Schedule::new(store).with_run_log(100).unwrap();
    schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping()).unwrap();
    for number in 0..5 {
        assert!(schedule.run_due(minute(number)).outcome("a").is_some());
    }
    assert!(schedule.runs("a").unwrap().is_empty());
    out.store(false, Ordering::Relaxed);
    assert!(schedule.run_due(minute(5)).outcome("a").is_some());
    let runs = schedule.runs("a").unwrap();
    assert!(runs.iter().all(|run| run.state() == RunState::Ended), "a process that ends writes what it has: {runs:?}");
    assert_eq!(runs.iter().map(|run| run.record().occurrence()).collect::<Vec<_>>(), [5, 4, 3, 2, 1, 0].map(minute));
}

#[test]
fn the_records_of_many_events_are_written_together() {
    const EVENTS: usize = 20;
    let (out, store) = with_log_out();
    let schedule = Schedule::new(store.clone()).with_run_log(3).unwrap();
    for number in 0..EVENTS {
        schedule.add(Event::call(number.to_string(), |_| {}).every_minute()).unwrap();
    }
    assert!(!schedule.run_due(noon()).is_failure());
    let in_vain = store.asked(&["write"]).len();
    assert!(in_vain < EVENTS, "an outage is not asked about for each event: {in_vain}");
    out.store(false, Ordering::Relaxed);
    assert!(!schedule.run_event("0", minute(1)).unwrap().is_failure());
    let last = (EVENTS - 1).to_string();
    until(|| schedule.runs(&last).unwrap().iter().any(|run| run.state() == RunState::Ended)).unwrap();
    let writes = store.asked(&["write"]).len() - in_vain;
    assert!(writes < EVENTS, "{writes}");
}

#[test]
fn a_store_that_panics_about_the_log_of_one_event_keeps_those_of_the_others() {
    let a = MutexName::lease("a").unwrap();
    let panics =
        move |call: &Call| if call.is("write") && call.names.contains(&a) { panic!("no such log") } else { Ok(()) };
    let schedule = Schedule::new(Scripted::default().before(panics)).with_run_log(3).unwrap();
    for name in ["a", "b"] {
        schedule.add(Event::call(name, |_| {}).every_minute()).unwrap();
    }
    assert!(!schedule.run_due(noon()).is_failure());
    until(|| schedule.runs("b").unwrap().iter().any(|run| run.state() == RunState::Ended)).unwrap();
    assert_eq!(schedule.runs("a").unwrap(), []);
}

/// Returns the occurrences of an event's runs on record that have ended, the newest first.
fn ended(schedule: &Schedule, event: &str) -> Vec<DateTime<Utc>> {
    let runs = schedule.runs(event).unwrap();
    let ended = runs.iter().filter(|run| run.state() == RunState::Ended);
    ended.map(|run| run.record().occurrence()).collect()
}

/// Asserts that a damaged log leaves the other events alone: their records and skips are written, they are paused after
/// their failures, and the status has their logs. After a repair, the log gets the records that had to wait.
pub(crate) fn an_unusable_log_is_the_fault_of_one_event_on<S: EventMutex + Clone + 'static>(
    store: &S,
    damage: impl Fn(&str),
    repair: impl Fn(&str),
) {
    let schedule = Schedule::new(store.clone()).named("one fault").unwrap().with_run_log(50).unwrap();
    let fails = |_: &Run| Err("no paper".into());
    schedule.add(Event::call("a", |_| {}).every_minute()).unwrap();
    schedule.add(Event::call("b", |_| {}).every_minute()).unwrap();
    schedule.add(Event::call("c", fails).every_minute().pause_on_failure(3)).unwrap();
    let [damaged, whole] = ["damaged", "whole"].map(|kind| [0, 1, 2, 3].map(|number| format!("{kind}-{number}")));
    for name in damaged.iter().chain(&whole) {
        schedule.add(Event::call(name.clone(), |_| {}).every_minute().without_overlapping()).unwrap();
        let request = LeaseRequest::new(MutexName::lease(name.clone()).unwrap(), Term::MAX, &Clock::system());
        store.create(&request).unwrap().expect("nobody holds it");
    }
    let skipped = |event: &str| schedule.skips(event).unwrap().iter().map(SkipCount::count).sum::<u64>();
    let tick = |number| assert!(schedule.run_due(minute(number)).outcome("a").is_some());
    tick(0);
    until(|| ["a", "b", "c"].iter().all(|event| ended(&schedule, event) == [minute(0)])).unwrap();
    until(|| damaged.iter().chain(&whole).all(|event| skipped(event) == 1)).unwrap();
    damage("a");
    for event in &damaged {
        damage(event);
    }

    // More records than one write has.
    for number in 1..=60 {
        assert!(!schedule.run_event("a", minute(number)).unwrap().is_failure());
    }
    tick(61);
    tick(62);
    until(|| ended(&schedule, "b") == [62, 61, 0].map(minute)).unwrap();
    until(|| schedule.paused_event("c").unwrap().is_some()).unwrap();
    assert_eq!(ended(&schedule, "c"), [62, 61, 0].map(minute));
    until(|| whole.iter().all(|event| skipped(event) == 3)).unwrap();
    let status = schedule.status();
    assert_eq!(status.event("b").unwrap().log.as_ref().map(Vec::len), Some(3), "{status:?}");
    assert_eq!(status.event("a").unwrap().log, None);
    assert_eq!(status.store_errors.len(), 1 + damaged.len(), "{status:?}");
    assert!(status.store_errors[0].to_string().contains("log of runs"), "{status:?}");

    repair("a");
    tick(63);
    until(|| ended(&schedule, "a").first() == Some(&minute(63))).unwrap();
    assert_eq!(ended(&schedule, "a")[..10], [63, 62, 61, 60, 59, 58, 57, 56, 55, 54].map(minute));
}

/// Returns the file of this kind that belongs to an event in a directory.
#[track_caller]
fn file_of(folder: &Path, event: &str, kind: &str) -> PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let begins = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with(&format!("{event}-"));
    let is_it = |path: &PathBuf| begins(path) && path.extension().is_some_and(|it| it == kind);
    files.find(is_it).unwrap_or_else(|| panic!("{event} has no file {kind}"))
}

#[test]
fn an_unusable_log_is_the_fault_of_one_event() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileMutex::in_dir(folder.path()).unwrap();
    let log = |event: &str| file_of(folder.path(), event, "runs");
    let damage = |event: &str| std::fs::write(log(event), "soloist-runs v9\n").unwrap();
    an_unusable_log_is_the_fault_of_one_event_on(&store, damage, |event| std::fs::remove_file(log(event)).unwrap());
}

#[test]
fn no_gate_waits_for_a_log_that_does_not_answer() {
    const RUNS: usize = 5;
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    // The log answers after all runs: a tick that waits for it would keep it waiting in vain.
    let in_vain = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&in_vain);
    let store = Scripted::default().before(move |call| {
        if call.is("write") && until(|| count.load(Ordering::Relaxed) == RUNS).is_err() {
            noted.store(true, Ordering::Relaxed);
        }
        Ok(())
    });
    let schedule = Schedule::new(store).with_run_log(3).unwrap();
    for number in 0..RUNS {
        let ran = Arc::clone(&ran);
        let task = move |_: &Run| {
            let _ = ran.fetch_add(1, Ordering::Relaxed);
        };
        let event = Event::call(number.to_string(), task).every_minute().without_overlapping().on_one_server();
        schedule.add(if number % 2 == 0 { event } else { event.in_background() }).unwrap();
    }
    assert!(!schedule.run_due(noon()).is_failure());
    assert!(!in_vain.load(Ordering::Relaxed));
    for number in 0..RUNS {
        let runs = schedule.runs(&number.to_string()).unwrap();
        assert_eq!(runs.iter().map(|run| run.record().is_success()).collect::<Vec<_>>(), [true], "event {number}");
    }
}

#[test]
fn a_log_that_is_locked_for_a_moment_gets_the_record_at_the_second_try() {
    let writes = AtomicUsize::new(0);
    // The first try writes the record with all others, and then alone.
    let store = Scripted::default().before(move |call| {
        let is_locked = call.is("write") && writes.fetch_add(1, Ordering::SeqCst) < 2;
        let locked = || Err(MutexError::unusable("write the log of runs", "it is locked"));
        if is_locked { locked() } else { Ok(()) }
    });
    let schedule = Schedule::new(store).with_run_log(5).unwrap();
    let log = schedule.clone();
    let task = move |_: &Run| -> TaskResult { until(|| log.runs("a").is_ok_and(|runs| runs.len() == 1)) };
    schedule.add(Event::call("a", task).every_minute().without_overlapping()).unwrap();
    assert!(!schedule.run_due(noon()).is_failure(), "the start is on record before the end");
}

#[test]
fn no_gate_waits_for_the_log_of_a_directory_while_somebody_has_locked_it() {
    let folder = tempfile::tempdir().unwrap();
    let schedule = Schedule::new(FileMutex::in_dir(folder.path()).unwrap()).with_run_log(5).unwrap();
    for name in ["a", "b"] {
        schedule.add(Event::call(name, |_| {}).every_minute().without_overlapping().on_one_server()).unwrap();
    }
    let ran = |number| schedule.run_due(minute(number)).outcome("a").is_some();
    assert!(ran(0));
    until(|| ended(&schedule, "a") == [minute(0)]).unwrap();
    let path = file_of(folder.path(), "a", "runs-lock");
    let locked = std::fs::File::options().write(true).open(path).unwrap();
    locked.lock().unwrap();
    assert!(ran(1) && ran(2));
    until(|| ended(&schedule, "b") == [2, 1, 0].map(minute)).unwrap();
    assert_eq!(ended(&schedule, "a"), [minute(0)]);
    drop(locked);
    assert!(ran(3));
    until(|| ended(&schedule, "a") == [3, 2, 1, 0].map(minute)).unwrap();
}

/// Waits until the event is paused. A tick waits for three seconds at most, and then its failure is counted later.
#[track_caller]
fn is_paused(server: &Schedule) {
    until(|| server.paused_event("a").unwrap().is_some()).unwrap();
}

/// Returns two servers with an event that fails as long as the switch is on, and is paused after three failures.
fn failing_servers(mutex: &MemoryMutex) -> (Arc<AtomicBool>, [Schedule; 2]) {
    let fails = Arc::new(AtomicBool::new(true));
    let servers = [(); 2].map(|()| {
        let fails = Arc::clone(&fails);
        let task = move |_: &Run| if fails.load(Ordering::Relaxed) { Err("no paper".into()) } else { Ok(()) };
        let server = Schedule::new(mutex.clone()).named("shop").unwrap().with_run_log(10).unwrap();
        server.add(Event::call("a", task).every_minute().on_one_server().pause_on_failure(3)).unwrap();
        server.add(Event::call("b", |_| {}).every_minute()).unwrap();
        server
    });
    (fails, servers)
}

#[test]
fn an_event_that_fails_so_many_times_in_a_row_is_paused_on_all_servers_until_somebody_resumes_it() {
    let (_clock, mutex) = store();
    let (fails, [here, there]) = failing_servers(&mutex);
    let run = |server: &Schedule, number| {
        let report = server.run_due(minute(number));
        assert!(report.outcome("b").is_some(), "other events go on");
        report.outcome("a").is_some()
    };
    assert!(run(&here, 0) && run(&there, 1) && here.paused_event("a").unwrap().is_none());
    assert!(run(&here, 2), "a third failure, wherever the others were");
    is_paused(&there);
    let pause = there.paused_event("a").unwrap().expect("it is paused");
    assert!(pause.to_string().ends_with("failed 3 times in a row"), "{pause}");
    assert!(!run(&there, 3) && !run(&here, 4));
    assert!(there.resume_event("a").unwrap());
    assert!(run(&here, 5));
    is_paused(&here);
    assert!(!run(&there, 6), "the next failure pauses it again");
    assert!(there.resume_event("a").unwrap());
    fails.store(false, Ordering::Relaxed);
    assert!(run(&here, 7));
    fails.store(true, Ordering::Relaxed);
    assert!(
        run(&there, 8) && run(&here, 9) && here.paused_event("a").unwrap().is_none(),
        "a success began the count anew"
    );
    assert!(run(&there, 10));
    is_paused(&there);
    assert!(!run(&there, 11));
}

#[test]
fn who_paused_an_event_that_keeps_failing_and_until_when_stays_as_it_was() {
    let (clock, mutex) = store();
    let (_, [here, _]) = failing_servers(&mutex);
    let end = clock.now() + TimeDelta::hours(1);
    here.pause_event("a", end, "a migration").unwrap();
    for number in 0..4 {
        assert!(here.run_event("a", minute(number)).unwrap().is_failure(), "by hand it runs all the same");
    }
    let pause = here.paused_event("a").unwrap().expect("it is paused");
    assert!(pause.to_string().ends_with("a migration"), "{pause}");
    assert_eq!(pause.holder().map(Holder::until), Some(end));
}

#[test]
fn what_was_cancelled_is_no_failure_and_no_success() {
    let (_clock, mutex) = store();
    let (_, [here, _]) = failing_servers(&mutex);
    let log = mutex.run_log().expect("it has one");
    let ended = |number, result| {
        let started = RunRecord::started("a", Owner::unique(), minute(number), None, minute(number));
        log.write(&[started.ended(minute(number), result, None)], 10).unwrap();
    };
    ended(0, OutcomeKind::Panicked);
    ended(1, OutcomeKind::Cancelled);
    let at_work = RunRecord::started("a", Owner::unique(), minute(2), None, minute(2));
    log.write(&[at_work], 10).unwrap();
    assert!(here.run_due(minute(3)).is_failure() && here.paused_event("a").unwrap().is_none(), "the second failure");
    assert!(here.run_due(minute(4)).is_failure());
    is_paused(&here); // by the third
}

#[test]
fn failures_are_counted_in_the_order_of_the_log_and_not_by_the_clocks_of_hosts() {
    let (_clock, mutex) = store();
    let (_, [here, _]) = failing_servers(&mutex);
    let log = mutex.run_log().expect("it has one");
    let run_elsewhere = |host, ahead, result| {
        let at = minute(ahead);
        let started = RunRecord::started("a", Owner::unique(), minute(0), None, at).on(host, 17);
        log.write(std::slice::from_ref(&started), 10).unwrap();
        log.write(&[started.ended(at, result, None)], 10).unwrap();
    };
    run_elsewhere("three minutes ahead", 3, OutcomeKind::Failed);
    run_elsewhere("three minutes ahead", 3, OutcomeKind::Failed);
    run_elsewhere("in time", 0, OutcomeKind::Succeeded);
    assert!(here.run_due(minute(1)).is_failure());
    is_on_record(&here, 1);
    assert!(here.paused_event("a").unwrap().is_none(), "one failure since the last success");
    let hosts: Vec<String> = here.runs("a").unwrap().iter().map(|run| run.record().host().to_owned()).collect();
    assert_eq!(hosts[1..], ["in time", "three minutes ahead", "three minutes ahead"]);
    run_elsewhere("two minutes behind", -2, OutcomeKind::Failed);
    assert!(here.run_due(minute(2)).is_failure());
    is_paused(&here); // by the third
}

#[test]
fn a_pause_on_failure_that_would_never_come_is_refused() {
    let refused = |schedule: Schedule, change: fn(Event) -> Event| {
        let event = change(Event::call("a", |_| {}).every_minute());
        { schedule }.add(event).unwrap_err().to_string()
    };
    let named = || Schedule::in_process().named("shop").unwrap();
    let logs = |keep| named().with_run_log(keep).unwrap();
    for times in [0, 1000] {
        let event = Event::call("a", |_| {}).every_minute().pause_on_failure(times);
        let said = logs(1000).add(event).unwrap_err().to_string();
        assert_eq!(said, format!("event `a`: `pause_on_failure({times})`: use 1 to 999"));
    }
    let three: fn(Event) -> Event = |event| event.pause_on_failure(3);
    let said = refused(Schedule::in_process().with_run_log(10).unwrap(), three);
    assert!(said.ends_with("call `schedule.named(..)` before `add`"), "{said}");
    let said = refused(named(), three);
    assert!(said.contains("keeps 0 runs: call `schedule.with_run_log(..)` with more than 3 before"), "{said}");
    let said = refused(logs(3), three);
    assert!(said.contains("the log of the schedule keeps 3 runs: call `schedule.with_run_log(..)`"), "{said}");
    let said = refused(logs(10), |event| event.pause_on_failure(3).even_when_paused());
    assert!(said.contains("leave out one of the two"), "{said}");
    assert!(logs(4).add(three(Event::call("a", |_| {}).every_minute())).is_ok());
}

/// Returns the numbers of occurrences of `a` that were skipped, with the latest of them.
#[track_caller]
fn skips(schedule: &Schedule) -> Vec<(&'static str, u64, DateTime<Utc>)> {
    let skips = schedule.skips("a").unwrap();
    skips.iter().map(|skip| (skip.reason(), skip.count(), skip.latest())).collect()
}

#[test]
fn occurrences_that_ran_nowhere_are_counted_over_the_fleet_by_their_reasons() {
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    let server = || {
        let schedule = Schedule::new(store.clone()).named("shop").unwrap().with_run_log(3).unwrap();
        schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping().on_one_server()).unwrap();
        schedule
    };
    let (here, there) = (server(), server());
    let tick = |server: &Schedule, number: i64| {
        clock.advance((minute(number) - clock.now()).to_std().unwrap());
        server.run_due(minute(number)).skip_reason("a").map(SkipReason::keyword)
    };
    assert_eq!((tick(&here, 0), tick(&there, 0)), (None, Some("ran_elsewhere")));
    assert_eq!(skips(&here), [], "it ran");
    let hangs = store.run_elsewhere("a").unwrap();
    for (server, number) in [(&here, 1), (&there, 2), (&here, 3)] {
        assert_eq!(tick(server, number), Some("overlapping"));
    }
    assert_eq!(skips(&there), [("overlapping", 3, minute(3))]);
    drop(hangs);
    here.pause(minute(10), "a migration").unwrap();
    assert_eq!(tick(&there, 4), Some("paused"));
    assert_eq!(skips(&here), [("overlapping", 3, minute(3)), ("paused", 1, minute(4))]);
    assert_eq!(here.runs("a").unwrap().len(), 1, "they are no runs");

    let without_a_log = Schedule::new(store.clone());
    without_a_log.add(Event::call("a", |_| {}).every_minute().without_overlapping()).unwrap();
    let _hangs = store.run_elsewhere("a").unwrap();
    assert_eq!(tick(&without_a_log, 11), Some("overlapping"));
    assert_eq!(skips(&here)[0].1, 3, "without a log, nothing is written");
}

#[test]
fn an_occurrence_that_is_refused_each_minute_is_counted_once() {
    let clock = ManualClock::at(noon() - TimeDelta::hours(1));
    let store = TestStore::new(&clock);
    let schedule = Schedule::new(store.clone()).named("shop").unwrap().with_run_log(3).unwrap();
    let event = Event::call("a", |_| {}).hourly().on_one_server().catch_up(Duration::from_secs(1800));
    schedule.add(event).unwrap();
    let tick = |number: i64| {
        clock.advance((minute(number) - clock.now()).to_std().unwrap());
        schedule.run_due(minute(number)).skip_reason("a").map(SkipReason::keyword)
    };
    assert_eq!(tick(-60), None);
    schedule.pause(minute(5), "a migration").unwrap();
    for number in 0..5 {
        assert_eq!(tick(number), Some("paused"), "{number}");
    }
    assert_eq!(tick(6), None);
    assert_eq!(schedule.runs("a").unwrap().len(), 2);
    assert_eq!(skips(&schedule), [("paused", 1, minute(0))]);
}

#[test]
fn a_loop_writes_what_it_skipped_of_an_event_once_in_ten_seconds_and_the_rest_when_it_ends() {
    let (clock, mutex) = store();
    let store = Scripted::over(mutex.clone());
    let schedule = Schedule::new(store.clone()).with_clock(&clock).with_run_log(3).unwrap();
    for name in ["a", "b"] {
        schedule.add(Event::call(name, |_| {}).every_second().without_overlapping()).unwrap();
        hold(&mutex, name);
    }
    let ((begin, begins), (report, reports)) = (mpsc::channel(), mpsc::channel());
    let (begin, report) = (Mutex::new(begin), Mutex::new(report));
    let schedule = schedule
        .observe(move |notice: &Notice<'_>| {
            if let Step::LoopAlive = notice.step() {
                begin.lock().unwrap().send(()).unwrap();
            }
        })
        .on_report(move |ticked| report.lock().unwrap().send(ticked.entries().len()).unwrap());
    let has_written = |writes: usize, of_a: u64| {
        until(|| store.asked(&["count_skips"]).len() == writes && skips(&schedule).iter().any(|skip| skip.1 == of_a))
            .unwrap();
    };
    let tick = |_| {
        clock.advance(Duration::from_secs(1));
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(2));
    };
    let shutdown = Shutdown::new();
    thread::scope(|scope| {
        scope.spawn(|| schedule.work(&shutdown));
        let _ends = TriggerOnDrop(&shutdown);
        begins.recv_timeout(PATIENCE).unwrap();
        tick(1);
        has_written(2, 1);
        (2..=10).for_each(tick);
        has_written(2, 1);
        tick(11);
        has_written(4, 11);
        (12..=13).for_each(tick);
    });
    has_written(6, 13);
    assert_eq!(skips(&schedule), [("overlapping", 13, noon() + TimeDelta::seconds(13))]);
}

/// Ends a loop, also if an assertion fails.
struct TriggerOnDrop<'a>(&'a Shutdown);

impl Drop for TriggerOnDrop<'_> {
    fn drop(&mut self) {
        self.0.trigger();
    }
}

/// Holds the lease of this event from now on.
fn hold(mutex: &MemoryMutex, event: &str) {
    let request = LeaseRequest::new(MutexName::lease(event).unwrap(), Term::MAX, &mutex.clock());
    mutex.create(&request).unwrap().expect("nobody holds it");
}

#[test]
fn a_call_that_skipped_several_minutes_of_an_event_has_written_all_when_it_returns() {
    let (clock, mutex) = store();
    let store = Scripted::over(mutex.clone());
    let schedule = Schedule::new(store.clone()).with_clock(&clock).with_run_log(3).unwrap();
    schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping()).unwrap();
    hold(&mutex, "a");
    // The first skip is written before the second comes.
    let is_written = move |_: &Run| until(|| !store.asked(&["count_skips"]).is_empty());
    schedule.add(Event::call("waits", is_written).every_minute()).unwrap();
    assert!(!schedule.run_due_since(noon(), minute(4)).is_failure());
    assert_eq!(skips(&schedule), [("overlapping", 4, minute(4))]);
}

#[test]
fn what_could_not_be_counted_is_counted_with_the_next() {
    let (clock, mutex) = store();
    let out = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&out);
    let is_out = move |call: &Call| {
        if call.is("count_skips") && switch.load(Ordering::Relaxed) { call.times_out() } else { Ok(()) }
    };
    let store = Scripted::over(mutex.clone()).before(is_out);
    let schedule = Schedule::new(store.clone()).with_clock(&clock).with_run_log(3).unwrap();
    schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping()).unwrap();
    schedule.add(Event::call("b", |_| {}).cron("@yearly")).unwrap();
    hold(&mutex, "a");
    let tick = |number: i64| {
        clock.advance(Duration::from_secs(60));
        assert!(schedule.run_due(minute(number)).skip_reason("a").is_some());
    };
    (1..=2).for_each(tick);
    assert_eq!(skips(&schedule), []);
    let writes = store.asked(&["count_skips"]).len();
    let nothing_is_due = minute(2) + TimeDelta::seconds(30);
    assert!(schedule.run_due_since(minute(2), nothing_is_due).entries().is_empty());
    assert_eq!(store.asked(&["count_skips"]).len(), writes, "an outage delays only a tick that skips an occurrence");
    out.store(false, Ordering::Relaxed);
    // The record of another event is written, so the store answers again. The next call writes the numbers.
    assert!(!schedule.run_event("b", minute(2)).unwrap().is_failure());
    assert!(schedule.run_due_since(minute(2), nothing_is_due).entries().is_empty());
    assert_eq!(skips(&schedule), [("overlapping", 2, minute(2))]);
    tick(3);
    assert_eq!(skips(&schedule), [("overlapping", 3, minute(3))]);
}

#[test]
fn a_store_without_a_log_is_refused() {
    let refused = Schedule::new(Scripted::default().three_methods()).with_run_log(3).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "this store can't keep a log of runs: leave `with_run_log(..)` out, or implement `EventMutex::run_log`"
    );
}
