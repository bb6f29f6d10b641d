//! Sentinels and clusters: a replica that is cut off copies nothing, a failover loses that, and a slot moves key by key.

use super::super::cluster::Cluster;
use super::super::redis::Redis;
use super::super::replication::Replicated;
use super::super::resp::Reply;
use super::super::sentinel::Sentinels;
use super::redis::text;

const CLAIM: &str = "{soloist}:claim/report/report/2026-03-01T12:00:00Z";

fn grant(server: &Redis, token: u64) {
    let entry = format!("v1 0123-{token} token={token} term=60000 since=2026-03-01T12:00:00.000Z host=a");
    server.ask(&["SET", CLAIM, &entry, "PX", "600000"]);
}

/// Asserts that each way to lose a primary promotes a replica, and that only data without a copy is lost.
fn a_failover_loses_what_no_replica_has(topology: &dyn Replicated) {
    let first = topology.primary();
    grant(first, 1);
    topology.wait_until_copied(CLAIM);
    first.kill();
    topology.promote_a_replica(first);
    assert_eq!(topology.lost_in_failover(first, &Redis::start_again), [0_u64; 0]);

    let second = topology.primary();
    assert_ne!(second.port(), first.port());
    second.pause();
    topology.promote_a_replica(second);
    assert_eq!(topology.lost_in_failover(second, &Redis::resume), [0_u64; 0]);

    let third = topology.primary();
    assert_ne!(third.port(), second.port());
    topology.cut_off_replicas();
    grant(third, 2);
    topology.promote_a_replica(third);
    assert_eq!(topology.lost_in_failover(third, &|_| {}), [2]);
    assert!(topology.primary().ask(&["GET", CLAIM]).text().contains(" token=1 "));
    assert!(third.ask(&["GET", CLAIM]).text().contains(" token=1 "), "it is a replica, and has a copy");
}

#[test]
fn sentinels_promote_a_replica() {
    a_failover_loses_what_no_replica_has(&Sentinels::start());
}

#[test]
fn a_cluster_promotes_a_replica() {
    a_failover_loses_what_no_replica_has(&Cluster::start());
}

#[test]
fn a_slot_moves_to_another_primary_key_by_key() {
    let cluster = Cluster::start();
    let from = cluster.primary();
    let keys = ["{soloist}:1", "{soloist}:2"].map(str::to_owned);
    for key in &keys {
        from.ask(&["SET", key, "value"]);
    }
    let slot_move = cluster.begin_to_move_the_slot();
    slot_move.carry(&keys[..1]);
    assert_eq!(slot_move.left_behind(), keys[1..]);
    let asked = |words: &[&str], error: &str| match from.try_ask(words) {
        Ok(Reply::Error(said)) => assert!(said.starts_with(error), "{said}"),
        other => panic!("{words:?}: {other:?}"),
    };
    asked(&["GET", &keys[0]], "ASK ");
    asked(&["MGET", &keys[0], &keys[1]], "TRYAGAIN ");
    let to = slot_move.finish();
    asked(&["GET", &keys[1]], "MOVED ");
    assert_eq!(to.ask(&["MGET", &keys[0], &keys[1]]), Reply::Many(vec![text("value"), text("value")]));
}
