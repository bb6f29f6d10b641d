//! An event's times when clocks change. The oracle walks through the minutes of UTC like cronie's main loop, in
//! zones all over the world.

use std::collections::BTreeMap;
use std::iter::successors;
use std::ops::Range;

use chrono::{DateTime, NaiveTime, TimeDelta, Utc};
use soloist::time::{Clock, ClockChange, Crontab, ManualClock};
use soloist::{Event, EventMutex, FileMutex, MemoryMutex, Run, Schedule, Zone};

use crate::crontab::Oracle;
use crate::support::{Diary, at};

mod any_time;

const DAY: i64 = 24 * 60;

/// The main loop of cronie (`cron.c`), which wakes up every minute and compares the minute that clocks show with
/// the minute that it has reached. All in minutes since 1970; one of its own is a minute as clocks show it.
struct Cronie {
    zone: Zone,
    virtual_time: i64,
}

impl Cronie {
    /// A larger jump means that a person has set the clocks.
    ///
    /// cronie counts from the last minute before a change to the first after it. So it takes three hours forward
    /// for more than three hours, and three hours back for less. Its manual page says neither; here both are
    /// within.
    const LARGEST_JUMP: i64 = 3 * 60;

    /// Returns the loop as if it had long been running at `minute`.
    fn started_at(minute: i64, zone: &Zone) -> Self {
        Self { zone: zone.clone(), virtual_time: minute + minutes_ahead(zone, minute) }
    }

    /// Returns the minute that clocks show, for wildcard jobs, and the minutes whose fixed-time jobs are due.
    fn wake_up(&mut self, minute: i64) -> (i64, Range<i64>) {
        let shown = minute + minutes_ahead(&self.zone, minute);
        let expected = self.virtual_time + 1;
        match shown - expected {
            0..=Self::LARGEST_JUMP => {
                self.virtual_time = shown;
                (shown, expected..shown + 1)
            }
            // cronie waits until clocks have caught up.
            jump if (-Self::LARGEST_JUMP..0).contains(&jump) => (shown, shown..shown),
            _ => {
                self.virtual_time = shown;
                (shown, shown..shown + 1)
            }
        }
    }
}

/// An expression as the oracle reads it.
struct Job {
    text: &'static str,
    oracle: Oracle,
    /// By the minute of the day.
    times: Vec<bool>,
}

impl Job {
    fn new(text: &'static str) -> Self {
        let oracle = Oracle::read(text).unwrap_or_else(|| panic!("`{text}` can't be read"));
        let minutes = (0..24 * 60).map(|minute| NaiveTime::from_num_seconds_from_midnight_opt(minute * 60, 0).unwrap());
        Self { text, times: minutes.map(|time| oracle.matches_time(time)).collect(), oracle }
    }

    /// Returns for each of these days since 1970 whether the job is due.
    fn days(&self, days: Range<i64>) -> Vec<bool> {
        let date = |day: i64| instant(day * DAY).date_naive();
        days.map(|day| self.oracle.matches_date(date(day))).collect()
    }

    /// Returns whether the rule makes this job a fixed-time job.
    fn comes_once(&self, rule: ClockChange) -> bool {
        match rule {
            ClockChange::AsCron => self.oracle.is_at_fixed_times,
            ClockChange::Once => true,
            _ => false,
        }
    }
}

const RULES: [ClockChange; 3] = [ClockChange::AsCron, ClockChange::Once, ClockChange::AsShown];

/// Every job under every rule, in one zone.
struct Table<'a> {
    zone: Zone,
    jobs: &'a [Job],
    names: Vec<String>,
    events: Vec<Event>,
    schedule: Schedule,
}

impl<'a> Table<'a> {
    fn new(jobs: &'a [Job], zone: &Zone) -> Self {
        let rows = || jobs.iter().flat_map(|job| RULES.map(|rule| (job, rule)));
        let names: Vec<String> = rows().map(|(job, rule)| format!("{} {rule:?} {zone}", job.text)).collect();
        let event = |((job, rule), name): ((&Job, ClockChange), &String)| {
            Event::call(name.clone(), |_| {}).cron(job.text).timezone(zone.clone()).on_clock_change(rule)
        };
        let events = || rows().zip(&names).map(event);
        let schedule = Schedule::in_process();
        events().for_each(|event| {
            schedule.add(event).expect("it is in order");
        });
        Self { zone: zone.clone(), jobs, events: events().collect(), schedule, names }
    }

    /// Returns the oracle's due minutes for each row.
    fn expected(&self, minutes: &Range<i64>) -> Vec<Vec<i64>> {
        // Clocks are no more than a day ahead or behind.
        let days = minutes.start.div_euclid(DAY) - 2..minutes.end.div_euclid(DAY) + 3;
        let on_days: Vec<Vec<bool>> = self.jobs.iter().map(|job| job.days(days.clone())).collect();
        let mut cronie = Cronie::started_at(minutes.start - 1, &self.zone);
        let mut times = vec![(Vec::new(), Vec::new()); self.jobs.len()];
        for minute in minutes.clone() {
            let (shown, reached) = cronie.wake_up(minute);
            let usual = reached.end - reached.start == 1;
            for ((job, on_days), (as_shown, once)) in self.jobs.iter().zip(&on_days).zip(&mut times) {
                let due = |shown: i64| {
                    let (day, time) = (shown.div_euclid(DAY) - days.start, shown.rem_euclid(DAY));
                    job.times[usize::try_from(time).unwrap()] && on_days[usize::try_from(day).unwrap()]
                };
                let is_due = due(shown);
                if is_due {
                    as_shown.push(minute);
                }
                if if usual { is_due } else { reached.clone().any(due) } {
                    once.push(minute);
                }
            }
        }
        let row = |job: &Job, rule: ClockChange, (as_shown, once): &(Vec<i64>, Vec<i64>)| {
            if job.comes_once(rule) { once.clone() } else { as_shown.clone() }
        };
        let rows = self.jobs.iter().zip(&times).flat_map(|(job, times)| RULES.map(|rule| row(job, rule, times)));
        rows.collect()
    }

    /// Compares the library with the oracle, by each way of asking it.
    fn compare_around(&self, change: i64) {
        let minutes = change - DAY / 2..change + DAY / 2;
        let expected = self.expected(&minutes);
        // A row with many due times is asked one by one near the change only.
        let chain = |row: &[i64]| {
            let reach = if row.len() > 50 { DAY / 6 } else { DAY / 2 };
            let row = row.iter().filter(|time| (change - reach..change + reach).contains(*time)).copied();
            (instant(change - reach), instant(change + reach), row.collect::<Vec<_>>())
        };
        let second = TimeDelta::seconds(1);

        for ((event, name), expected) in self.events.iter().zip(&self.names).zip(&expected) {
            let (start, end, expected) = chain(expected);
            let upcoming = event.upcoming(start - second).take_while(|time| *time < end);
            same(upcoming, expected.into_iter(), || format!("upcoming of {name} after {start}"));
        }
        let zone = &self.zone;
        for (job, expected) in self.jobs.iter().zip(expected.iter().step_by(RULES.len())) {
            let crontab: Crontab = job.text.parse().unwrap();
            let (start, end, expected) = chain(expected);
            let before = successors(crontab.previous(end, zone), |time| crontab.previous(*time, zone));
            let before = before.take_while(|time| *time >= start);
            same(before, expected.into_iter().rev(), || format!("previous of `{}` {zone} before {end}", job.text));
        }
        // A change matters for three hours, and after a day that was skipped, at its end.
        let near = change - DAY / 12..change + DAY / 6;
        let from = |row: &Vec<i64>| row.partition_point(|time| *time < near.start);
        let mut next: Vec<_> = expected.iter().map(|row| row[from(row)..].iter().copied().peekable()).collect();
        for minute in near {
            let now = instant(minute) + second * i32::try_from(minute % 60).unwrap();
            let due = next.iter_mut().zip(&self.names).filter_map(|(row, name)| row.next_if_eq(&minute).map(|_| name));
            let due: Vec<&str> = due.map(String::as_str).collect();
            let found: Vec<_> = self.schedule.due(now).collect();
            let found: Vec<&str> = found.iter().map(|name| &**name).collect();
            assert_eq!(found, due, "due at {now}, {}", self.zone);
        }
    }
}

#[track_caller]
fn same(
    found: impl Iterator<Item = DateTime<Utc>>,
    expected: impl Iterator<Item = i64>,
    what: impl FnOnce() -> String,
) {
    let (found, expected): (Vec<_>, Vec<_>) = (found.collect(), expected.map(instant).collect());
    if found != expected {
        let missing: Vec<_> = expected.iter().filter(|time| !found.contains(time)).collect();
        let extra: Vec<_> = found.iter().filter(|time| !expected.contains(time)).collect();
        panic!("{}: missing {missing:?}, not expected {extra:?}", what());
    }
}

fn instant(minute: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(minute * 60, 0).expect("it is in our time")
}

fn minutes_ahead(zone: &Zone, minute: i64) -> i64 {
    let offset = zone.offset_at(instant(minute)).local_minus_utc();
    assert_eq!(offset % 60, 0, "{zone} has seconds at {}", instant(minute));
    i64::from(offset / 60)
}

/// Returns the first minute of each new offset.
fn changes(zone: &Zone, minutes: Range<i64>) -> Vec<i64> {
    const STRIDE: i64 = 6 * 60;

    let mut changes = Vec::new();
    let mut last = (minutes.start, minutes_ahead(zone, minutes.start));
    for minute in minutes.step_by(usize::try_from(STRIDE).unwrap()) {
        let ahead = minutes_ahead(zone, minute);
        if ahead != last.1 {
            let first = (last.0..=minute).find(|minute| minutes_ahead(zone, *minute) == ahead);
            changes.push(first.expect("it is the offset of the last of them"));
        }
        last = (minute, ahead);
    }
    changes
}

fn in_berlin(instant: DateTime<Utc>) -> String {
    instant.with_timezone(&chrono_tz::Europe::Berlin).format("%R %Z").to_string()
}

fn minute(text: &str) -> i64 {
    at(text).timestamp() / 60
}

const ZONES: [&str; 24] = [
    "Europe/Berlin",
    "Europe/London",
    // Here winter is the saved time.
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    // At midnight.
    "America/Havana",
    "America/Santiago",
    "America/Asuncion",
    "America/Sao_Paulo",
    // Half an hour, for good, in 2016.
    "America/Caracas",
    // Half an hour, twice a year.
    "Australia/Lord_Howe",
    "Australia/Sydney",
    // At 02:45, and a quarter of an hour from everybody else.
    "Pacific/Chatham",
    // For the month of Ramadan.
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Tehran",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Pacific/Norfolk",
    "Pacific/Apia",
    "Europe/Volgograd",
    // Two hours.
    "Antarctica/Troll",
    // Three hours, now and then.
    "Antarctica/Casey",
];

const EXPRESSIONS: [&str; 14] = [
    "* * * * *",
    "*/20 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "*/30 2 * * *",
    "0 3 * * *",
    "0 0 * * *",
    "59 23 * * *",
    "0,30 1-3 * * *",
    "15 1-23/2 * * *",
    "0-59/7 0-3 * * *",
    "45 0,2 1,8,15,L * sun",
    "10 */2 * 3,4,10,11 sat,sun",
    "0 0 L * *",
];

/// Drops changes by as much and at the same time of the day as two others of the zone.
fn two_of_each_kind(zone: &Zone, mut changes: Vec<i64>) -> Vec<i64> {
    let mut seen: BTreeMap<_, u32> = BTreeMap::new();
    changes.retain(|change| {
        let [before, after] = [change - 1, *change].map(|minute| minutes_ahead(zone, minute));
        let seen = seen.entry((before, after, (change + before).rem_euclid(DAY))).or_default();
        *seen += 1;
        *seen <= 2
    });
    changes
}

#[test]
fn the_library_does_what_cronie_does_at_each_kind_of_change_from_2016_to_2026() {
    let jobs = EXPRESSIONS.map(Job::new);
    let years = minute("2016-01-01T00:00:00Z")..minute("2027-01-01T00:00:00Z");
    let mut count = 0;
    for zone in ZONES {
        let zone = zone.parse().expect("it is in the database");
        let table = Table::new(&jobs, &zone);
        let changes = two_of_each_kind(&zone, changes(&zone, years.clone()));
        for change in &changes {
            table.compare_around(*change);
        }
        assert!(!changes.is_empty(), "{zone} has none");
        count += changes.len();
    }
    println!("{count} changes of the clocks");
    assert!(count > 80, "{count}");
}

#[test]
fn the_day_that_samoa_skipped_is_made_up_for_by_nothing() {
    let apia: Zone = "Pacific/Apia".parse().unwrap();
    let times = |expression: &str, rule: ClockChange| -> Vec<String> {
        let event = Event::call("event", |_| {}).cron(expression).timezone(apia.clone()).on_clock_change(rule);
        let upcoming = event.upcoming(at("2011-12-29T09:59:59Z")).take_while(|time| *time < at("2011-12-31T10:01:00Z"));
        upcoming.map(|time| apia.at(time).format("%d %R").to_string()).collect()
    };
    for rule in RULES {
        // There was no 30th of December. It is not run for, neither on the 29th nor on the 31st.
        assert_eq!(times("0 12 * * *", rule), ["29 12:00", "31 12:00"]);
        assert_eq!(times("0 0 * * *", rule), ["29 00:00", "31 00:00", "01 00:00"]);
        assert_eq!(times("59 23 30 12 *", rule), Vec::<String>::new());
        assert_eq!(times("0 0 30,31 12 *", rule), ["31 00:00"]);
        // And real time goes on.
        let every_minute = times("* * * * *", rule);
        assert_eq!(every_minute.len(), 2 * 24 * 60 + 1);
        assert_eq!(every_minute[24 * 60 - 1..=24 * 60], ["29 23:59", "31 00:00"]);
    }
    let jobs = EXPRESSIONS.map(Job::new);
    Table::new(&jobs, &apia).compare_around(minute("2011-12-30T10:00:00Z"));
}

/// Lets three servers, each some seconds late in its own way, tick a night in Berlin minute by minute. Returns the
/// runs of each server.
fn night(stores: [Box<dyn EventMutex>; 3], evening: &str) -> BTreeMap<&'static str, Vec<String>> {
    const NIGHTLY: [&str; 4] = ["30 2 * * *", "*/30 2 * * *", "0 * * * *", "0 3 * * *"];
    const LATE: [i64; 3] = [1, 17, 44];

    let evening = at(evening);
    let clock = ManualClock::at(evening);
    let diary = Diary::default();
    let servers = stores.map(|store| {
        let schedule = Schedule::new(store).with_clock(&clock);
        for expression in NIGHTLY {
            let diary = diary.clone();
            let task = move |run: &Run| diary.note(format!("{expression}@{}", run.occurrence().to_rfc3339()));
            let event = Event::call(expression, task).cron(expression).timezone("Europe/Berlin");
            schedule.add(event.on_one_server().without_overlapping()).expect("it is in order");
        }
        schedule
    });
    for minute in 0..10 * 60_i64 {
        // The servers take turns at being first.
        for (late, turn) in LATE.into_iter().zip(0..) {
            let now = evening + TimeDelta::seconds(minute * 60 + late);
            clock.advance((now - Clock::from(&clock).now()).to_std().expect("time goes on"));
            let report = servers[(usize::try_from(minute).unwrap() + turn) % 3].run_due(now);
            assert!(!report.is_failure(), "{report}");
        }
    }
    let mut ran: BTreeMap<&'static str, Vec<String>> = NIGHTLY.map(|expression| (expression, Vec::new())).into();
    for line in diary.lines() {
        let (expression, occurrence) = line.split_once('@').expect("each line has both");
        ran.get_mut(expression).expect("it is ours").push(in_berlin(at(occurrence)));
    }
    ran
}

#[test]
fn a_fleet_of_three_runs_what_cronie_would_in_both_nights_of_berlin() {
    let clock = ManualClock::at(at("2026-03-01T00:00:00Z"));
    let in_memory = || {
        let store = MemoryMutex::with_clock(&clock);
        [(); 3].map(|()| Box::new(store.clone()) as Box<dyn EventMutex>)
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let on_file = |night: &str| {
        let store = |()| FileMutex::in_dir(directory.path().join(night)).expect("a directory of its own");
        [(); 3].map(|()| Box::new(store(())) as Box<dyn EventMutex>)
    };
    let hours = |from: u32, to: u32, zone: &'static str| (from..=to).map(move |hour| format!("{hour:02}:00 {zone}"));

    // From 20:00 on, for ten hours of real time.
    for stores in [in_memory(), on_file("march")] {
        let ran = night(stores, "2026-03-28T19:00:00Z");
        assert_eq!(ran["30 2 * * *"], ["03:00 CEST"]);
        assert_eq!(ran["*/30 2 * * *"], Vec::<String>::new());
        let hourly = hours(20, 23, "CET").chain(hours(0, 1, "CET")).chain(hours(3, 6, "CEST"));
        assert!(hourly.eq(ran["0 * * * *"].iter().cloned()), "{ran:?}");
        assert_eq!(ran["0 3 * * *"], ["03:00 CEST"]);
    }
    for stores in [in_memory(), on_file("october")] {
        let ran = night(stores, "2026-10-24T18:00:00Z");
        assert_eq!(ran["30 2 * * *"], ["02:30 CEST"]);
        assert_eq!(ran["*/30 2 * * *"], ["02:00 CEST", "02:30 CEST", "02:00 CET", "02:30 CET"]);
        let hourly = hours(20, 23, "CEST").chain(hours(0, 2, "CEST")).chain(hours(2, 4, "CET"));
        assert!(hourly.eq(ran["0 * * * *"].iter().cloned()), "{ran:?}");
        assert_eq!(ran["0 3 * * *"], ["03:00 CET"]);
    }
}

/// Compares the table in the documentation of `ClockChange`.
#[test]
fn the_table_of_the_documentation_is_true() {
    let cell = |expression: &str, from: &str, to: &str| -> String {
        let event = Event::call("event", |_| {}).cron(expression).timezone("Europe/Berlin");
        let times = event.upcoming(at(from) - TimeDelta::seconds(1)).take_while(|time| *time < at(to));
        let shown = times.map(in_berlin);
        shown.collect::<Vec<_>>().join(", ")
    };
    let source = include_str!("../../src/time/timetable/clock_change.rs");
    for expression in ["30 2 * * *", "*/30 2 * * *", "0 * * * *", "0 3 * * *"] {
        // From one o'clock to four, as clocks show it.
        let march = cell(expression, "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z");
        let october = cell(expression, "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z");
        let none = |times: String| if times.is_empty() { "none".into() } else { times };
        let row = format!("/// | `{expression}` | {} | {} |", none(march), none(october));
        assert!(source.contains(&row), "the documentation should have\n{row}");
    }
}
