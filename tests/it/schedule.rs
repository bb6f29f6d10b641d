//! Adding events, due events, and their order.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use chrono::Weekday;
use soloist::store::LeaseRequest;
use soloist::time::{Clock, ClockChange, ManualClock};
use soloist::{
    AddErrorKind, Event, EventMutex, MemoryMutex, MutexName, OutagePolicy, Output, Period, Schedule, SkipReason, Term,
    Verdict,
};

use crate::scripted::Scripted;
use crate::support::{Diary, HOUR, at, noon, ran, skipped};

fn event(name: &str) -> Event {
    Event::call(name, |_| {})
}

/// Returns a store that lacks a method which some events need, and so is never asked.
fn can_not_extend() -> Scripted {
    Scripted::default().three_methods()
}

/// Tests the compiler, which must infer the return type of each closure.
#[test]
fn tasks_and_hooks_with_question_marks_need_no_annotation() {
    fn import(_: &soloist::Run) -> soloist::TaskResult {
        Err("no paper".into())
    }
    let none = |_: &soloist::Run| {
        std::fs::read("/var/empty/none")?;
        Ok(())
    };
    let schedule = Schedule::in_process();
    for event in [
        Event::call("e", |_| {
            let text = std::fs::read_to_string("/var/empty/none")?;
            let _: u32 = text.parse()?;
            Ok(())
        }),
        Event::call("e", |run| {
            run.check()?;
            if run.fencing_token().is_none() {
                return Err("no token".into());
            }
            Ok(())
        }),
        Event::call("e", |_| Ok(std::fs::write("/var/empty/none/none", "")?)),
        Event::call("e", |_| Err("no paper".into())),
        Event::call("e", none),
        Event::call("e", import),
        event("e").before(none),
        event("e").then(|run, _| {
            let _: u32 = run.name().parse()?;
            Ok(())
        }),
        event("e").on_success(|run, outcome| {
            let _: u32 = run.name().parse()?;
            println!("{outcome}");
            Ok(())
        }),
    ] {
        schedule.add(event.every_minute()).unwrap();
        assert!(schedule.run_due(noon()).is_failure());
        assert!(schedule.remove("e"));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_wrong_definition_is_refused_with_its_own_message() {
    let long = "x".repeat(513);
    let cases: Vec<(Event, &str)> = vec![
        (event("").daily(), "event ``: the name is empty"),
        (
            event(&long).daily(),
            "event `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`: the name has 513 characters, \
             the limit is 512",
        ),
        (
            event("two\nlines").daily(),
            "event `two\\nlines`: the name has the control or invisible character `\\n`: leave it out",
        ),
        (
            event("\u{1b}[2Jgone").daily(),
            "event `\\u{1b}[2Jgone`: the name has the control or invisible character `\\u{1b}`: leave it out",
        ),
        (
            event("turned\u{202e}round").daily(),
            "event `turned\\u{202e}round`: the name has the control or invisible character `\\u{202e}`: leave it out",
        ),
        (event(" e").daily(), "event ` e`: the name begins or ends with a space: leave it out"),
        (event("e\u{a0}").daily(), "event `e\\u{a0}`: the name begins or ends with a space: leave it out"),
        (event(" ").daily(), "event ` `: the name begins or ends with a space: leave it out"),
        (
            event("taken").daily(),
            "event `taken`: there is already an event of this name in the schedule: use another name, or change the event with \
             `replace(..)`",
        ),
        (
            event("e"),
            "event `e`: it has no timetable: say when it runs, with `every_minute()`, `daily_at(\"02:30\")`, \
             `cron(\"*/5 * * * *\")` …",
        ),
        (
            event("e").daily().without_overlapping_for(Duration::ZERO),
            "event `e`: `without_overlapping_for(0s)`: use 1ms to ten years",
        ),
        (
            event("e").daily().timeout(Duration::MAX),
            "event `e`: `timeout(Duration::MAX)`: use 1ms to ten years; for no limit, leave it out",
        ),
        (
            event("e").daily().without_overlapping_for(Duration::MAX),
            "event `e`: `without_overlapping_for(Duration::MAX)`: use 1ms to ten years",
        ),
        (event("e").daily().mutex_name("").without_overlapping(), "event `e`: the `mutex_name(..)` is empty"),
        (
            event("e").daily().mutex_name("two\tparts").without_overlapping(),
            "event `e`: the `mutex_name(..)` has the control or invisible character `\\t`: leave it out",
        ),
        (
            event("e").daily().mutex_name("shared").on_one_server(),
            "event `e`: it has a `mutex_name(..)`, but no lease: add `without_overlapping()`",
        ),
        (
            event("e").daily().mutex(MemoryMutex::new()),
            "event `e`: it has a `mutex(..)`, but no protection that uses this store: add `without_overlapping()`, \
             `on_one_server()` or `once_per(..)`",
        ),
        (
            event("e").cron("30 2 31 2 *"),
            "event `e`: `30 2 31 2 *`: day of month `31` never comes in month `2`: the last day of a month is `L` (column 6)",
        ),
        (event("e").cron("61 * * * *"), "event `e`: `61 * * * *`: minute `61` is outside of 0-59 (column 1)"),
        (
            event("e").cron("* * * *"),
            "event `e`: `* * * *`: 4 fields instead of 5 (minute, hour, day of month, month, day of week): \
             write five, such as `*/5 * * * *`",
        ),
        (
            event("e").cron("0 9 * * * /usr/bin/backup --all"),
            "event `e`: `0 9 * * * /usr/bin/backup --all`: 7 fields instead of 5 (minute, hour, day of month, month, day of week): \
             leave out seconds, a year, a zone, a command, and spaces in lists; with seconds or a year, use `on(..)`",
        ),
        (
            event("e").cron("1,,2 * * * *"),
            "event `e`: `1,,2 * * * *`: minute has an empty list item: remove a comma (column 3)",
        ),
        (
            event("e").cron("5/10 * * * *"),
            "event `e`: `5/10 * * * *`: minute `5/10` has a step but no range: write a range or `*` before the step, as in `3-9/2` (column 1)",
        ),
        (
            event("e").daily_at("24:00"),
            "event `e`: `daily_at(..)`: `24:00` is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`",
        ),
        (
            event("e").weekly_on(Weekday::Mon, "8:60"),
            "event `e`: `weekly_on(..)`: `8:60` is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`",
        ),
        (
            event("e").monthly_on(32, "02:00"),
            "event `e`: `monthly_on(..)`: day of month 32 is outside of 1-31: the last day is `last_day_of_month(..)`",
        ),
        (event("e").hourly_at(60), "event `e`: `hourly_at(..)`: minute 60 is outside of 0-59"),
        (
            event("e").cron("*/90 * * * *"),
            "event `e`: `*/90 * * * *`: minute `*/90` has a step that is zero or larger than its range; an interval is \
             `every(Duration::from_secs(5400))` or `--every 90m` (column 1)",
        ),
        (
            event("e").daily().timezone("Mars/Olympus"),
            "event `e`: `timezone(..)`: `Mars/Olympus` is not a time zone: write a name such as `Europe/Berlin`, `UTC`, `local`, \
             or an offset such as `+02:00`; a zone has the name of one large city in it: `timedatectl list-timezones` lists the \
             names",
        ),
        (
            event("e").every(HOUR).on_clock_change(ClockChange::Once),
            "event `e`: `on_clock_change(..)` has no effect on `every(..)` and `at(..)`, because no change of the clocks moves \
             their times: leave it out",
        ),
    ];
    for (event, message) in cases {
        is_refused(event, message);
    }
}

#[test]
fn a_lease_that_can_not_be_as_it_was_asked_for_is_refused() {
    let cases: Vec<(Event, &str)> = vec![
        (
            event("e").daily().without_overlapping().mutex(can_not_extend()),
            "event `e`: its store says that it can't extend a lease (`EventMutex::describe`), so that no lease is renewed, \
             or held longer than its task: use `without_overlapping_for(..)` alone, with a term that is longer than the task \
             takes",
        ),
        (
            event("e").daily().without_overlapping_for(HOUR).hold_at_least(HOUR).mutex(can_not_extend()),
            "event `e`: its store says that it can't extend a lease (`EventMutex::describe`), so that no lease is renewed, \
             or held longer than its task: use `without_overlapping_for(..)` alone, with a term that is longer than the task \
             takes",
        ),
        (
            event("e").daily().without_overlapping().lease_term(Duration::from_millis(99)),
            "event `e`: `lease_term(99ms)`: use 100ms to ten years; a running task renews its lease, and the term is how long a \
             killed process blocks the event",
        ),
        (
            event("e").daily().without_overlapping().lease_term(Duration::ZERO),
            "event `e`: `lease_term(0s)`: use 100ms to ten years; a running task renews its lease, and the term is how long a \
             killed process blocks the event",
        ),
        (
            event("e").daily().on_one_server().lease_term(HOUR),
            "event `e`: it has a `lease_term(..)`, but no lease that is renewed: add `without_overlapping()`, or set a \
             fixed term with `without_overlapping_for(..)` alone",
        ),
        (
            event("e").daily().without_overlapping_for(HOUR).lease_term(HOUR),
            "event `e`: it has a `lease_term(..)`, but no lease that is renewed: add `without_overlapping()`, or set a \
             fixed term with `without_overlapping_for(..)` alone",
        ),
        (
            event("e").daily().on_one_server().hold_at_least(HOUR),
            "event `e`: it has a `hold_at_least(..)`, but no lease: add `without_overlapping()`",
        ),
        (
            event("e")
                .daily()
                .without_overlapping_for(Duration::from_millis(300))
                .hold_at_least(Duration::from_secs(3)),
            "event `e`: it has a `hold_at_least(3s)`, and a `without_overlapping_for(300ms)`, which ends the lease before that: \
             choose a `without_overlapping_for(..)` of 3s or more, or use `without_overlapping()`, whose lease is renewed",
        ),
        (
            event("e").daily().without_overlapping().hold_at_least(Duration::MAX),
            "event `e`: `hold_at_least(Duration::MAX)`: use 1ms to ten years",
        ),
        (
            event("e").hourly().without_overlapping().hold_at_least(HOUR),
            "event `e`: `hold_at_least(1h)`: use less than 1h, because a later occurrence can start then, and would be skipped while \
             the lease is still held",
        ),
        (
            event("e").cron("0 9,11 * * *").on_one_server().without_overlapping_for(HOUR * 3).hold_at_least(HOUR * 3),
            "event `e`: `hold_at_least(3h)`: use less than 2h, because a later occurrence can start then, and would be skipped while \
             the lease is still held",
        ),
        (
            event("e").hourly().jitter(HOUR / 60 * 59).without_overlapping().hold_at_least(HOUR / 2),
            "event `e`: `hold_at_least(30m)`: use less than 1m, because a later occurrence can start then, and would be skipped while \
             the lease is still held",
        ),
        (
            event("e").every_minute().at_most(3).hold_at_least(HOUR),
            "event `e`: `hold_at_least(1h)`: use less than 3m, because a later occurrence can start then, and would be skipped while \
             the lease is still held",
        ),
        (
            event("e").daily().mutex_name("shared").once_per(Period::Day),
            "event `e`: it has a `mutex_name(..)`, but no lease: add `without_overlapping()`",
        ),
        (
            event("e").hourly().between("6", "08:00"),
            "event `e`: `between(..)`: `6` is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`",
        ),
        (
            event("e").daily().timeout(Duration::ZERO),
            "event `e`: `timeout(0s)`: use 1ms to ten years; for no limit, leave it out",
        ),
        (
            event("e").daily().without_overlapping_for(HOUR).timeout(HOUR * 2),
            "event `e`: it has a `timeout(2h)`, and a `without_overlapping_for(1h)`, which cancels the run before that: choose \
             a `timeout(..)` of 1h or less, or use `without_overlapping()`, whose lease is renewed",
        ),
        (
            event("e").daily().without_overlapping_for(HOUR).stuck_after(HOUR * 2),
            "event `e`: it has a `stuck_after(2h)`, and a `without_overlapping_for(1h)`, which cancels the run before that: \
             choose a `stuck_after(..)` of 1h or less, or use `without_overlapping()`, whose lease is renewed",
        ),
        (
            event("e").daily().on_outage(OutagePolicy::Skip),
            "event `e`: it has an `on_outage(..)`, but no protection that uses a store: add \
             `without_overlapping()`, `on_one_server()` or `once_per(..)`",
        ),
    ];
    for (event, message) in cases {
        is_refused(event, message);
    }
}

#[test]
fn what_is_said_twice_is_not_lost_silently() {
    let daily = || event("e").daily().on_one_server();
    let (here, there) = (MemoryMutex::new(), MemoryMutex::new());
    let cases: Vec<(Event, &str)> = vec![
        (daily().timezone("+01:00").timezone("UTC"), "timezone"),
        (daily().on_clock_change(ClockChange::Once).on_clock_change(ClockChange::AsCron), "on_clock_change"),
        (daily().timeout(HOUR).timeout(HOUR * 2), "timeout"),
        (daily().without_overlapping_for(HOUR).without_overlapping_for(HOUR * 2), "without_overlapping_for"),
        (daily().without_overlapping().lease_term(HOUR).lease_term(HOUR * 2), "lease_term"),
        (daily().without_overlapping().hold_at_least(HOUR).hold_at_least(HOUR * 2), "hold_at_least"),
        (daily().on_outage(OutagePolicy::Skip).on_outage(OutagePolicy::RunUnprotected), "on_outage"),
        (daily().once_per(Period::Day).once_per(Period::Hour), "once_per"),
        (daily().catch_up(HOUR).catch_up(HOUR * 2), "catch_up"),
        (daily().without_overlapping().mutex_name("a").mutex_name("b"), "mutex_name"),
        (daily().mutex(here.clone()).mutex(there), "mutex"),
    ];
    let command = || Event::exec("e", "true").daily();
    let of_commands = [
        (command().current_dir("/a").current_dir("/b"), "current_dir"),
        (command().output(Output::Discard).output(Output::Inherit), "output"),
        (command().grace(HOUR).grace(HOUR / 2), "grace"),
    ];
    for (event, word) in cases.into_iter().chain(of_commands) {
        let said = Schedule::in_process().add(event).unwrap_err().to_string();
        assert!(said.starts_with(&format!("event `e`: `{word}(..)` is called twice, with ")), "{said}");
    }
    let said = "event `e`: `timezone(..)` is called twice, with `+01:00` and `UTC`: remove one of the two";
    is_refused(daily().timezone("+01:00").timezone("UTC"), said);
    let said = "event `e`: `environments(..)` is called twice: write all names in one call, \
                `environments([\"staging\", \"production\"])`";
    is_refused(daily().environments(["staging"]).environments(["production"]), said);
    let said = "event `e`: it has a `without_overlapping()` or an `at_most(..)`, whose lease is renewed, and a \
                `without_overlapping_for(..)`, whose lease is not: leave one of the two out";
    is_refused(daily().without_overlapping_for(HOUR).without_overlapping(), said);
    is_refused(daily().without_overlapping().without_overlapping_for(HOUR).lease_term(HOUR), said);
    // Shared attributes may be set again.
    let common = |event: Event| {
        event
            .daily()
            .timezone("UTC")
            .without_overlapping()
            .lease_term(HOUR)
            .mutex(here.clone())
            .on_outage(OutagePolicy::Skip)
    };
    Schedule::in_process().add(event("e").apply(common).apply(common)).unwrap();
}

/// Returns the names of the events that are due.
fn due(schedule: &Schedule, time: &str) -> Vec<String> {
    schedule.due(at(time)).map(|name| name.to_string()).collect()
}

#[track_caller]
fn is_refused(event: Event, message: &str) {
    let schedule = Schedule::in_process();
    schedule.add(Event::call("taken", |_| {}).daily()).unwrap();
    assert_eq!(schedule.add(event).unwrap_err().to_string(), message);
    assert_eq!(due(&schedule, "2026-03-01T00:00:00Z"), ["taken"], "nothing else was added");
}

#[test]
fn what_needs_no_extension_is_accepted_by_a_store_that_has_none() {
    let schedule = Schedule::new(can_not_extend());
    schedule.add(event("fixed").daily().without_overlapping_for(HOUR)).unwrap();
    schedule
        .add(event("claimed").daily().on_one_server().timeout(HOUR).on_outage(OutagePolicy::RunUnprotected))
        .unwrap();
    let error = schedule.add(event("renewed").daily().without_overlapping()).unwrap_err();
    assert_eq!(error.kind(), AddErrorKind::Store);
    assert!(error.to_string().contains("no lease is renewed, or held longer than its task"), "{error}");
    schedule.add(event("elsewhere").daily().without_overlapping().mutex(MemoryMutex::new())).unwrap();
}

#[test]
fn the_term_of_a_schedule_is_refused_where_it_is_too_short_to_be_renewed() {
    let schedule = Schedule::in_process().with_lease_term(Duration::from_millis(1));
    let error = schedule.add(event("renewed").daily().without_overlapping()).unwrap_err();
    assert_eq!(error.kind(), AddErrorKind::OutOfRange, "{error}");
    assert!(error.to_string().contains("`Schedule::with_lease_term(1ms)`: use 100ms to ten years"), "{error}");
    schedule.add(event("its own").daily().without_overlapping().lease_term(HOUR)).unwrap();
    schedule.add(event("fixed").daily().without_overlapping_for(Duration::from_millis(1))).unwrap();
}

#[test]
fn the_first_thing_that_is_wrong_is_what_is_said() {
    let wrong = event("e").cron("61 * * * *").timezone("Mars/Olympus").daily_at("25:00");
    let message = Schedule::in_process().add(wrong).unwrap_err().to_string();
    assert!(message.contains("61"), "{message}");
}

#[test]
fn events_run_one_after_another_in_the_order_in_which_they_were_added() {
    let diary = Diary::default();
    let schedule = Schedule::in_process();
    // The zones alternate, so that the order is not that of the timetables in memory.
    for (at, zone) in ["UTC", "+02:00", "UTC", "-05:30", "+02:00"].into_iter().enumerate() {
        let name = format!("event {at}");
        schedule.add(Event::call(name.as_str(), diary.task(&name)).every_minute().timezone(zone)).unwrap();
    }
    let report = schedule.run_due(noon());
    let order = ["event 0", "event 1", "event 2", "event 3", "event 4"];
    assert_eq!(diary.lines(), order);
    assert!(report.entries().iter().map(soloist::Entry::event).eq(order));
}

#[test]
fn a_tick_runs_what_is_due_in_its_minute_and_nothing_else() {
    let schedule = Schedule::in_process();
    schedule
        .add(event("minute").every_minute())
        .unwrap()
        .add(event("quarter").cron("*/15 * * * *"))
        .unwrap()
        .add(event("noon in Berlin").daily_at("12:00").timezone("Europe/Berlin"))
        .unwrap();
    let due = |text| due(&schedule, text);
    assert_eq!(due("2026-03-01T12:01:00Z"), ["minute"]);
    assert_eq!(due("2026-03-01T12:15:59.999Z"), ["minute", "quarter"]);
    assert_eq!(due("2026-03-01T11:00:30Z"), ["minute", "quarter", "noon in Berlin"]);
    assert_eq!(due("2026-07-01T10:00:00Z"), ["minute", "quarter", "noon in Berlin"]);
    let report = schedule.run_due(at("2026-03-01T11:00:30Z"));
    for entry in report.entries() {
        assert_eq!(entry.occurrence(), at("2026-03-01T11:00:00Z"), "the occurrence is the scheduled instant");
    }
}

#[test]
fn what_is_not_due_or_not_protected_or_filtered_asks_the_store_nothing() {
    let store = Scripted::fleet();
    let schedule = Schedule::new(store.clone());
    schedule
        .add(event("not due").daily_at("02:30").without_overlapping().on_one_server())
        .unwrap()
        .add(event("not protected").every_minute())
        .unwrap()
        .add(event("filtered").every_minute().without_overlapping().on_one_server().skip(|_| true))
        .unwrap();
    let report = schedule.run_due(noon());
    assert_eq!(report.entries().len(), 2);
    assert_eq!(store.calls(), 0);

    schedule.add(event("protected").every_minute().without_overlapping().on_one_server()).unwrap();
    let _ = schedule.run_due(noon());
    assert_eq!(store.calls(), 2, "the gate and the release");
    let _ = schedule.run_due(noon());
    assert_eq!(store.calls(), 3, "a loser asks once");
}

#[test]
fn a_task_that_runs_its_own_event_meets_its_own_lease() {
    let dir = tempfile::tempdir().unwrap();
    let stores = [Schedule::in_process(), Schedule::new(soloist::FileMutex::in_dir(dir.path()).unwrap())];
    for schedule in stores {
        let itself = Arc::new(std::sync::OnceLock::<Schedule>::new());
        let (seen, diary) = (Arc::clone(&itself), Diary::default());
        let said = diary.clone();
        let task = move |run: &soloist::Run| {
            let schedule = seen.get().expect("it was put there");
            for name in [run.name(), "beside"] {
                said.note(schedule.run_event(name, noon())?.verdict().to_string());
            }
            Ok(())
        };
        let shared = |event: Event| event.without_overlapping().mutex_name("shared");
        schedule.add(shared(Event::call("e", task).every_minute())).unwrap();
        schedule.add(shared(event("beside").daily_at("02:30"))).unwrap();
        itself.set(schedule.clone()).unwrap();
        let report = schedule.run_due(noon());
        assert!(!report.is_failure(), "{report}");
        let lines = diary.lines();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.starts_with("skipped, still running")), "{lines:?}");
    }
}

#[test]
fn filters_are_asked_in_their_order_until_one_refuses() {
    let diary = Diary::default();
    let filter = |line: &'static str, answer: bool| {
        let diary = diary.clone();
        move |tick: &soloist::time::Tick| {
            diary.note(format!("{line} at {}", tick.local().format("%H:%M")));
            answer
        }
    };
    let schedule = Schedule::in_process();
    let event = event("e").every_minute().timezone("+01:00");
    let event = event.when(filter("when", true)).skip(filter("skip", false)).skip(filter("skip 2", true));
    schedule.add(event.when(filter("never asked", true))).unwrap();
    let report = schedule.run_due(noon());
    assert_eq!(skipped(&report, "e").to_string(), "filtered out by `skip 2 of 2`");
    assert_eq!(diary.lines(), ["when at 13:00", "skip at 13:00", "skip 2 at 13:00"]);
    assert!(!report.is_failure());
    assert_eq!(schedule.event("e").unwrap().conditions(), ["when 1 of 2", "skip 1 of 2", "skip 2 of 2", "when 2 of 2"]);
}

#[test]
fn the_filter_that_refused_is_named() {
    let schedule = Schedule::in_process().with_environment("staging");
    let hourly = |name: &str| event(name).hourly();
    schedule.add(hourly("day").between("8:00", "11:30").environments(["staging", "test"])).unwrap();
    schedule.add(hourly("night").unless_between("11:00", "13:00").when(|_| true)).unwrap();
    schedule.add(hourly("elsewhere").environments(["production"]).skip(|_| panic!("it is not asked"))).unwrap();
    let report = schedule.run_due(noon());
    let said = |name: &str| skipped(&report, name).to_string();
    assert_eq!(said("day"), "filtered out by `between 08:00 and 11:30`");
    assert_eq!(said("night"), "filtered out by `unless_between 11:00 and 13:00`");
    let by_hand = schedule.run_event("elsewhere", noon()).unwrap();
    assert!(by_hand.to_string().ends_with("skipped, filtered out by `environments production`"), "{by_hand}");
    let conditions = |name: &str| schedule.event(name).unwrap().conditions();
    assert_eq!(conditions("day"), ["environments staging, test", "between 08:00 and 11:30"]);
    assert_eq!(conditions("night"), ["unless_between 11:00 and 13:00", "when"]);
    assert_eq!(conditions("elsewhere"), ["environments production", "skip"]);
}

#[test]
fn a_name_that_is_not_there_is_answered_with_the_nearest() {
    let schedule = Schedule::in_process();
    let said = |schedule: &Schedule, name: &str| schedule.run_event(name, noon()).unwrap_err().to_string();
    assert_eq!(said(&schedule, "imprt"), "there is no event `imprt` in the schedule");
    for name in ["import", "db:backup", "a", "b", "c", "d"] {
        schedule.add(event(name).daily()).unwrap();
    }
    assert_eq!(said(&schedule, "imprt"), "there is no event `imprt` in the schedule; did you mean `import`?");
    assert_eq!(said(&schedule, "backup"), "there is no event `backup` in the schedule; did you mean `db:backup`?");
    assert_eq!(
        said(&schedule, "cleanup"),
        "there is no event `cleanup` in the schedule; it has `import`, `db:backup`, `a`, `b` and `c`, and 1 more"
    );
}

#[test]
fn one_run_and_several_at_a_time_exclude_each_other() {
    let at_most = |count| event("e").daily().without_overlapping().at_most(count);
    is_refused(
        at_most(3),
        "event `e`: it has a `without_overlapping()`, which allows one run at a time, and an `at_most(3)`, which allows 3: leave \
         out one of the two",
    );
    Schedule::in_process().add(at_most(1)).unwrap();
}

#[test]
fn a_number_out_of_range_names_its_method_and_the_range() {
    let renewed = || event("e").daily().without_overlapping();
    for (event, said) in [
        (event("e").daily().timeout(Duration::ZERO), "`timeout(0s)`: use 1ms to ten years; for no limit, leave it out"),
        (
            event("e").daily().without_overlapping_for(Duration::ZERO),
            "`without_overlapping_for(0s)`: use 1ms to ten years",
        ),
        (renewed().hold_at_least(Duration::ZERO), "`hold_at_least(0s)`: use 1ms to ten years"),
        (renewed().stuck_after(Duration::ZERO), "`stuck_after(0s)`: use 1ms to ten years; for no limit, leave it out"),
        (renewed().on_overlap(soloist::Overlap::QueueAll(0)), "`Overlap::QueueAll(0)`: use 1 to 100"),
        (
            renewed().on_overlap(soloist::Overlap::QueueOne).within(Duration::from_millis(1500) / 2),
            "`within(750ms)`: use 1s to 1d",
        ),
        (event("e").daily().at_most(0), "`at_most(0)`: use 1 to 100"),
        (
            renewed().lease_term(Duration::from_millis(50)),
            "`lease_term(50ms)`: use 100ms to ten years; a running task renews its lease, and the term is how long a killed process blocks the event",
        ),
    ] {
        is_refused(event, &format!("event `e`: {said}"));
    }
}

#[test]
fn hooks_run_around_the_task_while_the_lease_is_held() {
    let (diary, mutex) = (Diary::default(), MemoryMutex::new());
    let name = MutexName::lease("e").unwrap();
    let note = |line: &'static str| {
        let (diary, mutex, name) = (diary.clone(), mutex.clone(), name.clone());
        move || diary.note(format!("{line}, held: {}", mutex.exists(&name).unwrap()))
    };
    let (before, task, then, success, failure) =
        (note("before"), note("task"), note("then"), note("success"), note("failure"));
    let schedule = Schedule::new(mutex.clone());
    let event = Event::call("e", move |_| task()).every_minute().without_overlapping().before(move |_| before());
    let event = event.then(move |_, _| then()).on_success(move |_, _| success()).on_failure(move |_, _| failure());
    schedule.add(event).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    let order = ["before, held: true", "task, held: true", "then, held: true", "success, held: true"];
    assert_eq!(diary.lines(), order);
    assert!(!mutex.exists(&name).unwrap());
}

#[test]
fn the_run_knows_its_occurrence_lease_and_token() {
    let (sender, runs) = mpsc::channel();
    let schedule = Schedule::in_process();
    let task = move |run: &soloist::Run| Ok(sender.send(run.clone())?);
    schedule.add(Event::call("e", task).every_minute().without_overlapping().on_one_server()).unwrap();
    for minute in ["12:00", "12:01"] {
        let report = schedule.run_due(at(&format!("2026-03-01T{minute}:07Z")));
        assert!(!report.is_failure(), "{report}");
    }
    let runs: Vec<soloist::Run> = runs.try_iter().collect();
    let occurrences: Vec<_> = runs.iter().map(soloist::Run::occurrence).collect();
    assert_eq!(occurrences, [noon(), at("2026-03-01T12:01:00Z")]);
    assert!(runs.iter().all(|run| run.name() == "e" && run.lease().unwrap().name().mutex() == "e"));
    assert!(runs[0].fencing_token() < runs[1].fencing_token(), "tokens rise");
    assert_ne!(runs[0].lease().unwrap().owner(), runs[1].lease().unwrap().owner(), "each run is its own owner");
}

#[test]
fn an_event_that_is_still_at_work_is_not_started_again() {
    let (entered, wait_for_entry) = mpsc::channel();
    let (go_on, wait_to_go_on) = mpsc::channel::<()>();
    let wait_to_go_on = std::sync::Mutex::new(wait_to_go_on);
    let schedule = Schedule::in_process();
    let task = move |_: &soloist::Run| {
        entered.send(()).unwrap();
        wait_to_go_on.lock().unwrap().recv().unwrap();
    };
    schedule.add(Event::call("e", task).every_minute().without_overlapping()).unwrap();
    let schedule = Arc::new(schedule);
    let first = {
        let schedule = Arc::clone(&schedule);
        std::thread::spawn(move || schedule.run_due(noon()))
    };
    wait_for_entry.recv().unwrap();
    let second = schedule.run_due(at("2026-03-01T12:01:00Z"));
    let by_hand = schedule.run_event("e", at("2026-03-01T12:01:00Z")).unwrap();
    go_on.send(()).unwrap();
    let first = first.join().unwrap();

    assert!(ran(&first, "e").is_success());
    let SkipReason::Overlapping(Some(holder)) = skipped(&second, "e") else { panic!("{second}") };
    assert_eq!(holder.pid(), std::process::id());
    assert!(matches!(by_hand.verdict(), Verdict::Skipped(SkipReason::Overlapping(Some(_)))), "{by_hand}");
    assert!(!second.is_failure(), "an overlap is the schedule working as it was told to");
}

#[test]
fn an_occurrence_starts_once_however_many_schedules_tick() {
    let (mutex, diary) = (MemoryMutex::new(), Diary::default());
    let servers: Vec<Schedule> = (0..3)
        .map(|_| {
            let schedule = Schedule::new(mutex.clone());
            schedule.add(Event::call("e", diary.task("ran")).every_minute().on_one_server()).unwrap();
            schedule
        })
        .collect();
    // The second server's clock is behind by less than a minute, the third's is late.
    let reports: Vec<_> = ["12:00:01", "12:00:00", "12:00:59"]
        .iter()
        .zip(&servers)
        .map(|(time, server)| server.run_due(at(&format!("2026-03-01T{time}Z"))))
        .collect();
    assert_eq!(diary.lines(), ["ran"]);
    assert!(ran(&reports[0], "e").is_success());
    for report in &reports[1..] {
        assert!(matches!(skipped(report, "e"), SkipReason::RanElsewhere(Some(_))), "{report}");
    }
    let by_hand = servers[1].run_event("e", noon()).unwrap();
    assert!(matches!(by_hand.verdict(), Verdict::Ran(_)), "by hand no claim is asked for: {by_hand}");
}

#[test]
fn a_server_that_meets_a_running_event_does_not_consume_its_occurrence() {
    let mutex = MemoryMutex::new();
    let request = LeaseRequest::new(MutexName::lease("e").unwrap(), Term::MAX, &Clock::system());
    let running = mutex.create(&request).unwrap().expect("nobody holds it");
    let schedule = Schedule::new(mutex.clone());
    schedule.add(event("e").every_minute().on_one_server().without_overlapping()).unwrap();
    assert!(matches!(skipped(&schedule.run_due(noon()), "e"), SkipReason::Overlapping(_)));
    assert!(mutex.forget(&running).unwrap());
    let report = schedule.run_due(noon());
    assert!(ran(&report, "e").is_success(), "the occurrence was still to be had");
}

#[test]
fn events_that_share_a_mutex_exclude_one_another_and_keep_their_own_occurrences() {
    let schedule = Schedule::in_process();
    let shared = |event: Event| event.every_minute().mutex_name("shared").without_overlapping().on_one_server();
    schedule.add(event("a").apply(shared)).unwrap().add(event("b").apply(shared)).unwrap();
    let report = schedule.run_due(noon());
    assert!(ran(&report, "a").is_success() && ran(&report, "b").is_success(), "one after the other: {report}");
}

#[test]
fn an_event_may_keep_its_mutex_in_a_store_of_its_own() {
    let (own, others) = (Scripted::fleet(), Scripted::fleet());
    let schedule = Schedule::new(others.clone());
    schedule.add(event("e").every_minute().mutex(own.clone()).without_overlapping()).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    assert_eq!((own.calls(), others.calls()), (2, 0));
}

#[test]
fn a_gate_asked_too_late_after_its_tick_began_is_refused() {
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let slow = |clock: &ManualClock, minutes: u64| {
        let clock = clock.clone();
        move |_: &soloist::Run| clock.advance(Duration::from_secs(minutes * 60))
    };
    schedule
        .add(Event::call("9 minutes", slow(&clock, 9)).every_minute())
        .unwrap()
        .add(Event::call("in time", slow(&clock, 2)).every_minute().on_one_server())
        .unwrap()
        .add(event("too late").every_minute().on_one_server())
        .unwrap()
        .add(event("makes no claim").every_minute().without_overlapping())
        .unwrap();
    let report = schedule.run_due(noon());
    assert!(ran(&report, "in time").is_success());
    assert!(matches!(skipped(&report, "too late"), SkipReason::TooLate));
    assert!(ran(&report, "makes no claim").is_success());
    assert!(!report.is_failure());
}

#[test]
fn a_claim_outlives_the_time_in_which_its_occurrence_may_be_asked_for() {
    let clock = ManualClock::at(noon());
    let mutex = MemoryMutex::with_clock(&clock);
    let schedule = Schedule::new(mutex).with_clock(&clock);
    schedule.add(event("e").every_minute().on_one_server()).unwrap();
    assert!(ran(&schedule.run_due(noon()), "e").is_success());
    clock.advance(Duration::from_secs(10 * 60 + 4 * 60));
    assert!(matches!(skipped(&schedule.run_due(noon()), "e"), SkipReason::RanElsewhere(_)));
}

#[test]
fn a_lease_that_ran_out_under_its_task_is_reported_and_its_new_holder_left_alone() {
    let clock = ManualClock::at(noon());
    let mutex = MemoryMutex::with_clock(&clock);
    let name = MutexName::lease("e").unwrap();
    let schedule = Schedule::new(mutex.clone()).with_clock(&clock);
    let task = {
        let (clock, mutex, name) = (clock.clone(), mutex.clone(), name.clone());
        move |_: &soloist::Run| {
            clock.advance(Duration::from_secs(61));
            let request = LeaseRequest::new(name.clone(), Term::MAX, &Clock::from(&clock));
            assert!(mutex.create(&request).unwrap().is_some(), "the lease has expired");
        }
    };
    let event = Event::call("e", task).every_minute().without_overlapping_for(Duration::from_secs(60));
    schedule.add(event).unwrap();
    let report = schedule.run_due(noon());
    assert!(ran(&report, "e").is_success());
    assert!(matches!(ran(&report, "e").release(), Some(soloist::observe::Release::Lost)));
    assert!(report.is_failure(), "a lost lease is a failure");
    assert!(mutex.exists(&name).unwrap(), "the new holder still has it");
}

#[test]
fn a_removed_event_is_gone_and_the_others_keep_their_places() {
    let schedule = Schedule::in_process();
    for name in ["a", "b", "c"] {
        schedule.add(event(name).every_minute()).unwrap();
    }
    assert!(schedule.remove("b"));
    assert!(!schedule.remove("b"));
    assert_eq!(due(&schedule, "2026-03-01T12:00:00Z"), ["a", "c"]);
    assert_eq!(schedule.run_event("c", noon()).unwrap().event(), "c");
    assert_eq!(
        schedule.run_event("b", noon()).unwrap_err().to_string(),
        "there is no event `b` in the schedule; it has `a` and `c`"
    );
    schedule.add(event("b").every_minute()).unwrap();
    assert_eq!(due(&schedule, "2026-03-01T12:00:00Z"), ["a", "c", "b"]);
}

#[test]
fn a_clone_shares_the_events_and_the_store() {
    let schedule = Schedule::in_process();
    schedule.add(event("a").every_minute().on_one_server()).unwrap();
    let clone = schedule.clone();
    clone.add(event("b").every_minute()).unwrap();
    assert_eq!(schedule.due(noon()).count(), 2);
    assert!(ran(&schedule.run_due(noon()), "a").is_success());
    assert!(matches!(skipped(&clone.run_due(noon()), "a"), SkipReason::RanElsewhere(_)), "the store is shared");
}

#[test]
fn an_idle_tick_allocates_nothing() {
    let schedule = Schedule::in_process();
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "+05:45"];
    for (number, zone) in (0..1_000).zip(zones.into_iter().cycle()) {
        schedule.add(event(&format!("e{number}")).daily_at("02:30").timezone(zone).without_overlapping()).unwrap();
    }
    let now = noon();
    let counted = allocation_counter::measure(|| assert!(schedule.run_due(now).entries().is_empty()));
    assert_eq!(counted.count_total, 0);
}

#[test]
fn the_time_of_the_hooks_is_not_the_tasks() {
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let pass = |seconds: u64| {
        let clock = clock.clone();
        move || clock.advance(Duration::from_secs(seconds))
    };
    let (before, task, then) = (pass(1), pass(20), pass(300));
    let event = Event::call("e", move |_| task()).every_minute().before(move |_| before());
    schedule.add(event.then(move |_, _| then())).unwrap();
    assert_eq!(ran(&schedule.run_due(noon()), "e").took(), Duration::from_secs(20));
}

#[test]
fn an_error_that_main_returns_reads_as_its_message() {
    let error = Schedule::in_process().add(event("e").cron("61 * * * *")).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    let error = soloist::FileMutex::in_dir("/proc/nowhere").unwrap_err();
    let said = "could not open the directory /proc/nowhere: it is not there, and could not be made: No such file or directory (os error 2); make it, and give it to this user";
    assert_eq!(format!("{error:?}"), said);
}

#[test]
fn on_a_fleets_store_an_event_is_released_before_the_next_one_runs_or_is_filtered() {
    let (store, diary) = (Scripted::fleet(), Diary::default());
    let holds = {
        let store = store.clone();
        move |event: &str| store.exists(&MutexName::lease(event).unwrap()).unwrap()
    };
    let schedule = Schedule::new(store.clone());
    let protected = |event: Event| event.every_minute().without_overlapping();
    schedule.add(protected(Event::call("first", diary.task("first")))).unwrap();
    let (seen, note) = (holds.clone(), diary.clone());
    let second = Event::call("second", move |_| note.note(format!("first is held: {}", seen("first"))));
    schedule.add(protected(second)).unwrap();
    let (seen, note) = (holds, diary.clone());
    let third = Event::call("third", diary.task("third")).when(move |_| {
        note.note(format!("second is held: {}", seen("second")));
        true
    });
    schedule.add(protected(third)).unwrap();

    let report = schedule.run_due(noon());
    assert_eq!(diary.lines(), ["first", "first is held: false", "second is held: false", "third"]);
    assert!(report.entries().iter().map(soloist::Entry::event).eq(["first", "second", "third"]));
    for event in ["first", "second", "third"] {
        assert!(matches!(ran(&report, event).release(), Some(soloist::observe::Release::Released)), "{event}");
    }
}

#[test]
fn a_release_goes_along_with_the_next_admission_unless_it_would_wait_for_code_of_the_next_event() {
    type Attributes = fn(Event) -> Event;
    let nexts: [(Attributes, usize); 4] = [
        (Event::without_overlapping, 3),
        (|next| next.without_overlapping().when(|_| true), 4),
        (|next| next, 2),
        (|next| next.without_overlapping().mutex(MemoryMutex::new()), 2),
    ];
    for (next, calls) in nexts {
        let memory = MemoryMutex::new();
        let store = Scripted::over(memory.clone());
        let schedule = Schedule::new(store.clone());
        schedule.add(event("first").every_minute().without_overlapping()).unwrap();
        let is_released = move |_: &soloist::Run| match memory.exists(&MutexName::lease("first").unwrap()) {
            Ok(false) => Ok(()),
            other => Err(format!("{other:?}").into()),
        };
        schedule.add(Event::call("next", is_released).every_minute().apply(next)).unwrap();
        let report = schedule.run_due(noon());
        assert!(!report.is_failure(), "{report}");
        assert_eq!(store.calls(), calls);
    }
}

#[test]
fn a_store_ends_with_its_schedule_although_a_lease_was_kept_in_it_a_moment_ago() {
    struct Dropped(Arc<std::sync::atomic::AtomicBool>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    let dropped = Arc::default();
    let part_of_the_store = Dropped(Arc::clone(&dropped));
    let store = Scripted::default().before(move |_| {
        let _ = &part_of_the_store;
        Ok(())
    });
    let schedule = Schedule::new(store);
    schedule.add(event("e").every_minute().without_overlapping()).unwrap();
    ran(&schedule.run_due(noon()), "e");
    drop(schedule);
    // A store may do work on drop, such as releases that it owes, before the process ends.
    assert!(dropped.load(std::sync::atomic::Ordering::SeqCst));
}
