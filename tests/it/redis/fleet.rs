//! Eight servers that share one Redis.

use crate::catch_up::three_workers_make_up_for_it_once;
use crate::fleet::{Fleet, Start, eight_workers_share_each_occurrence, most_start};
use crate::servers::burners::Burners;
use crate::servers::redis::Redis;
use crate::support::patient_url;

/// Returns the fleet of this server.
pub(super) fn patient_fleet(server: &Redis) -> Fleet {
    Fleet::on(patient_url(&server.url()))
}

#[test]
fn eight_workers_on_one_redis_double_nothing_and_lose_nothing() {
    most_start(|every| {
        let server = Redis::start();
        eight_workers_share_each_occurrence(&patient_fleet(&server), Start::Together, every)
    });
}

#[test]
fn eight_workers_that_start_one_after_another_share_a_redis_as_well() {
    most_start(|every| {
        let server = Redis::start();
        eight_workers_share_each_occurrence(&patient_fleet(&server), Start::Staggered, every)
    });
}

#[test]
fn eight_workers_on_a_busy_machine_double_nothing_and_lose_nothing() {
    let server = Redis::start();
    let burners = Burners::start(4);
    let started = eight_workers_share_each_occurrence(&patient_fleet(&server), Start::Staggered, 50);
    drop(burners);
    assert!(started > 0);
}

#[test]
fn three_workers_that_were_all_down_make_up_for_what_they_missed_once_on_redis() {
    let server = Redis::start();
    three_workers_make_up_for_it_once(&patient_fleet(&server));
}
