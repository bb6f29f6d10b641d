//! How long an occurrence may be asked for, and how long its claim is kept.

use std::time::Duration;

use chrono::{Month, TimeDelta};
use soloist::time::ManualClock;
use soloist::{
    AddErrorKind, Entry, Event, EventMutex, FileMutex, MemoryMutex, MutexName, Overlap, Period, Schedule, SkipReason,
    Verdict,
};

use crate::support::{Diary, at, holder, noon, ran, skipped};

const MINUTE: Duration = Duration::from_secs(60);
/// How much longer than its window a claim is kept.
const MARGIN: Duration = Duration::from_secs(5 * 60);

fn event() -> Event {
    Event::call("e", |_| {}).on_one_server()
}

/// Returns events that are due at noon, and how long after the begin of its tick each may request its claim.
fn windows() -> Vec<(Event, Duration)> {
    vec![
        (event().every_second(), MINUTE),
        (event().every_five_seconds(), MINUTE),
        (event().every_ten_seconds(), Duration::from_secs(100)),
        (event().every_thirty_seconds(), 5 * MINUTE),
        (event().yearly_on(Month::March, 1, "12:00").every_ten_seconds(), Duration::from_secs(100)),
        (event().every_minute(), 10 * MINUTE),
        (event().cron("0,1 0,12 * * *"), 10 * MINUTE),
        (event().cron("*/2 12 * * *"), 20 * MINUTE),
        (event().every_five_minutes(), 50 * MINUTE),
        (event().every_ten_minutes(), 60 * MINUTE),
        // The shortest time between two occurrences: from minute 56 to minute 0 of the next hour, if both hours
        // are in the list.
        (event().cron("*/7 * * * *"), 40 * MINUTE),
        (event().cron("*/7 12 * * *"), 60 * MINUTE),
        (event().cron("0,58 * * * *"), 20 * MINUTE),
        (event().cron("0,58 12,13 * * *"), 20 * MINUTE),
        (event().cron("0,58 12,14 * * *"), 60 * MINUTE),
        (event().cron("0,58 12,0,23 * * *"), 20 * MINUTE),
        (event().hourly(), 60 * MINUTE),
        (event().daily_at("12:00"), 60 * MINUTE),
        (event().cron("0 12 1 3 *"), 60 * MINUTE),
    ]
}

#[test]
fn a_claim_is_kept_for_ten_periods_between_a_minute_and_an_hour_and_five_minutes_more() {
    for (event, window) in windows() {
        let (description, clock) = (format!("{event:?}"), ManualClock::at(noon()));
        let store = MemoryMutex::with_clock(&clock);
        let schedule = Schedule::new(store.clone()).with_clock(&clock);
        schedule.add(event).unwrap();
        ran(&schedule.run_due(noon()), "e");
        let claim = holder(&store, &MutexName::lease("e").unwrap().claim("e", noon())).expect("it is held");
        assert_eq!((claim.until() - claim.since()).to_std().unwrap(), window + MARGIN, "{description}");
    }
}

#[test]
fn a_permit_is_kept_for_as_long_after_its_period() {
    let clock = ManualClock::at(noon());
    let store = MemoryMutex::with_clock(&clock);
    let schedule = Schedule::new(store.clone()).with_clock(&clock);
    schedule.add(Event::call("e", |_| {}).every_minute().once_per(Period::Hour)).unwrap();
    ran(&schedule.run_due(noon()), "e");
    let permit = MutexName::lease("e").unwrap().permit("e", "hour@2026-03-01T12+00:00");
    assert_eq!(holder(&store, &permit).expect("it is held").until(), at("2026-03-01T13:15:00Z"));
}

/// Sets the clock of one server five minutes behind another's, with an earlier event that takes as long as the
/// window. The occurrence still runs once; a moment later no server requests it any more.
#[test]
fn an_occurrence_runs_once_on_servers_five_minutes_apart_however_long_an_event_before_it_takes() {
    for in_time in [true, false] {
        for ((event, window), (again, _)) in windows().into_iter().zip(windows()) {
            let (description, clock, diary) = (format!("{event:?}"), ManualClock::at(noon()), Diary::default());
            let store = MemoryMutex::with_clock(&clock);
            let server = |event: Event, before: Duration| {
                let (schedule, slow) = (Schedule::new(store.clone()).with_clock(&clock), clock.clone());
                schedule.add(Event::call("before", move |_| slow.advance(before)).cron("0 12 * * *")).unwrap();
                schedule.add(event.before(diary.task("ran"))).unwrap();
                schedule
            };
            ran(&server(event, Duration::ZERO).run_due(noon()), "e");
            clock.advance(Duration::from_secs(5 * 60 - 1));
            let before = if in_time { window } else { window + Duration::from_millis(1) };
            let report = server(again, before).run_due(noon());
            match skipped(&report, "e") {
                SkipReason::RanElsewhere(Some(_)) => assert!(in_time, "{description}: {report}"),
                SkipReason::TooLate => assert!(!in_time, "{description}: {report}"),
                other => panic!("{description}: {other}"),
            }
            assert!(!report.is_failure());
            assert_eq!(diary.lines(), ["ran"], "{description}");
        }
    }
}

#[test]
fn an_event_of_every_second_has_the_claims_of_six_minutes() {
    let (clock, dir) = (ManualClock::at(noon()), tempfile::tempdir().unwrap());
    let store = FileMutex::builder(dir.path()).clock(&clock).open().unwrap();
    let schedule = Schedule::new(store.clone()).with_clock(&clock);
    schedule.add(event().every_second()).unwrap();
    for second in 0..500 {
        let report = schedule.run_due(noon() + TimeDelta::seconds(second));
        assert!(matches!(report.entries()[0].verdict(), Verdict::Ran(_)), "{report}");
        clock.advance(Duration::from_secs(1));
    }
    let claim = |second| MutexName::lease("e").unwrap().claim("e", noon() + TimeDelta::seconds(second));
    let live: Vec<i64> = (0..500).filter(|second| store.exists(&claim(*second)).unwrap()).collect();
    assert_eq!((live.len(), live.first()), (359, Some(&141)));
    let mut files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
    let state = files.find(|path| path.extension().is_some_and(|kind| kind == "state")).unwrap();
    let kept = std::fs::read_to_string(state).unwrap().matches("claim/").count();
    assert_eq!(kept, 360, "a grant leaves out the claims that have ended");
}

#[test]
fn an_event_whose_claims_would_be_too_many_is_refused() {
    let hour = 60 * MINUTE;
    let add = |within, is_daily: bool| {
        let event = Event::call("e", |_| {}).every_second().without_overlapping();
        let event = event.on_overlap(Overlap::QueueAll(2)).within(within);
        Schedule::in_process()
            .add(if is_daily { event.once_per(Period::Day) } else { event.on_one_server() })
            .map(|_| ())
    };
    let most = Duration::from_secs(50_000 - 5 * 60);
    assert!(add(most, false).is_ok());
    let error = add(most + Duration::from_secs(1), false).unwrap_err();
    assert_eq!(error.kind(), AddErrorKind::Conflict);
    let message = error.to_string();
    assert!(
        message.contains(
            "every 1s, and an occurrence may start 49701s late, so that it would have more than 50,000 claims"
        ),
        "{message}"
    );
    assert!(message.contains("`within(..)`"), "{message}");
    assert!(add(24 * hour, true).is_ok(), "it claims a day, and no occurrence");
}

#[test]
fn a_claim_is_kept_until_the_next_occurrence_or_the_end_of_the_window_in_which_it_is_made_up_for() {
    let event = || event().cron("0,5 12 * * *").catch_up(Duration::from_secs(20 * 3600));
    // And for as long as the minute lasts that begins then.
    for (time, window) in [("12:00", TimeDelta::minutes(50)), ("12:05", TimeDelta::hours(20) + TimeDelta::minutes(1))] {
        let occurrence = at(&format!("2026-03-01T{time}:00Z"));
        let clock = ManualClock::at(occurrence);
        let store = MemoryMutex::with_clock(&clock);
        let schedule = Schedule::new(store.clone()).with_clock(&clock);
        schedule.add(event()).unwrap();
        ran(&schedule.run_due(occurrence), "e");
        let claim = holder(&store, &MutexName::lease("e").unwrap().claim("e", occurrence)).expect("it is held");
        assert_eq!(claim.until() - claim.since(), window + TimeDelta::minutes(5), "{time}");
    }
}

#[test]
fn what_was_missed_is_in_time_in_the_whole_last_minute_of_its_window() {
    for (event, missed, last) in [
        (
            event().every_thirty_seconds().weekdays().catch_up(5 * MINUTE),
            "2026-02-27T23:59:30Z",
            "2026-02-28T00:04:40Z",
        ),
        (event().daily_at("12:00").catch_up(120 * MINUTE), "2026-03-01T12:00:00Z", "2026-03-01T14:00:40Z"),
    ] {
        let known = at(missed) - TimeDelta::days(1);
        let clock = ManualClock::at(known);
        let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
        let slow = clock.clone();
        schedule.add(Event::call("before", move |_| slow.advance(Duration::from_secs(1))).every_minute()).unwrap();
        schedule.add(event).unwrap();
        ran(&schedule.run_due(known), "e");
        clock.advance((at(last) - known).to_std().unwrap());
        assert!(ran(&schedule.run_due(at(last)), "e").is_success());
    }
}

/// Runs an event for twenty minutes in the first of the late minutes. Meanwhile the claims of another server expire.
#[test]
fn the_later_minutes_of_a_late_call_are_late_if_the_first_took_long() {
    let clock = ManualClock::at(noon() + TimeDelta::minutes(2));
    let store = MemoryMutex::with_clock(&clock);
    let on_time = Schedule::new(store.clone()).with_clock(&clock);
    on_time.add(event().every_minute()).unwrap();
    ran(&on_time.run_due(noon() + TimeDelta::minutes(2)), "e");
    clock.advance(MINUTE);
    let (late, time) = (Schedule::new(store).with_clock(&clock), clock.clone());
    late.add(Event::call("slow", move |_| time.advance(20 * MINUTE)).cron("1 12 * * *")).unwrap();
    late.add(event().every_minute()).unwrap();
    let report = late.run_due_since(noon() + TimeDelta::seconds(59), noon() + TimeDelta::minutes(3));
    let of_e: Vec<&Verdict> =
        report.entries().iter().filter(|entry| entry.event() == "e").map(Entry::verdict).collect();
    assert_eq!(of_e.len(), 3, "{report}");
    assert!(of_e.iter().all(|verdict| matches!(verdict, Verdict::Skipped(SkipReason::TooLate))), "{report}");
}
