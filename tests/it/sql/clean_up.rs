//! The clean-up deletes expired rows in time, and no others, and no call waits for it.

use std::any::Any;
use std::thread;
use std::time::{Duration, Instant};

use soloist::EventMutex;
use soloist::store::Lease;

use super::batches::admit;
use super::cost::{admission, granted, request};
use super::{COLUMNS, GRANTED, LONG, SqlServer, on_both};
use crate::servers::mariadb::{self, Mariadb};
use crate::servers::postgres::{self, Postgres};
use crate::support::until;

on_both!(
    a_clean_up_after_eight_rows_deletes_twice_as_many_as_were_written_and_nothing_that_is_needed,
    a_process_of_one_gate_cleans_up_before_it_ends,
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

/// Acquires as a process does that makes one call.
fn one_gate<S: SqlServer>(server: &S, name: &str) {
    hold(&server.mutex(), name);
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

/// Waits until the clean-up of this admission is over: a connection answers one request after another.
#[track_caller]
fn wait_for_clean_up(mutex: &impl EventMutex, admitted: &Lease) {
    assert!(mutex.exists(admitted.name()).unwrap());
}

/// Waits until so many rows are left of those that ended five minutes ago. PostgreSQL deletes after the reply to
/// the admission.
#[track_caller]
fn wait_until_left<S: SqlServer>(server: &S, count: u64) {
    until(|| left(server, 300) <= count).expect("they are deleted");
    assert_eq!(left(server, 300), count);
}

fn a_clean_up_after_eight_rows_deletes_twice_as_many_as_were_written_and_nothing_that_is_needed<S: SqlServer>() {
    let server = S::start();
    let mutex = server.mutex();
    let live: Vec<Lease> = (0..8).map(|number| hold(&mutex, &format!("live {number}"))).collect();
    wait_for_clean_up(&mutex, &live[7]);
    server.add_ended(5000, 300);
    server.add_ended(5, 30);
    hold(&mutex, "a lease");
    wait_until_left(&server, 5000 - 16);
    for number in 0..3 {
        granted(admission(number, 0).ask(&mutex));
    }
    wait_until_left(&server, 5000 - 16);
    // Two rows, after six.
    granted(admission(3, 0).ask(&mutex));
    wait_until_left(&server, 5000 - 16 - 16);
    for answer in admit(&mutex, &(10..110).map(|number| admission(number, 0)).collect::<Vec<_>>()) {
        granted(answer);
    }
    wait_until_left(&server, 5000 - 16 - 16 - 400);
    let all = server.count("SELECT COUNT(*) FROM soloist_mutexes WHERE token > 0");
    assert_eq!(
        all - left(&server, 300),
        8 + 5 + 1 + 4 * 2 + 200,
        "what is live stays, and what ended less than 90 s ago"
    );
    assert!(live.iter().all(|lease| mutex.forget(lease).unwrap()));
}

fn a_process_of_one_gate_cleans_up_before_it_ends<S: SqlServer>() {
    let server = S::start();
    server.add_ended(100, 300);
    one_gate(&server, "gate");
    wait_until_left(&server, 100 - 16);
}

fn an_admission_that_is_refused_deletes_nothing<S: SqlServer>() {
    let server = S::start();
    let mutex = server.mutex();
    let held = hold(&mutex, "held");
    wait_for_clean_up(&mutex, &held);
    server.add_ended(100, 300);
    assert!(mutex.create(&request("held")).unwrap().is_none());
    assert!(S::open(&server.url(), LONG).create(&request("held")).unwrap().is_none());
    one_gate(&server, "gate");
    wait_until_left(&server, 100 - 16);
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
    hold(&mutex, "gate");
    hold(&mutex, "daily");
    hold(&mutex, "another");
    drop(mutex);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(14), "{took:?}");
    // The other rows go, among them that of the daily event, which comes first.
    wait_until_left(&server, 50 - 16 + 1);
    let is_there = || server.count(&format!("SELECT COUNT(*) {row}"));
    assert_eq!(is_there(), 1);
    drop(held);
    one_gate(&server, "later");
    until(|| is_there() == 0).expect("it is deleted");
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
                        // On a busy machine, eight purges at once take longer than an admission may.
                        S::purge(&S::open(&server.url(), Duration::from_secs(60))).unwrap();
                    }
                    assert!(mutex.forget(&lease).unwrap());
                }
            });
        }
    });
    wait_until_left(&server, 0);
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
