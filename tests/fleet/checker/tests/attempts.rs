//! Doctored attempts.

use std::time::Duration;

use super::{Count, Doctored, FINE};
use crate::history::{Logged, written};
use crate::plan::{Kind, Protection, Retries};

const RETRIED: &str = "
    1     0 start   0 token 1
    1    50 fails   0 token 1
    1   150 attempt 0 token 1
    2     5 skipped 0 ran_elsewhere by 1
    1   200 end     0 token 1
    1   210 ran     0 says succeeded_in_200_ms_and_2_attempts
    2 60000 start   1 token 2
    1 60005 skipped 1 overlapping by 2
    2 60100 end     1
";

fn retried(old: &str, new: &str) -> Doctored {
    assert!(RETRIED.contains(old), "{old} is not in it");
    let mut doctored = Doctored::of(Protection::Both, &RETRIED.replace(old, new));
    doctored.0.retries = Some(Retries { fails: 1, times: 1, after: Duration::from_millis(100) });
    doctored
}

#[test]
fn attempts_within_their_run_are_right_and_counted() {
    let verdict = retried("1     0 start   0", "1     0 start   0").passes();
    assert_eq!((verdict.of(Count::Retries), verdict.of(Count::WaitsEnded)), (1, 0));
}

#[test]
fn an_attempt_under_another_token_or_one_too_many_is_found() {
    retried("1   150 attempt 0 token 1", "1   150 attempt 0 token 3").fails_with("another token");
    let two = "1 150 attempt 0 token 1\n1 160 fails 0 token 1\n1 170 attempt 0 token 1";
    retried("1   150 attempt 0 token 1", two).fails_with("retried too often");
    Doctored::of(Protection::Both, RETRIED).fails_with("retried too often");
}

#[test]
fn an_attempt_after_another_run_is_found_also_if_its_process_was_stopped() {
    let late =
        || retried("1   150 attempt 0 token 1", "1 60110 attempt 0 token 1").with(Kind::Stopped, 60, 60_105, Some(1));
    late().fails_with("an attempt began when another run had");
}

#[test]
fn a_run_is_over_when_its_last_attempt_has_failed_also_if_its_process_is_killed_before_the_report() {
    let killed = |last: &str| {
        let text = RETRIED.lines().filter(|line| !line.contains(" ran ") && !line.contains("60005"));
        let text = text.collect::<Vec<_>>().join("\n").replace("1   200 end     0", last);
        let mut doctored = Doctored::of(Protection::Both, &text).killed(1, 60_010);
        doctored.0.retries = Some(Retries { fails: 2, times: 1, after: Duration::from_millis(100) });
        doctored
    };
    killed("1   200 fails   0 token 1").passes();
    killed("").fails_with("overlap");
}

#[test]
fn an_attempt_in_a_pause_is_found() {
    let late = || retried("1   150 attempt 0 token 1", "1  1700 attempt 0 token 1");
    late().paused(100, 2000).fails_with("an attempt began during a pause");
}

#[test]
fn a_report_or_a_log_with_another_number_is_found() {
    retried("and_2_attempts", "and_3_attempts").fails_with("the report tells of Some(3) attempts");
    retried("_and_2_attempts", "").fails_with("the report tells of Some(1) attempts");
    let mut doctored = Doctored::of(Protection::Both, FINE);
    let (event, occurrence) = ("report".into(), written(0));
    let logged = Logged { event, occurrence, pid: 1, token: Some(1), attempts: 2, has_ended: true };
    doctored.0.log = (10, vec![logged]);
    doctored.fails_with("the log has 2 attempts");
}

#[test]
fn a_failure_has_its_cause_in_the_number_of_attempts_or_in_the_end_of_the_wait() {
    let failed = |text: &str| {
        retried("210 ran     0 says succeeded_in_200_ms_and_2_attempts", &format!("210 failed 0 says {text}"))
    };
    failed("failed_after_200_ms_and_2_attempts:_it_was_told_to_fail").fails_with("failed without cause");
    let paused = "failed_after_50_ms_and_2_attempts:_it_was_told_to_fail;_not_retried,_because_it_is_paused";
    failed(paused).fails_with("failed without cause");
    failed(paused).paused(190, 195).passes();
}
