//! What has ended is cleaned away in time, nothing else is, and nobody waits for that.

use std::any::Any;
use std::thread;
use std::time::{Duration, Instant};

use soloist::{Admission, EventMutex, Lease};

use super::batches::admit;
use super::cost::request;
use super::{COLUMNS, GRANTED, SqlServer, on_both};
use crate::servers::mariadb::{self, Mariadb};
use crate::servers::postgres::{self, Postgres};

on_both!(
    what_has_ended_goes_and_nothing_else_does,
    a_process_of_one_gate_cleans_a_batch_before_it_ends,
    a_process_cleans_more_than_it_writes,
    the_row_with_the_highest_token_stays,
    purge_says_how_many_rows_it_deleted,
    nobody_waits_for_a_clean_up_that_is_kept_from_its_rows,
    many_clean_up_at_once_beside_gates,
    a_clean_up_that_fails_is_no_trouble_of_the_gate,
);

/// How many rows one statement deletes, by the documentation.
const BATCH: u64 = 500;

/// What the tests do past the store.
pub(super) trait BesideTheStore: SqlServer {
    fn user_without_delete(&self) -> String;
    /// Asks on a connection, whose transaction stays open until this is dropped.
    fn hold(&self, sql: &str) -> Box<dyn Any>;
}

impl BesideTheStore for Mariadb {
    fn user_without_delete(&self) -> String {
        self.user_with("SELECT, INSERT, UPDATE")
    }

    fn hold(&self, sql: &str) -> Box<dyn Any> {
        let mut connection = self.connection();
        mariadb::ask(&mut connection, "START TRANSACTION").unwrap();
        mariadb::ask(&mut connection, sql).unwrap();
        Box::new(connection)
    }
}

impl BesideTheStore for Postgres {
    fn user_without_delete(&self) -> String {
        self.user_with("SELECT, INSERT, UPDATE")
    }

    fn hold(&self, sql: &str) -> Box<dyn Any> {
        let mut connection = self.connection();
        postgres::ask(&mut connection, &format!("START TRANSACTION; {sql}")).unwrap();
        Box::new(connection)
    }
}

#[track_caller]
pub(super) fn hold(mutex: &impl EventMutex, name: &str) -> Lease {
    mutex.create(&request(name)).expect("the store answers").expect("it is free")
}

/// What a process does that lives for one gate.
fn one_gate<S: SqlServer>(server: &S, name: &str) {
    hold(&server.mutex(), name);
}

/// A lease that ends then.
#[track_caller]
fn add<S: SqlServer>(server: &S, name: &str, token: u64, end: &str) {
    server.ask(&format!(
        "INSERT INTO soloist_mutexes ({COLUMNS}) \
         VALUES ({GRANTED}, 'lease/{name}', 'x', {token}, 'h', 1, '2001-01-01', '{end}')"
    ));
}

/// How many of the rows are left that have ended so many seconds ago.
#[track_caller]
fn left<S: SqlServer>(server: &S, seconds_ago: u64) -> u64 {
    server.count(&format!("SELECT COUNT(*) FROM soloist_mutexes WHERE name LIKE 'claim/old/{seconds_ago}/%'"))
}

fn what_has_ended_goes_and_nothing_else_does<S: SqlServer>() {
    let server = S::start();
    let live: Vec<Lease> = (0..10).map(|number| hold(&server.mutex(), &format!("live {number}"))).collect();
    server.add_ended(2000, 300);
    server.add_ended(5, 30);
    for number in 0..6 {
        one_gate(&server, &format!("gate {number}"));
    }
    let (left, all) = (left(&server, 300), server.count("SELECT COUNT(*) FROM soloist_mutexes WHERE token > 0"));
    assert!(left < BATCH, "{left} rows are left");
    assert_eq!(all - left, 10 + 5 + 6, "what is live stays, and what ended less than two minutes ago");
    assert!(live.iter().all(|lease| server.mutex().forget(lease).unwrap()));
}

fn a_process_of_one_gate_cleans_a_batch_before_it_ends<S: SqlServer>() {
    let server = S::start();
    server.add_ended(2000, 300);
    one_gate(&server, "gate");
    let left = left(&server, 300);
    assert!(left <= 2000 - BATCH, "{left} rows are left");
}

fn a_process_cleans_more_than_it_writes<S: SqlServer>() {
    let server = S::start();
    server.add_ended(10_000, 300);
    let mutex = server.mutex();
    let admissions: Vec<_> = (0..600).map(|number| Admission::lease_only(request(&number.to_string()))).collect();
    assert!(admit(&mutex, &admissions).iter().all(Result::is_ok));
    drop(mutex);
    let left = left(&server, 300);
    assert!(left <= 10_000 - 2 * 600, "{left} rows are left");
}

fn the_row_with_the_highest_token_stays<S: SqlServer>() {
    let server = S::start();
    for (name, token) in [("a", 9_000_000_000_000_001_u64), ("b", 9_000_000_000_000_002), ("c", 9_000_000_000_000_000)]
    {
        add(&server, name, token, "2001-01-01");
    }
    assert_eq!(S::purge(&server.mutex()).unwrap(), 2);
    assert_eq!(hold(&server.mutex(), "a").token().get(), 9_000_000_000_000_003);
}

fn purge_says_how_many_rows_it_deleted<S: SqlServer>() {
    let server = S::start();
    server.add_ended(1234, 300);
    server.add_ended(3, 30);
    let mutex = server.mutex();
    add(&server, "a", 9_000_000_000_000_000, "2901-01-01");
    assert_eq!(S::purge(&mutex).unwrap(), 1234);
    assert_eq!(S::purge(&mutex).unwrap(), 0);
    assert_eq!(server.count("SELECT COUNT(*) FROM soloist_mutexes"), 4);
}

fn nobody_waits_for_a_clean_up_that_is_kept_from_its_rows<S: BesideTheStore>() {
    let server = S::start();
    server.add_ended(10_000, 300);
    add(&server, "daily", 1, "2001-01-01");
    let held = server.hold("SELECT * FROM soloist_mutexes WHERE name = 'claim/old/300/0000050' FOR UPDATE");
    // With that, a row is waited for fifteen seconds.
    let mutex = S::open(&server.url(), Duration::from_secs(60));
    let began = Instant::now();
    hold(&mutex, "gate");
    thread::sleep(Duration::from_millis(200)); // the clean-up has come to the row that is held
    hold(&mutex, "daily");
    hold(&mutex, "another");
    drop(mutex);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(14), "{took:?}");
    drop(held);
    one_gate(&server, "later");
    let left = left(&server, 300);
    assert!(left <= 10_000 - BATCH, "{left} rows are left");
}

fn many_clean_up_at_once_beside_gates<S: SqlServer>() {
    let server = S::start();
    server.add_ended(20_000, 300);
    thread::scope(|scope| {
        for server_number in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for number in 0..10 {
                    let mutex = server.mutex();
                    let lease = hold(&mutex, &format!("{server_number}: {number}"));
                    if number == 5 {
                        // On a busy machine, eight of them at once take longer than a gate may.
                        S::purge(&S::open(&server.url(), Duration::from_secs(60))).unwrap();
                    }
                    assert!(mutex.forget(&lease).unwrap());
                }
            });
        }
    });
    assert_eq!(left(&server, 300), 0);
}

fn a_clean_up_that_fails_is_no_trouble_of_the_gate<S: BesideTheStore>() {
    let server = S::start();
    server.add_ended(10, 300);
    let mutex = S::open(&server.user_without_delete(), Duration::from_secs(4));
    for number in 0..3 {
        let lease = hold(&mutex, &number.to_string());
        assert!(mutex.forget(&lease).unwrap());
    }
    assert!(S::purge(&mutex).unwrap_err().is_outage());
    drop(mutex);
    assert_eq!(left(&server, 300), 10);
}
