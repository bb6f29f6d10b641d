//! Full queues, and queues that are reported as full.

use std::time::Duration;

use super::{Doctored, Protection};
use crate::plan::{Kind, OnOverlap};

fn queue(places: usize, text: &str) -> Doctored {
    let mut doctored = Doctored::of(Protection::Both, text);
    doctored.0.on_overlap = OnOverlap::Queue(places);
    doctored
}

/// Lets the second wait with the second minute; the first finds the queue full with the third.
fn full(places: usize, text: &str) -> Doctored {
    let mut doctored = queue(places, text);
    doctored.0.minutes = 3;
    doctored.0.lives.iter_mut().for_each(|life| life.minutes = 0..3);
    doctored
}

const ONE_WAITS: &str = "
    1     0 start   0 token 1
    2     5 skipped 0 ran_elsewhere by 1
    1  1000 end     0
    1  1001 skipped 1 queued by 2
    1  1002 skipped 2 queue_full
    2  1500 start   1 token 2
    2  1510 end     1
    2  1600 start   2 token 3
    2  1610 end     2";

#[test]
fn a_queue_that_is_full_while_a_place_is_free_is_found() {
    full(1, ONE_WAITS).passes();
    full(2, ONE_WAITS).fails_with("of 2096-03-01T00:02:00Z between 1.001 and 1.002 s, where at most 1 of 2 places");
    // The queue had room until the second came.
    let late = ONE_WAITS.replace("2     5 skipped 0 ran_elsewhere", "2  1100 skipped 0 queued");
    full(1, &late).fails_with("at most 0 of 1 places");
}

#[test]
fn who_has_started_or_came_second_holds_no_place() {
    let second =
        ONE_WAITS.replace("2  1500 start   1 token 2", "2 1500 skipped 1 queued by 1").replace("2  1510 end     1", "");
    full(1, &second).fails_with("at most 0 of 1 places");
}

/// Lets the second be in the queue until 10 ms.
fn left(when_full: u64, last: &str) -> Doctored {
    let text = format!(
        "1     0 skipped 0 queued by 2
         2     5 start   0 token 1
         2     6 end     0
         1 {} skipped 1 queued by 2
         1 {when_full} skipped 2 queue_full
         2    10 {last}",
        when_full - 1
    );
    let mut left = full(1, &text);
    left.life(2).minutes = 0..2;
    left
}

#[test]
fn who_has_started_leaves_its_place_within_a_second_and_who_is_skipped_at_once() {
    let starts = "start 1 token 2";
    let is_full = |left: Doctored| {
        let verdict = super::judge(&left.0);
        !verdict.violations.iter().any(|violation| violation.contains("at most 0 of 1 places"))
    };
    assert!(is_full(left(1_011, starts)));
    assert!(!is_full(left(1_012, starts)));
    assert!(!is_full(left(512, "skipped 1 queued_too_long by 1")));
}

#[test]
fn the_place_of_a_killed_waiter_is_held_for_a_term() {
    let killed = |since: u64| {
        let text = "
            1     0 start   0 token 1
            2     5 skipped 0 ran_elsewhere by 1
            1  1000 end     0
            1  5200 skipped 1 queue_full";
        let mut killed = queue(1, text).killed(2, 900);
        killed.0.minute = Duration::from_millis(since);
        killed
    };
    killed(4_900).passes();
    killed(4_901).fails_with("at most 0 of 1 places");
}

#[test]
fn a_place_that_was_taken_without_an_answer_is_held_for_a_term() {
    let text = "
        1     0 start   0 token 1
        2     5 skipped 0 ran_elsewhere by 1
        2  1600 skipped 1 store_unavailable
        1  2000 end     0
        1  2001 skipped 1 queued by 2
        1  2002 skipped 2 queue_full
        2  2100 start   2 token 2
        2  2110 end     2";
    let cut_off = |places, from, until| full(places, text).with(Kind::ReplyDropped, from, until, None);
    // Its own place, a place that it may have taken before, and the place of its next occurrence.
    cut_off(3, 1300, 1500).passes();
    cut_off(4, 1300, 1500).fails_with("at most 3 of 4 places");
}

#[test]
fn events_that_share_a_mutex_share_its_places() {
    let text = "
        1     0 start   0 token 1
        1     0 skipped 0 ran_elsewhere by 2 of other
        2     5 skipped 0 ran_elsewhere by 1
        1  1100 end     0
        1  1102 skipped 1 queue_full
        1  1102 skipped 1 queued by 2 of other
        2  1200 start   0 token 2 of other
        2  1210 end     0 of other
        2  1500 start   1 token 3
        2  1510 end     1
        2  1520 start   1 token 4 of other
        2  1530 end     1 of other";
    queue(1, text).with_a_shared_mutex().passes();
    queue(2, text).with_a_shared_mutex().fails_with("at most 1 of 2 places");
    let mut alone = queue(1, text).with_a_shared_mutex();
    alone.0.shares_mutex = false;
    alone.fails_with("at most 0 of 1 places");
}
