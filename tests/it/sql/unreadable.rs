//! Rows that a person has changed: a token below 0, or a time that is no number of microseconds.

use soloist::observe::RunRecord;
use soloist::store::{Names, Owner};
use soloist::{Event, EventMutex, Schedule};

use super::on_both;
use super::trouble::{Trouble, minute, request};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::support::{noon, ran, skipped};

on_both!(a_row_with_odd_values_stops_no_other_event, a_run_with_odd_values_hides_no_other_run);

trait Changed: Trouble {
    /// Changes of a held row. After each of them, the row is still held.
    const HELD: &'static [&'static str];
    /// Changes after which the row is free, or free after the next admission.
    const FREE: &'static [&'static str];
    /// Changes of a run in the log.
    const RUNS: &'static [&'static str];
    /// The beginning of an `UPDATE` that accepts each value.
    const UPDATE: &'static str;
}

impl Changed for Postgres {
    const HELD: &'static [&'static str] = &[
        "token = -5",
        "acquired_at = '-infinity'",
        "acquired_at = 'infinity'",
        "acquired_at = '294276-12-31'",
        "expires_at = 'infinity'",
        "expires_at = '294276-12-31'",
        "occurrence = 'infinity'",
        "occurrence = '-infinity'",
    ];
    const FREE: &'static [&'static str] =
        &["expires_at = '-infinity'", "expires_at = '4000-01-01 BC'", "term_us = -9223372036854775808"];
    const RUNS: &'static [&'static str] =
        &["token = -5", "occurrence = 'infinity'", "started_at = '-infinity'", "ended_at = 'infinity'"];
    const UPDATE: &'static str = "UPDATE";
}

impl Changed for Mariadb {
    const HELD: &'static [&'static str] =
        &["token = -5", "acquired_at = '0000-00-00'", "acquired_at = '2026-00-31'", "occurrence = '0000-00-00'"];
    const FREE: &'static [&'static str] =
        &["expires_at = '0000-00-00'", "released = 5", "term_us = -9223372036854775808"];
    const RUNS: &'static [&'static str] = &["token = -5", "occurrence = '0000-00-00'", "started_at = '0000-00-00'"];
    const UPDATE: &'static str = "SET STATEMENT sql_mode = '' FOR UPDATE";
}

/// Runs the event `odd` beside a healthy one, one after the other and in one request.
fn a_row_with_odd_values_stops_no_other_event<S: Changed>() {
    let server = S::start();
    let mutex = server.mutex();
    let (held, free) = (S::HELD.iter().map(|change| (change, true)), S::FREE.iter().map(|change| (change, false)));
    for (number, (change, is_held)) in held.chain(free).enumerate() {
        for place in [|event: Event| event, Event::in_background] {
            server.ask("DELETE FROM soloist_mutexes");
            let odd = mutex.create(&request("odd")).unwrap().expect("it is free");
            let at = minute(i64::try_from(number).unwrap());
            server.ask(&format!("{} soloist_mutexes SET {change} WHERE name = 'lease/odd'", S::UPDATE));

            mutex.check().unwrap_or_else(|error| panic!("{change}: {error}"));
            let listed = mutex.held(Names::LeasesWithPrefix("")).unwrap_or_else(|error| panic!("{change}: {error}"));
            assert!(listed.len() <= 1 && listed.iter().all(|held| held.holder().is_some()), "{change}: {listed:?}");
            assert!(mutex.exists(odd.name()).unwrap() || !is_held, "{change}");
            let schedule = Schedule::new(mutex.clone());
            for name in ["odd", "healthy"] {
                let event = Event::call(name, |_| {}).every_minute().on_one_server().without_overlapping();
                schedule.add(event.apply(place)).unwrap();
            }
            let report = schedule.run_due(at);
            assert!(ran(&report, "healthy").is_success(), "{change}: {report}");
            if is_held {
                assert_eq!(skipped(&report, "odd").keyword(), "overlapping", "{change}: {report}");
                assert!(mutex.break_lease(odd.name()).unwrap().is_some(), "{change}");
                assert!(mutex.create(&request("odd")).unwrap().is_some(), "{change}");
            } else {
                assert!(ran(&report, "odd").is_success(), "{change}: {report}");
            }
        }
    }
}

fn a_run_with_odd_values_hides_no_other_run<S: Changed>() {
    let server = S::start();
    let mutex = server.mutex();
    let log = mutex.run_log().expect("it keeps one");
    for change in S::RUNS {
        server.ask("DELETE FROM soloist_mutexes_runs");
        let runs = [1, 2].map(|number| RunRecord::started("report", Owner::unique(), minute(number), None, noon()));
        log.write(&runs, 5).unwrap();
        let (update, odd) = (S::UPDATE, runs[0].id());
        server.ask(&format!("{update} soloist_mutexes_runs SET {change} WHERE run = '{odd}'"));
        let read = log.runs("report").unwrap_or_else(|error| panic!("{change}: {error}"));
        assert!(read.iter().any(|run| run.id() == runs[1].id()), "{change}: {read:?}");
    }
}
