//! Tests that compare the next and the previous occurrence with a check of each minute.

use super::*;
#[cfg(feature = "tzdata")]
use chrono::TimeDelta;

fn timetable(crontab: &str, zone: &str) -> Timetable {
    let (crontab, zone) = (crontab.parse().expect("an expression"), zone.parse().expect("a zone"));
    Timetable { zone, clock_change: ClockChange::AsShown, ..Timetable::of(crontab) }
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant as RFC 3339 writes it")
}

#[track_caller]
fn assert_around(crontab: &str, zone: &str, previous: &str, at: &str, next: &str) {
    let timetable = timetable(crontab, zone);
    assert_eq!(timetable.next(instant(at)), Some(instant(next)), "next of {timetable:?} after {at}");
    assert_eq!(timetable.previous(instant(at)), Some(instant(previous)), "previous of {timetable:?} before {at}");
}

/// Returns the due minutes of a span. Checks each minute.
#[cfg(feature = "tzdata")]
fn brute_force(timetable: &Timetable, from: DateTime<Utc>, minutes: i64) -> Vec<DateTime<Utc>> {
    (0..minutes)
        .map(|minute| from + TimeDelta::minutes(minute))
        .filter(|at| timetable.times.include(&CivilMinute::of(&timetable.zone.at(*at))))
        .collect()
}

#[test]
fn an_occurrence_itself_is_neither_the_next_nor_the_previous() {
    assert_around("*/5 * * * *", "UTC", "2026-03-01T11:55:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:05:00Z");
    assert_around(
        "*/5 * * * *",
        "UTC",
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00.000000001Z",
        "2026-03-01T12:05:00Z",
    );
    assert_around("0 0 29 2 *", "UTC", "2024-02-29T00:00:00Z", "2026-03-01T12:00:00Z", "2028-02-29T00:00:00Z");
    assert_around("0 9 13 * fri", "UTC", "2026-02-27T09:00:00Z", "2026-03-01T12:00:00Z", "2026-03-06T09:00:00Z");
    assert_around("0 9 */13 * fri", "UTC", "2026-02-27T09:00:00Z", "2026-02-28T00:00:00Z", "2026-03-27T09:00:00Z");
}

#[test]
#[cfg(feature = "tzdata")]
fn a_time_that_comes_twice_is_found_twice_from_far_away_too() {
    let berlin = "Europe/Berlin";
    assert_around("30 2 25 10 *", berlin, "2025-10-25T00:30:00Z", "2026-01-01T00:00:00Z", "2026-10-25T00:30:00Z");
    assert_around("30 2 25 10 *", berlin, "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z");
    assert_around("30 2 25 10 *", berlin, "2026-10-25T01:30:00Z", "2027-01-01T00:00:00Z", "2027-10-25T00:30:00Z");
    // On 2026-03-29, the clocks skip 02:30, so there is no occurrence.
    assert_around("30 2 29 3 *", berlin, "2025-03-29T01:30:00Z", "2026-03-29T01:00:00Z", "2027-03-29T00:30:00Z");
}

#[test]
#[cfg(feature = "tzdata")]
fn next_and_previous_agree_with_asking_each_minute_around_every_kind_of_change() {
    const DAYS: i64 = 4;
    let expressions = [
        "* * * * *",
        "*/7 * * * *",
        "0 * * * *",
        "30 2 * * *",
        "0 0 * * *",
        "59 23 * * *",
        "15 1-3 * * *",
        "*/20 2,3 * * *",
        "0 12 */2 * *",
        "30 1 1,15 * sun",
        "45 0 * * mon-fri",
        "0 0 30 12 *",
        "10 3 31 3,10 fri",
    ];
    for (zone, change) in [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("America/New_York", "2026-03-08T07:00:00Z"),
        ("America/New_York", "2026-11-01T06:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        ("Africa/Casablanca", "2026-02-15T02:00:00Z"),
        ("Africa/Casablanca", "2026-03-22T02:00:00Z"),
        // Samoa crossed the date line, so there was no 30th of December.
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
        ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
        ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
        ("Asia/Kathmandu", "1985-12-31T18:30:00Z"),
        ("Asia/Kathmandu", "2026-06-01T00:00:00Z"),
        ("-00:44:30", "2026-06-01T00:00:30Z"),
        ("UTC", "2026-02-28T12:00:00Z"),
    ] {
        let change = instant(change);
        let start = change - TimeDelta::days(DAYS / 2);
        for expression in expressions {
            let timetable = timetable(expression, zone);
            let due = brute_force(&timetable, start, DAYS * 24 * 60);
            // Searches near the change begin at the start of a minute and within a minute. Other searches are spread
            // over all days, and begin at the start of a minute.
            let near = (-200..200).step_by(11).map(|minute| change + TimeDelta::minutes(minute));
            let all = (0..DAYS * 24 * 60).step_by(397).map(|minute| start + TimeDelta::minutes(minute));
            for at in near.flat_map(|at| [at, at + TimeDelta::milliseconds(29_500)]).chain(all) {
                let next = timetable.next(at).expect("there is one");
                let previous = timetable.previous(at).expect("there is one");
                let context = format!("{timetable:?} at {at}");
                match due.iter().find(|due| **due > at) {
                    Some(due) => assert_eq!(next, *due, "next of {context}"),
                    None => assert!(next >= start + TimeDelta::days(DAYS), "next of {context} is {next}"),
                }
                match due.iter().rfind(|due| **due < at) {
                    Some(due) => assert_eq!(previous, *due, "previous of {context}"),
                    None => assert!(previous < start, "previous of {context} is {previous}"),
                }
            }
        }
    }
}

#[test]
#[cfg(feature = "tzdata")]
fn a_long_walk_meets_every_due_minute_and_back() {
    const DAYS: i64 = 700;
    let start = instant("2025-12-31T00:00:00Z");
    let mut random = fastrand::Rng::with_seed(7);
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"] {
        let tables: [Timetable; 6] = std::array::from_fn(|_| {
            let [hour, minute, day, weekday] =
                [random.u32(0..4), random.u32(0..60), random.u32(1..32), random.u32(0..8)];
            timetable(&format!("{minute},30 {hour} {day} * {weekday}"), zone)
        });
        let mut due = [const { Vec::new() }; 6];
        for at in (0..DAYS * 24 * 60).map(|minute| start + TimeDelta::minutes(minute)) {
            let now = CivilMinute::of(&tables[0].zone.at(at));
            for (timetable, due) in tables.iter().zip(&mut due) {
                due.extend(timetable.times.include(&now).then_some(at));
            }
        }
        for (timetable, due) in tables.iter().zip(due) {
            let first = timetable.next(start - TimeDelta::seconds(1));
            let onward = std::iter::successors(first, |at| timetable.next(*at)).take(due.len());
            assert!(onward.eq(due.iter().copied()), "{timetable:?}");
            let last = timetable.previous(start + TimeDelta::days(DAYS));
            let back = std::iter::successors(last, |at| timetable.previous(*at)).take(due.len());
            assert!(back.eq(due.into_iter().rev()), "{timetable:?}");
        }
    }
}

#[test]
fn before_1970_and_after_2100_nothing_is_known() {
    for zone in ["UTC", "+14:00", "-12:00", "local"] {
        let every_minute = timetable("* * * * *", zone);
        assert!(every_minute.next(DateTime::<Utc>::MIN_UTC).is_some());
        assert_eq!(every_minute.next(DateTime::<Utc>::MAX_UTC), None);
        assert_eq!(every_minute.previous(DateTime::<Utc>::MIN_UTC), None);
        assert!(every_minute.previous(DateTime::<Utc>::MAX_UTC).is_some());
    }
    let new_year = timetable("0 0 1 1 *", "UTC");
    assert_eq!(new_year.next(instant("1066-10-14T09:00:00Z")), Some(DateTime::UNIX_EPOCH));
    assert_eq!(new_year.previous(instant("1970-01-01T00:00:00Z")), None);
    assert_eq!(new_year.previous(instant("1970-01-01T00:00:01Z")), Some(DateTime::UNIX_EPOCH));
    assert_eq!(new_year.next(instant("2100-01-01T00:00:00Z")), None);
    assert_eq!(new_year.previous(instant("4000-02-01T00:00:00Z")), Some(instant("2100-01-01T00:00:00Z")));
    let last = timetable("59 23 31 12 *", "UTC");
    assert_eq!(last.next(instant("2100-12-31T23:58:59Z")), Some(instant("2100-12-31T23:59:00Z")));
    assert_eq!(last.previous(instant("4000-02-01T00:00:00Z")), Some(instant("2100-12-31T23:59:00Z")));
}

/// Checks a change that sets the clocks back by exactly three hours. When the repeated hours are over, the change has
/// no effect any more.
#[test]
#[cfg(feature = "tzdata")]
fn the_largest_change_ends_with_its_last_second() {
    let timetable = Timetable { clock_change: ClockChange::AsCron, ..timetable("0 0 * * *", "Antarctica/Casey") };
    let resumed = instant("2018-03-10T20:00:00Z");
    for seconds in -1..=61 {
        let at = resumed + TimeDelta::seconds(seconds);
        assert_eq!(timetable.previous(at), Some(instant("2018-03-10T13:00:00Z")), "{at}");
        assert_eq!(timetable.next(at), Some(instant("2018-03-11T16:00:00Z")), "{at}");
    }
}

/// Zones whose clocks change in many ways, and some zones whose clocks never change.
#[cfg(feature = "tzdata")]
const ZONES: [&str; 12] = [
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Antarctica/Troll",
    "Antarctica/Casey",
    "Pacific/Chatham",
    "+05:45",
    "UTC",
];

/// Returns a random expression. Most of these expressions have times at which clocks change.
#[cfg(feature = "tzdata")]
fn random_crontab(random: &mut fastrand::Rng) -> String {
    let mut one_of = |texts: &[&str]| texts[random.usize(..texts.len())].to_owned();
    let minute = one_of(&["0", "30", "59", "*", "*/15", "0,45", "10-50/20", "7"]);
    let hour = one_of(&["*", "0", "1", "2", "3", "23", "0-4", "*/2", "1,2", "22-23", "12"]);
    let day = one_of(&["*", "*", "*", "L", "1,L", "*/2", "8-14", "25-31", "L,15", "*/9,L"]);
    let month = one_of(&["*", "*", "*", "3,10", "2-4", "9-11"]);
    let weekday = one_of(&["*", "*", "*", "sun", "sat,sun", "mon-fri", "*/2"]);
    format!("{minute} {hour} {day} {month} {weekday}")
}

/// Returns the occurrences that ticks of a schedule find. There is a tick every `step` seconds, from `from` to `to`.
#[cfg(feature = "tzdata")]
fn ticked(timetable: &Timetable, from: DateTime<Utc>, to: DateTime<Utc>, step: i64) -> Vec<DateTime<Utc>> {
    let index = crate::time::due_index::DueIndex::of([timetable]);
    let mut found = Vec::new();
    let mut since = from - TimeDelta::seconds(1);
    let mut now = from;
    while now < to {
        for (_, tick) in index.due(now, since) {
            found.push(tick.occurrence());
        }
        since = now;
        now += TimeDelta::seconds(step);
    }
    found
}

#[test]
#[cfg(feature = "tzdata")]
fn what_is_next_is_what_ticks_find_and_what_was_previous_too() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let zone = ZONES[random.usize(..ZONES.len())];
        let every = [60, 60, 10, 15, 30][random.usize(..5)];
        let timetable = Timetable {
            interval: (every < 60).then(|| Interval::new(0, every)),
            clock_change: [ClockChange::AsCron, ClockChange::Once, ClockChange::AsShown][random.usize(..3)],
            ..timetable(&random_crontab(&mut random), zone)
        };
        // The time is around a clock change, or random if the zone has no change in this year.
        let year = random.i64(2016..2037) - 1970;
        let from = year * 31_556_952 / 60 * 60;
        let change =
            timetable.zone.nearest_change(from, from + 365 * 86_400).unwrap_or(from + random.i64(0..365 * 1440) * 60);
        let middle = DateTime::from_timestamp(change, 0).expect("`chrono` has this time");
        let (from, to) = (middle - TimeDelta::hours(15), middle + TimeDelta::hours(15));
        let context = format!("seed {seed}: {timetable:?} from {from} to {to}");

        let expected = ticked(&timetable, from, to, every);
        let onward: Vec<_> =
            timetable.clone().upcoming(from - TimeDelta::seconds(1)).take_while(|time| *time < to).collect();
        assert_eq!(onward, expected, "upcoming, {context}");
        let back = iter::successors(timetable.previous(to), |time| timetable.previous(*time));
        let back: Vec<_> = back.take_while(|time| *time >= from).take(500).collect();
        assert_eq!(back, expected.iter().rev().take(500).copied().collect::<Vec<_>>(), "previous, {context}");

        for _ in 0..20 {
            let at = from + TimeDelta::milliseconds(random.i64(0..30 * 3_600_000));
            let next = expected.iter().find(|time| **time > at);
            let previous = expected.iter().rfind(|time| **time < at);
            assert_eq!(timetable.next(at).filter(|time| *time < to).as_ref(), next, "next after {at}, {context}");
            assert_eq!(
                timetable.previous(at).filter(|time| *time >= from).as_ref(),
                previous,
                "previous before {at}, {context}"
            );
        }
    }
}

/// Compares the times with those of the crate `cron`. The times are equal if all fields are lists of numbers, and
/// clocks never change. In that crate, a day must match both day fields. So a crontab whose days match either field is
/// compared with two schedules of that crate. The crate does not know `L`, so no expression has an `L`.
#[test]
fn where_clocks_never_change_the_cron_crate_finds_the_same_times() {
    let mut random = fastrand::Rng::with_seed(2101);
    for _ in 0..3_000 {
        let mut some = |first: u32, last: u32| -> Vec<u32> {
            let count = [1, 1, 2, 3, 10][random.usize(..5)];
            let mut numbers: Vec<u32> = (0..count).map(|_| random.u32(first..=last)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        };
        let every: Vec<u32> = (1..=31).collect();
        let (minutes, hours, days, months, weekdays) = (some(0, 59), some(0, 23), some(1, 31), some(1, 12), some(0, 6));
        let rule = random.u32(0..4);
        let text = |numbers: &[u32]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (day, weekday) = match rule {
            0 => ("*".to_owned(), "*".to_owned()),
            1 => (text(&days), "*".to_owned()),
            2 => ("*".to_owned(), text(&weekdays)),
            _ => (text(&days), text(&weekdays)),
        };
        let expression = format!("{} {} {day} {} {weekday}", text(&minutes), text(&hours), text(&months));
        let Ok(crontab) = expression.parse::<Crontab>() else { continue };
        let every_nth = [60, 60, 30, 20, 1][random.usize(..5)];
        let seconds: Vec<u32> = (0..60).step_by(every_nth).collect();
        let crates = |days: &[u32], weekdays: &[u32]| -> cron::Schedule {
            let weekdays: Vec<u32> = weekdays.iter().map(|day| day + 1).collect();
            let [days, weekdays] = [text(days), text(&weekdays)];
            let (seconds, minutes, hours, months) = (text(&seconds), text(&minutes), text(&hours), text(&months));
            format!("{seconds} {minutes} {hours} {days} {months} {weekdays}").parse().expect("lists of numbers")
        };
        let all_weekdays = [0, 1, 2, 3, 4, 5, 6];
        let theirs = match rule {
            0 => vec![crates(&every, &all_weekdays)],
            1 => vec![crates(&days, &all_weekdays)],
            2 => vec![crates(&every, &weekdays)],
            _ => vec![crates(&days, &all_weekdays), crates(&every, &weekdays)],
        };
        let interval = (every_nth < 60).then(|| Interval::new(0, i64::try_from(every_nth).expect("it is small")));
        let timetable = Timetable { interval, ..Timetable::of(crontab) };
        let at = DateTime::from_timestamp(random.i64(0..4_133_980_800), random.u32(0..2) * 500_000_000);
        let at = at.expect("`chrono` has this time");
        // The crate `cron` gets an instant without a fraction of a second.
        let second = at.timestamp();
        let start = DateTime::from_timestamp(second, 0).expect("`chrono` has this time");
        let next = theirs.iter().filter_map(|schedule| schedule.after(&start).next()).min();
        assert_eq!(timetable.next(at), next, "next of `{expression}` every {every_nth} s after {at}");
        let end = DateTime::from_timestamp(second + i64::from(at > start), 0).expect("`chrono` has this time");
        let previous = theirs.iter().filter_map(|schedule| schedule.after(&end).next_back()).max();
        assert_eq!(timetable.previous(at), previous, "previous of `{expression}` every {every_nth} s before {at}");
    }
}
