//! Events that are paused.

use std::time::Duration;

use super::{Count, Doctored, FINE, Protection, Why, nowhere};
use crate::plan::Kind;

/// Starts the second minute after 60 s; its tick begins after 55 s.
fn ticks_late() -> Doctored {
    let mut fine = Doctored::of(Protection::Both, FINE);
    fine.0.minute = Duration::from_secs(55);
    fine
}

#[test]
fn an_event_that_starts_while_it_is_paused_is_found() {
    let verdict = ticks_late().paused(50_000, 70_000).fails_with("it started while paused, from 50.010 to 70.000 s");
    assert_eq!(verdict.of(Count::Paused), 1);
    ticks_late().paused(50_000, 60_000).passes();
    ticks_late().paused(60_000, 70_000).passes();
    let mut other = ticks_late().paused(50_000, 70_000);
    other.0.pauses[0].event = "other".into();
    other.passes();
    let mut unconfirmed = ticks_late().paused(50_000, 70_000);
    unconfirmed.0.pauses[0].confirmed = None;
    unconfirmed.passes();
}

#[test]
fn no_fault_but_lost_data_excuses_a_tick_that_begins_after_the_pause_was_confirmed() {
    let paused = || ticks_late().paused(50_000, 70_000);
    paused().with(Kind::Stopped, 54_000, 59_000, Some(2)).fails_with("it started while paused");
    paused().with(Kind::ServerRestarted, 54_000, 59_000, None).fails_with("it started while paused");
    paused().with(Kind::ServerEmptied, 54_000, 54_500, None).passes();
    paused().with(Kind::ServerEmptied, 60_010, 60_020, None).fails_with("it started while paused");
}

#[test]
fn a_tick_that_began_before_the_pause_starts_only_events_with_filters() {
    let waits = || ticks_late().paused(58_000, 70_000);
    waits().fails_with("it started while paused");
    // The run was admitted before, and its process was stopped, or cut off from the reply.
    waits().with(Kind::Stopped, 57_000, 59_900, Some(2)).passes();
    waits().with(Kind::Stopped, 57_000, 59_900, Some(1)).fails_with("it started while paused");
    waits().with(Kind::ReplyDropped, 58_100, 58_200, None).passes();
    let mut filtered = waits();
    filtered.0.is_filtered = true;
    filtered.passes();
}

#[test]
fn an_occurrence_is_skipped_as_paused_by_whoever_paused_it_and_while_it_is_paused() {
    let skipped = |by: u32| nowhere(&format!("1 4 skipped 0 paused by {by}"), &format!("2 5 skipped 0 paused by {by}"));
    let verdict = skipped(9).paused(0, 10).passes();
    assert_eq!(verdict.of(Count::SkippedWhilePaused), 2);
    skipped(9).paused(0, 10).loses(Why::Paused);
    skipped(9).fails_with("as paused by Some(9)");
    skipped(7).paused(0, 10).fails_with("as paused by Some(7)");
    skipped(9).paused(50_000, 51_000).fails_with("as paused by Some(9)");
    let mut late = nowhere("1 2000 skipped 0 paused by 9", "2 5 skipped 0 paused by 9").paused(0, 10);
    late.0.lives[0].began += 1_500_000_000;
    late.fails_with("as paused by Some(9) at 2.000 s");
}

#[test]
fn what_waits_and_is_paused_explains_that_it_did_not_start() {
    let text = "
        1     0 start   0 token 1
        2     5 skipped 0 ran_elsewhere by 1
        1   100 end     0
        1   101 skipped 1 queued by 2
        2   900 skipped 1 paused by 9";
    let mut queue = Doctored::of(Protection::Both, text).paused(200, 1000);
    queue.0.on_overlap = crate::plan::OnOverlap::Queue(1);
    queue.loses(Why::Paused);
}
