//! The helpers for tests of a schedule tell the truth, and explain failures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use soloist::store::Scope;
use soloist::testing::{TestStore, assert_due, assert_not_due, due_times};
use soloist::time::ManualClock;
use soloist::{Event, EventMutex, MutexName, Period, Run, Schedule, SkipReason};

use crate::support::{at, noon};

fn schedule() -> Schedule {
    let schedule = Schedule::in_process();
    schedule.add(Event::call("nightly", |_| {}).daily_at("02:30").timezone("Europe/Berlin")).unwrap();
    schedule.add(Event::call("often", |_| {}).every_thirty_seconds().between("08:00", "08:01")).unwrap();
    schedule.add(Event::call("late", |_| {}).hourly()).unwrap();
    schedule
}

/// Returns the message of the test that fails.
#[track_caller]
fn fails(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("it fails");
    panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap()
}

#[test]
fn times_are_those_of_the_wall_clock_of_the_event_or_of_the_zone_that_is_named() {
    let schedule = schedule();
    assert_due(&schedule, "nightly", "2026-07-01 02:30");
    assert_due(&schedule, "nightly", "2026-07-01 00:30 UTC");
    assert_due(&schedule, "nightly", "2026-06-30 14:30 Pacific/Honolulu");
    assert_due(&schedule, "nightly", "2026-07-01 14:30 Pacific/Kiritimati");
    assert_due(&schedule, "often", "2026-07-01 08:00:30");
    for time in ["2026-07-01 02:31", "2026-07-01 02:30 UTC", "2026-07-01 00:00", "2026-03-29 02:30"] {
        assert_not_due(&schedule, "nightly", time);
    }
    assert_eq!(
        due_times(&schedule, "often", "2026-07-01".."2026-07-02"),
        ["2026-07-01 08:00", "2026-07-01 08:00:30", "2026-07-01 08:01", "2026-07-01 08:01:30"]
    );
    let tokyo = due_times(&schedule, "nightly", "2026-07-01 Asia/Tokyo".."2026-07-02 10:00 Asia/Tokyo");
    assert_eq!(tokyo, ["2026-07-01 09:30", "2026-07-02 09:30"]);
    // 02:00 to 03:00 comes twice.
    let twice = Schedule::in_process();
    twice.add(Event::call("e", |_| {}).hourly().timezone("Europe/Berlin")).unwrap();
    let times = due_times(&twice, "e", "2026-10-25 01:00".."2026-10-25 04:00");
    assert_eq!(times, ["2026-10-25 01:00", "2026-10-25 02:00", "2026-10-25 02:00", "2026-10-25 03:00"]);
    let within = Schedule::in_process();
    within.add(Event::call("e", |_| {}).every_fifteen_minutes().timezone("Europe/Berlin")).unwrap();
    let times = due_times(&within, "e", "2026-10-25 02:00".."2026-10-25 02:30");
    assert_eq!(times, ["2026-10-25 02:00", "2026-10-25 02:15", "2026-10-25 02:00", "2026-10-25 02:15"]);
}

#[test]
fn a_test_that_fails_says_when_it_is_due() {
    let schedule = schedule();
    let message = fails(|| assert_due(&schedule, "nightly", "2026-07-01 02:31"));
    assert_eq!(
        message,
        "\"nightly\" is not due at 2026-07-01 02:31 (Europe/Berlin); before that it is at 2026-07-01 02:30; \
         after that it is at 2026-07-02 02:30"
    );
    let message = fails(|| assert_not_due(&schedule, "nightly", "2026-07-01 02:30"));
    assert_eq!(message, "\"nightly\" is due at 2026-07-01 02:30 (Europe/Berlin)");
    for (time, says) in [
        ("2026-07-01 02:30 UTC", " at 2026-07-01 02:30 UTC (UTC; the zone of the event is Europe/Berlin); before that"),
        ("2026-07-01 02:31 Berlin", "Europe/Berlin"),
        ("1_July", "is no time: write 2026-03-01, 2026-03-01 14:30"),
        ("2026-07-01 02:30 PM", "is no time: write 2026-03-01, 2026-03-01 14:30"),
        ("2026-02-30", "is no time"),
    ] {
        let message = fails(|| assert_due(&schedule, "nightly", time));
        assert!(message.contains(says), "{message}");
    }
    for assert in [assert_due, assert_not_due] {
        let message = fails(|| assert(&schedule, "nightly", "2026-07-01"));
        let day =
            "\"2026-07-01\" is a day: write its time, such as 2026-03-01 02:30; `due_times` has all times of a day";
        assert_eq!(message, day);
    }
    let message = fails(|| assert_due(&schedule, "nighty", "2026-07-01 02:30"));
    assert!(message.contains("nighty"), "{message}");
    let message = fails(|| drop(due_times(&schedule, "nightly", "2026-07-01 UTC".."2026-07-02")));
    assert!(message.contains("name the zone in both, or in none"), "{message}");
    let message = fails(|| drop(due_times(&schedule, "nightly", "2026-07-02".."2026-07-01")));
    assert_eq!(message, "\"2026-07-02\" is not before \"2026-07-01\": write the earlier time first");
    let message = fails(|| drop(due_times(&schedule, "nightly", "2026-07-01".."2026-07-01")));
    let excluded = "the end is excluded: for one day, write the next day as the end";
    assert_eq!(message, format!("\"2026-07-01\" is not before \"2026-07-01\": {excluded}"));
}

/// Runs in a process of its own, whose panics tell their place to this test.
#[test]
fn a_test_that_fails_is_located_in_the_test() {
    let name = "testing_kit::a_test_that_fails_is_located_in_the_test";
    if crate::support::run_alone(name, &[]).is_some() {
        return;
    }
    let files = Arc::new(Mutex::new(Vec::new()));
    let located = Arc::clone(&files);
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map(|location| location.file().to_owned());
        located.lock().unwrap().extend(file);
    }));
    let schedule = schedule();
    fails(|| assert_due(&schedule, "nightly", "2026-07-01 02:31"));
    fails(|| assert_not_due(&schedule, "nightly", "2026-07-01 02:30"));
    for time in ["2026-07-01 02:31 Berlin", "1_July"] {
        fails(|| assert_due(&schedule, "nightly", time));
        fails(|| assert_not_due(&schedule, "nightly", time));
        fails(|| drop(due_times(&schedule, "nightly", time.."2026-07-02")));
    }
    fails(|| assert_due(&schedule, "nighty", "2026-07-01 02:30"));
    fails(|| assert_not_due(&schedule, "nighty", "2026-07-01 02:30"));
    fails(|| assert_not_due(&schedule, "nightly", "2026-07-01"));
    fails(|| drop(due_times(&schedule, "nighty", "2026-07-01".."2026-07-02")));
    fails(|| drop(due_times(&schedule, "nightly", "2026-07-01 UTC".."2026-07-02")));
    fails(|| drop(due_times(&schedule, "nightly", "2026-07-01".."2026-07-01")));
    drop(std::panic::take_hook());
    assert_eq!(*files.lock().unwrap(), [file!(); 14]);
}

#[test]
fn all_events_are_due_in_the_order_of_time_and_the_end_is_not_in_it() {
    let schedule = schedule();
    let due = |from: &str, until: &str| -> Vec<String> {
        schedule.due_between(at(from)..at(until)).map(|(at, event)| format!("{} {event}", at.format("%T"))).collect()
    };
    assert_eq!(due("2026-07-01T00:00:00Z", "2026-07-01T01:00:00Z"), ["00:00:00 late", "00:30:00 nightly"]);
    assert_eq!(
        due("2026-07-01T08:00:00Z", "2026-07-01T09:00:01Z"),
        ["08:00:00 often", "08:00:00 late", "08:00:30 often", "08:01:00 often", "08:01:30 often", "09:00:00 late"]
    );
    assert!(due("2026-07-01T01:00:00Z", "2026-07-01T01:00:00Z").is_empty());
    assert!(due("2026-07-01T02:00:00Z", "2026-07-01T01:00:00Z").is_empty());
    assert_eq!(schedule.due_between(noon()..at("2126-07-01T02:00:00Z")).take(1_000).count(), 1_000, "it is lazy");
}

fn on(store: &TestStore, event: Event) -> Schedule {
    let schedule = Schedule::new(store.clone());
    schedule.add(event).unwrap();
    schedule
}

#[test]
fn a_store_that_is_out_renews_nothing_and_admits_nobody_until_it_is_back() {
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    let (told, passing) = (store.clone(), clock.clone());
    let task = move |run: &Run| {
        told.be_unavailable(true);
        passing.advance(Duration::from_secs(61));
        assert!(run.is_cancelled(), "nothing was renewed");
        told.be_unavailable(false);
    };
    let schedule = on(&store, Event::call("e", task).every_minute().without_overlapping());
    let report = schedule.run_due(clock.now());
    let outcome = report.outcome("e").unwrap();
    assert!(outcome.is_success() && outcome.lease_lost_at().is_some(), "{report}");
    store.be_unavailable(true);
    assert!(matches!(schedule.run_due(clock.now()).skip_reason("e"), Some(SkipReason::StoreUnavailable(_))));
    let name = MutexName::lease("e").unwrap();
    assert!(store.exists(&name).unwrap_err().is_unavailable());
    assert!(store.held(soloist::store::Names::of(&name)).unwrap_err().is_unavailable());
    assert!(store.break_lease(&name).unwrap_err().is_unavailable());
    store.be_unavailable(false);
    clock.advance(Duration::from_secs(60));
    assert!(!store.exists(&name).unwrap());
    assert_eq!(store.describe().scope(), Scope::Fleet);
}

#[test]
fn what_another_server_takes_is_its_own_and_what_is_lost_is_free() {
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    let schedule = on(
        &store,
        Event::call("e", |_| {}).every_minute().once_per(Period::Hour).mutex_name("m").without_overlapping(),
    );
    let elsewhere = store.run_elsewhere("m").unwrap();
    assert!(matches!(schedule.run_due(clock.now()).skip_reason("e"), Some(SkipReason::Overlapping(Some(_)))));
    store.lose_all();
    assert!(schedule.run_due(clock.now()).outcome("e").is_some(), "the store knows nothing of the other server");
    drop(elsewhere);
    assert!(matches!(schedule.run_due(clock.now()).skip_reason("e"), Some(SkipReason::RanElsewhere(Some(_)))));
    store.lose_all();
    assert!(schedule.run_due(clock.now()).outcome("e").is_some());
    for wrong in ["", " m", "m\n"] {
        assert!(store.run_elsewhere(wrong).is_err() && store.claim_elsewhere(wrong, noon()).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_store_that_is_out_does_not_answer_a_check() {
    let store = TestStore::new(&ManualClock::at(noon()));
    assert!(store.check().is_ok());
    store.be_unavailable(true);
    assert!(store.check().is_err());
}

#[test]
fn a_slow_store_renews_the_lease_of_a_task_that_lets_time_pass() {
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    store.answer_after(Duration::from_secs(1));
    let schedule = Schedule::new(store).with_clock(&clock);
    let time = clock.clone();
    let long = Event::call("e", move |_| time.advance(Duration::from_secs(600)));
    schedule.add(long.every_minute().without_overlapping()).unwrap();
    let report = schedule.run_due(noon()).to_string();
    // Every 20 s, the lease is renewed and requests to cancel are read: 33 times two answers of one second each.
    assert!(report.contains("succeeded in 11 min 6 s"), "{report}");
}

/// Behaves as any other store while it is told nothing.
mod unscripted {
    use super::*;

    struct Plain {
        clock: ManualClock,
        store: TestStore,
    }

    impl Plain {
        fn new() -> Self {
            let clock = ManualClock::at(noon());
            Self { store: TestStore::new(&clock), clock }
        }
    }

    impl soloist::contract::Harness for Plain {
        type Mutex = TestStore;

        fn mutex(&self) -> TestStore {
            self.store.clone()
        }

        fn clock(&self) -> soloist::time::Clock {
            soloist::time::Clock::from(&self.clock)
        }

        fn let_time_pass(&self, by: Duration) {
            self.clock.advance(by);
        }
    }

    soloist::contract_tests!(Plain::new());
}
