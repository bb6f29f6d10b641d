//! How many connections there are, and how they end.

use std::thread;
use std::time::Duration;

use soloist::store::Batch;
use soloist::{Event, EventMutex, Schedule};

use super::trouble::{Trouble, assert_ran, minute, request, schedule, wait_until};
use super::{LONG, SqlServer, on_both};
use crate::servers::mariadb::Mariadb;
use crate::servers::proxy::Proxy;
use crate::support::{Diary, noon};

on_both!(
    nothing_is_connected_before_something_is_due,
    one_connection_serves_one_tick_after_the_other,
    four_connections_at_most_are_kept,
    no_connection_is_kept_that_nobody_uses,
    a_connection_that_was_lost_at_rest_costs_one_more_and_no_error
);

fn nothing_is_connected_before_something_is_due<S: Trouble>() {
    let (proxy, diary) = (Proxy::of(S::shared()), Diary::default());
    let mutex = S::open(&proxy.url(), LONG);
    let schedule = Schedule::new(mutex.clone());
    schedule
        .add(Event::call("report", diary.task("ran")).hourly().on_one_server().without_overlapping())
        .expect("an event");
    assert!(schedule.run_due(minute(1)).entries().is_empty());
    mutex.carry_out(&mut Batch::new());
    drop(schedule);
    drop(mutex);
    assert_eq!(proxy.connections(), 0);
}

fn one_connection_serves_one_tick_after_the_other<S: Trouble>() {
    let server = S::start();
    // A busy machine may take so long between two ticks that the idle connection is closed.
    let connections = |attempt: i64| {
        let (proxy, diary) = (Proxy::of(&server), Diary::default());
        let schedule = schedule(S::open(&proxy.url(), LONG), &diary);
        for number in 0..10 {
            assert_ran(&schedule.run_due(minute(10 * attempt + number)));
        }
        proxy.connections()
    };
    assert!((0..5).any(|attempt| connections(attempt) == 1));
}

fn four_connections_at_most_are_kept<S: Trouble>() {
    let server = S::start();
    // With that, the table is waited for fifteen seconds: for long enough to have all of them ask.
    let mutex = S::open(&server.url(), Duration::from_secs(60));
    let lock = server.holding(S::LOCK_TABLE);
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| mutex.exists(request("report").name()));
        }
        wait_until("all of them ask at once", || server.ask(S::CONNECTED).len() == 12);
        drop(lock);
    });
    wait_until("the others are gone", || server.ask(S::CONNECTED).len() <= 4);
}

fn no_connection_is_kept_that_nobody_uses<S: Trouble>() {
    let server = S::start();
    let mutex = S::open(&server.url(), LONG);
    let lease = mutex.create(&request("report")).unwrap().expect("it is free");
    wait_until("it is gone", || server.ask(S::CONNECTED).is_empty());
    assert!(mutex.forget(&lease).unwrap(), "on another");
    wait_until("that is gone", || server.ask(S::CONNECTED).is_empty());
}

fn a_connection_that_was_lost_at_rest_costs_one_more_and_no_error<S: Trouble>() {
    let server = S::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let mutex = S::open(&proxy.url(), LONG);
    mutex.exists(request("report").name()).unwrap();
    assert_eq!(proxy.connections(), 1);
    proxy.cut();
    assert!(!mutex.exists(request("report").name()).unwrap());
    assert_eq!(proxy.connections(), 2);
    proxy.cut();
    assert_ran(&schedule(mutex, &diary).run_due(noon()));
}

/// Counts the clients that left without a word: some operators watch that number.
#[test]
fn mariadb_hears_that_a_handle_goes() {
    let server = <Mariadb as SqlServer>::start();
    let before = server.status("Aborted_clients");
    for number in 0..5 {
        let mutex = server.mutex();
        mutex.create(&request(&number.to_string())).unwrap().expect("it is free");
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async { drop(mutex) });
    }
    wait_until("all are gone", || server.ask(Mariadb::CONNECTED).is_empty());
    assert_eq!(server.status("Aborted_clients"), before);
}
