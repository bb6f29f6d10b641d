//! Eight servers that share one table.

use super::{SqlServer, on_both};
use crate::catch_up::three_workers_make_up_for_it_once;
use crate::fleet::{Fleet, Start, eight_workers_share_each_occurrence, most_start};
use crate::support::patient_url;

on_both!(
    eight_workers_double_nothing_and_lose_nothing,
    eight_workers_that_start_one_after_another_share_a_table_as_well,
    three_workers_that_were_all_down_make_up_for_what_they_missed_once,
);

fn eight_workers_double_nothing_and_lose_nothing<S: SqlServer>() {
    most_start(|every| {
        let server = S::start();
        eight_workers_share_each_occurrence(&Fleet::on(patient_url(&server.url())), Start::Together, every)
    });
}

fn eight_workers_that_start_one_after_another_share_a_table_as_well<S: SqlServer>() {
    most_start(|every| {
        let server = S::start();
        eight_workers_share_each_occurrence(&Fleet::on(patient_url(&server.url())), Start::Staggered, every)
    });
}

fn three_workers_that_were_all_down_make_up_for_what_they_missed_once<S: SqlServer>() {
    let server = S::start();
    three_workers_make_up_for_it_once(&Fleet::on(patient_url(&server.url())));
}
