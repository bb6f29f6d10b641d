//! `soloist run --retry`: the command runs again under its lease, and its last exit code counts.

use super::*;
use crate::support::{group_lives, number_in};

/// Notes its attempt and its token, and fails in all attempts but this one.
fn succeeds_in(attempt: u32) -> String {
    format!(
        "echo $SOLOIST_ATTEMPT $SOLOIST_TOKEN >>attempts; [ $SOLOIST_ATTEMPT = {attempt} ] || exit $((10 + SOLOIST_ATTEMPT))"
    )
}

#[test]
fn a_command_that_fails_runs_again_under_one_lease() {
    let place = Place::new();
    let answer = succeeds(&mut place.run("-v --log 5 --retry 3 --retry-after 10ms --retry-doubling", &succeeds_in(3)));
    answer.says("and 3 attempts");
    let attempts = place.read("attempts");
    let (numbers, tokens): (Vec<_>, Vec<_>) = attempts.lines().filter_map(|line| line.split_once(' ')).unzip();
    assert_eq!(numbers, ["1", "2", "3"]);
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{attempts}");
    let log = Place::json(&mut place.soloist("log j"));
    let log = &log["runs"];
    assert_eq!(
        (log.as_array().map(Vec::len), &log[0]["attempts"], &log[0]["result"]),
        (Some(1), &3.into(), &"succeeded".into())
    );
    succeeds(&mut place.soloist("log j")).says("succeeded in 3 attempts");
    place.is_free();
}

#[test]
fn the_exit_code_is_that_of_the_last_attempt() {
    let place = Place::new();
    let answer = answer(&mut place.run("-v --retry 2 --retry-after 10ms", &succeeds_in(9)));
    assert_eq!(answer.code, Some(13), "{answer:?}");
    answer.says("exited with 13 after").says("and 3 attempts");
}

#[test]
fn a_retry_may_wait_for_longer_than_a_minute_unless_the_next_time_comes_first() {
    let place = Place::new();
    let (now, times) = ("2026-03-01T12:00:07Z", "--retry 2 --retry-after 90s");
    let answer = answer(&mut place.cron_line("*/2 * * * *", now, "-v --retry 2 --retry-after 119s", "exit 3"));
    assert_eq!(answer.code, Some(3));
    answer.says("not retried, because its next occurrence comes first");
    // A signal ends the wait.
    let running = start(&mut place.run(&format!("-v {times}"), "echo $$ >pid; exit 3"));
    let command = number_in(&place.path("pid"));
    until(|| !group_lives(command)).expect("it ends");
    until(|| place.holder().is_some()).expect("it waits under its lease");
    running.signal("TERM");
    let ended = running.ended();
    assert_eq!(ended.signal, Some(SIGTERM), "{ended:?}");
    ended.says("not retried, because the process is shutting down");
    place.is_free();
}

/// Ends the command as Ctrl-C does on a terminal that the command has taken from its scheduler.
#[test]
fn a_command_that_ctrl_c_ended_does_not_run_again() {
    let place = Place::new();
    let answer = answer(&mut place.run("--retry 3 --retry-after 10ms", "echo once >>attempts; kill -s INT $$"));
    assert_eq!((answer.signal, &*place.read("attempts")), (Some(signal_hook::consts::SIGINT), "once\n"), "{answer:?}");
    place.is_free();
}

#[test]
fn wrong_retries_are_usage_errors_that_name_the_option() {
    let place = Place::new();
    for (options, why) in [
        ("--retry 0 --retry-after 1s", "write a whole number from 1 to 1000"),
        ("--retry 3", "--retry-after <TIME>"),
        ("--retry-after 3s", "--retry <N>"),
        ("--retry 3 --retry-after 0s", "`--retry-after 0s`: use 1ms to ten years"),
        ("--retry 3 --retry-after 5s --timeout 5s", "`--timeout 5s` counts for all attempts"),
    ] {
        let answer = answer(&mut place.run(options, "true"));
        assert_eq!(answer.code, Some(64), "{options}: {answer:?}");
        answer.says(why);
    }
    let answer =
        answer(&mut place.cron_line("* * * * *", "2026-03-01T12:00:07Z", "--retry 1 --retry-after 90s", "true"));
    assert_eq!(answer.code, Some(64), "{answer:?}");
    answer.says("`--retry-after 90s`: no retry could ever begin, because its next occurrence comes first");
}
