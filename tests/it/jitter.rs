//! A jitter: starts that all servers agree on, each of them once, and nothing before its start.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use fastrand::Rng;
use soloist::testing::TestStore;
use soloist::time::{Clock, ManualClock};
use soloist::{AddErrorKind, Entry, Event, MemoryMutex, Report, Run, Schedule, Shutdown, Verdict};

use crate::changed::start;
use crate::support::{Diary, HOUR, at, noon, until};

const MINUTE: Duration = Duration::from_secs(60);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a schedule of one event, whose task notes its name, occurrence and lateness.
fn schedule(clock: &ManualClock, diary: &Diary, build: impl FnOnce(Event) -> Event) -> Schedule {
    let schedule = Schedule::new(MemoryMutex::with_clock(clock)).with_clock(clock);
    schedule.add(build(Event::call("e", noting(diary)))).expect("it is in order");
    schedule
}

fn noting(diary: &Diary) -> impl Fn(&Run) + Send + Sync + use<> {
    let diary = diary.clone();
    move |run| diary.note(format!("{} +{}s", run.occurrence().format("%T"), run.lateness().as_secs()))
}

fn start_of(schedule: &Schedule, occurrence: DateTime<Utc>) -> DateTime<Utc> {
    schedule.event("e").expect("it was added").start_of(occurrence)
}

fn occurrences(report: &Report) -> Vec<DateTime<Utc>> {
    report.entries().iter().map(Entry::occurrence).collect()
}

/// Compares the starts with those that another program computed, from the published FNV-1a and `SplitMix64`. They never change:
/// servers of two versions would start one occurrence at two times.
#[test]
fn the_starts_are_those_of_each_version() {
    for (name, occurrence, longest, delay) in [
        ("reports", "2026-03-01T12:00:00Z", 59, 29),
        ("reports", "2026-03-01T12:01:00Z", 59, 39),
        ("reports", "2026-03-01T12:02:00Z", 59, 22),
        ("backup", "2026-03-01T02:30:00Z", 600, 469),
        ("backup", "2026-03-02T02:30:00Z", 600, 34),
        ("backup", "2026-03-03T02:30:00Z", 600, 520),
        ("Sicherung für Köln", "2026-03-01T02:30:00Z", 3_599, 1_071),
        ("reports", "1970-01-01T00:00:00Z", 3_599, 2_702),
    ] {
        let schedule = Schedule::in_process();
        let event = Event::call(name, |_| {});
        let event = if longest < 60 { event.every_minute() } else { event.hourly() };
        schedule.add(event.jitter(seconds(longest))).expect("it is in order");
        let start = schedule.event(name).expect("it was added").start_of(at(occurrence));
        assert_eq!((start - at(occurrence)).num_seconds(), delay, "{name} {occurrence}");
    }
}

#[test]
fn a_jitter_that_is_too_long_is_refused_with_the_figures() {
    let event = || Event::call("e", |_| {});
    for (event, message) in [
        (
            event().every_five_minutes().jitter(seconds(300)),
            "`jitter(5m)`: use whole seconds, from 1s to less than 5m, which is the time between two of its occurrences",
        ),
        (
            event().daily().jitter(HOUR),
            "`jitter(1h)`: use whole seconds, from 1s to less than 1h, which is its claim window",
        ),
        (
            event().every_two_seconds().jitter(seconds(2)),
            "`jitter(2s)`: use whole seconds, from 1s to less than 2s, which is the time between two of its occurrences",
        ),
        (
            event().daily().jitter(Duration::ZERO),
            "`jitter(0s)`: use whole seconds, from 1s to less than 1h, which is its claim window",
        ),
        (
            event().daily().jitter(Duration::from_millis(1500)),
            "`jitter(1500ms)`: use whole seconds, from 1s to less than 1h, which is its claim window",
        ),
    ] {
        let error = Schedule::in_process().add(event).expect_err(message);
        assert_eq!((error.to_string(), error.kind()), (format!("event `e`: {message}"), AddErrorKind::OutOfRange));
    }
    for event in [event().every_five_minutes().jitter(seconds(299)), event().daily().jitter(seconds(3599))] {
        Schedule::in_process().add(event).expect("it is in order");
    }
    let twice = event().daily().jitter(MINUTE).jitter(2 * MINUTE);
    assert!(
        Schedule::in_process().add(twice).expect_err("two values").to_string().contains("`jitter(..)` is called twice")
    );
}

/// A tick of a server.
#[derive(Clone, Copy)]
enum Tick {
    /// As cron starts it, on a server whose clock is two seconds ahead.
    Ahead,
    /// As cron starts it, on a server whose clock is right.
    Right,
    /// After the last one of its server, whose clock is right.
    Since(DateTime<Utc>),
}

/// Returns an event that is due once a minute or less often, around a change of the clocks of Berlin.
fn random_event(random: &mut Rng) -> Event {
    let event = Event::call(format!("event {}", random.u32(..)), |_| {}).timezone("Europe/Berlin");
    let (event, shortest) = match random.u32(0..7) {
        0 => (event.every_minute(), 60),
        1 => (event.every_five_minutes(), 300),
        2 => (event.cron("7,20,59 * * * *"), 480),
        3 => (event.cron("30 1-4 * * *"), 1_800),
        4 => (event.cron("0,30 2,3 * * *"), 1_800),
        5 => (event.every(seconds(90)), 90),
        _ => (event.every(seconds(25 * 60)), 1_500),
    };
    event.jitter(seconds(random.u64(1..shortest)))
}

/// Ticks one server as cron does, at any second of each minute, one as a loop does, and one every few seconds. The latter two miss
/// some ticks.
#[test]
fn each_occurrence_starts_once_in_a_fleet_and_not_before_its_start() {
    const MINUTES: i64 = 200;
    let mut random = Rng::with_seed(440);
    for case in 0..40 {
        let change = ["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"][random.usize(..2)];
        let begin = at(change) - TimeDelta::minutes(MINUTES / 2);
        let build = random_event(&mut random).on_one_server();
        let (name, expected) = (format!("{build:?}"), build.upcoming(begin - TimeDelta::minutes(30)));
        let clock = ManualClock::at(begin);
        let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
        schedule.add(build).expect("it is in order");
        let event = schedule.names().next().expect("it was added");

        let mut ticks: Vec<(DateTime<Utc>, Tick)> = Vec::new();
        let mut last = begin;
        for minute in 0..MINUTES {
            let minute = begin + TimeDelta::minutes(minute);
            let mut second = || minute + TimeDelta::milliseconds(random.i64(0..57_000));
            ticks.push((second(), Tick::Ahead));
            let now = second();
            if random.u32(0..5) > 0 || now - last > TimeDelta::minutes(3) {
                ticks.push((now, Tick::Since(std::mem::replace(&mut last, now))));
            }
            if random.bool() {
                ticks.extend((0..8).map(|many| (minute + TimeDelta::seconds(many * 7 + 3), Tick::Right)));
            }
        }
        ticks.sort_by_key(|(now, _)| *now);
        let mut runs: BTreeMap<DateTime<Utc>, Vec<DateTime<Utc>>> = BTreeMap::new();
        for (now, tick) in ticks {
            clock.advance((now - clock.now()).to_std().unwrap_or_default());
            let (now, report) = match tick {
                Tick::Ahead => (now + TimeDelta::seconds(2), schedule.run_due(now + TimeDelta::seconds(2))),
                Tick::Right => (now, schedule.run_due(now)),
                Tick::Since(last) => (now, schedule.run_due_since(last, now)),
            };
            for entry in report.entries().iter().filter(|entry| matches!(entry.verdict(), Verdict::Ran(_))) {
                runs.entry(entry.occurrence()).or_default().push(now);
            }
        }
        let definition = schedule.event(&event).expect("it was added");
        let end = begin + TimeDelta::minutes(MINUTES);
        let mut seen = 0;
        for occurrence in expected.take_while(|occurrence| *occurrence < end) {
            let start = definition.start_of(occurrence);
            let context = format!("case {case}: {name}, {occurrence}, which starts at {start}");
            let ran = runs.remove(&occurrence).unwrap_or_default();
            assert!(ran.len() <= 1, "{context}, ran twice: {ran:?}");
            assert!(ran.iter().all(|ran| start <= *ran), "{context}, ran early: {ran:?}");
            if start >= begin && start < end - TimeDelta::minutes(2) {
                assert!(ran.first().is_some_and(|ran| *ran - start < TimeDelta::minutes(2)), "{context}, ran: {ran:?}");
                seen += 1;
            }
        }
        assert_eq!((runs, seen > 0), (BTreeMap::new(), true), "case {case}: {name}");
    }
}

/// Ticks once in each minute, without a claim that shows which occurrences have run.
#[test]
fn a_tick_in_each_minute_finds_each_start_once_without_claims() {
    let mut random = Rng::with_seed(441);
    for case in 0..40 {
        let begin = at("2026-03-28T23:00:00Z");
        let event = random_event(&mut random);
        let context = format!("case {case}: {event:?}");
        let schedule = Schedule::in_process();
        let mut expected: Vec<_> = event.upcoming(begin - TimeDelta::minutes(60)).take(500).collect();
        schedule.add(event).expect("it is in order");
        let definition = schedule.event(&schedule.names().next().expect("its name")).expect("it was added");
        let end = begin + TimeDelta::minutes(239);
        expected.retain(|occurrence| {
            let start = definition.start_of(*occurrence);
            start > begin - TimeDelta::minutes(1) && start <= end
        });
        let mut ran = Vec::new();
        for minute in 0..240 {
            let now = begin + TimeDelta::minutes(minute) + TimeDelta::milliseconds(random.i64(0..60_000));
            ran.extend(occurrences(&schedule.run_due(now)));
        }
        ran.sort_unstable();
        assert_eq!(ran, expected, "{context}");
    }
}

#[cfg(feature = "tzdata")]
#[test]
fn two_occurrences_that_a_clock_change_brings_together_both_run() {
    // At 02:00, clocks are set forward, so that 02:45 is at 03:00. So some second starts come before the first.
    let schedule = Schedule::in_process();
    for name in 0..50 {
        let twice = Event::call(format!("e{name}"), |_| {}).twice_daily_at(1, 2, 45).timezone("Europe/Berlin");
        schedule.add(twice.jitter(seconds(50 * 60))).expect("it is in order");
    }
    let mut ran = BTreeMap::<String, usize>::new();
    for minute in 0..180 {
        let report = schedule.run_due(at("2026-03-29T00:00:07Z") + TimeDelta::minutes(minute));
        report.entries().iter().for_each(|entry| *ran.entry(entry.event().to_owned()).or_default() += 1);
    }
    assert!(ran.len() == 50 && ran.values().all(|runs| *runs == 2), "{ran:?}");
}

#[test]
fn two_occurrences_of_one_tick_run_one_after_another() {
    let diary = Diary::default();
    // Its starts fall into one minute of ticks where one occurrence has a delay and the next has none.
    let event = Event::call("e", |_| {}).every_minute().jitter(seconds(2));
    let probe = Schedule::in_process();
    probe.add(event).expect("it is in order");
    let minutes = (0..100).map(|minute| noon() + TimeDelta::minutes(minute));
    let delay = |occurrence| (start_of(&probe, occurrence) - occurrence).num_seconds();
    let first = minutes.clone().zip(minutes.skip(1)).find(|(one, next)| delay(*one) > 0 && delay(*next) == 0);
    let (one, next) = first.expect("one in five");
    for in_background in [false, true] {
        let clock = ManualClock::at(next);
        let schedule = schedule(&clock, &diary, |event| {
            let event = event.every_minute().jitter(seconds(2)).without_overlapping().on_one_server();
            if in_background { event.in_background() } else { event }
        });
        let report = schedule.run_due(next + TimeDelta::seconds(1));
        assert_eq!(occurrences(&report), [one, next], "{report}");
        assert!(report.entries().iter().all(|entry| matches!(entry.verdict(), Verdict::Ran(_))), "{report}");
        assert!(schedule.due(next).map(|name| name.to_string()).eq(["e"]), "its name once");
    }
}

#[test]
fn an_event_that_is_due_more_often_than_every_minute_runs_its_latest_start() {
    let clock = ManualClock::at(noon());
    let schedule = schedule(&clock, &Diary::default(), |event| event.every_ten_seconds().jitter(seconds(9)));
    for second in 0..120 {
        let now = noon() + TimeDelta::seconds(second);
        let all = (-90..=second).filter(|second| second % 10 == 0).map(|second| noon() + TimeDelta::seconds(second));
        let latest = all.filter(|occurrence| start_of(&schedule, *occurrence) <= now).max();
        assert_eq!(occurrences(&schedule.run_due(now)), Vec::from_iter(latest), "tick at {now}");
    }
}

#[test]
fn a_service_starts_each_occurrence_at_its_second() {
    let (clock, diary, shutdown) =
        (ManualClock::at(noon() - TimeDelta::seconds(30)), Diary::default(), Shutdown::new());
    let (noted, wall) = (diary.clone(), Clock::from(&clock));
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let task = move |run: &Run| noted.note(format!("{} at {}", run.occurrence().format("%T"), wall.now().format("%T")));
    schedule.add(Event::call("e", task).every_minute().jitter(seconds(59))).expect("it is in order");
    let minutes = (0..10).map(|minute| noon() + TimeDelta::minutes(minute));
    let expected: Vec<String> = minutes
        .clone()
        .map(|minute| format!("{} at {}", minute.format("%T"), start_of(&schedule, minute).format("%T")))
        .collect();
    let running = start(&schedule, &shutdown);
    let ticked = minutes.zip(1..).try_for_each(|(minute, count)| {
        // Not in one step: a loop that wakes up early would run it then.
        for moment in [minute, start_of(&schedule, minute) - TimeDelta::seconds(1), start_of(&schedule, minute)] {
            thread::sleep(Duration::from_millis(20)); // the loop reads the clock three times
            clock.advance((moment - clock.now()).to_std().unwrap_or_default());
        }
        until(|| diary.lines().len() >= count)
    });
    shutdown.trigger();
    running.join().unwrap();
    ticked.expect("each is started");
    let lines: Vec<String> = diary.lines().into_iter().filter(|line| !line.starts_with("11:")).collect();
    assert_eq!(lines[..expected.len()], expected);
}

#[test]
fn a_service_that_begins_right_after_a_start_runs_it_if_it_is_claimed() {
    let clock = ManualClock::at(noon());
    let diary = Diary::default();
    let schedule = schedule(&clock, &diary, |event| {
        event.hourly().jitter(seconds(3_000)).on_one_server().mutex(TestStore::new(&clock))
    });
    let start = start_of(&schedule, noon());
    clock.advance((start + TimeDelta::seconds(20) - noon()).to_std().expect("it is later"));
    let shutdown = Shutdown::new();
    thread::scope(|scope| {
        scope.spawn(|| schedule.work(&shutdown));
        let ran = until(|| !diary.lines().is_empty());
        shutdown.trigger();
        ran.expect("it runs at once");
    });
    assert_eq!(diary.lines(), ["12:00:00 +20s"]);
    clock.advance(seconds(10));
    assert!(schedule.run_due(clock.now()).entries().iter().all(|entry| matches!(entry.verdict(), Verdict::Skipped(_))));
}

#[test]
fn a_minute_waits_for_the_starts_in_it_and_repeats_none_of_the_minute_before() {
    let run_noon = || {
        let (clock, diary) = (ManualClock::at(noon()), Diary::default());
        let schedule = schedule(&clock, &diary, |event| event.every_five_minutes().jitter(seconds(50)));
        assert!(start_of(&schedule, noon()) > noon());
        let report = thread::scope(|scope| {
            let minute = scope.spawn(|| schedule.run_minute(noon()));
            let ticked = until(|| {
                clock.advance(seconds(1));
                !diary.lines().is_empty() || minute.is_finished()
            });
            clock.advance(MINUTE);
            ticked.expect("it starts");
            minute.join().expect("it ends")
        });
        (schedule, occurrences(&report), diary.lines())
    };
    // On a busy machine, the clock may pass the start before the call sleeps: then there are more tries.
    let is_in_time = |run: &(Schedule, Vec<DateTime<Utc>>, Vec<String>)| run.1 == [noon()] && run.2 == ["12:00:00 +0s"];
    let run = std::iter::repeat_with(run_noon).take(5).find(is_in_time);
    let (schedule, ..) = run.expect("one of five starts at its second");
    let next = noon() + TimeDelta::minutes(1);
    assert!(schedule.run_minute(next).entries().is_empty(), "it was started in its minute");
    assert_eq!(occurrences(&schedule.run_due(next)), [noon()], "a tick alone comes after the start");
}

#[test]
fn a_loop_of_ones_own_finds_each_start_in_its_time() {
    let clock = ManualClock::at(noon());
    let schedule = schedule(&clock, &Diary::default(), |event| event.every_five_minutes().jitter(seconds(200)));
    let start = start_of(&schedule, noon());
    assert_eq!(schedule.next_due(start - TimeDelta::seconds(1)), Some(start));
    let before = start - TimeDelta::milliseconds(1);
    assert!(schedule.run_due_since(noon() - TimeDelta::seconds(1), before).entries().is_empty());
    assert_eq!(occurrences(&schedule.run_due_since(before, start)), [noon()]);
    assert!(schedule.run_due_since(start, start + TimeDelta::seconds(1)).entries().is_empty());
    let day = noon()..noon() + TimeDelta::minutes(10);
    let starts: Vec<_> = schedule.due_between(day.clone()).map(|(start, _)| start).collect();
    let expected = [0, 5].map(|minute| start_of(&schedule, noon() + TimeDelta::minutes(minute)));
    assert_eq!(starts.into_iter().filter(|start| *start >= expected[0]).collect::<Vec<_>>(), expected);
}

#[test]
fn windows_and_filters_look_at_the_occurrence() {
    let clock = ManualClock::at(noon());
    let schedule = schedule(&clock, &Diary::default(), |event| {
        let on_the_hour = |tick: &soloist::time::Tick| tick.local().format("%M").to_string() == "00";
        event.hourly().between("12:00", "12:00").when(on_the_hour).jitter(seconds(3_000))
    });
    let start = start_of(&schedule, noon());
    assert!(start - noon() > TimeDelta::minutes(2));
    let report = schedule.run_due(start);
    assert!(report.entries().is_empty() == (start.timestamp() % 60 != 0), "{report}");
    let report = schedule.run_due(start + TimeDelta::seconds(59));
    assert!(matches!(report.entries()[0].verdict(), Verdict::Ran(_)), "{report}");
}

#[test]
fn nothing_is_missed_before_its_start_and_the_window_begins_then() {
    let clock = ManualClock::at(noon() - TimeDelta::minutes(59));
    let diary = Diary::default();
    let schedule =
        schedule(&clock, &diary, |event| event.hourly().jitter(seconds(2_400)).on_one_server().catch_up(seconds(600)));
    let tick = |now: DateTime<Utc>| {
        clock.advance((now - clock.now()).to_std().expect("it is later"));
        let report = schedule.run_due(now);
        report.entries().iter().map(|entry| (entry.occurrence(), entry.missed_by())).collect::<Vec<_>>()
    };
    let start = start_of(&schedule, noon());
    let known = tick(start_of(&schedule, noon() - TimeDelta::hours(1)) + TimeDelta::minutes(1));
    assert_eq!(known, [(noon() - TimeDelta::hours(1), None)]);
    // In each minute before its start.
    let mut now = noon();
    while now < start {
        assert_eq!(tick(now), [], "{now} is before {start}");
        now += TimeDelta::minutes(1);
    }
    // Its own tick would be this one, and is left out; it is made up for 10 minutes after its start.
    let late = start + TimeDelta::seconds(540);
    assert_eq!(tick(late), [(noon(), Some(seconds(540)))]);
    assert_eq!(tick(late + TimeDelta::minutes(1)), []);
    assert_eq!(diary.lines().last().map(String::as_str), Some("12:00:00 +540s"));

    let next = start_of(&schedule, noon() + TimeDelta::hours(1));
    let too_late = next + TimeDelta::seconds(600 + 60);
    assert_eq!(tick(too_late), [], "the window is over");
}

#[test]
fn all_missed_starts_are_made_up_for_and_none_that_is_to_come() {
    let clock = ManualClock::at(noon());
    let schedule = schedule(&clock, &Diary::default(), |event| {
        event.hourly().jitter(seconds(2_400)).on_one_server().catch_up_all(6 * HOUR, 10)
    });
    let hour = |hours| noon() + TimeDelta::hours(hours);
    let _ = schedule.run_due(noon()); // the store knows it
    let now = start_of(&schedule, hour(3)) - TimeDelta::seconds(61);
    clock.advance((now - noon()).to_std().expect("it is later"));
    assert_eq!(occurrences(&schedule.run_due(now)), [hour(0), hour(1), hour(2)]);
    let then = now + TimeDelta::seconds(121);
    clock.advance(seconds(121));
    assert_eq!(occurrences(&schedule.run_due(then)), [hour(3)]);
}

#[cfg(feature = "tzdata")]
#[test]
fn no_missed_occurrence_runs_before_its_start_where_the_starts_are_out_of_order() {
    // On the second day, a clock change brings the two occurrences together, so that the earlier can start later.
    let first_day = (60..240).map(|minute| at("2026-03-28T00:00:00Z") + TimeDelta::minutes(minute));
    let second_day = (0..36).map(|number| at("2026-03-29T00:00:00Z") + TimeDelta::minutes(5 * number));
    let clock = ManualClock::at(at("2026-03-28T00:00:00Z"));
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let names: Vec<String> = (0..40).map(|number| format!("e{number}")).collect();
    for name in &names {
        let event = Event::call(name.as_str(), |_| {}).cron("15 2,3 * * *").timezone("Europe/Berlin").on_one_server();
        schedule.add(event.jitter(MINUTE * 59).catch_up_all(HOUR * 3, 5)).unwrap();
    }
    let mut ran = Vec::new();
    for now in first_day.chain(second_day) {
        clock.advance((now - Clock::from(&clock).now()).to_std().unwrap());
        for entry in schedule.run_due(now).entries() {
            let start = schedule.event(entry.event()).unwrap().start_of(entry.occurrence());
            assert!(start <= now, "at {now}, a start of {start}: {entry}");
            ran.push((entry.event().to_owned(), entry.occurrence()));
        }
    }
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), 4 * names.len(), "{ran:?}");
}

#[test]
fn the_status_has_the_start_and_its_occurrence() {
    let clock = ManualClock::at(noon());
    let schedule = schedule(&clock, &Diary::default(), |event| event.hourly().jitter(seconds(1_800)));
    schedule.add(Event::call("once", |_| {}).at(noon()).jitter(seconds(1_800))).expect("it is in order");
    let starts = ["e", "once"].map(|name| schedule.event(name).expect("it was added").start_of(noon()));
    let status = |now: DateTime<Utc>| {
        clock.advance((now - clock.now()).to_std().expect("it is later"));
        let status = schedule.status();
        ["e", "once"].map(|name| {
            let event = status.event(name).expect("it was added");
            (event.next_due, event.next_occurrence, event.is_over)
        })
    };
    assert!(starts.iter().all(|start| *start > noon() + TimeDelta::seconds(1)));
    let before = status(noon() + TimeDelta::seconds(1));
    assert_eq!(before, starts.map(|start| (Some(start), Some(noon()), false)));
    let after = status(starts[0].max(starts[1]));
    let one = noon() + TimeDelta::hours(1);
    assert_eq!(after, [(Some(start_of(&schedule, one)), Some(one), false), (None, None, true)]);
    let words = schedule.event("e").expect("it was added").timetable();
    assert_eq!(words, "hourly, plus a jitter of 30m at most");
}

#[test]
fn a_tests_due_times_are_occurrences() {
    let schedule = Schedule::in_process();
    schedule.add(Event::call("e", |_| {}).hourly().jitter(seconds(3_000))).expect("it is in order");
    let due = soloist::testing::due_times(&schedule, "e", "2026-03-01 10:00".."2026-03-01 12:00");
    assert_eq!(due, ["2026-03-01 10:00", "2026-03-01 11:00"]);
    soloist::testing::assert_due(&schedule, "e", "2026-03-01 10:00");
}
