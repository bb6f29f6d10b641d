//! Windows of the day, environments, and events that are due several times a minute.

use std::sync::mpsc;

use chrono::{DateTime, TimeDelta, Utc};
use soloist::time::ClockChange;
use soloist::{AddErrorKind, Entry, Event, MemoryMutex, Run, Schedule, SkipReason, Verdict, Zone};

use crate::support::{Diary, PATIENCE, at, noon, ran, skipped};

fn event(name: &str) -> Event {
    Event::call(name, |_| {})
}

/// Returns the outcome of the event in a tick at this instant.
#[track_caller]
fn at_tick(event: Event, instant: &str) -> &'static str {
    let schedule = Schedule::in_process();
    schedule.add(event).expect("it is in order");
    schedule.run_due(at(instant)).entries().first().map_or("not due", what)
}

#[track_caller]
fn what(entry: &Entry) -> &'static str {
    match entry.verdict() {
        Verdict::Ran(_) => "ran",
        Verdict::Skipped(SkipReason::Filtered(_)) => "filtered",
        Verdict::Skipped(other) => panic!("{other}"),
    }
}

/// Asserts that `between` runs the event at these instants and `unless_between` does not, or the other way round.
#[track_caller]
fn is_within(window: [&str; 2], zone: &str, cases: &[(&str, bool)]) {
    let [start, end] = window;
    for (instant, within) in cases {
        let (inside, outside) = if *within { ("ran", "filtered") } else { ("filtered", "ran") };
        let every_minute = || event("e").every_minute();
        for (event, expected) in [
            (every_minute().timezone(zone).between(start, end), inside),
            (every_minute().between(start, end).timezone(zone), inside),
            (every_minute().timezone(zone).unless_between(start, end), outside),
            (every_minute().unless_between(start, end).timezone(zone), outside),
        ] {
            assert_eq!(at_tick(event, instant), expected, "{start} to {end} in {zone} at {instant}");
        }
    }
}

#[test]
fn a_window_includes_both_of_its_minutes() {
    is_within(
        ["08:00", "17:00"],
        "UTC",
        &[
            ("2026-03-01T07:59:59.999Z", false),
            ("2026-03-01T08:00:00Z", true),
            ("2026-03-01T12:30:00Z", true),
            ("2026-03-01T17:00:00Z", true),
            ("2026-03-01T17:00:59.999Z", true),
            ("2026-03-01T17:01:00Z", false),
            ("2026-03-01T00:00:00Z", false),
        ],
    );
    is_within(
        ["12:00", "12:00"],
        "UTC",
        &[("2026-03-01T11:59:59Z", false), ("2026-03-01T12:00:59Z", true), ("2026-03-01T12:01:00Z", false)],
    );
    is_within(["00:01", "23:59"], "UTC", &[("2026-03-01T00:00:59Z", false), ("2026-03-01T23:59:59Z", true)]);
}

#[test]
fn a_window_that_ends_before_it_starts_goes_over_midnight() {
    is_within(
        ["22:00", "6:00"],
        "UTC",
        &[
            ("2026-03-01T21:59:59Z", false),
            ("2026-03-01T22:00:00Z", true),
            ("2026-03-01T23:59:59Z", true),
            ("2026-03-02T00:00:00Z", true),
            ("2026-03-02T06:00:59Z", true),
            ("2026-03-02T06:01:00Z", false),
            ("2026-03-02T12:00:00Z", false),
        ],
    );
}

#[test]
fn a_window_is_one_on_the_clocks_of_the_events_zone() {
    is_within(
        ["08:00", "17:00"],
        "+05:45",
        &[
            ("2026-03-01T02:14:59Z", false),
            ("2026-03-01T02:15:00Z", true),
            ("2026-03-01T11:15:59Z", true),
            ("2026-03-01T11:16:00Z", false),
        ],
    );
    // Winter and summer in one place.
    is_within(["08:00", "17:00"], "Europe/Berlin", &[("2026-01-15T06:30:00Z", false), ("2026-07-15T06:30:00Z", true)]);
}

#[test]
fn a_window_in_a_night_in_which_clocks_change_is_what_they_show() {
    // From 02:00 to 03:00 at 01:00 UTC.
    is_within(
        ["02:30", "03:00"],
        "Europe/Berlin",
        &[("2026-03-29T00:59:59Z", false), ("2026-03-29T01:00:00Z", true), ("2026-03-29T01:01:00Z", false)],
    );
    // From 03:00 back to 02:00 at 01:00 UTC.
    is_within(
        ["02:30", "02:45"],
        "Europe/Berlin",
        &[
            ("2026-10-25T00:29:59Z", false),
            ("2026-10-25T00:30:00Z", true),
            ("2026-10-25T01:00:00Z", false),
            ("2026-10-25T01:30:00Z", true),
            ("2026-10-25T01:46:00Z", false),
        ],
    );
    // 02:30 is made up for at 03:00, if the window includes that.
    let nightly = |end| event("e").daily_at("02:30").timezone("Europe/Berlin").between("02:00", end);
    assert_eq!(at_tick(nightly("02:59"), "2026-03-29T01:00:00Z"), "filtered");
    assert_eq!(at_tick(nightly("03:00"), "2026-03-29T01:00:00Z"), "ran");
    let as_shown = nightly("03:00").on_clock_change(ClockChange::AsShown);
    assert_eq!(at_tick(as_shown, "2026-03-29T01:00:00Z"), "not due");
}

#[test]
fn a_window_filters_a_run_by_hand_and_no_time_that_is_not_due() {
    let schedule = Schedule::in_process();
    schedule.add(event("e").daily_at("09:00").between("08:00", "17:00")).unwrap();
    assert!(schedule.run_due(noon()).entries().is_empty());
    assert_eq!(what(&schedule.run_event("e", noon()).unwrap()), "ran");
    assert_eq!(what(&schedule.run_event("e", at("2026-03-01T18:00:00Z")).unwrap()), "filtered");
}

#[test]
fn an_event_runs_in_its_environments_and_nowhere_else() {
    let diary = Diary::default();
    let schedule = Schedule::in_process().with_environment("staging");
    let asked = diary.clone();
    schedule
        .add(event("everywhere").every_minute())
        .unwrap()
        .add(event("here").every_minute().environments(["production", "staging"]))
        .unwrap()
        .add(
            Event::call("elsewhere", diary.task("ran elsewhere"))
                .every_minute()
                .when(move |_| {
                    asked.note("asked");
                    true
                })
                .environments(["production"]),
        )
        .unwrap()
        .add(event("Here").every_minute().environments(["production", "staging-2", "stag"]))
        .unwrap()
        .add(event("here, too").every_minute().environments(["staging".to_owned()]).environments(["staging"]))
        .unwrap();
    let report = schedule.run_due(noon());
    let verdicts: Vec<_> = report.entries().iter().map(|entry| (entry.event(), what(entry))).collect();
    assert_eq!(verdicts, [("everywhere", "ran"), ("here", "ran"), ("here, too", "ran")]);
    for elsewhere in ["elsewhere", "Here"] {
        assert_eq!(what(&schedule.run_event(elsewhere, noon()).unwrap()), "filtered", "by hand");
        assert_eq!(schedule.upcoming(elsewhere, noon()).unwrap().next(), None);
    }
    for here in ["everywhere", "here", "here, too"] {
        assert!(schedule.remove(here));
    }
    assert_eq!((schedule.next_due(noon()), schedule.due(noon()).count()), (None, 0));
    assert_eq!(diary.lines(), [""; 0], "nothing else is asked elsewhere");
}

#[test]
fn a_schedule_that_was_not_told_where_it_is_takes_no_event_with_environments() {
    let only = |names: &[&str]| event("e").every_minute().environments(names.iter().copied());
    let spelt =
        Schedule::in_process().with_environment("Production").add(only(&["staging", "production"])).unwrap_err();
    assert_eq!(
        spelt.to_string(),
        "event `e`: `environments(..)` says `production`, and `schedule.with_environment(..)` says `Production`: write the \
         name in the same way, because upper and lower case matter"
    );
    let unset = "event `e`: it runs only in production, staging, but the schedule has no environment: call \
                 `schedule.with_environment(..)` before `add`";
    let schedule = Schedule::in_process();
    let error = schedule.add(only(&["production", "staging"])).unwrap_err();
    assert_eq!(error.to_string(), unset);
    assert_eq!(error.kind(), AddErrorKind::Missing);
    schedule.add(event("e").every_minute()).unwrap();
    schedule.with_environment("staging").remove("e");
    let schedule = Schedule::in_process().with_environment("staging");
    let none = schedule.add(only(&[])).unwrap_err();
    assert_eq!(none.to_string(), "event `e`: its `environments(..)` names no environment: leave it out, or name one");
    for list in [
        "",
        "production,staging",
        "production;staging",
        "production|staging",
        "production staging",
        "staging\t",
        "*",
        "!staging",
    ] {
        let error = schedule.add(only(&[list])).unwrap_err();
        let way_out = "write each name by itself, as in `environments([\"production\", \"staging\"])`; for all environments, leave \
                       `environments(..)` out, and for all but one, use `skip(..)`";
        assert!(error.to_string().ends_with(&format!(" is not one name: {way_out}")), "{error}");
        assert_eq!(error.kind(), AddErrorKind::Name);
    }
    schedule.add(only(&["staging"])).unwrap();
    for (name, shown) in [("staging\n", "staging\\n"), ("", "")] {
        let error = Schedule::in_process().with_environment(name).add(only(&["staging"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "event `e`: `schedule.with_environment(..)` says `{shown}`, so that it would never run: write one name, without \
                 white space, `,`, `;`, `|`, `*` and `!`, and check the variable from which the name comes"
            )
        );
    }
}

#[test]
fn a_slot_of_seconds_is_an_occurrence_of_its_own() {
    let (sender, runs) = mpsc::channel();
    let schedule = Schedule::in_process();
    schedule
        .add(Event::call("e", move |run: &Run| Ok(sender.send(run.occurrence())?)).every_ten_seconds().hourly())
        .unwrap();
    for time in ["12:00:00", "12:00:09.999", "12:00:10", "12:00:35", "12:00:59.999", "12:01:00", "12:59:59", "13:00:20"]
    {
        assert!(!schedule.run_due(at(&format!("2026-03-01T{time}Z"))).is_failure());
    }
    let occurrences: Vec<_> = runs.try_iter().map(|occurrence| occurrence.format("%T").to_string()).collect();
    assert_eq!(occurrences, ["12:00:00", "12:00:00", "12:00:10", "12:00:30", "12:00:50", "13:00:20"]);
}

#[test]
fn a_slot_of_seconds_starts_on_one_server() {
    let (mutex, diary) = (MemoryMutex::new(), Diary::default());
    let servers = [(); 2].map(|()| {
        let schedule = Schedule::new(mutex.clone());
        let task = |diary: Diary| move |run: &Run| diary.note(run.occurrence().format("%T").to_string());
        schedule.add(Event::call("e", task(diary.clone())).every_ten_seconds().on_one_server()).unwrap();
        schedule
    });
    let [first, second] = &servers;
    for (server, time, starts) in [
        (first, "12:00:00", true),
        (second, "12:00:09", false),
        (first, "12:00:09", false),
        (second, "12:00:10", true),
        (first, "12:00:12", false),
        // Its clock is behind, and no server has run in its slot.
        (first, "11:59:59", true),
        (second, "12:00:50", true),
        (first, "12:01:00", true),
    ] {
        let report = server.run_due(at(&format!("2026-03-01T{time}Z")));
        if starts {
            assert!(ran(&report, "e").is_success());
        } else {
            assert!(matches!(skipped(&report, "e"), SkipReason::RanElsewhere(Some(_))), "{report}");
        }
    }
    assert_eq!(diary.lines(), ["12:00:00", "12:00:10", "11:59:50", "12:00:50", "12:01:00"]);
}

#[test]
fn an_event_is_in_the_zone_of_its_schedule_unless_it_says_its_own() {
    let schedule = Schedule::in_process();
    schedule.add(event("before").daily_at("02:30")).unwrap();
    let error = schedule.clone().with_timezone("Nowhere").add(event("nowhere").daily()).unwrap_err();
    assert_eq!(error.kind(), AddErrorKind::Zone);
    assert!(
        error.to_string().starts_with("event `nowhere`: `with_timezone(..)`: `Nowhere` is not a time zone: "),
        "{error}"
    );
    let schedule = schedule.with_timezone("+05:45");
    schedule.add(event("kathmandu").daily_at("02:30")).unwrap();
    schedule.add(event("utc").daily_at("02:30").timezone(Zone::UTC)).unwrap();
    let next = |name| schedule.upcoming(name, noon()).unwrap().next();
    assert_eq!(next("before"), Some(at("2026-03-02T02:30:00Z")));
    assert_eq!(next("kathmandu"), Some(at("2026-03-01T20:45:00Z")));
    assert_eq!(next("utc"), Some(at("2026-03-02T02:30:00Z")));
}

#[test]
fn next_times_are_those_at_which_its_windows_let_it_run() {
    type Word = fn(Event) -> Event;
    let words: [Word; 7] = [
        |event| event.every_five_minutes().between("08:00", "17:00"),
        |event| event.every_five_minutes().between("22:30", "03:02").weekdays(),
        |event| event.hourly().unless_between("23:00", "04:00"),
        |event| event.hourly_at(30).between("00:00", "06:00").unless_between("02:00", "04:00"),
        |event| event.cron("30 2,3,4 * * *").between("03:00", "03:59"),
        |event| event.cron("15,45 1-4 * * *").unless_between("02:00", "03:00").on_clock_change(ClockChange::AsShown),
        |event| event.every_thirty_seconds().between("02:59", "03:00"),
    ];
    // Nights when clocks are set forward, are set back, and stay.
    for (zone, nights) in [
        ("Europe/Berlin", &["2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z", "2026-05-01T00:00:00Z"][..]),
        ("Australia/Lord_Howe", &["2026-10-03T06:00:00Z", "2026-04-04T06:00:00Z"]),
        ("UTC", &["2026-05-01T00:00:00Z"]),
        ("+05:45", &["2026-05-01T00:00:00Z"]),
    ] {
        for from in nights {
            for (at_word, word) in words.iter().enumerate() {
                let event = || word(event("e")).timezone(zone);
                let schedule = Schedule::in_process();
                schedule.add(event()).unwrap();
                let (start, end) = (at(from), at(from) + TimeDelta::hours(24));
                let runs = |now: &DateTime<Utc>| {
                    schedule.due(*now).count() == 1 && what(&schedule.run_due(*now).entries()[0]) == "ran"
                };
                let ticks = (0..).map(|number| start + TimeDelta::seconds(30 * number)).take_while(|now| *now < end);
                // Of an event of whole minutes, a tick in the middle of one is no occurrence.
                let whole = |now: &DateTime<Utc>| now.timestamp() % 60 == 0 || at_word == 6;
                let expected: Vec<_> = ticks.filter(whole).filter(runs).collect();
                let before = start - TimeDelta::seconds(1);
                let upcoming: Vec<_> = event().upcoming(before).take_while(|time| *time < end).collect();
                assert_eq!(upcoming, expected, "word {at_word} in {zone} from {from}");
                // The event on weekdays has no occurrence on a weekend.
                assert!(!upcoming.is_empty() || at_word == 1, "word {at_word} in {zone} from {from}");
                assert!(schedule.upcoming("e", before).unwrap().take(upcoming.len()).eq(expected.iter().copied()));
                assert_eq!(schedule.next_due(before).filter(|time| *time < end), expected.first().copied());
            }
        }
    }
}

#[test]
fn a_window_far_from_its_times_is_found_at_once_or_refused() {
    let began = std::time::Instant::now();
    let daytime = event("e").every_second().between("08:00", "17:00");
    assert_eq!(
        daytime.next(at("2026-03-01T07:59:58Z")),
        Some(at("2026-03-01T08:00:00Z")),
        "the second before is outside"
    );
    let rarely = event("e").every_second().between("23:59", "23:59").yearly_on(chrono::Month::February, 29, "23:59");
    let time = |text: &str| Some(at(text));
    assert_eq!(rarely.next(at("2096-02-29T23:59:58Z")), time("2096-02-29T23:59:59Z"));
    assert_eq!(rarely.next(at("2096-02-29T23:59:59Z")), None, "the next year of that kind is 2104");
    let busy = event("e").every_second().between("03:00", "03:00").timezone("Europe/Berlin");
    let times: Vec<_> = busy.upcoming(at("2026-03-27T02:00:58Z")).take(63).collect();
    let last = ["2026-03-27T02:00:59Z", "2026-03-28T02:00:00Z", "2026-03-28T02:00:59Z", "2026-03-29T01:00:00Z"].map(at);
    assert_eq!([times[0], times[1], times[60], times[61]], last);
    assert!(began.elapsed() < PATIENCE, "it goes from second to second");

    for (event, due, windows) in [
        (event("e").daily_at("02:00").between("08:00", "17:00"), "daily at 02:00", "`between 08:00 and 17:00`"),
        (
            event("e").between("08:00", "12:00").cron("*/5 7,13-17 * * *"),
            "every 5 minutes of the hours 7,13-17",
            "`between 08:00 and 12:00`",
        ),
        (
            event("e").hourly_at([10, 20]).between("08:11", "08:19"),
            "at the minutes 10,20 of each hour",
            "`between 08:11 and 08:19`",
        ),
        (
            event("e").every(std::time::Duration::from_secs(86_400)).between("02:00", "03:00"),
            "every 24 hours",
            "`between 02:00 and 03:00`",
        ),
        (
            event("e").every_second().between("08:00", "12:00").between("13:00", "17:00"),
            "every second",
            "`between 08:00 and 12:00` and `between 13:00 and 17:00`",
        ),
        (
            event("e").every_minute().unless_between("00:00", "23:59"),
            "every minute",
            "`unless_between 00:00 and 23:59`",
        ),
    ] {
        assert_eq!(event.next(noon()), None);
        assert_eq!(
            Schedule::in_process().add(event).unwrap_err().to_string(),
            format!(
                "event `e`: it is due `{due}`, but at none of these times are all its windows open, {windows}: change one of them"
            )
        );
    }
    // The clocks move 02:30 to 03:00 once a year, which does not count.
    let moved = event("e").daily_at("02:30").timezone("Europe/Berlin").between("03:00", "03:59");
    assert_eq!(moved.next(noon()), None);
    assert!(Schedule::in_process().add(moved).is_err());
}
