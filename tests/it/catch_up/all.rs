//! All missed occurrences are made up for, oldest first, one after another, and each of them once in the fleet.

use std::sync::Barrier;
use std::time::Duration;

use chrono::TimeDelta;
use soloist::store::LeaseRequest;
use soloist::{AddErrorKind, Entry, Event, EventMutex, MutexName, Period, Report, Schedule, Term};

use super::{Host, on_the_day};
use crate::support::{HOUR, holder, output_alone, skipped};

impl Host {
    fn all(&self) -> Event {
        self.untimed().hourly().catch_up_all(12 * HOUR, 12)
    }
}

/// Returns the occurrences of the entries, and which of them were missed.
fn times(report: &Report) -> Vec<(String, bool)> {
    let time = |entry: &Entry| (entry.occurrence().format("%R").to_string(), entry.missed_by().is_some());
    report.entries().iter().map(time).collect()
}

#[test]
fn each_missed_occurrence_runs_oldest_first_and_the_due_one_last() {
    for in_background in [false, true] {
        let host = Host::at("06:00");
        let diary = host.diary.clone();
        let event = || if in_background { host.all().in_background() } else { host.all() };
        let schedule = host.schedule(event().without_overlapping());
        schedule.add(Event::call("other", move |_| diary.note("other".to_owned())).cron("30 8 * * *")).unwrap();
        let _ = host.tick(&schedule, "06:00");
        let report = host.tick(&schedule, "08:30");
        assert_eq!(
            times(&report),
            [("07:00", true), ("08:00", true), ("08:30", false)].map(|(at, missed)| (at.into(), missed))
        );
        let runs: Vec<_> = host.ran().into_iter().filter(|line| line != "other").collect();
        assert_eq!(runs, ["06:00 0s", "07:00 5400s", "08:00 1800s"]);

        let report = host.tick(&schedule, "11:00");
        assert_eq!(
            times(&report),
            [("09:00", true), ("10:00", true), ("11:00", false)].map(|(at, missed)| (at.into(), missed))
        );
        assert!(host.tick(&schedule, "11:01").entries().is_empty());
        let another = host.schedule(event().without_overlapping());
        assert!(host.tick(&another, "11:02").entries().is_empty(), "another process knows them from their claims");
        assert_eq!(host.ran().iter().filter(|line| *line != "other").count(), 6);
    }
}

#[test]
fn occurrences_of_one_event_run_one_after_another_and_delay_no_other_event() {
    let host = Host::at("06:00");
    let (diary, end) = (host.diary.clone(), Barrier::new(2));
    let end = std::sync::Arc::new(end);
    let (at_end, last) = (std::sync::Arc::clone(&end), on_the_day("08:00"));
    // Its last occurrence waits for the event that was added after it.
    let event = Event::call("e", move |run| {
        diary.note(format!("begin {}", run.occurrence().format("%R")));
        if run.occurrence() == last {
            at_end.wait();
        }
        diary.note(format!("end {}", run.occurrence().format("%R")));
    });
    let schedule = host.schedule(event.hourly().on_one_server().catch_up_all(12 * HOUR, 12));
    schedule.add(Event::call("other", move |_| _ = end.wait()).cron("30 8 * * *")).unwrap();
    let _ = host.tick(&schedule, "06:00");
    let _ = host.tick(&schedule, "08:30");
    let expected = ["begin 06:00", "end 06:00", "begin 07:00", "end 07:00", "begin 08:00", "end 08:00"];
    assert_eq!(host.ran(), expected);
}

#[test]
fn of_more_than_it_may_make_up_for_the_latest_run() {
    let host = Host::at("01:00");
    let event = || host.untimed().hourly().catch_up_all(12 * HOUR, 3);
    let _ = host.tick(&host.schedule(event()), "01:00");
    let report = host.tick(&host.schedule(event()), "09:10");
    assert_eq!(times(&report), ["07:00", "08:00", "09:00"].map(|at| (at.to_owned(), true)));
    // The due one counts, too.
    let report = host.tick(&host.schedule(event()), "14:00");
    assert_eq!(
        times(&report),
        [("12:00", true), ("13:00", true), ("14:00", false)].map(|(at, missed)| (at.into(), missed))
    );
}

#[test]
fn the_window_bounds_them_and_a_new_event_missed_nothing() {
    let host = Host::at("05:30");
    let event = || host.untimed().hourly().catch_up_all(3 * HOUR, 12);
    assert!(host.tick(&host.schedule(event()), "05:30").entries().is_empty(), "it is new");
    let report = host.tick(&host.schedule(event()), "07:30");
    assert_eq!(times(&report), ["06:00", "07:00"].map(|at| (at.to_owned(), true)), "and known since 05:30");
    let report = host.tick(&host.schedule(event()), "12:30");
    assert_eq!(times(&report), ["10:00", "11:00", "12:00"].map(|at| (at.to_owned(), true)));
}

#[test]
fn servers_that_are_back_at_once_share_what_was_missed() {
    for _ in 0..20 {
        let host = Host::at("01:00");
        let _ = host.tick(&host.schedule(host.all()), "01:00");
        host.pass_until(on_the_day("11:10"));
        let together = Barrier::new(4);
        std::thread::scope(|scope| {
            for second in 0..4 {
                let (host, together) = (&host, &together);
                scope.spawn(move || {
                    let schedule = host.schedule(host.all());
                    together.wait();
                    let report = schedule.run_due(on_the_day("11:10") + TimeDelta::seconds(second));
                    report.entries().iter().for_each(|entry| assert!(!entry.is_failure(), "{entry}"));
                });
            }
        });
        let mut ran: Vec<_> = host.ran().iter().map(|line| line[..5].to_owned()).collect();
        ran.sort_unstable();
        let hours: Vec<_> = (1..=11).map(|hour| format!("{hour:02}:00")).collect();
        assert_eq!(ran, hours);
    }
}

#[test]
fn an_occurrence_that_met_a_run_was_not_missed_unless_that_run_made_up_for_another() {
    for (holder_of, missed, is_stuck) in [("11:00", false, false), ("06:00", true, false), ("11:00", false, true)] {
        let host = Host::at("11:00");
        let event = || {
            let event = host.all().without_overlapping();
            if is_stuck { event.stuck_after(HOUR / 2) } else { event }
        };
        let _ = host.tick(&host.schedule(event()), "11:00");
        let request = LeaseRequest::new(MutexName::lease("e").unwrap(), Term::MAX, &(&host.clock).into());
        let run = host.mutex.create(&request.for_occurrence(on_the_day(holder_of))).unwrap().unwrap();
        let report = host.tick(&host.schedule(event()), "12:00");
        let keyword = if is_stuck { "stuck" } else { "overlapping" };
        assert_eq!(skipped(&report, "e").keyword(), keyword, "{report}");
        host.mutex.forget(&run).unwrap();
        let report = host.tick(&host.schedule(event()), "12:01");
        assert_eq!(report.entries().len(), usize::from(missed), "a run of {holder_of}: {report}");
    }
}

#[test]
fn what_was_skipped_because_of_a_pause_or_an_outage_is_made_up_for() {
    let host = Host::at("06:00");
    let schedule = host.schedule(host.all()).named("shop").unwrap();
    let _ = host.tick(&schedule, "06:00");
    schedule.pause(on_the_day("08:30"), "").unwrap();
    for time in ["07:00", "08:00"] {
        let report = host.tick(&schedule, time);
        assert!(
            report.entries().iter().all(|entry| !entry.is_failure() && entry.to_string().contains("paused")),
            "{report}"
        );
    }
    let _ = host.tick(&schedule, "08:31");
    assert_eq!(host.ran(), ["06:00 0s", "07:00 5460s", "08:00 1860s"]);
}

#[test]
fn a_loop_that_comes_late_leaves_no_minute_out() {
    let host = Host::at("12:00");
    let schedule = host.schedule(host.untimed().every_minute());
    let tick = |last: &str, now: &str| {
        host.pass_until(on_the_day(now).max(soloist::time::Clock::from(&host.clock).now()));
        schedule.run_due_since(on_the_day(last), on_the_day(now))
    };
    for (last, now, due) in [
        ("12:00:59", "12:01:58", &["12:01"][..]),
        ("12:01:58", "12:01:59", &[]),
        ("12:01:59", "12:04:01", &["12:02", "12:03", "12:04"]),
        ("12:04:01", "12:04:01", &[]),
        ("12:04:01", "12:03:00", &[]),
        // It makes up for five minutes.
        ("12:04:01", "12:20:00", &["12:15", "12:16", "12:17", "12:18", "12:19", "12:20"]),
        ("12:04:01", "12:20:01", &["12:16", "12:17", "12:18", "12:19", "12:20"]),
    ] {
        let report = tick(last, now);
        let times: Vec<_> = report.entries().iter().map(|entry| entry.occurrence().format("%R").to_string()).collect();
        assert_eq!(times, due, "from {last} to {now}");
        assert!(!report.is_failure());
    }
    assert_eq!(host.ran()[1..3], ["12:02 121s", "12:03 61s"], "a run knows how late it is");
    let (first, last) = (chrono::DateTime::<chrono::Utc>::MIN_UTC, chrono::DateTime::<chrono::Utc>::MAX_UTC);
    let empty = Schedule::in_process();
    for (since, now) in [(first, first), (first, last), (last, last), (last, first)] {
        assert!(empty.run_due_since(since, now).entries().is_empty(), "from {since} to {now}");
    }
}

#[test]
fn a_gap_is_one_line_with_the_number_of_occurrences() {
    if let Some(output) = output_alone("catch_up::all::a_gap_is_one_line_with_the_number_of_occurrences", &[]) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let gaps: Vec<_> = said.lines().filter(|line| line.contains("no tick after")).collect();
        assert_eq!(gaps.len(), 1, "{said}");
        assert!(gaps[0].contains("until 2026-03-01 12:15:00 UTC: 10 occurrences"), "{said}");
        return;
    }
    let host = Host::at("12:20");
    let schedule = host.schedule(host.untimed().every_minute());
    let _ = schedule.run_due_since(on_the_day("12:04:01"), on_the_day("12:20"));
    let _ = schedule.run_due_since(on_the_day("12:20"), on_the_day("12:25"));
}

#[test]
fn a_claim_is_kept_for_the_whole_window() {
    let host = Host::at("01:00");
    let event = || host.untimed().hourly().catch_up_all(6 * HOUR, 6);
    let _ = host.tick(&host.schedule(event()), "01:00");
    let claim = MutexName::lease("e").unwrap().claim("e", on_the_day("01:00"));
    let until = holder(&host.mutex, &claim).expect("it is claimed").until();
    assert!(until - on_the_day("01:00") > TimeDelta::hours(6), "{until}");
}

#[test]
fn a_definition_that_cannot_keep_it_is_refused() {
    let base = || Event::call("e", |_| {}).hourly();
    let (day, minute) = (Duration::from_secs(24 * 3600), Duration::from_secs(60));
    for (event, kind, parts) in [
        (base().catch_up_all(day, 24), AddErrorKind::Missing, ["catch_up_all", "on_one_server"]),
        (
            base().on_one_server().catch_up_all(day, 1),
            AddErrorKind::OutOfRange,
            ["catch_up_all(.., 1)", "catch_up(..)"],
        ),
        (base().on_one_server().catch_up_all(day, 1001), AddErrorKind::OutOfRange, ["1001", "1,000"]),
        (
            base().on_one_server().catch_up_all(minute / 2, 5),
            AddErrorKind::OutOfRange,
            ["catch_up_all(30s)", "use 1m to a year"],
        ),
        (
            Event::call("e", |_| {}).daily().on_one_server().catch_up_all(6 * HOUR, 7),
            AddErrorKind::OutOfRange,
            [
                "`catch_up_all(6h)`: this window has one occurrence at most, because they are at least 1d apart",
                "`catch_up(6h)`",
            ],
        ),
        (
            base().once_per(Period::Day).catch_up_all(day, 5),
            AddErrorKind::Conflict,
            ["once_per", "on_one_server()` instead"],
        ),
        (
            base().on_one_server().catch_up(day).catch_up_all(day, 5),
            AddErrorKind::Conflict,
            ["catch_up(..)", "catch_up_all(..)"],
        ),
        (
            Event::call("e", |_| {}).every_second().on_one_server().catch_up_all(day, 1000),
            AddErrorKind::Conflict,
            ["50,000 claims", "catch_up_all"],
        ),
    ] {
        let error = Schedule::in_process().add(event).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }
}
