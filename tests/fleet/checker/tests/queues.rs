//! Waiters in a queue.

use super::{Count, Doctored, Protection, Why};
use crate::plan::{Kind, OnOverlap};

/// Makes a history: the first worker's run ends at `ends`, while the second waits and starts at `starts`. The
/// first worker also skips the second's occurrence.
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
    doctored.0.on_overlap = OnOverlap::Queue(1);
    doctored
}

#[test]
fn what_waits_starts_within_a_term_and_two_seconds() {
    let verdict = waits(100, 5000).passes();
    assert_eq!(verdict.of(Count::Queued), 1);
    waits(100, 7000).fails_with("it waited for 6.9s although nobody ran");
    waits(100, 7000).with(Kind::ServerStopped, 4000, 4100, None).passes();
}

/// Makes a history: the second worker waits for the second minute, which starts nowhere.
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
fn a_full_queue_names_a_run_or_nobody() {
    let alone = "
        1     0 start   0 token 1
        2     5 skipped 0 ran_elsewhere by 1
        1   100 end     0
        1 60000 start   1 token 2
        1 60100 end     1
        2 60005 skipped 1 queue_full by 7";
    queues(alone).fails_with("skipped report of");
    queues(&alone.replace("by 7", "by 1")).passes();
    queues(&alone.replace("by 7", "")).passes();
    Doctored::of(Protection::Both, &alone.replace("by 7", "by 1")).fails_with("skipped report of");
}

/// Makes a history: the second worker's run replaces the first's, and starts at this time.
fn gives_way(to: &str, starts: u64) -> Doctored {
    let mut doctored = Doctored::of(
        Protection::Both,
        &format!(
            "1    0 start    0 token 1
             2    5 skipped  0 ran_elsewhere by 1
             1  900 cancelled 0 replaced
             1  901 {to}
             1  902 skipped  1 queued by 2
             2 {starts} start 1 token 2
             2 {} end 1",
            starts + 10
        ),
    );
    doctored.0.on_overlap = OnOverlap::Replace;
    doctored
}

#[test]
fn a_run_gives_way_to_a_later_occurrence_and_says_to_whom() {
    assert_eq!(gives_way("gave_way 0 by 2", 1000).passes().of(Count::GaveWay), 1);
    gives_way("gave_way 0 by 2", 800).fails_with("overlap");
    gives_way("", 1000).fails_with("does not say to whom");
    gives_way("gave_way 0 by 7", 1000).fails_with("which had nothing later");
}

#[test]
fn who_leaves_for_a_later_occurrence_has_met_one() {
    let text = "
        1     0 start   0 token 1
        2     5 skipped 0 replaced by 1
        1   100 end     0
        1 60000 start   1 token 2
        1 60100 end     1
        2 60005 skipped 1 ran_elsewhere by 1";
    let replaces = |text: &str| {
        let mut doctored = Doctored::of(Protection::Both, text);
        doctored.0.on_overlap = OnOverlap::Replace;
        doctored
    };
    assert_eq!(replaces(text).passes().of(Count::Replaced), 1);
    replaces(&text.replace("replaced by 1", "replaced by 2")).passes();
    replaces(&text.replace("replaced by 1", "replaced by 7")).fails_with("without cause");
    Doctored::of(Protection::Both, text).fails_with("without cause");
}
