//! The command `backfill`: it shows, asks, runs, and says what became of it.

use std::thread;

use super::embedded::instead_of_sleep;
use super::terminal::{CTRL_C, Person};
use super::*;

/// Five minutes of a day that is long past.
const FIVE: &str = "--from 2025-03-02T10:00 --to 2025-03-02T10:05";

#[test]
fn a_range_is_shown_first_then_run_and_is_on_record_as_a_backfill() {
    let place = Place::new();
    let quick = instead_of_sleep(&place, "echo $SOLOIST_OCCURRENCE >>log");
    let words = |more: &str| format!("backfill carts:remind {FIVE} {more}");
    let shown = succeeds(quick(&mut place.schedule(&words("--dry-run")))).printed;
    assert!(
        shown.starts_with("carts:remind: 5 occurrences to run, oldest first\n  2025-03-02 10:00:00 UTC\n"),
        "{shown}"
    );
    assert_eq!(place.read("log"), "");

    let ran = succeeds(quick(&mut place.schedule(&words("--yes --most 3")))).printed;
    assert!(ran.starts_with("carts:remind: 3 occurrences to run"), "{ran}");
    assert!(ran.contains("left out: 2 before 2025-03-02 10:02:00 UTC, because"), "{ran}");
    assert!(ran.contains("\nCtrl-C ends the backfill; the current run then has 20s to end\n"), "{ran}");
    assert!(ran.contains(" UTC carts:remind for 2025-03-02 10:02:00 UTC: started under token "), "{ran}");
    assert!(ran.ends_with("\n3 of 3 ran\n"), "{ran}");
    let occurrences =
        |minutes: &[&str]| minutes.iter().flat_map(|it| ["2025-03-02T10:", it, ":00Z\n"]).collect::<String>();
    assert_eq!(place.read("log"), occurrences(&["02", "03", "04"]));

    succeeds(quick(&mut place.schedule(&words("-y"))));
    assert_eq!(place.read("log"), occurrences(&["02", "03", "04", "00", "01"]));
    let nothing = succeeds(quick(&mut place.schedule(&words("-y")))).printed;
    assert!(nothing.starts_with("carts:remind: 0 occurrences to run") && !nothing.contains(" ran\n"), "{nothing}");
    succeeds(quick(&mut place.schedule(&words("-y --again fix --most 1"))));
    assert_eq!(place.read("log"), occurrences(&["02", "03", "04", "00", "01", "04"]));

    let log = Place::json(&mut place.schedule("log carts:remind"));
    let runs = log["runs"].as_array().expect("a list");
    assert!(runs.len() == 6 && runs.iter().all(|run| run["is_backfill"] == true), "{log}");
    let table = succeeds(&mut place.schedule("log carts:remind")).printed;
    assert!(table.contains("succeeded, backfill of 2025-03-02 10:04:00 UTC"), "{table}");
    succeeds(&mut place.schedule("status")).says("succeeded, backfill of 2025-03-02 10:04:00 UTC on ");
}

#[test]
fn a_failure_and_a_skip_have_the_exit_code_of_one_run() {
    let place = Place::new();
    // A Monday.
    let failed = "backfill -y prices:import --from 2025-03-03T10:00 --to 2025-03-03T10:15";
    let answered = answer(&mut place.schedule(failed)).exits_with(1).printed;
    assert!(answered.contains("failed after ") && answered.contains("the supplier is out"), "{answered}");
    assert!(answered.ends_with("\n3 of 3 ran, 3 of them failed\n"), "{answered}");
    succeeds(&mut place.schedule("pause carts:remind"));
    let paused = answer(&mut place.schedule(&format!("backfill -y carts:remind {FIVE}"))).exits_with(1).printed;
    assert!(paused.contains("skipped, paused by ") && paused.ends_with("\n0 of 5 ran, 5 did not run\n"), "{paused}");
}

#[test]
fn the_question_is_answered_on_a_terminal_and_nowhere_else() {
    let place = Place::new();
    let quick = instead_of_sleep(&place, "echo $SOLOIST_OCCURRENCE >>log");
    let silent = answer(quick(&mut place.schedule(&format!("backfill carts:remind {FIVE}")))).exits_with(2);
    assert_eq!(
        silent.errors,
        "soloist: nothing was run: `--yes` runs them without a question, `--dry-run` only lists them\n"
    );
    let program = example("schedule_cli").display().to_string();
    let line = format!("PATH={}:$PATH {program} backfill carts:remind {FIVE}", place.path("bin").display());
    for (answer, code, runs) in [("n\n", 1, 0), ("\n", 1, 0), ("y\n", 0, 5)] {
        let mut person = Person::at(&place, &format!("{line}; echo code $?"));
        person.types(answer);
        let seen = person.has_seen();
        assert!(seen.contains("run them? [y/N] ") && seen.contains(&format!("code {code}\n")), "{seen}");
        assert_eq!(place.read("log").lines().count(), runs, "{seen}");
    }
    let mut person = Person::at(&place, &format!("trap : INT; {line} --again a; echo code $?"));
    place.until_shown("run them? [y/N] ");
    person.types(CTRL_C);
    let seen = person.has_seen();
    assert!(seen.contains("code 130\n") && !seen.contains(" ran\n"), "{seen}");
}

#[test]
fn a_signal_ends_it_after_the_present_run_and_the_rest_is_left() {
    let place = Place::new();
    let slow = instead_of_sleep(
        &place,
        "echo $SOLOIST_OCCURRENCE >>log; touch begun; until [ -e go ]; do /bin/sleep 0.05; done",
    );
    let at_work = start(slow(&mut place.schedule(&format!("backfill -y carts:remind {FIVE}"))));
    place.wait_for("begun");
    at_work.signal("INT");
    thread::sleep(Duration::from_secs(3)); // it hears of the signal by then
    place.touch("go");
    let ended = at_work.ended();
    assert_eq!(ended.signal, Some(SIGINT), "{ended:?}");
    assert!(ended.printed.ends_with("\n1 of 5 ran, 4 did not run\n"), "{ended:?}");
    let left = succeeds(&mut place.schedule(&format!("backfill --dry-run carts:remind {FIVE}"))).printed;
    assert!(
        left.starts_with("carts:remind: 4 occurrences to run, oldest first\n  2025-03-02 10:01:00 UTC\n"),
        "{left}"
    );
}

#[test]
fn dates_are_read_on_the_clocks_of_the_event_and_shown_in_utc() {
    let place = Place::new();
    let shown = |words: &str| succeeds(&mut place.schedule(&format!("backfill --dry-run db:backup {words}"))).printed;
    let days = shown("--from 2025-07-01 --to 2025-07-03");
    assert!(days.contains("\n  2025-07-01 00:30:00 UTC\n  2025-07-02 00:30:00 UTC"), "{days}");
    let none = shown("--from 2025-07-01T00:31:00Z --to 2025-07-01T12:00:00Z");
    assert!(none.starts_with("db:backup is not due from 2025-07-01 00:31:00 UTC until "), "{none}");
    assert!(none.ends_with("it is due daily at 02:30, Europe/Berlin, and next at 2025-07-02 00:30:00 UTC\n"), "{none}");
}
