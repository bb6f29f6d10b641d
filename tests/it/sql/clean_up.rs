//! The clean-up deletes expired rows in time, and no others, and no call waits for it.

use std::any::Any;
use std::thread;
use std::time::{Duration, Instant};

use soloist::EventMutex;
use soloist::store::Lease;

use super::batches::admit;
use super::cost::{admission, granted, request};
use super::{COLUMNS, GRANTED, SqlServer, on_both};
use crate::servers::mariadb::{self, Mariadb};
use crate::servers::postgres::{self, Postgres};

on_both!(
    an_admission_of_eight_rows_deletes_twice_as_many_and_nothing_that_is_needed,
    one_in_eight_processes_of_one_gate_cleans_up,
    an_admission_that_is_refused_deletes_nothing,
    the_row_with_the_highest_token_stays,
    purge_says_how_many_rows_it_deleted,
    nobody_waits_for_a_clean_up_that_is_kept_from_its_rows,
    many_clean_up_at_once_beside_gates,
    a_clean_up_that_fails_is_no_trouble_of_the_gate,
);

/// The requests of the tests that bypass the store.
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

/// Writes eight rows with one request, which always cleans up.
#[track_caller]
pub(super) fn clean_up(mutex: &impl EventMutex, round: usize) {
    let admissions: Vec<_> = (0..4).map(|number| admission(1_000 + 4 * round + number, 0)).collect();
    for answer in admit(mutex, &admissions) {
        granted(answer);
    }
}

/// Adds a lease with this end.
#[track_caller]
fn add<S: SqlServer>(server: &S, name: &str, token: u64, end: &str) {
    server.ask(&format!(
        "INSERT INTO soloist_mutexes ({COLUMNS}) \
         VALUES ({GRANTED}, 'lease/{name}', 'x', {token}, 'h', 1, '2001-01-01', '{end}')"
    ));
}

/// Returns how many rows are left of those that ended so many seconds ago.
#[track_caller]
fn left<S: SqlServer>(server: &S, seconds_ago: u64) -> u64 {
    server.count(&format!("SELECT COUNT(*) FROM soloist_mutexes WHERE name LIKE 'claim/old/{seconds_ago}/%'"))
}

fn an_admission_of_eight_rows_deletes_twice_as_many_and_nothing_that_is_needed<S: SqlServer>() {
    let server = S::start();
    let mutex = server.mutex();
    let live: Vec<Lease> = (0..8).map(|number| hold(&mutex, &format!("live {number}"))).collect();
    server.add_ended(5000, 300);
    server.add_ended(5, 30);
    clean_up(&mutex, 0);
    assert_eq!(left(&server, 300), 5000 - 16);
    for answer in admit(&mutex, &(10..110).map(|number| admission(number, 0)).collect::<Vec<_>>()) {
        granted(answer);
    }
    assert_eq!(left(&server, 300), 5000 - 16 - 400);
    let all = server.count("SELECT COUNT(*) FROM soloist_mutexes WHERE token > 0");
    assert_eq!(all - left(&server, 300), 8 + 5 + 8 + 200, "what is live stays, and what ended less than 90 s ago");
    assert!(live.iter().all(|lease| mutex.forget(lease).unwrap()));
}

fn one_in_eight_processes_of_one_gate_cleans_up<S: SqlServer>() {
    let server = S::start();
    server.add_ended(100, 300);
    let cleans_up = |process: usize| {
        hold(&server.mutex(), &format!("gate {process}"));
        left(&server, 300) < 100
    };
    assert!((0..1_000).any(cleans_up));
    assert_eq!(left(&server, 300), 100 - 16);
}

fn an_admission_that_is_refused_deletes_nothing<S: SqlServer>() {
    let server = S::start();
    let mutex = server.mutex();
    let held: Vec<Lease> = (0..60).map(|number| hold(&mutex, &number.to_string())).collect();
    server.add_ended(100, 300);
    for lease in &held {
        assert!(mutex.create(&request(lease.name().mutex())).unwrap().is_none());
    }
    assert_eq!(left(&server, 300), 100);
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
    server.add_ended(50, 300);
    add(&server, "daily", 1, "2001-01-01");
    let row = "FROM soloist_mutexes WHERE name = 'claim/old/300/0000001'";
    let held = server.hold(&format!("SELECT * {row} FOR UPDATE"));
    // With that, a row is waited for fifteen seconds.
    let mutex = S::open(&server.url(), Duration::from_secs(60));
    let began = Instant::now();
    clean_up(&mutex, 0);
    hold(&mutex, "daily");
    hold(&mutex, "another");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(14), "{took:?}");
    // The other rows go.
    assert!(left(&server, 300) <= 50 - 15);
    let is_there = || server.count(&format!("SELECT COUNT(*) {row}"));
    assert_eq!(is_there(), 1);
    drop(held);
    let is_deleted_by = |round| {
        clean_up(&mutex, round);
        is_there() == 0
    };
    assert!((1..5).any(is_deleted_by));
}

fn many_clean_up_at_once_beside_gates<S: SqlServer>() {
    let server = S::start();
    server.add_ended(4_000, 300);
    thread::scope(|scope| {
        for server_number in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for number in 0..5 {
                    let mutex = server.mutex();
                    let lease = hold(&mutex, &format!("{server_number}: {number}"));
                    if number == 2 {
                        // On a busy machine, eight purges at once take longer than an admission may.
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
    for round in 0..3 {
        clean_up(&mutex, round);
    }
    assert!(S::purge(&mutex).unwrap_err().is_outage());
    drop(mutex);
    assert_eq!(left(&server, 300), 10);
}
