//! Schedules of the crate `cron`: compared with its own iterator, and run by ticks.

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::{OffsetComponents, Tz};
use cron::Schedule as CronSchedule;
use fastrand::Rng;
use soloist::{Event, Schedule};

use crate::support::at;

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
    while compared < 20_000 {
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
        (event("0 0 9 * * *").on(parsed("1 0 9 * * *")), "two crontabs say when it is due"),
        (event("0 0 9 * * *").weekdays(), "both the crontab"),
        (event("0 0 9 30 2 *"), "is never due"),
    ] {
        let error = Schedule::in_process().add(event).expect_err("it is refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}
