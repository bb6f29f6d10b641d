//! A missed occurrence is made up for: once, the latest only, and only by a process that has known the event for
//! long enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Timelike, Utc};
use soloist::store::{LeaseRequest, Scope};
use soloist::time::{Clock, ManualClock};
use soloist::{
    Entry, Event, EventMutex, FileMutex, MemoryMutex, MutexName, OutagePolicy, Period, Report, Schedule, Shutdown,
    SkipReason, Verdict,
};

use crate::fleet::{Fleet, succeeded};
use crate::scripted::Scripted;
use crate::support::{Diary, HOUR, at, entry, holder, ran, skipped, until};
use crate::worker_log::{Line, read};

mod all;

/// Hosts that share a clock and a store, whose clock it is as well.
struct Host {
    clock: ManualClock,
    mutex: MemoryMutex,
    diary: Diary,
}

impl Host {
    fn at(time: &str) -> Self {
        let clock = ManualClock::at(on_the_day(time));
        Self { mutex: MemoryMutex::with_clock(&clock), clock, diary: Diary::default() }
    }

    fn schedule(&self, event: Event) -> Schedule {
        let schedule = Schedule::new(self.mutex.clone()).with_clock(&self.clock);
        schedule.add(event).unwrap();
        schedule
    }

    /// Returns an event that is due every hour, and catches up within an hour.
    fn event(&self) -> Event {
        self.untimed().hourly().catch_up(HOUR)
    }

    /// Returns an event that writes down its occurrence, and how late it is.
    fn untimed(&self) -> Event {
        let diary = self.diary.clone();
        Event::call("e", move |run| {
            diary.note(format!("{} {}s", run.occurrence().format("%R"), run.lateness().as_secs()));
        })
        .on_one_server()
    }

    fn tick(&self, schedule: &Schedule, time: &str) -> Report {
        self.pass_until(on_the_day(time));
        schedule.run_due(on_the_day(time))
    }

    fn pass_until(&self, later: DateTime<Utc>) {
        pass_until(&self.clock, later);
    }

    /// Returns the runs up to now.
    fn ran(&self) -> Vec<String> {
        self.diary.lines()
    }
}

/// Lets time pass on both clocks.
fn pass_until(clock: &ManualClock, later: DateTime<Utc>) {
    clock.advance((later - Clock::from(clock).now()).to_std().expect("time goes forward"));
}

fn on_the_day(time: &str) -> DateTime<Utc> {
    let seconds = if time.len() == 5 { ":00" } else { "" };
    at(&format!("2026-03-01T{time}{seconds}Z"))
}

#[test]
fn a_missed_occurrence_runs_in_the_next_tick_and_the_report_says_how_late() {
    let host = Host::at("11:00");
    let schedule = host.schedule(host.event());
    let _ = host.tick(&schedule, "11:00");
    let report = host.tick(&schedule, "12:20:05");
    assert_eq!(host.ran(), ["11:00 0s", "12:00 1205s"]);
    let entry = entry(&report, "e");
    assert_eq!(entry.missed_by(), Some(Duration::from_secs(1205)));
    assert_eq!(entry.occurrence(), on_the_day("12:00"));
    assert!(ran(&report, "e").is_success());
    assert!(entry.to_string().starts_with("e  2026-03-01 12:00:00 UTC  20 min 5 s late: succeeded"), "{entry}");
    for time in ["12:21", "12:22", "12:59:59"] {
        assert!(host.tick(&schedule, time).entries().is_empty());
    }
    assert_eq!(host.tick(&schedule, "13:00:01").entry("e").map(Entry::missed_by), Some(None));
    assert_eq!(host.ran().len(), 3);
}

#[test]
fn a_new_event_does_not_run_when_it_is_deployed() {
    let host = Host::at("11:20");
    let schedule = host.schedule(host.event());
    for time in ["11:20", "11:21", "11:59"] {
        assert!(host.tick(&schedule, time).entries().is_empty(), "{time}");
    }
    // From then on it is known, to other processes too.
    let another = host.schedule(host.event());
    assert_eq!(host.tick(&another, "12:03").entries().len(), 1);
    assert_eq!(host.ran(), ["12:00 180s"]);
}

#[test]
fn an_event_with_another_timetable_window_or_claim_is_a_new_one() {
    let host = Host::at("11:00");
    let _ = host.tick(&host.schedule(host.event()), "11:00");
    let (later, elsewhere) =
        (host.schedule(host.untimed().hourly_at(15).catch_up(HOUR)), host.schedule(host.event().timezone("+00:30")));
    for time in ["11:40", "11:41"] {
        assert!(host.tick(&later, time).entries().is_empty());
        assert!(host.tick(&elsewhere, time).entries().is_empty());
    }
    assert_eq!(host.ran(), ["11:00 0s"]);
    // The earlier claims were no permits, so no miss is known.
    assert!(host.tick(&host.schedule(host.event().once_per(Period::Day)), "11:42").entries().is_empty());
    assert_eq!(host.ran(), ["11:00 0s"]);
}

#[test]
fn a_process_that_is_to_end_looks_for_nothing() {
    let clock = ManualClock::at(on_the_day("11:00"));
    let (store, shutdown) = (Scripted::fleet_by(&clock), Shutdown::new());
    let schedule = Schedule::new(store.clone()).with_clock(&clock).with_shutdown(&shutdown);
    for (name, minute) in [("missed", 0), ("due", 10)] {
        let event = Event::call(name, |_| {}).hourly_at(minute).on_one_server().catch_up(HOUR);
        schedule.add(event).unwrap();
    }
    let _ = schedule.run_due(on_the_day("11:00"));
    pass_until(&clock, on_the_day("12:10"));
    shutdown.trigger();
    let before = store.calls();
    let report = schedule.run_due(on_the_day("12:10"));
    assert!(matches!(skipped(&report, "due"), SkipReason::ShuttingDown));
    assert_eq!((report.entries().len(), store.calls() - before), (1, 0), "{report}");
}

#[test]
fn a_window_that_was_made_longer_does_not_repeat_what_was_claimed_for_the_shorter() {
    let host = Host::at("01:00");
    let event = |window| host.untimed().daily_at("01:00").catch_up(window);
    let _ = host.tick(&host.schedule(event(HOUR)), "01:00");
    assert!(host.tick(&host.schedule(event(12 * HOUR)), "02:30").entries().is_empty());
    assert_eq!(host.ran(), ["01:00 0s"]);
}

#[test]
fn what_was_missed_before_the_latest_is_part_of_it() {
    let host = Host::at("06:00");
    let schedule = host.schedule(host.untimed().hourly().catch_up(6 * HOUR));
    let _ = host.tick(&schedule, "06:00");
    assert_eq!(host.tick(&schedule, "10:30").entries().len(), 1);
    assert!(host.tick(&schedule, "10:31").entries().is_empty());
    assert_eq!(host.ran(), ["06:00 0s", "10:00 1800s"]);
    // The due occurrence stands for all that were missed before it.
    let _ = host.tick(&schedule, "14:00");
    assert!(host.tick(&schedule, "14:01").entries().is_empty());
    assert_eq!(host.ran()[2..], ["14:00 0s"]);
}

#[test]
fn the_window_ends_when_it_says() {
    for (time, runs) in [("12:30", true), ("12:30:59", true), ("12:31", false)] {
        let host = Host::at("11:00");
        let schedule = host.schedule(host.untimed().hourly().catch_up(HOUR / 2));
        let _ = host.tick(&schedule, "11:00");
        assert_eq!(host.tick(&schedule, time).entries().len(), usize::from(runs), "{time}");
    }
}

#[test]
fn a_claim_lasts_for_as_long_as_the_window() {
    let host = Host::at("01:00");
    let event = || host.untimed().daily_at("01:00").catch_up(20 * HOUR);
    let _ = host.tick(&host.schedule(event()), "01:00");
    for time in ["02:10", "09:00", "20:59"] {
        assert!(host.tick(&host.schedule(event()), time).entries().is_empty(), "{time}");
    }
    assert_eq!(host.ran().len(), 1);
    // A late run claims it for as long.
    let host = Host::at("00:30");
    let _ = host.tick(&host.schedule(event_at_two(&host)), "00:30");
    let _ = host.tick(&host.schedule(event_at_two(&host)), "03:00");
    assert!(host.tick(&host.schedule(event_at_two(&host)), "21:59").entries().is_empty());
    assert_eq!(host.ran(), ["02:00 3600s"]);
}

fn event_at_two(host: &Host) -> Event {
    host.untimed().daily_at("02:00").catch_up(Duration::from_secs(24 * 3600))
}

#[test]
fn of_servers_that_are_back_at_once_one_runs_it() {
    for _ in 0..50 {
        let host = Host::at("11:00");
        let _ = host.tick(&host.schedule(host.event()), "11:00");
        host.pass_until(on_the_day("12:10"));
        let together = Barrier::new(4);
        std::thread::scope(|scope| {
            for second in 0..4 {
                let (host, together) = (&host, &together);
                scope.spawn(move || {
                    let schedule = host.schedule(host.event());
                    together.wait();
                    let report = schedule.run_due(on_the_day("12:10") + TimeDelta::seconds(second));
                    for entry in report.entries() {
                        assert!(!entry.is_failure(), "{entry}");
                    }
                });
            }
        });
        assert_eq!(host.ran().len(), 2, "{:?}", host.ran());
    }
}

#[test]
fn what_kept_an_occurrence_from_running_does_not_use_it_up() {
    let host = Host::at("11:00");
    let refused = Arc::new(AtomicBool::new(false));
    let filter = Arc::clone(&refused);
    let schedule = host.schedule(host.event().without_overlapping().skip(move |_| filter.load(Ordering::SeqCst)));
    let _ = host.tick(&schedule, "11:00");

    refused.store(true, Ordering::SeqCst);
    assert!(matches!(skipped(&host.tick(&schedule, "12:00"), "e"), SkipReason::Filtered(_)));
    assert!(host.tick(&schedule, "12:01").entries().is_empty(), "it waits");
    refused.store(false, Ordering::SeqCst);

    let lease = MutexName::lease("e").unwrap();
    let held =
        host.mutex.create(&LeaseRequest::new(lease, soloist::Term::MAX, &(&host.clock).into())).unwrap().unwrap();
    assert!(matches!(skipped(&host.tick(&schedule, "12:02"), "e"), SkipReason::Overlapping(Some(_))));
    host.mutex.forget(&held).unwrap();

    let _ = host.tick(&schedule, "12:03");
    assert_eq!(host.ran(), ["11:00 0s", "12:00 180s"]);
}

#[test]
fn what_came_while_the_schedule_was_paused_is_made_up_for() {
    let host = Host::at("11:00");
    let schedule = host.schedule(host.event()).named("all").unwrap();
    let _ = host.tick(&schedule, "11:00");
    host.pass_until(on_the_day("11:30"));
    schedule.pause(on_the_day("12:30"), "").unwrap();
    for time in ["12:00", "12:01"] {
        assert!(matches!(skipped(&host.tick(&schedule, time), "e"), SkipReason::Paused(Some(_))));
    }
    let _ = host.tick(&schedule, "12:30");
    assert_eq!(host.ran(), ["11:00 0s", "12:00 1800s"]);
}

#[test]
fn a_run_that_failed_is_not_repeated() {
    let host = Host::at("11:00");
    let failing = || {
        let diary = host.diary.clone();
        Event::call("e", move |run| {
            diary.note(run.occurrence().format("%R").to_string());
            Err("no paper".into())
        })
        .hourly()
        .on_one_server()
        .catch_up(HOUR)
    };
    let schedule = host.schedule(failing());
    assert!(host.tick(&schedule, "11:00").is_failure());
    assert!(host.tick(&schedule, "11:01").entries().is_empty());
    assert!(host.tick(&schedule, "12:10").is_failure());
    assert!(host.tick(&schedule, "12:11").entries().is_empty());
    assert!(host.tick(&host.schedule(failing()), "12:12").entries().is_empty(), "nor by another process");
    assert_eq!(host.ran(), ["11:00", "12:00"]);
}

#[test]
fn by_hand_nothing_is_made_up_for() {
    let host = Host::at("11:00");
    let schedule = host.schedule(host.event());
    let _ = host.tick(&schedule, "11:00");
    host.pass_until(on_the_day("12:10"));
    let entry = schedule.run_event("e", on_the_day("12:10")).unwrap();
    assert_eq!(entry.missed_by(), None);
    let _ = host.tick(&schedule, "12:11");
    assert_eq!(host.ran(), ["11:00 0s", "12:10 0s", "12:00 660s"]);
}

#[test]
fn a_permit_is_a_claim_too() {
    let host = Host::at("01:00");
    let event = || {
        let diary = host.diary.clone();
        let note = move |run: &soloist::Run| diary.note(run.occurrence().format("%d %R").to_string());
        Event::call("e", note).cron("0 1,2,3 * * *").once_per(Period::Day).catch_up(12 * HOUR)
    };
    let schedule = host.schedule(event());
    let _ = host.tick(&schedule, "01:00");
    for time in ["02:30", "03:30", "12:00"] {
        assert!(host.tick(&host.schedule(event()), time).entries().is_empty(), "the day has its run at {time}");
    }
    let next_day = at("2026-03-02T08:00:00Z");
    host.pass_until(next_day);
    assert_eq!(schedule.run_due(next_day).entries().len(), 1);
    assert_eq!(host.ran(), ["01 01:00", "02 03:00"]);
}

#[test]
fn events_in_the_background_and_in_the_foreground_are_made_up_for_in_their_order() {
    let host = Host::at("11:00");
    let schedule = Schedule::new(host.mutex.clone()).with_clock(&host.clock);
    for name in ["a", "b", "c", "d"] {
        let event = Event::call(name, host.diary.task(name)).on_one_server().without_overlapping();
        let event = if name < "c" { event.in_background() } else { event };
        // Of each kind one is due at 12:10, and the other one was.
        let event = if name == "a" || name == "c" { event.hourly().catch_up(HOUR) } else { event.hourly_at(10) };
        schedule.add(event).unwrap();
    }
    let _ = host.tick(&schedule, "11:00");
    let report = host.tick(&schedule, "12:10");
    let entries: Vec<_> = report.entries().iter().map(|entry| (entry.event(), entry.missed_by().is_some())).collect();
    assert_eq!(entries, [("a", true), ("b", false), ("c", true), ("d", false)]);
    assert!(report.entries().iter().all(|entry| matches!(entry.verdict(), Verdict::Ran(_))), "{report}");
}

#[test]
fn a_tick_looks_once_while_the_window_is_open_until_it_knows() {
    let clock = ManualClock::at(on_the_day("10:59"));
    let store = Scripted::fleet_by(&clock);
    let process = || {
        let schedule = Schedule::new(store.clone()).with_clock(&clock);
        schedule.add(Event::call("e", |_| {}).hourly().on_one_server().catch_up(HOUR / 2)).unwrap();
        schedule
    };
    let calls = |schedule: &Schedule, time: &str| {
        let before = store.calls();
        pass_until(&clock, on_the_day(time));
        let _ = schedule.run_due(on_the_day(time));
        store.calls() - before
    };
    let first = process();
    assert_eq!(calls(&first, "10:59"), 0, "the window is closed");
    assert_eq!(calls(&first, "11:00"), 2, "its mark, its claim");
    assert_eq!(calls(&first, "11:01"), 0, "it ran here");
    let second = process();
    for time in ["11:02", "11:03", "11:10"] {
        assert_eq!(calls(&second, time), 1, "somebody has the claim, and could release it");
    }
    assert_eq!(calls(&second, "11:11"), 0, "it is final");
    assert_eq!(calls(&process(), "11:31"), 0, "the window is closed");
    assert_eq!(calls(&first, "12:00"), 2, "the mark again, after an hour, and its claim");
    assert_eq!(calls(&process(), "13:05"), 3, "no claim, a mark, and the run");
}

#[test]
fn a_store_that_is_out_is_said_to_be_and_what_was_missed_meanwhile_is_made_up_for() {
    let host = Host::at("11:00");
    let out = Arc::new(AtomicBool::new(false));
    let is_out = Arc::clone(&out);
    let store = Scripted::over(host.mutex.clone());
    let store = store.before(move |call| if is_out.load(Ordering::SeqCst) { call.times_out() } else { Ok(()) });
    let schedule = Schedule::new(store).with_clock(&host.clock);
    schedule.add(host.event()).unwrap();
    let _ = host.tick(&schedule, "11:00");
    out.store(true, Ordering::SeqCst);
    for time in ["12:00", "12:01"] {
        let report = host.tick(&schedule, time);
        assert!(matches!(skipped(&report, "e"), SkipReason::StoreUnavailable(_)), "{report}");
        assert!(report.is_failure());
    }
    out.store(false, Ordering::SeqCst);
    let _ = host.tick(&schedule, "12:02");
    assert_eq!(host.ran(), ["11:00 0s", "12:00 120s"]);
}

#[test]
fn a_store_that_lost_its_data_knows_the_event_as_a_new_one() {
    let host = Host::at("11:00");
    let _ = host.tick(&host.schedule(host.event()), "11:00");
    let emptied =
        Host { clock: host.clock.clone(), mutex: MemoryMutex::with_clock(&host.clock), diary: host.diary.clone() };
    let schedule = emptied.schedule(emptied.event());
    assert!(emptied.tick(&schedule, "12:10").entries().is_empty());
    assert!(emptied.tick(&schedule, "12:11").entries().is_empty());
    let _ = emptied.tick(&schedule, "13:10");
    assert_eq!(host.ran(), ["11:00 0s", "13:00 600s"]);
}

#[test]
fn a_store_that_does_not_tell_who_holds_a_name_is_an_error_and_not_a_silence() {
    let host = Host::at("11:00");
    let schedule =
        Schedule::new(Scripted::over(host.mutex.clone()).three_methods().scope(Scope::Fleet)).with_clock(&host.clock);
    // A distant store releases the lease of this event in the request that admits the next.
    schedule.add(Event::call("before it", |_| {}).hourly_at([0, 10]).without_overlapping_for(HOUR)).unwrap();
    schedule.add(host.event()).unwrap();
    assert!(ran(&host.tick(&schedule, "11:00"), "e").is_success());
    let report = host.tick(&schedule, "12:10");
    assert!(ran(&report, "before it").is_success());
    assert!(report.is_failure());
    assert_eq!(
        skipped(&report, "e").to_string(),
        "the store could not be used: this store can't tell since when it has held a marker, which `catch_up` needs"
    );
}

#[test]
fn a_definition_that_cannot_tell_what_was_missed_is_refused() {
    let schedule = Schedule::in_process();
    let event = || Event::call("e", |_| {}).hourly();
    let refusal = |event: Event| schedule.add(event).unwrap_err().to_string();
    assert_eq!(
        refusal(event().catch_up(HOUR)),
        "event `e`: it has a `catch_up(..)`, but no claims that show which occurrences were run: add `on_one_server()` or \
         `once_per(..)`"
    );
    assert_eq!(
        refusal(event().on_one_server().catch_up(HOUR).on_outage(OutagePolicy::RunUnprotected)),
        "event `e`: it has a `catch_up(..)` and `on_outage(OutagePolicy::RunUnprotected)`: an occurrence that ran without \
         a claim would run again after the outage: leave out one of the two"
    );
    for (window, shown) in [
        (Duration::ZERO, "0s"),
        (Duration::from_secs(59), "59s"),
        (Duration::from_secs(367 * 24 * 3600), "367d"),
        (Duration::MAX, "Duration::MAX"),
    ] {
        assert_eq!(
            refusal(event().on_one_server().catch_up(window)),
            format!("event `e`: `catch_up({shown})`: use 1m to a year")
        );
    }
}

#[test]
fn an_event_of_another_environment_asks_the_store_for_nothing() {
    let clock = ManualClock::at(on_the_day("10:00"));
    let store = Scripted::fleet_by(&clock);
    let schedule = Schedule::new(store.clone()).with_clock(&clock).with_environment("staging");
    let event = Event::call("e", |_| {}).hourly().on_one_server().catch_up(HOUR);
    schedule.add(event.environments(["production"])).unwrap();
    let mut entries = 0;
    for minute in 0..130 {
        let now = on_the_day("10:00") + TimeDelta::minutes(minute);
        pass_until(&clock, now);
        entries += schedule.run_due(now).entries().len();
    }
    assert_eq!((store.calls(), entries), (0, 0));
}

/// Plays another server that claims an occurrence, and gives its claim back after these ticks. Returns the server that ticks.
fn claimed_and_given_back(host: &Host, meanwhile: &[&str]) -> Schedule {
    let one = host.schedule(host.event());
    let _ = host.tick(&one, "11:00");
    let occurrence = on_the_day("12:00");
    host.pass_until(occurrence);
    let name = MutexName::lease("e").unwrap().claim("e", occurrence);
    let term = soloist::Term::new(2 * HOUR).unwrap();
    let claim = host.mutex.create(&LeaseRequest::new(name, term, &(&host.clock).into())).unwrap().unwrap();
    let _ = one.run_due(occurrence);
    for time in meanwhile {
        let _ = host.tick(&one, time);
    }
    assert!(host.mutex.forget(&claim).unwrap());
    one
}

/// Plays a server that was admitted, and shuts down before its run starts.
#[test]
fn a_claim_that_was_given_back_is_owed_still() {
    let host = Host::at("11:00");
    let one = claimed_and_given_back(&host, &[]);
    for time in ["12:01", "12:30"] {
        let _ = host.tick(&one, time);
    }
    assert_eq!(host.ran(), ["11:00 0s", "12:00 60s"]);
}

/// Plays a server that calls a hook for two minutes, and can't start the command then.
#[test]
fn a_claim_that_is_given_back_after_others_have_seen_it_is_owed_still() {
    let host = Host::at("11:00");
    let one = claimed_and_given_back(&host, &["12:01"]);
    let _ = host.tick(&one, "12:02");
    assert_eq!(host.ran(), ["11:00 0s", "12:00 120s"]);
}

/// Lets the event wait for the one before it in its tick, which is not a miss.
#[test]
fn what_waits_for_its_turn_is_not_made_up_for_by_the_next_tick() {
    let clock = ManualClock::at(on_the_day("11:00"));
    let mutex = MemoryMutex::with_clock(&clock);
    let diary = Diary::default();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let schedule = Schedule::new(mutex).with_clock(&clock);
    let (noted, note) = (diary.clone(), diary.clone());
    let import = Event::call("import", move |run| {
        if run.occurrence() == on_the_day("12:00") {
            noted.note("import begins");
            wait.lock().unwrap().recv().unwrap();
        }
        noted.note(format!("import {}", run.occurrence().format("%R")));
    });
    schedule.add(import.hourly().on_one_server()).unwrap();
    let export = Event::call("export", move |run| note.note(format!("export {}", run.occurrence().format("%R"))));
    schedule.add(export.hourly().on_one_server().catch_up(HOUR)).unwrap();
    let _ = schedule.run_due(on_the_day("11:00"));
    pass_until(&clock, on_the_day("12:00"));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| schedule.run_due(on_the_day("12:00")));
        until(|| diary.lines().len() == 3).unwrap();
        pass_until(&clock, on_the_day("12:01"));
        let next = schedule.run_due(on_the_day("12:01"));
        go.send(()).unwrap();
        assert!(!slow.join().unwrap().is_failure());
        assert!(next.entries().is_empty(), "{next}");
    });
    assert_eq!(diary.lines(), ["import 11:00", "export 11:00", "import begins", "import 12:00", "export 12:00"]);
}

#[test]
fn a_mark_from_the_future_is_ignored_and_told() {
    let name = "catch_up::a_mark_from_the_future_is_ignored_and_told";
    if let Some(output) = crate::support::output_alone(name, &[]) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("event e: its `catch_up` marker is 6 d 23 h in the future"),
            "{said}"
        );
        return;
    }
    for ahead in ["2026-03-08T10:00:00Z", "2045-01-01T10:00:00Z"] {
        let (clock, folder) = (ManualClock::at(at(ahead)), tempfile::tempdir().unwrap());
        let store = FileMutex::builder(folder.path()).clock(&clock).open().unwrap();
        let schedule = Schedule::new(store).with_clock(&clock);
        schedule.add(Event::call("e", |_| {}).hourly().on_one_server().catch_up(HOUR)).unwrap();
        assert!(ran(&schedule.run_due(at(ahead)), "e").is_success());
        // The clock is set right, and no server ticks at 11:00.
        clock.set(on_the_day("10:20"));
        let report = schedule.run_due(on_the_day("10:20"));
        assert_eq!(entry(&report, "e").occurrence(), on_the_day("10:00"), "nobody has claimed it");
        clock.set(on_the_day("11:20"));
        let report = schedule.run_due(on_the_day("11:20"));
        assert_eq!(entry(&report, "e").missed_by(), Some(Duration::from_secs(20 * 60)), "{report}");
        assert!(schedule.run_due(on_the_day("11:21")).entries().is_empty());
    }
}

#[test]
fn the_shortest_window_reaches_from_one_tick_to_the_next() {
    let host = Host::at("11:00");
    let schedule = host.schedule(host.untimed().hourly().catch_up(Duration::from_secs(60)));
    let _ = host.tick(&schedule, "11:00");
    // The tick of 12:00 did not come, and the next one comes when cron has started it.
    let _ = host.tick(&schedule, "12:01:01");
    assert_eq!(host.ran(), ["11:00 0s", "12:00 61s"]);
}

/// Keeps the process alive while its store is started anew, empty.
#[test]
fn a_store_that_lost_its_data_hears_of_the_event_again() {
    let host = Host::at("11:00");
    let it = host.schedule(host.untimed().hourly().catch_up(HOUR / 2));
    let _ = host.tick(&it, "11:00");
    host.pass_until(on_the_day("11:40"));
    let mark = MutexName::lease("e").unwrap().mark("e", "seen hourly, UTC, on_one_server, 1800s");
    assert!(host.mutex.break_lease(&mark).unwrap().is_some());
    for time in ["12:00", "13:00", "14:00"] {
        let _ = host.tick(&it, time);
    }
    // All are down at 15:00.
    let _ = host.tick(&host.schedule(host.untimed().hourly().catch_up(HOUR / 2)), "15:10");
    assert_eq!(host.ran(), ["11:00 0s", "12:00 0s", "13:00 0s", "14:00 0s", "15:00 600s"]);
}

#[test]
fn what_a_window_keeps_from_running_was_not_missed() {
    let host = Host::at("06:00");
    let schedule = host.schedule(host.untimed().hourly().between("08:30", "17:00").catch_up(2 * HOUR));
    for time in ["06:00", "08:00", "08:30", "09:00", "09:01"] {
        let _ = host.tick(&schedule, time);
    }
    assert_eq!(host.ran(), ["09:00 0s"]);
    // Outside its hours, nothing is reported or requested each minute.
    let night = host.schedule(host.untimed().hourly().unless_between("18:00", "23:00").catch_up(6 * HOUR));
    let told: Vec<usize> = ["18:00", "18:01", "20:30"].map(|time| host.tick(&night, time).entries().len()).into();
    assert_eq!(told, [1, 0, 0]);
}

#[test]
fn what_was_missed_before_a_window_closed_is_made_up_for_when_it_opens() {
    let host = Host::at("10:00");
    let event = || host.untimed().hourly().unless_between("12:00", "17:30");
    let latest = host.schedule(event().catch_up(12 * HOUR));
    let _ = host.tick(&latest, "10:00");
    let told: Vec<usize> = ["12:30", "12:31"].map(|time| host.tick(&latest, time).entries().len()).into();
    assert_eq!(told, [0, 0], "the window is closed");
    let _ = host.tick(&latest, "17:40");
    assert_eq!(host.ran(), ["10:00 0s", "11:00 24000s"]);

    let host = Host::at("09:00");
    let event = host.untimed().hourly().unless_between("12:00", "17:30");
    let all = host.schedule(event.catch_up_all(24 * HOUR, 3));
    for time in ["09:00", "18:00"] {
        let _ = host.tick(&all, time);
    }
    assert_eq!(host.ran(), ["09:00 0s", "10:00 28800s", "11:00 25200s", "18:00 0s"]);
}

#[test]
fn a_claim_is_kept_until_the_next_occurrence_and_no_longer_than_is_of_use() {
    let host = Host::at("01:00");
    let long = Duration::from_secs(300 * 24 * 3600);
    let schedule = host.schedule(Event::call("e", |_| {}).every_minute().on_one_server().catch_up(long));
    let _ = host.tick(&schedule, "01:00");
    let claim = MutexName::lease("e").unwrap().claim("e", on_the_day("01:00"));
    let holder = holder(&host.mutex, &claim).unwrap();
    assert_eq!(holder.until() - holder.since(), TimeDelta::minutes(15));
}

/// Starts three workers that saw the event, were down for 20 minutes around the full hour, and are back within
/// seconds.
#[track_caller]
pub(crate) fn three_workers_make_up_for_it_once(fleet: &Fleet) {
    // The store's own clock says since when it has known the event: from now on. So the missed hour is still to
    // come.
    let now = Utc::now();
    let minute = (now.minute() + 30) % 60;
    let missed = (now + TimeDelta::hours(3)).with_minute(minute).unwrap();
    let missed = missed.with_second(0).and_then(|time| time.with_nanosecond(0)).unwrap();
    let cron = format!("{minute} * * * *");
    let phase = |name: &str, late: Option<TimeDelta>| -> Vec<Line> {
        let log = |worker: i32| format!("{name}-{worker}");
        let start = |worker: i32| {
            let options = ["--cron", &cron, "--on-one-server", "--without-overlapping", "--catch-up", "3600"];
            let mut command = fleet.worker(&log(worker), &options);
            if let Some(late) = late {
                let now = missed + late + TimeDelta::seconds(worker.into());
                command.args(["--now", &now.to_rfc3339_opts(SecondsFormat::Secs, true)]);
            }
            command.spawn().expect("a worker starts")
        };
        let workers: Vec<_> = (0..3).map(start).collect();
        for worker in workers {
            succeeded(&worker.wait_with_output().expect("a worker ends"));
        }
        (0..3).flat_map(|worker| read(&fleet.log(&log(worker)))).collect()
    };
    let starts = |lines: Vec<Line>| lines.into_iter().filter(|line| line.what == "start").collect::<Vec<_>>();

    let before = phase("before", None);
    assert!(before.is_empty(), "it is new to all of them: {before:#?}");
    let back = starts(phase("back", Some(TimeDelta::seconds(603))));
    let [start] = &back[..] else { panic!("one of them runs it: {back:#?}") };
    assert_eq!(start.occurrence, missed.to_rfc3339_opts(SecondsFormat::AutoSi, true));
    assert!([603_000, 604_000, 605_000].contains(&start.late_ms.expect("every run says so")), "{start:?}");

    let after = phase("after", Some(TimeDelta::seconds(660)));
    assert!(after.is_empty(), "{after:#?}");
    assert_eq!(starts(phase("due", Some(TimeDelta::hours(1)))).len(), 1);
}

#[test]
fn three_workers_that_were_all_down_make_up_for_what_they_missed_once() {
    three_workers_make_up_for_it_once(&Fleet::new());
}
