//! Doctored logs of runs.

use super::{Count, Doctored, FINE};
use crate::history::{Logged, written};
use crate::plan::{ALL_RUNS, Kind, Protection};

fn run(minute: u32, pid: u32, token: u64) -> Logged {
    let (event, occurrence) = ("report".into(), written(minute));
    Logged { event, occurrence, pid, token: Some(token), attempts: 1, has_ended: true }
}

fn with_log(kept: usize, logged: Vec<Logged>) -> Doctored {
    let mut doctored = Doctored::of(Protection::Both, FINE);
    doctored.0.log = (kept, logged);
    doctored
}

#[test]
fn a_log_with_all_runs_is_right() {
    let verdict = with_log(ALL_RUNS, vec![run(1, 2, 2), run(0, 1, 1)]).passes();
    assert_eq!((verdict.of(Count::Logged), verdict.of(Count::LoggedForSure)), (2, 2));
    with_log(1, vec![run(1, 2, 2)]).passes();
}

#[test]
fn a_log_that_lacks_a_run_or_its_end_is_wrong_unless_the_store_lost_it_or_was_out_at_the_end() {
    with_log(ALL_RUNS, vec![run(1, 2, 2)]).fails_with("the log lacks the end");
    let unended = Logged { has_ended: false, ..run(0, 1, 1) };
    with_log(ALL_RUNS, vec![run(1, 2, 2), unended.clone()]).fails_with("the log lacks the end");
    with_log(ALL_RUNS, vec![run(1, 2, 2), unended]).killed(1, 60_010).passes();
    let lacks_the_first = || with_log(ALL_RUNS, vec![run(1, 2, 2)]);
    lacks_the_first().with(Kind::ServerEmptied, 30_000, 30_100, None).passes();
    lacks_the_first().with(Kind::Cut, 60_500, 60_700, None).passes();
    lacks_the_first().with(Kind::Cut, 30_000, 30_100, None).fails_with("the log lacks the end");
}

#[test]
fn a_log_with_too_many_runs_or_others_than_there_were_is_wrong() {
    with_log(1, vec![run(1, 2, 2), run(0, 1, 1)]).fails_with("keeps 1");
    for other in [run(1, 1, 2), run(0, 2, 1), run(1, 2, 9)] {
        with_log(10, vec![other]).fails_with("did not tell of");
    }
    with_log(10, vec![run(1, 2, 2), run(1, 2, 2)]).fails_with("2 times");
}
