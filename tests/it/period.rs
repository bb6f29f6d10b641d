//! A permit for each civil period: the first server to ask runs, and no other until the period is over.

use std::time::Duration;

use chrono::TimeDelta;
use soloist::store::LeaseRequest;
use soloist::time::{Clock, ManualClock};
use soloist::{
    Event, EventMutex, FileMutex, MemoryMutex, MutexName, Period, Report, Schedule, SkipReason, Term, Verdict,
};

use crate::fleet::{Fleet, succeeded};
use crate::scripted::Scripted;
use crate::support::{Diary, at, holder, ran, skipped};
use crate::worker::Worker;
use crate::worker_log::{Line, read};

fn event(name: &str) -> Event {
    Event::call(name, |_| {}).every_minute()
}

/// Returns a server with one event, `e`.
fn server(mutex: impl EventMutex + 'static, event: Event) -> Schedule {
    let schedule = Schedule::new(mutex);
    schedule.add(event).unwrap();
    schedule
}

fn permit(event: &str, period: &str) -> MutexName {
    MutexName::lease(event).unwrap().permit(event, period)
}

#[track_caller]
fn did_run(report: &Report) -> bool {
    match report.entries()[0].verdict() {
        Verdict::Ran(outcome) => {
            assert!(outcome.is_success(), "{report}");
            true
        }
        Verdict::Skipped(reason) => {
            assert!(matches!(reason, SkipReason::RanElsewhere(Some(_))), "{report}");
            false
        }
    }
}

/// Returns for each of these instants whether the event runs.
#[track_caller]
fn runs(event: Event, ticks: &[&str]) -> Vec<bool> {
    let schedule = server(MemoryMutex::new(), event);
    ticks.iter().map(|tick| did_run(&schedule.run_due(at(tick)))).collect()
}

#[track_caller]
fn one_run_an_hour_on(mutex: &(impl EventMutex + Clone + 'static)) {
    let (here, there) = (server(mutex.clone(), hourly()), server(mutex.clone(), hourly()));
    for (server, tick, runs) in [
        (&here, "15:01:00", true),
        (&there, "15:02:00", false),
        (&here, "15:02:00", false),
        (&there, "15:59:59", false),
        (&there, "16:00:00", true),
        (&here, "16:00:01", false),
        // A late server requests the hour of its tick.
        (&here, "15:59:00", false),
    ] {
        let report = server.run_due(at(&format!("2026-03-01T{tick}Z")));
        assert_eq!(did_run(&report), runs, "{tick}: {report}");
    }
}

fn hourly() -> Event {
    event("e").once_per(Period::Hour).without_overlapping()
}

#[test]
fn of_all_who_ask_within_an_hour_one_runs() {
    one_run_an_hour_on(&MemoryMutex::new());
}

#[test]
fn of_all_who_ask_within_an_hour_one_runs_on_file_too() {
    let dir = tempfile::tempdir().unwrap();
    one_run_an_hour_on(&FileMutex::in_dir(dir.path()).unwrap());
}

#[test]
fn the_permit_of_an_hour_is_asked_for_in_the_zone_of_the_event() {
    // In Kathmandu 20:59, 21:00, 21:44 and 21:45.
    let ticks = ["2026-03-01T15:14:00Z", "2026-03-01T15:15:00Z", "2026-03-01T15:59:00Z", "2026-03-01T16:00:00Z"];
    assert_eq!(runs(hourly().timezone("Asia/Kathmandu"), &ticks), [true, true, false, false]);
    assert_eq!(runs(hourly(), &ticks), [true, false, false, true]);
}

#[test]
fn a_day_a_week_and_a_month_have_one_run_each() {
    let ticks = [
        "2026-12-26T22:59:00Z", // a Saturday; Sunday begins in Berlin
        "2026-12-26T23:00:00Z",
        "2026-12-27T22:59:00Z", // Monday begins
        "2026-12-27T23:00:00Z",
        "2026-12-31T22:59:00Z", // a Thursday; 2027 begins
        "2026-12-31T23:00:00Z",
        "2027-01-03T22:59:00Z", // Monday begins
        "2027-01-03T23:00:00Z",
    ];
    let runs = |period| runs(event("e").timezone("Europe/Berlin").once_per(period), &ticks);
    assert_eq!(runs(Period::Day), [true, true, false, true, true, true, true, true]);
    assert_eq!(runs(Period::Week), [true, false, false, true, false, false, false, true]);
    assert_eq!(runs(Period::Month), [true, false, false, false, false, true, false, false]);
}

#[test]
fn an_hour_that_comes_twice_has_two_permits_and_its_day_has_one() {
    // 02:10, 02:50, and once more 02:10, 02:50; then 03:10.
    let ticks = ["00:10", "00:50", "01:10", "01:50", "02:10"].map(|time| format!("2026-10-25T{time}:00Z"));
    let runs = |period| {
        let ticks: Vec<&str> = ticks.iter().map(String::as_str).collect();
        runs(event("e").timezone("Europe/Berlin").once_per(period), &ticks)
    };
    assert_eq!(runs(Period::Hour), [true, false, true, false, true]);
    assert_eq!(runs(Period::Day), [true, false, false, false, false]);
}

#[test]
fn a_task_that_failed_has_used_up_its_period() {
    let diary = Diary::default();
    let note = diary.task("tried");
    let fails = Event::call("e", move |run: &soloist::Run| {
        note(run);
        Err("no paper".into())
    });
    let schedule = server(MemoryMutex::new(), fails.every_minute().once_per(Period::Day).without_overlapping());
    assert!(ran(&schedule.run_due(at("2026-03-01T02:30:00Z")), "e").is_failure());
    let later = schedule.run_due(at("2026-03-01T02:31:00Z"));
    assert!(matches!(skipped(&later, "e"), SkipReason::RanElsewhere(Some(_))), "{later}");
    assert_eq!(diary.lines(), ["tried"]);
    assert!(ran(&schedule.run_due(at("2026-03-02T00:00:00Z")), "e").is_failure(), "the next day is another one");
}

#[test]
fn the_permit_outlives_its_period_on_the_store() {
    for (period, zone, now, text, end) in [
        (Period::Hour, "UTC", "2026-03-01T15:01:07Z", "hour@2026-03-01T15+00:00", "2026-03-01T16:00:00Z"),
        (Period::Hour, "UTC", "2026-03-01T15:59:59Z", "hour@2026-03-01T15+00:00", "2026-03-01T16:00:00Z"),
        (Period::Day, "Europe/Berlin", "2026-10-24T22:00:00Z", "day@2026-10-25", "2026-10-25T23:00:00Z"),
        (Period::Week, "UTC", "2026-03-02T00:00:00Z", "week@2026-W10", "2026-03-09T00:00:00Z"),
        (Period::Month, "UTC", "2026-01-01T00:00:00Z", "month@2026-01", "2026-02-01T00:00:00Z"),
    ] {
        let clock = ManualClock::at(at(now));
        let dir = tempfile::tempdir().unwrap();
        let (memory, file) =
            (MemoryMutex::with_clock(&clock), FileMutex::builder(dir.path()).clock(&clock).open().unwrap());
        let stores: [Box<dyn EventMutex>; 2] = [Box::new(memory.clone()), Box::new(file.clone())];
        let asked = || event("e").timezone(zone).once_per(period);
        for (schedule, store) in [server(memory, asked()), server(file, asked())].into_iter().zip(stores) {
            assert!(did_run(&schedule.with_clock(&clock).run_due(at(now))));
            let holder = holder(&store, &permit("e", text)).expect("it is called so");
            assert!(holder.until() >= at(end) + TimeDelta::minutes(15), "{period:?} on {store:?}");
        }
    }
}

#[test]
fn a_tick_that_says_that_it_is_long_ago_has_a_permit_like_any_other() {
    let memory = MemoryMutex::new();
    assert!(did_run(&server(memory.clone(), event("past").once_per(Period::Day)).run_due(at("1999-12-31T23:00:00Z"))));
    let holder = holder(&memory, &permit("past", "day@1999-12-31")).expect("it ran");
    assert!(holder.until() - holder.since() >= TimeDelta::minutes(15));
}

#[test]
fn a_permit_is_asked_for_within_its_window_or_not_at_all() {
    let clock = ManualClock::at(at("2026-03-01T12:00:00Z"));
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let slow = clock.clone();
    schedule
        .add(Event::call("11 minutes", move |_| slow.advance(Duration::from_secs(11 * 60))).every_minute())
        .unwrap()
        .add(event("too late").once_per(Period::Day))
        .unwrap();
    let report = schedule.run_due(at("2026-03-01T12:00:00Z"));
    assert!(matches!(skipped(&report, "too late"), SkipReason::TooLate));
    assert!(ran(&schedule.run_due(at("2026-03-01T12:20:00Z")), "11 minutes").is_success());
}

#[test]
fn a_server_that_meets_a_running_event_does_not_use_up_its_period() {
    let mutex = MemoryMutex::new();
    let request = LeaseRequest::new(MutexName::lease("e").unwrap(), Term::MAX, &Clock::system());
    let running = mutex.create(&request).unwrap().expect("nobody holds it");
    let schedule = server(mutex.clone(), hourly());
    let met = schedule.run_due(at("2026-03-01T15:01:00Z"));
    assert!(matches!(skipped(&met, "e"), SkipReason::Overlapping(_)), "{met}");
    assert!(mutex.forget(&running).unwrap());
    assert!(did_run(&schedule.run_due(at("2026-03-01T15:02:00Z"))), "the permit was still to be had");
}

#[test]
fn a_filter_that_refuses_leaves_the_permit_where_it_is() {
    let event = hourly().when(|tick| tick.local().format("%M").to_string() == "30");
    let schedule = server(MemoryMutex::new(), event);
    let early = schedule.run_due(at("2026-03-01T15:29:00Z"));
    assert!(matches!(skipped(&early, "e"), SkipReason::Filtered(_)), "{early}");
    assert!(did_run(&schedule.run_due(at("2026-03-01T15:30:00Z"))));
}

#[test]
fn by_hand_an_event_runs_whoever_has_the_permit_and_takes_none() {
    let schedule = server(MemoryMutex::new(), hourly());
    let now = at("2026-03-01T15:01:00Z");
    let ran_by_hand = || matches!(schedule.run_event("e", now).unwrap().verdict(), Verdict::Ran(_));
    assert!(ran_by_hand());
    assert!(did_run(&schedule.run_due(now)), "it has left the permit");
    assert!(ran_by_hand(), "it needs none");
}

#[test]
fn the_permit_stands_in_the_place_of_the_claim_on_the_occurrence() {
    let mutex = MemoryMutex::new();
    let schedule = server(mutex.clone(), event("e").once_per(Period::Hour).on_one_server());
    assert!(did_run(&schedule.run_due(at("2026-03-01T15:01:00Z"))));
    assert!(!did_run(&schedule.run_due(at("2026-03-01T15:02:00Z"))));
    assert!(mutex.exists(&permit("e", "hour@2026-03-01T15+00:00")).unwrap());
    let occurrence = MutexName::lease("e").unwrap().claim("e", at("2026-03-01T15:01:00Z"));
    assert!(!mutex.exists(&occurrence).unwrap());
}

#[test]
fn events_that_share_a_mutex_have_permits_of_their_own() {
    let schedule = Schedule::in_process();
    let shared = |event: Event| event.mutex_name("shared").without_overlapping().once_per(Period::Day);
    schedule.add(event("a").apply(shared)).unwrap().add(event("b").apply(shared)).unwrap();
    let report = schedule.run_due(at("2026-03-01T15:01:00Z"));
    assert!(ran(&report, "a").is_success() && ran(&report, "b").is_success(), "one after the other: {report}");
}

#[test]
fn events_in_the_background_ask_for_their_permits_together() {
    let store = Scripted::fleet();
    let schedule = Schedule::new(store.clone());
    for name in ["a", "b", "c"] {
        schedule.add(event(name).in_background().without_overlapping().once_per(Period::Hour)).unwrap();
    }
    let first = schedule.run_due(at("2026-03-01T15:01:00Z"));
    let second = schedule.run_due(at("2026-03-01T15:02:00Z"));
    assert_eq!(store.admissions(), [3, 3]);
    for name in ["a", "b", "c"] {
        assert!(ran(&first, name).is_success());
        assert!(matches!(skipped(&second, name), SkipReason::RanElsewhere(Some(_))), "{second}");
    }
}

#[test]
fn the_report_says_who_took_the_permit() {
    let clock = ManualClock::at(at("2026-03-01T15:01:07Z"));
    let schedule = server(MemoryMutex::with_clock(&clock), hourly().timezone("Europe/Berlin")).with_clock(&clock);
    assert!(did_run(&schedule.run_due(at("2026-03-01T15:01:07Z"))));
    clock.advance(Duration::from_secs(60));
    let report = schedule.run_due(at("2026-03-01T15:02:07Z"));
    let text = report.to_string();
    assert!(text.contains("skipped, taken by "), "{text}");
    assert!(text.contains(&format!(", pid {}, since 2026-03-01 15:01:07 UTC", std::process::id())), "{text}");
    assert_eq!(
        SkipReason::RanElsewhere(None).to_string(),
        "another server, or an earlier tick, has taken this occurrence or period"
    );
    assert!(!report.is_failure(), "the schedule works as it was told to");
}

/// Lets two processes tick two hours, each minute on each. Returns the starts, in the order of time.
#[track_caller]
pub(crate) fn two_workers_share_the_hours(fleet: &Fleet, event: &str) {
    let options = ["--event", event, "--once-per", "hour", "--without-overlapping", "--now", "2026-03-01T15:01:00Z"];
    let options = [&options[..], &["--ticks", "120", "--every-ms", "10"]].concat();
    let workers = ["one", "other"].map(|log| fleet.worker(log, &options).spawn().expect("a worker starts"));
    for worker in workers {
        succeeded(&worker.wait_with_output().expect("a worker ends"));
    }
    let lines: Vec<Line> = ["one", "other"].into_iter().flat_map(|log| read(&fleet.log(log))).collect();
    let started = |hour: &str| {
        let of_hour = |line: &&Line| line.what == "start" && line.occurrence.starts_with(hour);
        lines.iter().filter(of_hour).count()
    };
    for hour in ["2026-03-01T15:", "2026-03-01T16:", "2026-03-01T17:"] {
        assert_eq!(started(hour), 1, "{hour}");
    }
    let others: Vec<&Line> = lines.iter().filter(|line| !["start", "end"].contains(&&*line.what)).collect();
    assert_eq!(others.len(), 2 * 120 - 3, "every worker accounts for every tick");
    for line in others {
        let reason = line.reason.as_deref().expect("a skip has its reason");
        assert!(["overlapping", "ran_elsewhere"].contains(&reason) && line.holder.is_some(), "{line:?}");
    }
}

#[test]
fn two_processes_have_one_permit_an_hour() {
    two_workers_share_the_hours(&Fleet::new(), "report");
}

#[test]
fn a_process_that_was_killed_in_its_task_has_used_up_the_period() {
    let fleet = Fleet::new();
    let asked = ["--once-per", "day", "--now", "2026-03-01T02:30:00Z"];
    let mut victim = Worker::start(&fleet, "victim", &[&asked[..], &["--work-ms", "600000"]].concat().join(" "));
    victim.wait_for("start");
    victim.kill();
    let later = |log, now| {
        let lines = Worker::start(&fleet, log, &format!("--once-per day --now {now}")).succeeds();
        (lines[0].what.clone(), lines[0].reason.clone())
    };
    let taken = ("skipped".to_owned(), Some("ran_elsewhere".to_owned()));
    assert_eq!(later("same day", "2026-03-01T23:59:00Z"), taken, "its lease is free, and its permit is not");
    assert_eq!(later("next day", "2026-03-02T00:00:00Z").0, "start");
}
