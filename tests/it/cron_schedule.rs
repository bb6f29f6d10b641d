//! Schedules of the crate `cron`: compared with its own iterator, and run by ticks.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::{OffsetComponents, Tz};
use cron::Schedule as CronSchedule;
use fastrand::Rng;
use soloist::time::ManualClock;
use soloist::{Entry, Event, MemoryMutex, Report, Run, Schedule, Shutdown};

use crate::changed::start;
use crate::support::{Diary, HOUR, at, until};

const ZONES: [Tz; 6] = [
    Tz::UTC,
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::Australia__Lord_Howe,
    Tz::Asia__Kathmandu,
    Tz::Pacific__Chatham,
];

fn parsed(text: &str) -> CronSchedule {
    text.parse().expect("it is in order")
}

fn event(text: &str) -> Event {
    Event::call("e", |_| {}).on(parsed(text))
}

/// Returns a random field with numbers from `low` to `high`.
fn field(random: &mut Rng, low: u32, high: u32, any: &str) -> String {
    let [one, other] = [(); 2].map(|()| random.u32(low..=high));
    match random.u32(0..6) {
        0 | 1 => any.to_owned(),
        2 => format!("{low}-{high}/{}", random.u32(2..=9.min(high))),
        3 => format!("{}-{}", one.min(other), one.max(other)),
        4 => format!("{one},{other}"),
        _ => one.to_string(),
    }
}

fn expression(random: &mut Rng) -> String {
    let of_day = [(0, 59), (0, 59), (0, 23)].map(|(low, high)| field(random, low, high, "*"));
    let of_month = [(1, 31), (1, 12), (1, 7)].map(|(low, high)| field(random, low, high, "*"));
    let year = if random.u32(0..4) == 0 { format!(" {}", field(random, 2024, 2032, "*")) } else { String::new() };
    format!("{} {}{year}", of_day.join(" "), of_month.join(" "))
}

/// Returns whether the clocks change within four hours: there, the crate loses or repeats times.
fn is_near_change(at: DateTime<Utc>, zone: Tz) -> bool {
    let ahead = |hours| {
        let offset = *(at + TimeDelta::hours(hours)).with_timezone(&zone).offset();
        offset.base_utc_offset() + offset.dst_offset()
    };
    ahead(-4) != ahead(4)
}

#[test]
fn random_schedules_come_when_the_crates_own_iterator_says() {
    let mut random = Rng::with_seed(44);
    let mut compared = 0;
    while compared < 2_000 {
        let (text, zone) = (expression(&mut random), ZONES[random.usize(..ZONES.len())]);
        let after = DateTime::from_timestamp(random.i64(1_700_000_000..1_900_000_000), 0).expect("it is in our time");
        let ours = event(&text).timezone(zone).next(after);
        let theirs = parsed(&text).after(&after.with_timezone(&zone)).next().map(|at| at.with_timezone(&Utc));
        if [Some(after), ours, theirs].into_iter().flatten().any(|at| is_near_change(at, zone)) {
            continue;
        }
        assert_eq!(ours, theirs, "`{text}` in {zone} after {after}");
        compared += 1;
    }
}

#[test]
fn a_tick_runs_the_latest_occurrence_in_the_minute_before_it() {
    let schedule = Schedule::in_process();
    schedule.add(event("10,30 * 12 * * *")).expect("it is in order");
    for (now, occurrence) in [
        ("2026-03-01T12:00:09Z", None),
        ("2026-03-01T12:00:10Z", Some("2026-03-01T12:00:10Z")),
        ("2026-03-01T12:00:45Z", Some("2026-03-01T12:00:30Z")),
        ("2026-03-01T12:01:00Z", Some("2026-03-01T12:00:30Z")),
        ("2026-03-01T13:00:00Z", Some("2026-03-01T12:59:30Z")),
        ("2026-03-01T13:00:30Z", None),
    ] {
        let report = schedule.run_due(at(now));
        let ran: Vec<_> = report.entries().iter().map(soloist::Entry::occurrence).collect();
        assert_eq!(ran, occurrence.map(at).into_iter().collect::<Vec<_>>(), "tick at {now}");
    }
}

#[test]
fn fixed_times_come_once_when_clocks_change() {
    let times = |text: &str, after: &str| {
        let event = event(text).timezone("Europe/Berlin");
        event.upcoming(at(after)).take(3).map(|at| at.format("%d %T").to_string()).collect::<Vec<_>>()
    };
    // What was left out comes in the first minute after the change, at its seconds.
    assert_eq!(times("5,50 30 2 * * *", "2026-03-28T12:00:00Z"), ["29 01:00:05", "29 01:00:50", "30 00:30:05"]);
    assert_eq!(times("5 30 2 * * *", "2026-10-24T12:00:00Z"), ["25 00:30:05", "26 01:30:05", "27 01:30:05"]);
    // All hours: real time.
    assert_eq!(times("5 30 * * * *", "2026-10-25T00:00:00Z"), ["25 00:30:05", "25 01:30:05", "25 02:30:05"]);
}

#[test]
fn equal_sets_are_one_timetable_and_others_are_refused() {
    let twice = event("0 0/30 9 * * Mon-Fri").on(parsed("0 0,30 9 * * 2-6 *"));
    assert_eq!(twice.next(at("2026-03-01T12:00:00Z")), Some(at("2026-03-02T09:00:00Z")));
    for (event, part) in [
        (
            event("0 0 9 * * Mon").on(parsed("1 0 9 * * 2 2026")),
            "two crontabs say when it is due, `0 0 9 * * Mon` and `1 0 9 * * 2 2026`: leave one of them out",
        ),
        (event("0 0 9 * * *").cron("0 9 * * mon"), "`0 0 9 * * *` and `0 9 * * 1`"),
        (event("5 0 9 * * * 2027").weekdays(), "both the crontab `5 0 9 * * * 2027` and `weekdays()`"),
        (event("0 0 9 30 2 *"), "is never due"),
    ] {
        let error = Schedule::in_process().add(event).expect_err("it is refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}

fn schedule_at(clock: &ManualClock) -> Schedule {
    Schedule::new(MemoryMutex::with_clock(clock)).with_clock(clock)
}

/// Lets time pass up to this, and ticks.
fn tick(schedule: &Schedule, clock: &ManualClock, now: &str) -> Report {
    clock.advance((at(now) - clock.now()).to_std().expect("time goes forward"));
    schedule.run_due(at(now))
}

#[test]
fn a_missed_second_of_the_last_year_is_made_up_for() {
    let clock = ManualClock::at(at("2026-12-30T09:30:00Z"));
    let schedule = schedule_at(&clock);
    let named = |name: &str| Event::call(name, |_| {}).on_one_server();
    schedule
        .add(named("latest").on(parsed("20,40 30 9 * * * 2026")).catch_up(HOUR))
        .expect("it is in order")
        .add(named("all").on(parsed("20,40 30 9 * * * 2026")).catch_up_all(HOUR, 10))
        .expect("it is in order");
    assert_eq!(tick(&schedule, &clock, "2026-12-30T09:30:40Z").entries().len(), 2); // the store knows them
    let entry = |entry: &Entry| {
        let missed_by = entry.missed_by().expect("it was missed").as_secs();
        format!("{} {} +{missed_by}s", entry.event(), entry.occurrence().format("%T"))
    };
    let report = tick(&schedule, &clock, "2026-12-31T10:00:00Z");
    let entries: Vec<String> = report.entries().iter().map(entry).collect();
    assert_eq!(entries, ["latest 09:30:40 +1760s", "all 09:30:20 +1780s", "all 09:30:40 +1760s"]);
    for later in ["2026-12-31T10:01:00Z", "2027-01-01T09:30:40Z", "2027-01-01T10:00:00Z"] {
        let report = tick(&schedule, &clock, later);
        assert!(report.entries().is_empty(), "{later}: {report}");
    }
}

#[test]
fn a_service_runs_each_of_its_seconds_until_its_last_year_is_over() {
    let clock = ManualClock::at(at("2026-12-31T23:59:10Z"));
    let (diary, shutdown) = (Diary::default(), Shutdown::new());
    let noted = diary.clone();
    let note = move |run: &Run| noted.note(format!("{} {}", run.name(), run.occurrence().format("%T")));
    let schedule = schedule_at(&clock);
    schedule.add(Event::call("year", note.clone()).on(parsed("15,45 * * * * * 2026"))).expect("it is in order");
    schedule.add(Event::call("next", note).on(parsed("5 * * * * * 2027"))).expect("it is in order");
    let running = start(&schedule, &shutdown);
    let expected = [("year 23:59:15", 5), ("year 23:59:45", 30), ("next 00:00:05", 20), ("next 00:01:05", 60)];
    let ticked = expected.iter().try_for_each(|(line, seconds)| {
        // No further than to its second, however late the loop reads the clock.
        (0..*seconds).for_each(|_| clock.advance(Duration::from_secs(1)));
        until(|| diary.lines().iter().any(|noted| noted == line))
    });
    shutdown.trigger();
    running.join().unwrap();
    ticked.unwrap_or_else(|why| panic!("{why}: {:?}", diary.lines()));
    assert_eq!(diary.lines(), expected.map(|(line, _)| line));
}

#[test]
fn a_minute_repeats_no_second_of_the_minute_before() {
    let clock = ManualClock::at(at("2026-03-01T12:13:00Z"));
    let schedule = schedule_at(&clock);
    schedule.add(event("30 12 * * * *")).expect("it is in order");
    let report = schedule.run_minute(clock.now());
    assert!(report.entries().is_empty(), "the minute before ran it: {report}");
    assert_eq!(schedule.run_due(clock.now()).entries().len(), 1, "a tick alone comes after it");
}

#[test]
fn the_status_knows_its_last_second() {
    let clock = ManualClock::at(at("2026-12-31T23:59:58Z"));
    let schedule = schedule_at(&clock);
    schedule.add(event("29,59 59 23 31 12 * 2026")).expect("it is in order");
    let status = || {
        let status = schedule.status();
        let event = status.event("e").expect("it was added").clone();
        (event.next_due, event.is_over, event.timetable)
    };
    let words = "at 23:59, on day 31 of the month, in December, at the seconds 29,59, in 2026".to_owned();
    let last = at("2026-12-31T23:59:59Z");
    assert_eq!(schedule.next_due(clock.now()), Some(last));
    assert_eq!(status(), (Some(last), false, words.clone()));
    clock.advance(Duration::from_secs(1));
    assert_eq!(status(), (None, true, words));
}
