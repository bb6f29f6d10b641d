//! Intervals, cycles of days, and the span of an event: compared with arithmetic of their own, and seen by a fleet.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, TimeDelta, TimeZone, Timelike, Utc, Weekday};
use chrono_tz::Tz;
use fastrand::Rng;
use soloist::time::ManualClock;
use soloist::{Entry, Event, MemoryMutex, Schedule, Shutdown};

use crate::support::{Diary, at, noon};

const ZONES: [Tz; 7] = [
    Tz::UTC,
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::America__St_Johns,
    Tz::Australia__Lord_Howe,
    Tz::Asia__Kathmandu,
    Tz::Pacific__Chatham,
];

fn event() -> Event {
    Event::call("e", |_| {})
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

/// Picks any second from 2000 to 2040; half of them within two days of a change of the clocks of Berlin.
fn moment(random: &mut Rng) -> DateTime<Utc> {
    let any = DateTime::from_timestamp(random.i64(946_684_800..2_208_988_800), 0).expect("it is in our time");
    let last_sunday = |year: i32, month: u32| {
        let days = NaiveDate::from_ymd_opt(year, month, 1).expect("a date").iter_days().take(31);
        days.filter(|day| day.weekday() == Weekday::Sun).max().expect("there is one")
    };
    if random.bool() {
        return any;
    }
    let change = last_sunday(random.i32(2000..2040), [3, 10][random.usize(..2)]).and_hms_opt(1, 0, 0);
    change.expect("a time").and_utc() + TimeDelta::seconds(random.i64(-172_800..172_800))
}

/// Returns the first instants of an interval at `from` or after, 400 at most, at those days of the week.
fn instants(
    anchor: DateTime<Utc>,
    every: i64,
    from: DateTime<Utc>,
    zone: Tz,
    on: impl Fn(Weekday) -> bool,
) -> impl Iterator<Item = DateTime<Utc>> {
    let nanos = |at: DateTime<Utc>| i128::from(at.timestamp_nanos_opt().expect("it is in our time"));
    let (anchor, every) = (nanos(anchor), i128::from(every) * 1_000_000_000);
    let first = (nanos(from) - anchor + every - 1).div_euclid(every);
    let instants = (first..first + 400).map(move |k| i64::try_from(anchor + k * every).expect("it is in our time"));
    instants.map(DateTime::from_timestamp_nanos).filter(move |instant| on(instant.with_timezone(&zone).weekday()))
}

#[test]
fn random_intervals_are_what_arithmetic_says() {
    let mut random = Rng::with_seed(90);
    let mut compared = 0;
    while compared < 1_000 {
        let has_seconds = random.u32(0..3) == 0;
        let every = match random.u32(0..4) {
            0 => random.i64(1..60),
            1 => random.i64(60..3_600),
            2 => random.i64(3_600..86_400),
            _ => random.i64(86_400..900_000),
        };
        let every = if has_seconds { every } else { (every / 60).max(1) * 60 };
        let anchor = moment(&mut random);
        let anchor = if every % 60 == 0 { anchor.with_second(0).expect("a second") } else { anchor };
        let anchor = if random.u32(0..4) == 0 { DateTime::UNIX_EPOCH } else { anchor };
        let zone = ZONES[random.usize(..ZONES.len())];
        let is_of_weekdays = every < 86_400 && random.bool();
        let build = || {
            let event = event().every(seconds(every)).timezone(zone);
            let event = if anchor == DateTime::UNIX_EPOCH { event } else { event.anchored_at(anchor) };
            if is_of_weekdays { event.weekdays() } else { event }
        };
        let after = moment(&mut random) + TimeDelta::milliseconds(random.i64(0..1000));
        let on = |day: Weekday| !is_of_weekdays || !matches!(day, Weekday::Sat | Weekday::Sun);
        let instants_from = |from: DateTime<Utc>| instants(anchor, every, from, zone, on);
        let context = format!("case {compared}: every {every} s from {anchor} in {zone} after {after}");

        // A weekend may be longer than what was worked out.
        let expected_next: Vec<_> = instants_from(after).filter(|at| *at > after).take(3).collect();
        if expected_next.len() < 3 {
            continue;
        }
        compared += 1;
        assert_eq!(build().upcoming(after).take(3).collect::<Vec<_>>(), expected_next, "{context}");

        // A tick has what lies in its minute, up to now.
        let schedule = Schedule::in_process();
        schedule.add(build()).expect("it is in order");
        for tick in [after, expected_next[0], expected_next[0] + TimeDelta::seconds(random.i64(-70..70))] {
            let minute =
                DateTime::from_timestamp(tick.timestamp() - tick.timestamp().rem_euclid(60), 0).expect("a minute");
            let earliest =
                if every % 60 == 0 { minute } else { minute + TimeDelta::seconds(i64::from(tick.second()) - 59) };
            let is_due = instants_from(earliest).next().is_some_and(|at| at <= tick);
            assert_eq!(schedule.due(tick).count() == 1, is_due, "{context}, tick at {tick}");
        }
        assert_eq!(schedule.next_due(after), Some(expected_next[0]), "{context}");
    }
}

/// Returns the instant of a time of the day: the first of two, or right after the change that left it out.
fn civil(date: NaiveDate, time: NaiveTime, zone: Tz) -> DateTime<Utc> {
    let mut shown = date.and_time(time);
    loop {
        if let Some(instant) = zone.from_local_datetime(&shown).earliest() {
            return instant.with_timezone(&Utc);
        }
        shown += TimeDelta::minutes(1);
    }
}

#[test]
fn random_cycles_of_days_and_weeks_are_what_a_calendar_says() {
    let mut random = Rng::with_seed(91);
    for case in 0..500 {
        let (n, zone) = (random.u16(1..30), ZONES[random.usize(..ZONES.len())]);
        let date = moment(&mut random).date_naive();
        let time = NaiveTime::from_hms_opt([0, 1, 2, 3, random.u32(0..24)][random.usize(..5)], random.u32(0..60), 0);
        let time = time.expect("a time");
        let after = moment(&mut random);
        let text = time.format("%H:%M").to_string();
        let is_of_weeks = random.bool();
        let days = [Weekday::Mon, Weekday::Wed, Weekday::Sun];
        let (event, weekdays) = match (is_of_weeks, random.bool()) {
            (false, false) => (event().every_days(n, date).daily_at(&text), None),
            (false, true) => (event().every_days(n, date).weekly_on(days, &text), Some(days.to_vec())),
            (true, false) => (event().every_weeks(n, date).daily_at(&text), Some(vec![date.weekday()])),
            (true, true) => (event().every_weeks(n, date).weekly_on(days, &text), Some(days.to_vec())),
        };
        let monday = |day: NaiveDate| day.week(Weekday::Mon).first_day();
        let first_monday = monday(date);
        let is_in_cycle = |day: &NaiveDate| {
            weekdays.as_ref().is_none_or(|days| days.contains(&day.weekday()))
                && if is_of_weeks {
                    (monday(*day) - first_monday).num_weeks() % i64::from(n) == 0
                } else {
                    (*day - date).num_days() % i64::from(n) == 0
                }
        };
        let start = after.date_naive() - TimeDelta::days(2);
        let due = start.iter_days().take(900).filter(is_in_cycle).map(|day| civil(day, time, zone));
        let expected: Vec<_> = due.filter(|at| *at > after).take(3).collect();
        let context = format!("case {case}: {event:?} in {zone} after {after}");
        assert_eq!(
            event.timezone(zone).upcoming(after).take(expected.len()).collect::<Vec<_>>(),
            expected,
            "{context}"
        );
        assert!(!expected.is_empty() || weekdays.is_some(), "{context}");
    }
}

#[test]
fn three_servers_whose_clocks_differ_by_seconds_agree_on_each_occurrence() {
    const LENGTH: i64 = 1_300;
    let store = MemoryMutex::new();
    let diary = Diary::default();
    let servers: Vec<(i64, ManualClock, Schedule)> = [-2, 0, 2]
        .map(|ahead| {
            let clock = ManualClock::at(noon());
            let schedule = Schedule::new(store.clone()).with_clock(&clock);
            for (name, every) in [("short", 7), ("odd", 90), ("long", 20 * 60)] {
                let diary = diary.clone();
                let task = move |run: &soloist::Run| diary.note(format!("{} {}", run.name(), run.occurrence()));
                schedule.add(Event::call(name, task).every(seconds(every)).on_one_server()).expect("it is in order");
            }
            (ahead, clock, schedule)
        })
        .into();
    for second in 0..LENGTH {
        for (ahead, clock, schedule) in &servers {
            let now = noon() + TimeDelta::seconds(second + ahead);
            clock.set(now);
            assert!(!schedule.run_due(now).is_failure());
        }
    }
    let mut expected = BTreeSet::new();
    for (name, every) in [("short", 7), ("odd", 90), ("long", 20 * 60)] {
        // From the minute of the first tick, at which the slow clock shows 11:59:58, to the last second of the fast one.
        let range = noon().timestamp() - 60..noon().timestamp() + LENGTH + 2;
        let due = range.filter(|second| second % every == 0);
        let is_seen = |second: &i64| *second >= noon().timestamp() - 2 || second + every > noon().timestamp() - 2;
        let instants =
            due.filter(is_seen).map(|second| DateTime::from_timestamp(second, 0).expect("it is in our time"));
        expected.extend(instants.map(|at| format!("{name} {at}")));
    }
    let lines = diary.lines();
    assert_eq!(lines.iter().cloned().collect::<BTreeSet<_>>(), expected);
    assert_eq!(lines.len(), expected.len(), "no occurrence ran twice");
}

#[test]
fn an_event_for_one_instant_runs_once_and_says_that_it_is_over() {
    let diary = Diary::default();
    let schedule = Schedule::in_process();
    schedule.add(Event::call("launch", diary.task("launched")).at(noon())).expect("it is in order");
    schedule
        .add(Event::call("sale", diary.task("sold")).every_minute().from(noon()).until(noon() + TimeDelta::minutes(2)))
        .expect("it is in order");
    for minute in -3..6 {
        assert!(!schedule.run_due(noon() + TimeDelta::minutes(minute)).is_failure());
    }
    assert_eq!(diary.lines(), ["launched", "sold", "sold"]);

    let clock = ManualClock::at(noon() - TimeDelta::minutes(1));
    let schedule = schedule.with_clock(&clock);
    let is_over = || {
        ["launch", "sale"].map(|name| {
            let status = schedule.status();
            let event = status.event(name).expect("it is there");
            (event.next_due, event.is_over)
        })
    };
    assert_eq!(is_over(), [(Some(noon()), false), (Some(noon()), false)]);
    clock.set(noon());
    assert_eq!(is_over(), [(None, true), (Some(noon() + TimeDelta::minutes(1)), false)]);
    clock.set(noon() + TimeDelta::minutes(1));
    assert_eq!(is_over(), [(None, true), (None, true)]);
}

#[test]
fn a_missed_occurrence_of_an_interval_is_made_up_for() {
    let clock = ManualClock::at(noon() - TimeDelta::minutes(61));
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    for event in
        [Event::call("interval", |_| {}).every(seconds(90 * 60)), Event::call("odd", |_| {}).every(seconds(90))]
    {
        schedule.add(event.on_one_server().catch_up(Duration::from_secs(3_600))).expect("it is in order");
    }
    let tick = |time: &str| {
        let now = at(&format!("2026-03-01T{time}Z"));
        clock.advance((now - clock.now()).to_std().expect("it is later"));
        let report = schedule.run_due(now);
        assert!(!report.is_failure(), "{report}");
        let entry = |entry: &Entry| format!("{} {}", entry.event(), entry.occurrence().format("%T"));
        report.entries().iter().map(entry).collect::<Vec<_>>()
    };
    assert_eq!(tick("10:59:00"), ["odd 10:58:30"]);
    // 12:00 was missed, and of the shorter interval the last time.
    assert_eq!(tick("12:20:05"), ["interval 12:00:00", "odd 12:19:30"]);
    assert_eq!(tick("12:21:05"), ["odd 12:21:00"]);
    // That of 12:22:30 is later than this tick, and found by the next.
    assert_eq!(tick("12:22:05"), [""; 0]);
    assert_eq!(tick("12:23:05"), ["odd 12:22:30"]);
    assert_eq!(tick("12:23:35"), [""; 0]);
}

#[test]
fn what_an_interval_leaves_to_other_words_is_theirs() {
    let event = event().every(seconds(90 * 60)).weekdays().between("08:00", "12:00").timezone("Europe/Berlin");
    let times: Vec<String> = event
        .upcoming(at("2026-03-27T09:00:00Z"))
        .take(4)
        .map(|time| time.with_timezone(&Tz::Europe__Berlin).format("%a %R").to_string())
        .collect();
    // On Sunday, clocks were set forward: the interval takes no notice.
    assert_eq!(times, ["Fri 11:30", "Mon 08:00", "Mon 09:30", "Mon 11:00"]);
}

#[test]
fn the_one_occurrence_of_an_event_is_made_up_for_and_none_after_its_end() {
    let clock = ManualClock::at(noon() - TimeDelta::minutes(1));
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let protected = |name: &str| Event::call(name, |_| {}).on_one_server().catch_up(Duration::from_secs(3_600));
    schedule.add(protected("once").at(noon())).expect("it is in order");
    schedule.add(protected("until").every_minute().until(noon() + TimeDelta::minutes(1))).expect("it is in order");
    let shutdown = Shutdown::new();
    shutdown.trigger();
    schedule.work(&shutdown); // the store knows them
    clock.advance(Duration::from_secs(11 * 60));
    let report = schedule.run_due(clock.now());
    let entries: Vec<_> = report.entries().iter().map(|entry| (entry.event(), entry.occurrence())).collect();
    assert_eq!(entries, [("once", noon())], "{report}");
}

#[test]
fn a_method_that_says_how_often_it_is_due_is_not_lost_beside_days() {
    let day = seconds(24 * 3_600);
    for (event, whole, method) in [
        (event().every(day).weekly(), "every(1d)", "weekly()"),
        (event().monthly().every(2 * day), "every(2d)", "monthly()"),
        (event().at(at("2026-07-01T06:00:00Z")).weekly(), "at(2026-07-01T06:00:00Z)", "weekly()"),
    ] {
        let refused = Schedule::in_process().add(event).expect_err(method).to_string();
        assert!(refused.contains(&format!("`{whole}` can't be combined with `{method}`")), "{refused}");
    }
    let hourly_on_sundays = event().every(seconds(3_600)).weekly();
    assert!(Schedule::in_process().add(hourly_on_sundays).is_ok(), "the day of the week is not that of the interval");
}

#[test]
fn a_hold_is_compared_with_the_windows_in_the_events_zone() {
    let hour = seconds(3_600);
    let add = |event: Event, hold: u32| {
        let schedule = Schedule::in_process();
        schedule.add(event.without_overlapping().hold_at_least(hold * hour)).map(drop)
    };
    let each_night = || event().every(24 * hour).between("01:00", "03:00").timezone("Europe/Berlin");
    assert!(add(each_night(), 23).is_ok());
    let refused = add(each_night(), 30).expect_err("the next occurrence would be skipped").to_string();
    assert!(refused.contains("use less than 1d"), "{refused}");
    assert!(add(event().every(6 * hour).between("00:00", "06:00").timezone("Asia/Tokyo"), 7).is_ok());
}

#[test]
fn an_interval_is_found_in_a_zone_whose_minutes_begin_at_other_seconds() {
    let schedule = Schedule::in_process();
    schedule.add(event().every(seconds(300)).timezone("-00:44:30")).unwrap();
    let ran = (0..60).filter(|minute| {
        let now = noon() + TimeDelta::minutes(*minute) + TimeDelta::seconds(45);
        !schedule.run_due(now).entries().is_empty()
    });
    assert_eq!(ran.collect::<Vec<_>>(), [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]);
}
