//! The store on Redis: real servers, their faults, and their load.

use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use soloist::store::{Admission, Batch, Lease, Slot};
use soloist::{Event, EventMutex, MutexError, MutexName, RedisMutex, Report, Schedule, Term};

use crate::servers::redis::Redis;
use crate::servers::resp::Reply;
use crate::support::{Diary, PATIENCE, noon};

mod address;
mod cluster;
mod commands;
mod contract;
mod failover;
mod fleet;
mod late_copies;
mod outage;
mod pause;
mod period;
mod refused;
mod renewal;
mod run_log;
mod sentinel;
mod together;
mod unless;

/// Returns the `number`th minute after noon.
fn minute(number: i64) -> DateTime<Utc> {
    noon() + TimeDelta::minutes(number)
}

/// The timeout of calls that are to be answered, however busy the machine is.
const PATIENT: Duration = Duration::from_secs(20);

/// Returns a store whose calls are answered on a busy machine, too.
fn patient(url: &str) -> RedisMutex {
    RedisMutex::builder(url).timeout(PATIENT).build().expect("a url")
}

/// Returns a schedule of one event, `report`, that writes `ran` into the diary, with both protections.
fn schedule(url: &str, diary: &Diary) -> Schedule {
    schedule_within(PATIENT, url, diary)
}

/// Returns a schedule as [`schedule`] does, with the usual timeout: for a server that does not answer.
fn hasty_schedule(url: &str, diary: &Diary) -> Schedule {
    schedule_within(Duration::from_secs(2), url, diary)
}

fn schedule_within(timeout: Duration, url: &str, diary: &Diary) -> Schedule {
    let schedule = Schedule::new(RedisMutex::builder(url).timeout(timeout).build().expect("a url"));
    schedule.add(report(diary)).expect("an event");
    schedule
}

fn report(diary: &Diary) -> Event {
    Event::call("report", diary.task("ran")).every_minute().on_one_server().without_overlapping()
}

/// Returns the answers to one batch of these.
fn carry_out(mutex: &impl EventMutex, releases: Vec<Lease>, admissions: Vec<Admission>) -> Batch {
    let mut batch = Batch::new();
    for lease in releases {
        batch.release(lease);
    }
    for admission in admissions {
        batch.admit(admission);
    }
    mutex.carry_out(&mut batch);
    batch
}

/// Lets one lease end one term from now.
fn extend(mutex: &impl EventMutex, lease: &Lease, term: Term) -> Result<bool, MutexError> {
    let mut slots = [Slot::new(lease.clone())];
    mutex.extend(&mut slots, term);
    slots[0].answer().expect("it has an answer").clone()
}

/// Returns the keys of leases and claims, without the store's own code.
#[track_caller]
fn entries(server: &Redis) -> Vec<String> {
    let Reply::Many(keys) = server.ask(&["KEYS", "{soloist}:*"]) else { panic!("KEYS answers a list") };
    let mut keys: Vec<String> = keys.iter().map(|key| key.text().to_owned()).collect();
    keys.retain(|key| !["{soloist}:token", "{soloist}:revoked"].contains(&key.as_str()));
    keys.sort();
    keys
}

/// Returns the key of the claim of `report` in this minute.
fn claim(number: i64) -> String {
    contract::key(&MutexName::lease("report").expect("a name").claim("report", minute(number)))
}

/// Asserts that the event is skipped because the store is unavailable. Returns the reason as a text.
#[track_caller]
fn assert_unavailable(report: &Report) -> String {
    let reason = crate::support::skipped(report, "report");
    assert_eq!(reason.keyword(), "store_unavailable", "{report}");
    assert!(report.is_failure(), "{report}");
    reason.to_string()
}

#[track_caller]
fn assert_ran(report: &Report) {
    crate::support::ran(report, "report");
    assert!(!report.is_failure(), "{report}");
}

#[track_caller]
fn wait_until(what: &str, happens: impl Fn() -> bool) {
    let began = Instant::now();
    while !happens() {
        assert!(began.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(5)); // between two checks of a server
    }
}
