//! Each node of a cluster leads to the node with the slot of the keys, also when that changes; a slot on its way is an outage.

use std::time::Duration;

use soloist::Schedule;

use super::{assert_ran, assert_unavailable, claim, entries, hasty_schedule, minute, schedule, schedule_within};
use crate::servers::cluster::Cluster;
use crate::servers::replication::Replicated;
use crate::support::{Diary, skipped};

mod failover {
    use crate::servers::cluster::Cluster;

    crate::redis::failover::cases!(Cluster);
}

#[track_caller]
fn assert_ran_elsewhere(schedule: &Schedule, number: i64) {
    assert_eq!(skipped(&schedule.run_due(minute(number)), "report").keyword(), "ran_elsewhere");
}

#[test]
fn each_node_leads_to_the_one_that_has_the_slot() {
    let cluster = Cluster::start();
    let diary = Diary::default();
    let nodes = cluster.servers();
    for (number, node) in (0..).zip(nodes) {
        assert_ran(&schedule(&Cluster::url_of(&[node]), &diary).run_due(minute(number)));
    }
    let claims: Vec<String> = (0..6).map(claim).collect();
    assert_eq!(entries(cluster.primary()), claims);
    // Dead and stopped replicas are passed over.
    let [dead, stopped, last] = [&nodes[3], &nodes[4], &nodes[5]];
    dead.kill();
    stopped.pause();
    // The stopped one takes half of that.
    let of_three = schedule_within(Duration::from_secs(8), &Cluster::url_of(&[dead, stopped, last]), &diary);
    assert_ran(&of_three.run_due(minute(6)));
    stopped.resume();
}

#[test]
fn a_slot_that_has_moved_is_followed_within_the_call() {
    let cluster = Cluster::start();
    let diary = Diary::default();
    let ours = schedule(&cluster.url(), &diary);
    for number in 0..3 {
        assert_ran(&ours.run_due(minute(number)));
        let new = cluster.begin_to_move_the_slot().finish();
        let theirs = schedule(&cluster.url(), &diary);
        assert_ran_elsewhere(&theirs, number);
        assert_ran_elsewhere(&ours, number);
        assert!(entries(new).contains(&claim(number)));
    }
    assert_eq!(diary.lines().len(), 3);
}

#[test]
fn a_slot_that_moves_grants_nothing_until_it_has_moved() {
    let cluster = Cluster::start();
    // The keys that have moved contain one of these.
    let parts: [&[&str]; 4] = [&[], &[":claim/"], &[":token"], &[":"]];
    for (number, moved) in (0..).step_by(10).zip(parts) {
        let diary = Diary::default();
        let [ours, theirs] = [(), ()].map(|()| hasty_schedule(&cluster.url(), &diary));
        assert_ran(&ours.run_due(minute(number)));
        let slot_move = cluster.begin_to_move_the_slot();
        let keys = slot_move.left_behind();
        let keys: Vec<String> = keys.into_iter().filter(|key| moved.iter().any(|part| key.contains(part))).collect();
        slot_move.carry(&keys);
        for schedule in [&ours, &theirs] {
            assert_unavailable(&schedule.run_due(minute(number + 1)));
        }
        let reason = skipped(&theirs.run_due(minute(number)), "report").keyword();
        assert!(["store_unavailable", "ran_elsewhere"].contains(&reason), "{moved:?}: {reason}");
        assert_eq!(diary.lines().len(), 1, "{moved:?}: a task ran");

        let new = slot_move.finish();
        assert_ran(&theirs.run_due(minute(number + 1)));
        assert_ran_elsewhere(&ours, number + 1);
        assert_ran_elsewhere(&theirs, number);
        assert_eq!(diary.lines().len(), 2, "{moved:?}");
        assert!(entries(new).contains(&claim(number)) && entries(new).contains(&claim(number + 1)));
    }
}

#[test]
fn a_primary_that_was_demoted_under_a_connection_is_left_within_the_call() {
    let cluster = Cluster::start();
    let diary = Diary::default();
    let ours = schedule(&cluster.url(), &diary);
    assert_ran(&ours.run_due(minute(0)));
    let old = cluster.primary();
    cluster.wait_until_copied(&claim(0));
    let new = cluster.fail_over(old);
    assert_ran(&ours.run_due(minute(1)));
    assert!(entries(new).contains(&claim(1)));
    assert_ran_elsewhere(&schedule(&cluster.url(), &diary), 0);
}
