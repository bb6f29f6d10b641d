//! Occurrences that start twice, and those that start nowhere.

use super::{Doctored, TWICE, Why, at, doubles, lost, nowhere, written};
use crate::plan::{Kind, Protection};
use crate::worker_log::Line;

#[test]
fn an_occurrence_that_starts_twice_is_found() {
    let twice = |protection| Doctored::of(protection, TWICE);
    assert_eq!(doubles(&twice(Protection::Both).fails_with("started twice")), [1, 0, 0]);
    assert_eq!(doubles(&twice(Protection::Lease).passes()), [0, 0, 0], "nothing speaks against it");
    let emptied = twice(Protection::Both).with(Kind::ServerEmptied, 150, 250, None).passes();
    assert_eq!(doubles(&emptied), [0, 1, 0]);
    twice(Protection::Both).with(Kind::ServerEmptied, 5000, 6000, None).fails_with("started twice");
    let failed_over = |from, token| twice(Protection::Both).failed_over(Kind::PrimaryKilled, from, from + 50, token);
    for lost in [1, 2] {
        assert_eq!(doubles(&failed_over(150, lost).passes()), [0, 0, 1]);
    }
    failed_over(150, 3).fails_with("started twice");
    failed_over(400, 1).fails_with("started twice");
    twice(Protection::Both).with(Kind::ServerRestarted, 150, 250, None).fails_with("started twice");
}

#[test]
fn an_occurrence_that_is_taken_and_never_started_is_found() {
    let taken = || nowhere("1 4 skipped 0 ran_elsewhere by 2", "2 5 skipped 0 ran_elsewhere by 1");
    assert_eq!(lost(&taken().fails_with("started nowhere")), [Why::Unexplained]);
    // A fault of one process at another time excuses nothing.
    taken().with(Kind::Stopped, 50_000, 54_000, Some(1)).fails_with("started nowhere");
    taken().with(Kind::Cut, 4, 900, None).fails_with("started nowhere");
}

#[test]
fn whoever_was_killed_or_cut_off_before_the_start_explains_a_loss() {
    let mut killed = nowhere("", "2 5 skipped 0 ran_elsewhere by 1").killed(1, 6);
    killed.life(1).lines.clear();
    // No worker was left to meet the second run.
    killed.loses(Why::Killed);
    let cut_off = nowhere("1 4 skipped 0 store_unavailable", "2 5 skipped 0 ran_elsewhere by 1");
    cut_off.with(Kind::ReplyDropped, 1, 3, None).loses(Why::CutOff);
}

#[test]
fn whoever_was_admitted_and_stopped_before_the_start_explains_a_loss() {
    let stopped = || nowhere("1 4000 failed 0", "2 5 skipped 0 ran_elsewhere by 1");
    stopped().with(Kind::Stopped, 1, 3900, Some(1)).loses(Why::CutOff);
    stopped().fails_with("as not_started by None");
    stopped().with(Kind::Stopped, 1, 3900, Some(2)).fails_with("started nowhere");
}

#[test]
fn what_was_granted_after_the_store_had_lost_its_data_is_not_granted_again() {
    let text = |since: u64| {
        format!(
            "1 {since} skipped 1 overlapping by 2
             1   2400 start   0 token 2
             1   2500 end     0
             2     10 start   1 token 1
             2   2390 end     1
             2   2600 start   0 token 3
             2   2700 end     0"
        )
    };
    let emptied = |since| Doctored::of(Protection::Both, &text(since)).with(Kind::ServerEmptied, 0, 500, None);
    assert_eq!(doubles(&emptied(490).passes()), [0, 1, 0]);
    assert_eq!(doubles(&emptied(510).fails_with("started twice")), [1, 0, 0]);
}

#[test]
fn whoever_had_a_lease_and_did_not_start_explains_that_it_was_met() {
    let text = "
        1 3000 skipped 0 overlapping by 2
        2 2800 failed  0 says not_started
        1 3100 start   1 token 1
        1 3200 end     1
        2 3300 skipped 1 ran_elsewhere by 1
    ";
    let late = || Doctored::of(Protection::Both, text);
    late().fails_with("as not_started");
    late().with(Kind::ServerStopped, 1000, 2700, None).loses(Why::CutOff);
    let killed = |when| {
        let text = "1 1000 skipped 0 overlapping by 2\n1 5000 start 1 token 1\n1 5100 end 1";
        Doctored::of(Protection::Both, text).killed(2, when)
    };
    killed(1100).loses(Why::Killed);
    killed(2100).fails_with("as overlapping by Some(2)");
}

#[test]
fn whoever_was_granted_and_refused_at_the_second_asking_explains_that_it_was_met() {
    // The first is stopped when it has its grant, and asks again when it goes on: the lease has another by then.
    let text = "
        2   20 skipped 0 ran_elsewhere by 1
        2 4000 start   1 token 2
        1 4200 skipped 0 overlapping by 2
        1 4250 skipped 1 ran_elsewhere by 2
        2 4300 end     1
    ";
    let stopped = || Doctored::of(Protection::Both, text);
    stopped().with(Kind::Stopped, 15, 4150, Some(1)).loses(Why::CutOff);
    stopped().fails_with("as ran_elsewhere by Some(1)");
    stopped().with(Kind::Stopped, 15, 4150, Some(2)).fails_with("as ran_elsewhere by Some(1)");
}

#[test]
fn whoever_was_granted_what_the_store_then_forgot_explains_that_it_was_met() {
    // The answer to the first is lost, then the data; it asks again, and the lease has another by then.
    let text = "
        2   20 skipped 0 ran_elsewhere by 1
        2  700 start   1 token 2
        1  900 skipped 0 overlapping by 2
        1  950 skipped 1 ran_elsewhere by 2
        2 1000 end     1
    ";
    let forgot = || Doctored::of(Protection::Both, text);
    forgot().with(Kind::ServerEmptied, 300, 600, None).loses(Why::CutOff);
    forgot().with(Kind::ServerRestarted, 300, 600, None).fails_with("as ran_elsewhere by Some(1)");
}

#[test]
fn more_losses_than_faults_are_found() {
    let cut_off = || {
        let first = nowhere("1 4 skipped 0 store_unavailable", "2 5 skipped 0 ran_elsewhere by 1").0;
        let mut both = Doctored(first);
        both.0.minutes = 3;
        both.life(1).minutes = 0..3;
        both.life(2).minutes = 0..3;
        let again: Vec<Line> = both.0.lives.iter().flat_map(|life| life.lines[..1].to_vec()).collect();
        for (pid, line) in (1..).zip(again) {
            both.life(pid).lines.push(Line { at: at(61_000), occurrence: written(2), ..line });
        }
        both
    };
    let cut = |history: Doctored, when| history.with(Kind::Cut, when, when + 1, None);
    cut(cut(cut_off(), 4), 60_990).passes();
    let once = cut_off().with(Kind::Cut, 4, 60_990, None);
    once.fails_with("2 occurrences were lost, CutOff, by 1 faults");
    // A failover lasts for several minutes of the schedule.
    let failed_over = cut_off().with(Kind::PrimaryKilled, 4, 60_990, None).passes();
    assert_eq!(lost(&failed_over), [Why::FailedOver; 2]);
}
