//! Two operators backfill six hours of minutes at once, on each store: each occurrence runs once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Barrier};

use chrono::{DateTime, TimeDelta, Utc};
use soloist::{Event, MemoryMutex, Schedule, SkipReason, Verdict};

use super::on_the_day;
use crate::fork::{patient, started_again};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::servers::redis::Redis;
use crate::sql::SqlServer;

/// The environment variable of an operator: the event's protection, the store, and the file for its runs.
const ORDER: &str = "SOLOIST_TEST_BACKFILL";

/// Returns the number of minutes that the backfill of an event has.
fn minutes(protection: &str) -> u32 {
    if protection == "leased" { 30 } else { 6 * 60 }
}

/// Returns the schedule of an operator. Its event writes down each run as one line.
fn schedule(protection: &str, store: impl soloist::EventMutex + 'static, runs: &Path) -> Schedule {
    let file = OpenOptions::new().append(true).create(true).open(runs).expect("the directory is ours");
    let task = move |run: &soloist::Run| Ok((&file).write_all(format!("{}\n", run.occurrence()).as_bytes())?);
    let event = Event::call(format!("backfill {protection}"), task).every_minute();
    let schedule = Schedule::new(store);
    let event = if protection == "leased" { event.without_overlapping() } else { event };
    schedule.add(event).expect("it is an event");
    schedule
}

/// Plans a backfill, begins when `begin` returns, and backfills until nothing is left. A machine that is busy with both operators
/// may end one backfill, because a lock was not free in time.
fn operate(protection: &str, schedule: &Schedule, begin: impl FnOnce()) {
    let from: DateTime<Utc> = on_the_day("00:00");
    let range = from..from + TimeDelta::minutes(minutes(protection).into());
    let plan = || schedule.backfill(&format!("backfill {protection}"), range.clone(), 10_000);
    let mut planned = plan().expect("the store answers");
    assert_eq!(planned.occurrences().len(), minutes(protection) as usize);
    begin();
    let mut ran = BTreeSet::new();
    loop {
        for entry in planned.run().entries() {
            let is_fine = match entry.verdict() {
                Verdict::Ran(outcome) => !outcome.is_failure() && ran.insert(entry.occurrence()),
                Verdict::Skipped(reason) => {
                    matches!(reason, SkipReason::RanElsewhere(_) | SkipReason::StoreUnavailable(_))
                }
            };
            assert!(is_fine, "{entry}");
        }
        planned = plan().expect("the store answers");
        if planned.occurrences().is_empty() {
            break println!("\n>it has ended"); // behind what libtest has begun
        }
    }
}

/// Asserts that the runs are each occurrence once.
#[track_caller]
fn each_ran_once(protection: &str, runs: &Path) {
    let text = std::fs::read_to_string(runs).expect("it was written");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    text.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(counts.len(), minutes(protection) as usize);
}

#[test]
fn an_operator_does_as_it_is_told() {
    let Ok(told) = std::env::var(ORDER) else { return };
    let [protection, store, runs] = told.split('\n').collect::<Vec<_>>()[..] else { panic!("{told:?}") };
    operate(protection, &schedule(protection, patient(store), Path::new(runs)), || {
        println!("\n>it has a plan");
        std::io::stdin().read_exact(&mut [0]).expect("it is told to begin");
    });
}

/// Lets two processes backfill an event without a lease, and one with a lease, on this store.
#[track_caller]
fn two_processes_share_the_minutes(store: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for protection in ["unprotected", "leased"] {
        let runs = directory.path().join(protection);
        let told = format!("{protection}\n{store}\n{}", runs.display());
        let test = "backfill::two_operators::an_operator_does_as_it_is_told";
        let mut operators = [(); 2].map(|()| started_again(test, ORDER, &told));
        for operator in &mut operators {
            operator.waits_until_it_says("it has a plan");
        }
        operators.iter_mut().for_each(crate::fork::StartedAgain::send_word);
        for mut operator in operators {
            operator.waits_until_it_says("it has ended");
            operator.succeeds();
        }
        each_ran_once(protection, &runs);
    }
}

#[test]
fn on_files() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    two_processes_share_the_minutes(&format!("file:{}", directory.path().display()));
}

#[test]
fn on_redis() {
    two_processes_share_the_minutes(&Redis::shared().url());
}

#[test]
fn on_mariadb() {
    two_processes_share_the_minutes(&<Mariadb as SqlServer>::url(<Mariadb as SqlServer>::shared()));
}

#[test]
fn on_postgres() {
    two_processes_share_the_minutes(&<Postgres as SqlServer>::url(<Postgres as SqlServer>::shared()));
}

#[test]
fn in_memory() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for protection in ["unprotected", "leased"] {
        let (store, together) = (MemoryMutex::new(), Arc::new(Barrier::new(2)));
        let runs = directory.path().join(protection);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (store, runs, together) = (store.clone(), &runs, Arc::clone(&together));
                scope.spawn(move || {
                    let schedule = schedule(protection, store, runs);
                    operate(protection, &schedule, || _ = together.wait());
                });
            }
        });
        each_ran_once(protection, &runs);
    }
}
