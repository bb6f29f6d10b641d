//! Answers of stores, and their possible causes.

use std::time::Duration;

use super::{Doctored, FINE, Why, at, nowhere, with_line, written};
use crate::plan::{Kind, Protection};
use crate::worker_log::Line;

#[test]
fn a_lease_that_is_lost_without_cause_is_found() {
    let lost = with_line("1   100 end     0", "1   100 cancelled 0 lease_lost");
    Doctored::of(Protection::Both, &lost).fails_with("lost without cause");
    // The lease is renewed when the store is available again, if that is long enough before its end.
    let late = with_line("1   100 end     0", "1 5000 cancelled 0 lease_lost\n1 5001 failed 0 lost 5000");
    let cut = |from, until| Doctored::of(Protection::Both, &late).with(Kind::Cut, from, until, None);
    cut(3100, 4900).passes();
    cut(3100, 4200).fails_with("lost without cause");
    cut(3800, 4900).fails_with("lost without cause");
    cut(3100, 3600).with(Kind::ServerRestarted, 4000, 4900, None).passes();
    // A renewal takes longer on a slow machine.
    let mut late = cut(3100, 4200);
    late.0.late = Duration::from_millis(10);
    late.passes();
    // A reply that does not come is waited for.
    cut(3100, 4200).with(Kind::ReplyDropped, 4500, 4550, None).passes();
    // Where each reply takes its time, the next renewal may come too late.
    let mut slow = cut(3100, 4200);
    slow.0.is_slow = true;
    slow.passes();
}

#[test]
fn an_answer_of_overlapping_needs_a_run() {
    let overlapping = || nowhere("1 60101 skipped 0 overlapping by 2", "2 59999 skipped 0 overlapping by 1");
    overlapping().fails_with("as overlapping by");
    let alone =
        |by| nowhere(&format!("1 4 skipped 0 overlapping by {by}"), &format!("2 5 skipped 0 overlapping by {by}"));
    alone(3).fails_with("as overlapping by");
    // The run before this history was its.
    let mut met = alone(3);
    let mut other = met.life(1).clone();
    let start = |what: &str, when| Line { at: at(when), what: what.into(), ..other.lines[0].clone() };
    other.lines = vec![
        Line { token: Some(0), occurrence: written(9), ..start("start", 0) },
        Line { occurrence: written(9), ..start("end", 50) },
    ];
    (other.name, other.pid, other.minutes) = ("worker 3".into(), 3, 9..9);
    met.0.lives.push(other);
    met.loses(Why::Overlapping);
}

#[test]
fn a_store_that_answers_nobody_has_its_cause() {
    let unanswered = || nowhere("1 4 skipped 0 store_unavailable", "2 5 skipped 0 store_unavailable");
    unanswered().fails_with("as store_unavailable");
    unanswered().with(Kind::ServerStopped, 0, 3, None).loses(Why::Unanswered);
    unanswered().with(Kind::ServerStopped, 50_000, 53_000, None).fails_with("as store_unavailable");
    // A transaction whose client lost its reply keeps others waiting.
    let after_it = |lingers| {
        let mut after = unanswered().with(Kind::ReplyDropped, 0, 1, None);
        after.0.lives.iter_mut().for_each(|life| life.began = at(3));
        after.0.lingers = Duration::from_millis(lingers);
        after
    };
    after_it(0).fails_with("as store_unavailable");
    after_it(10).loses(Why::Unanswered);
    // Ten steps of a late machine may take as long as a call waits.
    let on_a_late_machine = |late, at: u64| {
        let unanswered = |worker: u32| format!("{worker} {at} skipped 0 store_unavailable");
        let mut history = nowhere(&unanswered(1), &unanswered(2));
        history.0.late = Duration::from_millis(late);
        history
    };
    on_a_late_machine(200, 2000).loses(Why::Unanswered);
    on_a_late_machine(199, 2000).fails_with("as store_unavailable");
    on_a_late_machine(200, 1999).fails_with("as store_unavailable");
    // The wait for a replica is shorter.
    let mut waits_for_a_replica = on_a_late_machine(50, 500);
    waits_for_a_replica.0.limit = Duration::from_millis(500);
    waits_for_a_replica.loses(Why::Unanswered);
}

#[test]
fn a_skip_for_another_reason_is_found() {
    let late = with_line("ran_elsewhere by 1", "too_late");
    Doctored::of(Protection::Both, &late).fails_with("as  by");
    Doctored::of(Protection::Lease, FINE).fails_with("as ran_elsewhere");
    Doctored::of(Protection::Claim, FINE).fails_with("as overlapping");
}

#[test]
fn a_killed_process_that_holds_its_event_for_too_long_is_found() {
    // The second worker is refused in its last minute, which began when the one before had ended.
    let holds = |since: u64| {
        let text =
            format!("1 0 start 0 token 1\n2 {since} skipped 0 overlapping by 1\n2 {since} skipped 1 overlapping by 1");
        Doctored::of(Protection::Both, &text).killed(1, 50)
    };
    holds(4000).passes();
    holds(4100).fails_with("as overlapping by Some(1) at 4.100 s without cause");
    // On a machine that is late by 10 ms, ten steps may take 100 ms longer.
    let on_a_late_machine = |since| {
        let mut late = holds(since);
        late.0.late = Duration::from_millis(10);
        late
    };
    on_a_late_machine(4_100).passes();
    on_a_late_machine(4_200).fails_with("as overlapping by Some(1) at 4.200 s without cause");
    let mut on_file = holds(1100);
    on_file.0.frees_at_once = true;
    on_file.fails_with("as overlapping by Some(1) at 1.100 s without cause");
}

#[test]
fn a_store_that_is_asked_in_vain_when_nothing_is_wrong_any_more_is_found() {
    let text = "
        1     5 skipped 0 store_unavailable
        2     5 skipped 0 store_unavailable
        1 60005 skipped 1 store_unavailable
        2 60005 skipped 1 store_unavailable
    ";
    let cut = Doctored::of(Protection::Both, text).with(Kind::Cut, 0, 1, None);
    assert!(cut.fails_with("as store_unavailable by None at 60.005 s").violations[0].contains("nothing ran at all"));
}

#[test]
fn a_lease_that_is_not_released_is_found() {
    let text = "
        1     0 start   0 token 1
        2     5 skipped 0 overlapping by 1
        1   100 end     0
        2  2500 skipped 1 overlapping by 1
        1  4500 skipped 1 overlapping by 1
    ";
    let held = || Doctored::of(Protection::Both, &text.replace("2     5", "2  2200"));
    held().fails_with("worker 2 skipped report of 2096-03-01T00:01:00Z as overlapping");
    // The store was unavailable for the release.
    held().with(Kind::Cut, 90, 900, None).passes();
}

#[test]
fn a_run_that_does_not_end_or_fails_for_no_reason_is_found() {
    Doctored::of(Protection::Both, &with_line("1   100 end     0", "")).fails_with("it started and did not end");
    let failed = |says: &str| {
        let failed = with_line("1   100 end     0", &format!("1 100 end 0\n1 101 failed 0 says {says}"));
        Doctored::of(Protection::Both, &failed)
    };
    let outage = |failed: Doctored| failed.with(Kind::ServerStopped, 90, 110, None);
    failed("exit_status:_101").fails_with("a run failed without cause");
    outage(failed("exit_status:_101")).fails_with("a run failed without cause");
    failed("the_lease_was_not_released").fails_with("a run failed without cause");
    outage(failed("the_lease_was_not_released")).passes();
    outage(failed("panicked")).fails_with("a run failed without cause");
    failed("panicked").with(Kind::Panicked, 50, 50, Some(1)).passes();
}

#[test]
fn a_claim_of_nobody_is_found() {
    Doctored::of(Protection::Both, &with_line("ran_elsewhere by 1", "ran_elsewhere by 77")).fails_with("by Some(77)");
    Doctored::of(Protection::Both, &with_line("ran_elsewhere by 1", "ran_elsewhere")).fails_with("by None");
}

#[test]
fn a_claim_that_was_lost_with_its_answer_is_met_before_that() {
    // The process asks again after the store has lost its data, and another process has the occurrence.
    let text = "
        1   300 skipped 0 ran_elsewhere by 2
        2   250 start   0 token 1
        2   260 end     0
        2 60000 start   1 token 2
        1 60005 skipped 1 overlapping by 2
        2 60100 end     1
    ";
    let met_by_a_third = |from, until| {
        let mut met = Doctored::of(Protection::Both, text).with(Kind::ServerEmptied, from, until, None);
        let mut third = met.life(1).clone();
        let skip = |minute, when, pid| Line {
            at: at(when),
            occurrence: written(minute),
            holder: Some(format!("web-1, pid {pid}, since noon")),
            ..met.0.lives[0].lines[0].clone()
        };
        third.lines = vec![skip(0, 50, 1), skip(1, 60_010, 2)];
        (third.name, third.pid) = ("worker 3".into(), 3);
        met.0.lives.push(third);
        met
    };
    met_by_a_third(60, 200).passes();
    met_by_a_third(5_000, 6_000).fails_with("as ran_elsewhere by Some(1)");
}

#[test]
fn a_lease_that_is_not_released_beside_another_fault_is_found() {
    let text = "
        1   10 start   0 token 1
        1  100 end     0
        2   20 skipped 0 overlapping by 1
        1 5000 skipped 1 overlapping by 1
        2 5000 skipped 1 overlapping by 1
    ";
    let mut killed = Doctored::of(Protection::Both, text).with(Kind::ConnectionsKilled, 1050, 1050, None);
    killed.0.minute = Duration::from_secs(5);
    killed.fails_with("as overlapping");
    // The process has gone on.
    let gone_on =
        text.replace("1 5000 skipped 1", "1 1100 skipped 1").replace("2 5000", "2 2000").replace("2   20", "2 1900");
    let gone_on = Doctored::of(Protection::Both, &gone_on).with(Kind::ConnectionsKilled, 105, 105, None);
    gone_on.fails_with("as overlapping by Some(1) at 2.000 s");
}

#[test]
fn a_lease_of_who_is_stopped_is_met_also_for_occurrences_that_it_asks_for_later() {
    // The first was granted the minute before these, and has the next one to ask for when it goes on.
    let text = "
        2    20 skipped 0 overlapping by 1
        1  5000 skipped 0 store_unavailable
        2  5100 start   1 token 2
        2  5200 end     1
        1  5300 skipped 1 ran_elsewhere by 2
    ";
    let mut stopped = Doctored::of(Protection::Both, text).with(Kind::Stopped, 5, 4900, Some(1));
    let before = Line { at: at(4950), occurrence: written(9), ..stopped.life(1).lines[0].clone() };
    stopped.life(1).lines.insert(0, before);
    stopped.with(Kind::Cut, 4980, 5010, None).loses(Why::Overlapping);
}

#[test]
fn a_run_whose_lease_is_broken_may_not_start() {
    let text = "
        1     0 start   0 token 1
        2     5 skipped 0 ran_elsewhere by 1
        1   100 end     0
        2 60000 failed  1 lost 59990
        1 60005 start   1 token 3
        1 60100 end     1
    ";
    Doctored::of(Protection::Both, text).fails_with("as not_started");
    Doctored::of(Protection::Both, text).with(Kind::Broken, 59_990, 59_990, Some(2)).passes();
}

#[test]
fn a_lease_that_is_broken_after_its_task_may_be_told_of_at_its_release() {
    let text = with_line("1   100 end     0", "1 100 end 0\n1 150 failed 0 says but_the_lease_was_lost");
    let broken = |when| Doctored::of(Protection::Both, &text).with(Kind::Broken, when, when, Some(1));
    broken(120).passes();
    broken(160).fails_with("a lease was lost without cause");
    // A stopped server does not receive the release before the term is over, either.
    let stopped = |from, until| Doctored::of(Protection::Both, &text).with(Kind::ServerStopped, from, until, None);
    stopped(90, 140).passes();
    stopped(50, 90).fails_with("a lease was lost without cause");
}
