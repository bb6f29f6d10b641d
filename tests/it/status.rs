//! The status of a schedule: six questions, answered during runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::observe::OutcomeKind;
use soloist::store::LeaseRequest;
use soloist::testing::TestStore;
use soloist::time::ManualClock;
use soloist::{Event, EventMutex, FileMutex, MemoryMutex, MutexName, Period, Run, Schedule, SkipReason, Term};

use crate::scripted::Scripted;
use crate::support::noon;

fn minute(number: i64) -> DateTime<Utc> {
    noon() + TimeDelta::minutes(number)
}

#[test]
fn an_event_at_work_is_seen_from_outside_with_its_start_its_token_and_its_holder() {
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let ((begun, begins), (end, ends)) = (channel(), channel::<()>());
    let ends = Mutex::new(ends);
    let task = move |_: &Run| {
        begun.send(()).unwrap();
        let _ = ends.lock().unwrap().recv();
    };
    schedule.add(Event::call("slow", task).every_minute().without_overlapping().in_background()).unwrap();
    schedule.add(Event::call("quick", |_| {}).every_minute().in_background()).unwrap();
    std::thread::scope(|scope| {
        let tick = scope.spawn(|| schedule.run_due(noon()));
        begins.recv().unwrap();
        let status = schedule.status();
        let slow = status.event("slow").expect("it was added");
        assert_eq!((slow.running.len(), slow.running[0].occurrence, slow.running[0].since), (1, noon(), noon()));
        let holder = &slow.held_by.as_ref().expect("the store knows it")[0];
        assert_eq!((Some(holder.token()), holder.pid()), (slow.running[0].token, std::process::id()));
        assert!(slow.last_run.is_none() && slow.last_success.is_none());
        // A clone that ticks meets it.
        let _ = schedule.clone().run_due(minute(1));
        let skip = schedule.status().event("slow").and_then(|slow| slow.last_skip.clone()).expect("it overlapped");
        assert!(matches!(skip.reason, SkipReason::Overlapping(Some(_))) && skip.occurrence == minute(1), "{skip:?}");
        clock.advance(Duration::from_secs(3));
        end.send(()).unwrap();
        assert!(!tick.join().unwrap().is_failure());
    });
    let status = schedule.status();
    let slow = status.event("slow").expect("it was added");
    let run = slow.last_success.as_ref().expect("it succeeded");
    assert_eq!((run.started, run.took, run.occurrence), (noon(), Duration::from_secs(3), noon()));
    assert!(slow.running.is_empty() && slow.held_by.as_ref().is_some_and(Vec::is_empty));
    assert_eq!(slow.next_due, Some(minute(1)));
}

#[test]
fn failures_in_a_row_are_counted_up_to_the_next_success() {
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let fails = |run: &Run| if run.occurrence() < minute(3) { Err("no paper".into()) } else { Ok(()) };
    schedule.add(Event::call("a", fails).every_minute()).unwrap();
    let mut seen = Vec::new();
    for number in [-1, 0, 1, 2, 3, 4] {
        let _ = schedule.run_due(minute(number));
        let status = schedule.status();
        let event = &status.events[0];
        let run = event.last_run.clone().expect("it ran");
        assert_eq!(run.error.is_some(), run.result == OutcomeKind::Failed, "{run:?}");
        seen.push((event.consecutive_failures, event.last_success.as_ref().map(|run| run.occurrence)));
    }
    let expected = [(1, None), (2, None), (3, None), (4, None), (0, Some(minute(3))), (0, Some(minute(4)))];
    assert_eq!(seen, expected);
    schedule.remove("a");
    schedule.add(Event::call("a", |_| Err("no ink".into())).every_minute()).unwrap();
    assert!(schedule.status().events[0].last_run.is_none(), "it is another event of that name");
}

#[test]
fn a_last_success_is_known_after_later_failures() {
    let schedule = Schedule::in_process();
    let fails = |run: &Run| if run.occurrence() > noon() { Err("no\npaper".into()) } else { Ok(()) };
    schedule.add(Event::call("a", fails).every_minute()).unwrap();
    (0..3).for_each(|number| drop(schedule.run_due(minute(number))));
    let event = schedule.status().events.remove(0);
    assert_eq!(event.last_success.map(|run| run.occurrence), Some(noon()));
    let error = event.last_run.and_then(|run| run.error).expect("it failed");
    assert!(error.contains(r"no\npaper") && !error.contains('\n'), "on one line: {error}");
}

#[test]
fn a_store_that_panics_is_an_error_and_no_panic() {
    let store = Scripted::default().before(|call| {
        assert!(!call.is("held") && !call.is("runs"), "index out of bounds");
        Ok(())
    });
    let schedule = Schedule::new(store).named("shop").unwrap().with_run_log(3).unwrap();
    schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping()).unwrap();
    let errors = [
        schedule.status().store_errors.remove(0).to_string(),
        schedule.check().unwrap_err().to_string(),
        schedule.paused().unwrap_err().to_string(),
        schedule.runs("a").unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.contains("the store panicked: index out of bounds"), "{error}");
    }
}

#[test]
fn a_store_that_is_out_costs_the_status_what_only_it_knows() {
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    let schedule = Schedule::new(store.clone()).named("shop").unwrap();
    schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping()).unwrap();
    schedule.add(Event::call("b", |_| {}).every_minute()).unwrap();
    schedule.pause_event("b", noon() + TimeDelta::hours(1), "the supplier is out").unwrap();
    let _ = schedule.run_due(noon());
    let status = schedule.status();
    assert!(status.store_errors.is_empty(), "{status:?}");
    assert_eq!(status.event("b").unwrap().paused.as_ref().and_then(|pause| pause.why()), Some("the supplier is out"));
    assert!(status.event("a").unwrap().paused.is_none() && status.paused.is_none());
    schedule.pause(noon() + TimeDelta::hours(1), "all of it").unwrap();
    assert_eq!(schedule.status().paused.as_ref().and_then(|pause| pause.why()), Some("all of it"));

    store.be_unavailable(true);
    let status = schedule.status();
    assert!(!status.store_errors.is_empty(), "{status:?}");
    let event = status.event("a").unwrap();
    assert!(event.held_by.is_none() && event.last_run.is_some() && event.next_due == Some(minute(1)), "{event:?}");
}

/// Adds two protected events to a schedule on this store, and takes the leases of both.
fn with_two_held_leases<M: EventMutex + Clone + 'static>(store: &M) -> Schedule {
    let schedule = Schedule::new(store.clone());
    for name in ["a", "b"] {
        schedule
            .add(Event::call(name, |_| {}).every_minute().without_overlapping_for(Duration::from_secs(60)))
            .unwrap();
        let request = LeaseRequest::new(MutexName::lease(name).unwrap(), Term::DEFAULT, &store.clock());
        store.create(&request).unwrap().expect("it is free");
    }
    schedule
}

#[test]
fn a_holder_that_the_store_cannot_name_is_not_known() {
    let status = with_two_held_leases(&Scripted::default().three_methods()).status();
    assert_eq!(status.event("a").unwrap().held_by, None);
    assert!(status.store_errors.is_empty(), "{status:?}");
}

#[test]
fn a_lease_that_cannot_be_read_hides_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let schedule = with_two_held_leases(&FileMutex::in_dir(directory.path()).unwrap());
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_of_b = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "state") && says(path, "lease/b");
    let state = files.into_iter().find(is_of_b).expect("it has a state");
    fs::write(state, "not a state").unwrap();
    let status = schedule.status();
    assert_eq!(status.event("a").unwrap().held_by.as_ref().map(Vec::len), Some(1), "{status:?}");
    assert_eq!(status.event("b").unwrap().held_by, None);
    assert_eq!(status.store_errors.len(), 1, "{status:?}");
}

fn says(path: &Path, what: &str) -> bool {
    fs::read_to_string(path).unwrap().contains(what)
}

#[test]
fn who_holds_each_slot_is_told() {
    let clock = ManualClock::at(noon());
    let mutex = MemoryMutex::with_clock(&clock);
    let schedule = Schedule::new(mutex).with_clock(&clock);
    let status = Arc::new(Mutex::new(None));
    let (shared, inner) = (Arc::clone(&status), Arc::new(Mutex::new(None::<Schedule>)));
    let nested = Arc::clone(&inner);
    let task = move |run: &Run| {
        let schedule = nested.lock().unwrap().clone().expect("it was put there");
        if run.slot() == Some(0) {
            assert!(!schedule.run_due(minute(1)).is_failure());
        } else {
            *shared.lock().unwrap() = Some(schedule.status());
        }
    };
    schedule.add(Event::call("a", task).every_minute().at_most(3)).unwrap();
    *inner.lock().unwrap() = Some(schedule.clone());
    let _ = schedule.run_due(noon());
    let status = status.lock().unwrap().take().expect("it ran");
    let event = status.event("a").unwrap();
    assert_eq!((event.running.len(), event.held_by.as_ref().map(Vec::len)), (2, Some(2)), "{event:?}");
    inner.lock().unwrap().take();
}

#[test]
fn a_store_is_asked_once_for_all_events_pauses_and_queues() {
    let store = Scripted::fleet();
    let schedule = Schedule::new(store.clone()).named("shop").unwrap();
    for number in 0..100 {
        let event = Event::call(format!("e{number}"), |_| {}).every_minute().without_overlapping();
        schedule.add(event.on_overlap(soloist::Overlap::QueueOne)).unwrap();
    }
    schedule.pause_event("e7", Utc::now() + TimeDelta::hours(1), "it is broken").unwrap();
    let before = store.calls();
    let status = schedule.status();
    // 100 leases, 100 places, 100 marks of events, and that of the schedule.
    assert_eq!((store.calls() - before, store.reads().pop()), (1, Some(301)));
    let paused: Vec<&str> =
        status.events.iter().filter(|event| event.paused.is_some()).map(|event| &*event.name).collect();
    assert_eq!(paused, ["e7"]);
    assert!(status.events.iter().all(|event| event.waiting.as_ref().is_some_and(Vec::is_empty)));
}

#[test]
fn a_definition_reads_as_it_was_written() {
    let schedule = Schedule::in_process();
    let hour = Duration::from_secs(3600);
    let event = |name: &str| Event::call(name, |_| {}).every_minute();
    schedule.add(event("bare").timezone("+02:00")).unwrap();
    schedule.add(event("fixed").without_overlapping_for(hour).hold_at_least(hour / 120)).unwrap();
    schedule.add(event("once").once_per(Period::Day).on_outage(soloist::OutagePolicy::RunUnprotected)).unwrap();
    schedule
        .add(
            event("all")
                .at_most(2)
                .on_one_server()
                .on_overlap(soloist::Overlap::QueueAll(3))
                .catch_up(hour)
                .timeout(hour),
        )
        .unwrap();
    let words = |name: &str| schedule.event(name).unwrap().protections().join("; ");
    assert_eq!(words("bare"), "");
    assert_eq!(words("fixed"), "without_overlapping_for 1 h 0 min; hold_at_least 30.0 s");
    assert_eq!(words("once"), "once_per Day; on_outage RunUnprotected");
    assert_eq!(
        words("all"),
        "at_most 2, leases of 1 min 0 s, renewed; on_one_server; on_overlap QueueAll 3; \
         catch_up 1 h 0 min; timeout 1 h 0 min"
    );
    let bare = schedule.event("bare").unwrap();
    assert_eq!((bare.timetable(), bare.zone().to_string()), ("every minute".to_owned(), "+02:00".to_owned()));
    assert!(bare.mutex_name().is_none() && schedule.event("all").unwrap().mutex_name().is_some());
    assert_eq!(
        schedule.event("none").unwrap_err().to_string(),
        "there is no event `none` in the schedule; it has `bare`, `fixed`, `once` and `all`"
    );
}

#[cfg(feature = "serde")]
#[test]
fn the_status_as_json_has_the_documented_form() {
    fn keys(value: &serde_json::Value) -> Vec<&str> {
        value.as_object().expect("it is an object").keys().map(String::as_str).collect()
    }

    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    let schedule = Schedule::new(store.clone()).named("shop").unwrap().with_run_log(3).unwrap();
    schedule.add(Event::call("a", |_| {}).every_minute().without_overlapping().on_one_server()).unwrap();
    let _ = schedule.run_due(noon());
    let elsewhere = store.run_elsewhere("a").unwrap();
    let _ = schedule.run_due(minute(1));
    schedule.pause(minute(60), "all of it").unwrap();
    let status = serde_json::to_value(schedule.status()).unwrap();
    assert_eq!(keys(&status), ["application", "at", "events", "host", "instance", "paused", "pid", "store_errors"]);
    assert_eq!(keys(&status["paused"]), ["by", "why"]);
    assert_eq!(status["paused"]["why"], "all of it");
    let event = &status["events"][0];
    let documented = include_str!("../../docs/guide/observing.md");
    let run = &event["log"][0];
    for key in keys(event).into_iter().chain(keys(&status)).chain(keys(run)) {
        assert!(documented.contains(&format!("\"{key}\": ")), "{key} is in the book");
    }
    assert_eq!(event["timetable"], "every minute");
    assert_eq!((&event["zone"], &event["mutex"]), (&"UTC".into(), &"lease/a".into()));
    assert_eq!(event["next_due"], "2026-03-01T12:01:00Z");
    let holder = [
        "application",
        "has_ended",
        "host",
        "instance",
        "occurrence",
        "pid",
        "process_group",
        "since",
        "timetable",
        "token",
        "until",
    ];
    assert_eq!(keys(&event["held_by"][0]), holder);
    assert_eq!(
        keys(&event["last_run"]),
        ["attempts", "error", "is_backfill", "occurrence", "result", "started", "token", "took_ms"]
    );
    assert_eq!((&event["last_run"]["result"], &event["last_run"]["took_ms"]), (&"succeeded".into(), &0.into()));
    assert!(event["last_run"]["token"].is_u64());
    assert_eq!(
        keys(run),
        [
            "attempts",
            "ended",
            "error",
            "host",
            "instance",
            "is_backfill",
            "occurrence",
            "pid",
            "result",
            "started",
            "state",
            "token"
        ],
        "{run}"
    );
    assert_eq!((&run["state"], &run["result"]), (&"ended".into(), &"succeeded".into()));
    assert_eq!(keys(&event["last_skip"]), ["holder", "is_backfill", "occurrence", "reason", "text"]);
    assert_eq!(
        (&event["last_skip"]["reason"], keys(&event["last_skip"]["holder"])),
        (&"overlapping".into(), holder.to_vec())
    );
    drop(elsewhere);

    store.be_unavailable(true);
    let status = serde_json::to_value(schedule.status()).unwrap();
    assert!(status["store_errors"][0].is_string() && status["events"][0]["held_by"].is_null(), "{status}");
}
