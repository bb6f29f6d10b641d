//! The text of a report, and the exit of a process that returns one.

use std::process::Command;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use soloist::store::{Holder, LeaseRequest};
use soloist::testing::TestStore;
use soloist::time::{Clock, ManualClock};
use soloist::{Entry, Event, EventMutex, MemoryMutex, MutexName, Report, RunOutcome, Schedule, SkipReason, Term};

use crate::support::{Unspeakable, at, noon};

fn report(clock: &ManualClock) -> Report {
    let clock = clock.clone();
    let slow = {
        let clock = clock.clone();
        move |_: &soloist::Run| clock.advance(std::time::Duration::from_millis(1_250))
    };
    let mutex = MemoryMutex::with_clock(&clock);
    let held = LeaseRequest::new(MutexName::lease("held").unwrap(), Term::MAX, &Clock::from(&clock));
    mutex.create(&held).unwrap().expect("nobody holds it");
    let schedule = Schedule::new(mutex).with_clock(&clock);
    schedule
        .add(Event::call("reports:generate", slow).every_minute().without_overlapping())
        .unwrap()
        .add(Event::call("held", |_| {}).every_minute().timezone("Europe/Berlin").without_overlapping())
        .unwrap()
        .add(Event::call("broken", |_| Err("no paper\nand no ink".into())).every_minute().timezone("+05:45"))
        .unwrap()
        .add(Event::call("odd\u{a0}name", |_| {}).every_minute().skip(|_| true))
        .unwrap();
    schedule.run_due(noon())
}

#[test]
fn a_report_is_a_table_for_a_terminal() {
    let text = report(&ManualClock::at(noon())).to_string();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux says what it is called");
    let holder = format!("{}, pid {}, since 2026-03-01 12:00:00 UTC", host.trim(), std::process::id());
    let expected = [
        "2026-03-01 12:00:00 UTC: 4 due, 2 ran, 2 skipped, 1 failed",
        "  reports:generate  2026-03-01 12:00:00 UTC  succeeded in 1.2 s",
        &format!("  held              2026-03-01 12:00:00 UTC  skipped, still running: {holder}"),
        "  broken            2026-03-01 12:00:00 UTC  failed after 0 µs: no paper",
        "                                             and no ink",
        "  `odd\\u{a0}name`   2026-03-01 12:00:00 UTC  skipped, filtered out by `skip`",
    ];
    assert_eq!(text, expected.join("\n"));
}

#[test]
fn an_event_that_waited_for_others_says_how_late_it_started() {
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let takes = |seconds| {
        let clock = clock.clone();
        move |_: &soloist::Run| clock.advance(Duration::from_secs(seconds))
    };
    schedule
        .add(Event::call("first", takes(59)).every_minute())
        .unwrap()
        .add(Event::call("second", takes(31)).every_minute())
        .unwrap()
        .add(Event::call("third", |_| {}).every_minute().on_one_server())
        .unwrap()
        .add(Event::call("fourth", |_| Err("no paper".into())).every_minute())
        .unwrap();
    let report = schedule.run_due(noon());
    let said: Vec<String> = report.entries().iter().map(|entry| entry.verdict().to_string()).collect();
    let expected = [
        "succeeded in 59.0 s",
        "succeeded in 31.0 s",
        "succeeded in 0 µs, but started 1 min 30 s late",
        "failed after 0 µs: no paper; started 1 min 30 s late",
    ];
    assert_eq!(said, expected);
    let late = |event| report.outcome(event).and_then(RunOutcome::started_late);
    assert_eq!((late("second"), late("third")), (None, Some(Duration::from_secs(90))));
}

#[test]
fn a_skip_fails_if_the_run_that_it_meets_has_been_running_for_longer_than_it_may() {
    let clock = ManualClock::at(noon());
    let store = TestStore::new(&clock);
    let schedule = Schedule::new(store.clone());
    let hour = Duration::from_secs(3600);
    schedule
        .add(Event::call("limited", |_| {}).every_minute().without_overlapping().stuck_after(hour))
        .unwrap()
        .add(Event::call("free", |_| {}).every_minute().without_overlapping())
        .unwrap();
    let elsewhere = ["limited", "free"].map(|event| store.run_elsewhere(event).unwrap());
    clock.advance(hour);
    let report = schedule.run_due(clock.now());
    assert!(matches!(report.skip_reason("limited"), Some(SkipReason::Overlapping(Some(_)))) && !report.is_failure());
    clock.advance(Duration::from_millis(500));
    let report = schedule.run_due(clock.now());
    assert_eq!(report.failures().map(Entry::event).collect::<Vec<_>>(), ["limited"]);
    let stuck = report.skip_reason("limited").expect("it was skipped");
    assert_eq!((stuck.keyword(), stuck.holder().map(Holder::pid)), ("stuck", Some(std::process::id())));
    assert!(stuck.to_string().starts_with("still running after 1 h 0 min: "), "{stuck}");
    assert!(schedule.run_event("limited", clock.now()).unwrap().is_failure(), "by hand, too");
    drop(elsewhere);
    assert!(!schedule.run_due(clock.now()).is_failure());

    let refused = |event: Event| Schedule::in_process().add(event.every_minute()).unwrap_err().to_string();
    assert_eq!(
        refused(Event::call("e", |_| {}).on_one_server().stuck_after(hour)),
        "event `e`: it has a `stuck_after(..)`, but no lease: add `without_overlapping()`"
    );
    assert_eq!(
        refused(Event::call("e", |_| {}).without_overlapping().stuck_after(Duration::ZERO)),
        "event `e`: `stuck_after(0s)`: use 1ms to ten years; for no limit, leave it out"
    );
}

#[test]
fn reports_that_say_the_same_are_equal() {
    let report = |message: &'static str| {
        let clock = ManualClock::at(noon());
        let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
        schedule
            .add(Event::call("broken", move |_| Err(message.into())).every_minute().without_overlapping())
            .unwrap()
            .add(Event::call("filtered", |_| {}).every_minute().skip(|_| true))
            .unwrap();
        schedule.run_due(noon())
    };
    assert_eq!(report("no paper"), report("no paper"));
    assert_ne!(report("no paper"), report("no ink"));
    assert_eq!(report("no paper").skip_reason("filtered"), Some(&SkipReason::Filtered("skip".into())));
}

#[test]
fn a_tick_in_which_nothing_was_due_is_one_line() {
    let report = Schedule::in_process().run_due(at("2026-03-01T12:00:09Z"));
    assert_eq!(report.to_string(), "2026-03-01 12:00:09 UTC: 0 due, 0 ran, 0 skipped, 0 failed");
}

#[test]
fn one_entry_reads_as_one_line() {
    let schedule = Schedule::in_process();
    schedule.add(Event::call("e", |_| {}).every_minute().when(|_| false)).unwrap();
    let entry = schedule.run_event("e", DateTime::UNIX_EPOCH + TimeDelta::seconds(7)).unwrap();
    assert_eq!(entry.to_string(), "e  1970-01-01 00:00:07 UTC  skipped, filtered out by `when`");
}

/// The role that the next test gives to a copy of this program.
const ROLE: &str = "SOLOIST_TEST_MAIN";

#[test]
fn a_main_that_returns_a_report() {
    use std::process::Termination;

    match std::env::var(ROLE).as_deref() {
        Ok("fails") => std::process::exit(code(report(&ManualClock::at(noon())).report())),
        Ok("can't be shown") => std::process::exit(code(unspeakable().report())),
        Ok("is well") => std::process::exit(code(Schedule::in_process().run_due(noon()).report())),
        _ => {}
    }
    for (role, status, stderr) in [
        (
            "fails",
            1,
            "  broken  2026-03-01 12:00:00 UTC  failed after 0 µs: no paper\n                                   and no ink\n",
        ),
        ("is well", 0, ""),
    ] {
        let output = main_in(role).output().expect("it runs");
        assert_eq!(output.status.code(), Some(status));
        assert_eq!(String::from_utf8_lossy(&output.stderr), stderr, "failures, and only those");
    }
}

/// Returns the program whose `main` returns a report.
fn main_in(role: &str) -> Command {
    let mut main = Command::new(std::env::current_exe().expect("a running program has a path"));
    main.args(["--exact", "report::a_main_that_returns_a_report", "--nocapture"]).env(ROLE, role);
    main
}

/// Returns a report with an error that panics when it is shown.
fn unspeakable() -> Report {
    let schedule = Schedule::in_process();
    schedule
        .add(Event::call("a", |_| Err(Unspeakable.into())).every_minute())
        .unwrap()
        .add(Event::call("b", |_| Err("no paper".into())).every_minute())
        .unwrap();
    schedule.run_due(noon())
}

#[test]
fn an_error_that_cannot_be_shown_keeps_no_other_from_it() {
    let output = main_in("can't be shown").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said: Vec<&str> = said.lines().filter(|line| line.starts_with("  a  ") || line.starts_with("  b  ")).collect();
    assert_eq!(said.len(), 2, "one line for each: {said:?}");
    assert_eq!(
        said[0],
        "  a  2026-03-01 12:00:00 UTC  its result cannot be shown: formatting an error panicked: no words for it"
    );
    assert!(said[1].starts_with("  b  ") && said[1].ends_with(": no paper"), "{said:?}");
}

#[test]
#[cfg(unix)]
fn a_failure_that_nobody_can_read_of_is_a_failure_and_no_panic() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("Linux has one");
    // The reading end is dropped at once.
    let broken = || std::io::pipe().expect("there are pipes").1;
    for (role, status) in [("fails", 1), ("can't be shown", 1), ("is well", 0)] {
        for (what, mut main) in [
            ("full", {
                let mut main = main_in(role);
                main.stderr(full());
                main
            }),
            ("broken", {
                let mut main = main_in(role);
                main.stderr(broken());
                main
            }),
            ("closed", {
                let mut shell = Command::new("sh");
                shell.args(["-c", "exec \"$0\" \"$@\" 2>&-"]).arg(main_in(role).get_program());
                shell.args(main_in(role).get_args()).env(ROLE, role);
                shell
            }),
        ] {
            let ended = main.stdout(std::process::Stdio::null()).status().expect("it runs");
            assert_eq!(ended.code(), Some(status), "{role}, standard error is {what}");
        }
    }
}

/// Returns the number of an exit code, which can only be compared.
fn code(code: std::process::ExitCode) -> i32 {
    i32::from(format!("{code:?}") != format!("{:?}", std::process::ExitCode::SUCCESS))
}
