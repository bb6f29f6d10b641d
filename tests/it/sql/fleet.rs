//! Eight servers that share one table.

use super::{SqlServer, on_both};
use crate::catch_up::three_workers_make_up_for_it_once;
use crate::fleet::{Fleet, Start, eight_workers_share_each_occurrence, most_start};

on_both!(
    eight_workers_double_nothing_and_lose_nothing,
    eight_workers_that_start_one_after_another_share_a_table_as_well,
    three_workers_that_were_all_down_make_up_for_what_they_missed_once,
);

/// Returns the URL of the server with a time limit that also suffices on a busy machine.
fn patient_url(server: &impl SqlServer) -> String {
    format!("{}?timeout=30s", server.url())
}

fn eight_workers_double_nothing_and_lose_nothing<S: SqlServer>() {
    most_start(|every| {
        let server = S::start();
        eight_workers_share_each_occurrence(&Fleet::on(patient_url(&server)), Start::Together, every)
    });
}

fn eight_workers_that_start_one_after_another_share_a_table_as_well<S: SqlServer>() {
    most_start(|every| {
        let server = S::start();
        eight_workers_share_each_occurrence(&Fleet::on(patient_url(&server)), Start::Staggered, every)
    });
}

fn three_workers_that_were_all_down_make_up_for_what_they_missed_once<S: SqlServer>() {
    let server = S::start();
    three_workers_make_up_for_it_once(&Fleet::on(patient_url(&server)));
}
