//! What waits for its turn.

use super::{Count, Doctored, Protection, Why};
use crate::plan::Kind;

/// The first runs for so long; the second waits, and starts at this time; the first comes with its occurrence, too.
fn waits(ends: u64, starts: u64) -> Doctored {
    let text = format!(
        "1     0 start   0 token 1
         2     5 skipped 0 ran_elsewhere by 1
         1 {ends} end 0
         2 {starts} start 1 token 2
         1 {} skipped 1 queued by 2
         2 {} end 1",
        ends + 1,
        starts + 10
    );
    queues(&text)
}

fn queues(text: &str) -> Doctored {
    let mut doctored = Doctored::of(Protection::Both, text);
    doctored.0.queue = 1;
    doctored
}

#[test]
fn what_waits_starts_within_a_term_and_two_seconds() {
    let verdict = waits(100, 5000).passes();
    assert_eq!(verdict.of(Count::Queued), 1);
    waits(100, 7000).fails_with("it waited for 6.9s although nobody ran");
    waits(100, 7000).with(Kind::ServerStopped, 4000, 4100, None).passes();
}

/// Nobody starts the second minute, in which the second waits.
fn in_vain(what_became_of_it: &str) -> Doctored {
    queues(&format!(
        "1     0 start   0 token 1
         2     5 skipped 0 ran_elsewhere by 1
         1   100 end 0
         1   101 skipped 1 queued by 2
         {what_became_of_it}"
    ))
}

#[test]
fn what_waits_in_vain_has_its_reason() {
    in_vain("2 9000 skipped 1 queued_too_long by 1").fails_with("started nowhere");
    in_vain("").killed(2, 500).loses(Why::Killed);
    let cut_off = in_vain("2 9000 skipped 1 store_unavailable").with(Kind::ServerStopped, 200, 8000, None);
    cut_off.loses(Why::CutOff);
}

#[test]
fn whoever_finds_a_queue_has_met_somebody_in_it() {
    let alone = "
        1     0 start   0 token 1
        2     5 skipped 0 ran_elsewhere by 1
        1   100 end     0
        1 60000 start   1 token 2
        1 60100 end     1
        2 60005 skipped 1 queue_full by 7";
    queues(alone).fails_with("skipped report of");
    Doctored::of(Protection::Both, &alone.replace("by 7", "by 1")).fails_with("skipped report of");
}
