//! No attempt begins after the next occurrence, outside of the window, after the end of the event, or after its timeout.

use super::*;
use crate::support::skipped;

/// Ticks at noon with an event that always fails; when its attempts begin, and why the last one was not retried.
fn attempts(event: impl FnOnce(Event) -> Event) -> (Vec<i64>, Option<NoRetry>) {
    let clock = ManualClock::at(noon());
    let (diary, shown) = (Diary::default(), Clock::from(&clock));
    let noted = diary.clone();
    let task = move |run: &Run| -> TaskResult {
        noted.note((shown.now() - run.occurrence()).num_seconds().to_string());
        fails(run)
    };
    let report = tick(&clock, event(Event::call("import", task)));
    let seconds = diary.lines().iter().map(|line| line.parse().expect("a number")).collect::<Vec<i64>>();
    let outcome = ran(&report, "import");
    assert_eq!(outcome.attempts() as usize, seconds.len(), "{report}");
    assert_eq!(outcome.no_retry().is_some(), report.to_string().contains("; not retried, because "), "{report}");
    (seconds, outcome.no_retry())
}

#[test]
fn attempts_are_as_many_and_as_far_apart_as_was_said() {
    let retry = |retry: Retry| attempts(|event| event.hourly().retry(retry));
    assert_eq!(retry(Retry::times(3).after(10 * SECOND)), (vec![0, 10, 20, 30], None));
    assert_eq!(retry(Retry::times(3).after(10 * SECOND).doubling()), (vec![0, 10, 30, 70], None));
}

#[test]
fn none_begins_at_the_next_occurrence_or_later() {
    let every_minute = |delay| attempts(|event| event.every_minute().retry(Retry::times(9).after(delay)));
    assert_eq!(every_minute(25 * SECOND), (vec![0, 25, 50], Some(NoRetry::NextOccurrence)));
    assert_eq!(every_minute(20 * SECOND), (vec![0, 20, 40], Some(NoRetry::NextOccurrence)), "60 is the next one's");
    assert_eq!(every_minute(59 * SECOND), (vec![0, 59], Some(NoRetry::NextOccurrence)));
}

#[test]
fn none_begins_at_the_next_start_which_a_jitter_has_moved() {
    let clock = ManualClock::at(noon());
    let schedule = Schedule::new(MemoryMutex::with_clock(&clock)).with_clock(&clock);
    let event = Event::call("import", fails).hourly().jitter(3_000 * SECOND).retry(Retry::times(99).after(60 * SECOND));
    schedule.add(event).expect("it is right");
    let start_of = |occurrence| schedule.event("import").expect("it was added").start_of(occurrence);
    let [first, next] = [noon(), noon() + chrono::TimeDelta::hours(1)].map(start_of);
    assert!(next > noon() + chrono::TimeDelta::minutes(62), "its occurrence comes earlier: {next}");
    // The tick of the minute after the start.
    let now = noon() + chrono::TimeDelta::minutes((first - noon()).num_minutes() + 1);
    clock.advance((now - noon()).to_std().expect("it is later"));
    let report = skipping_waits(&clock, schedule, |schedule| schedule.run_due(now));
    let outcome = ran(&report, "import");
    assert_eq!(outcome.no_retry(), Some(NoRetry::NextOccurrence));
    // An attempt begins in each minute before the next start.
    let minutes = (next - now - chrono::TimeDelta::seconds(1)).num_minutes() + 1;
    assert_eq!(i64::from(outcome.attempts()), minutes, "{report}");
}

#[test]
fn none_begins_outside_of_the_window() {
    let retry = || Retry::times(9).after(40 * SECOND);
    let until_12_01 = attempts(|event| event.daily_at("12:00").between("08:00", "12:01").retry(retry()));
    assert_eq!(until_12_01, (vec![0, 40, 80], Some(NoRetry::OutsideWindow)), "its last minute is a part of it");
    let but_12_02 = attempts(|event| event.daily_at("12:00").unless_between("12:02", "12:30").retry(retry()));
    assert_eq!(but_12_02, (vec![0, 40, 80], Some(NoRetry::OutsideWindow)));
}

#[test]
fn none_begins_when_the_event_is_over() {
    let until = noon() + chrono::TimeDelta::seconds(60);
    let over = attempts(|event| event.hourly().until(until).retry(Retry::times(9).after(30 * SECOND)));
    assert_eq!(over, (vec![0, 30], Some(NoRetry::Over)));
}

#[test]
fn none_begins_after_the_timeout_which_is_that_of_the_whole_run() {
    let timed = attempts(|event| event.hourly().timeout(50 * SECOND).retry(Retry::times(9).after(20 * SECOND)));
    assert_eq!(timed, (vec![0, 20, 40], Some(NoRetry::TimedOut)));
}

#[test]
fn none_begins_when_a_fixed_term_is_over() {
    let fixed = |event: Event| event.hourly().without_overlapping_for(50 * SECOND);
    let leased = attempts(|event| fixed(event).retry(Retry::times(9).after(20 * SECOND)));
    assert_eq!(leased, (vec![0, 20, 40], Some(NoRetry::LeaseOver)));
}

#[test]
fn a_missed_occurrence_is_retried_until_the_occurrence_after_its_tick() {
    let (clock, diary) = (ManualClock::at(noon()), Diary::default());
    let shown = Clock::from(&clock);
    let noted = diary.clone();
    let task = move |run: &Run| -> TaskResult {
        noted.note(format!("{} {}", run.occurrence().format("%H:%M"), shown.now().format("%H:%M:%S")));
        fails(run)
    };
    let event = Event::call("import", task).hourly().on_one_server().catch_up(FOREVER);
    let event = event.retry(Retry::times(9).after(20 * 60 * SECOND));
    let store = MemoryMutex::with_clock(&clock);
    let schedule = Schedule::new(store.clone());
    schedule.add(Event::call("import", |_| {}).hourly().on_one_server().catch_up(FOREVER)).expect("it is right");
    assert!(!schedule.run_due(noon()).is_failure());
    clock.advance(95 * 60 * SECOND); // nobody ran that of 13:00
    let late = Schedule::new(store);
    late.add(event).expect("it is right");
    let report = skipping_waits(&clock, late, |schedule| schedule.run_due(clock.now()));
    assert_eq!(ran(&report, "import").no_retry(), Some(NoRetry::NextOccurrence), "{report}");
    assert_eq!(diary.lines(), ["13:00 13:35:00", "13:00 13:55:00"]);
}

/// Leaves the occurrence of a command that does not exist to another server, unless an attempt of it was made.
#[cfg(unix)]
#[test]
fn an_attempt_that_could_not_be_started_leaves_its_occurrence_to_nobody() {
    let (clock, directory) = (ManualClock::at(noon()), tempfile::tempdir().expect("a temporary directory"));
    let program = directory.path().join("once");
    // Another process writes the script: no other command that is started meanwhile has it open.
    let write = r#"printf '#!/bin/sh\nrm "$0"; exit 1\n' >"$0" && chmod 700 "$0""#;
    let written = std::process::Command::new("sh").args(["-c", write]).arg(&program).status();
    assert!(written.expect("there is a shell").success());
    let store = MemoryMutex::with_clock(&clock);
    let protected = |event: Event| event.hourly().without_overlapping().on_one_server();
    let event = protected(Event::command("import", &program, [""; 0])).retry(Retry::times(3).after(SECOND));
    let report = tick_with(&clock, Schedule::new(store.clone()), event);
    let outcome = ran(&report, "import");
    assert!(outcome.attempts() == 2 && outcome.to_string().contains("could not start"), "{report}");
    let other = Schedule::new(store);
    other.add(protected(Event::call("import", |_| {}))).expect("it is right");
    assert_eq!(skipped(&other.run_due(noon()), "import").keyword(), "ran_elsewhere");
}

/// Moves the wall clock by hours while the run waits: deadlines count on a clock that never steps.
#[test]
fn a_clock_that_is_set_forward_brings_the_next_occurrence_nearer_and_one_that_is_set_back_moves_it_no_further() {
    let attempts_after = |set: fn(DateTime<Utc>) -> DateTime<Utc>| {
        let clock = ManualClock::at(noon());
        let moved = clock.clone();
        let task = move |run: &Run| -> TaskResult {
            if run.attempt() == 1 {
                moved.set(set(moved.now()));
            }
            fails(run)
        };
        let event = Event::call("import", task).hourly().retry(Retry::times(9).after(25 * 60 * SECOND));
        let outcome = ran(&tick(&clock, event), "import").clone();
        (outcome.attempts(), outcome.no_retry())
    };
    assert_eq!(attempts_after(|now| now), (3, Some(NoRetry::NextOccurrence)));
    assert_eq!(attempts_after(|now| now + chrono::TimeDelta::minutes(50)), (1, Some(NoRetry::NextOccurrence)));
    assert_eq!(attempts_after(|now| now - chrono::TimeDelta::hours(5)), (3, Some(NoRetry::NextOccurrence)));
}

#[test]
fn a_task_that_did_not_end_by_itself_is_not_retried() {
    let once = |event: Event| {
        let clock = ManualClock::at(noon());
        let outcome = ran(&tick(&clock, event.hourly().retry(Retry::times(3).after(SECOND))), "import").clone();
        assert_eq!((outcome.attempts(), outcome.no_retry()), (1, None), "{outcome}");
        outcome
    };
    assert!(once(Event::call("import", |_| {})).is_success());
    // Its timeout is over when it fails.
    let late = |run: &Run| {
        assert!(run.wait_cancelled(PATIENCE).is_some());
        fails(run)
    };
    let clock = ManualClock::at(noon());
    let event = Event::call("import", late).hourly().timeout(5 * SECOND).retry(Retry::times(3).after(SECOND));
    let store = MemoryMutex::with_clock(&clock);
    let schedule = Schedule::new(store);
    schedule.add(event).expect("it is right");
    thread::scope(|scope| {
        let report = scope.spawn(|| schedule.run_due(noon()));
        until(|| schedule.status().events[0].running.len() == 1).expect("it starts");
        while !report.is_finished() {
            clock.advance(SECOND);
        }
        let report = report.join().expect("it ends");
        assert_eq!((ran(&report, "import").kind(), ran(&report, "import").attempts()), (OutcomeKind::TimedOut, 1));
    });
    #[cfg(unix)]
    {
        let missing = once(Event::command("import", "/no/such/program", [""; 0]));
        assert!(missing.to_string().contains("could not start"), "{missing}");
    }
}
