//! The table: its creation, the error if it is missing, and the privileges that it needs.

use std::thread;

use soloist::observe::RunRecord;
use soloist::store::{LeaseRequest, Owner};
use soloist::time::Clock;
use soloist::{EventMutex, MutexError, MutexName, PostgresMutex, Term};

use super::batches::extend;
use super::trouble::Trouble;
use super::{SqlServer, on_both};
use crate::servers::postgres::Postgres;
use crate::support::noon;

fn request(name: &str) -> LeaseRequest {
    LeaseRequest::new(MutexName::lease(name).expect("a name"), Term::MAX, &Clock::system())
}

on_both!(
    a_missing_table_is_an_error_that_names_what_makes_it,
    a_table_is_made_once,
    a_table_that_is_there_is_left_to_those_who_use_it,
    a_table_of_other_columns_is_refused_by_each_call,
    a_table_of_another_format_is_refused_and_left_as_it_is,
    a_table_may_have_another_name,
    a_table_that_is_not_as_it_should_be_is_warned_of,
);

/// Returns the statements without their comments, on one line, as errors show them.
fn one_line(sql: &str) -> String {
    let lines = sql.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.collect::<Vec<_>>().join(" ")
}

fn a_missing_table_is_an_error_that_names_what_makes_it<S: SqlServer>() {
    let server = S::with(&[]);
    let mutex = server.mutex();
    let error = mutex.create(&request("reports")).unwrap_err();
    assert!(error.is_refused());
    let said = format!("{error:?}");
    let statements = one_line(S::schema(&mutex));
    let advice = "; create the tables, with `soloist create-table` or `create_table()`";
    assert!(said.ends_with(advice), "{said}");
    let as_its_user = if server.url().starts_with("postgres") { "SET ROLE owner; " } else { "" };
    server.ask(&format!("{as_its_user}{statements}"));
    assert!(mutex.create(&request("reports")).unwrap().is_some());
}

fn a_table_is_made_once<S: SqlServer>() {
    let server = S::with(&[]);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| S::create_table(&server.mutex()).unwrap());
        }
    });
    let lease = server.mutex().create(&request("reports")).unwrap().unwrap();
    S::create_table(&server.mutex()).unwrap();
    assert!(server.mutex().exists(lease.name()).unwrap(), "what is in the table stays");
    assert_eq!(server.mutex().check().unwrap(), []);
}

fn a_table_that_is_there_is_left_to_those_who_use_it<S: Trouble>() {
    let server = S::start();
    assert!(server.mutex().create(&request("reports")).unwrap().is_some());
    let _held = server.holding(&[S::BEGIN, "SELECT * FROM soloist_mutexes"]);
    S::create_table(&server.mutex()).unwrap();
}

#[track_caller]
fn assert_says(error: &MutexError, what: &str) {
    let said = format!("{error:?}");
    assert!(said.contains(what), "{said}");
}

/// Tests missing columns, and an unknown one. The unknown column is noticed only by a write.
fn a_table_of_other_columns_is_refused_by_each_call<S: SqlServer>() {
    let server = S::start();
    let mutex = server.mutex();
    let what_to_do = "; the table, or the table with _runs behind its name, does not have the columns of the format v1: drop it \
                      while nothing runs, and create it again, with `soloist create-table` or `create_table()`";
    server.ask("ALTER TABLE soloist_mutexes ADD COLUMN later INT NOT NULL");
    let error = mutex.create(&request("reports")).unwrap_err();
    assert!(error.is_refused(), "{error:?}");
    assert_says(&error, "later");
    assert_says(&error, what_to_do);

    server.ask("ALTER TABLE soloist_mutexes DROP COLUMN later");
    S::create_table(&mutex).unwrap();
    server.ask("ALTER TABLE soloist_mutexes_runs DROP COLUMN v1");
    assert_says(&S::create_table(&mutex).unwrap_err(), what_to_do);
    server.ask("ALTER TABLE soloist_mutexes DROP COLUMN v1");
    for error in [
        mutex.create(&request("reports")).unwrap_err(),
        mutex.exists(request("reports").name()).unwrap_err(),
        mutex.check().unwrap_err(),
        S::create_table(&mutex).unwrap_err(),
    ] {
        assert!(error.is_refused(), "{error:?}");
        assert_says(&error, "v1");
        assert_says(&error, what_to_do);
    }
    server.ask("DROP TABLE soloist_mutexes, soloist_mutexes_runs");
    S::create_table(&mutex).unwrap();
    assert!(mutex.create(&request("reports")).unwrap().is_some());
}

fn a_table_of_another_format_is_refused_and_left_as_it_is<S: SqlServer>() {
    let server = S::start();
    let mutex = server.mutex();
    let lease = mutex.create(&request("reports")).unwrap().expect("it is free");
    let ended = mutex.create(&request("ended")).unwrap().expect("it is free");
    // By the rules of this format it ended long ago.
    server.ask("UPDATE soloist_mutexes SET expires_at = '2001-01-01' WHERE name = 'lease/ended'");
    let run = || RunRecord::started("reports", Owner::unique(), noon(), None, noon());
    let log = mutex.run_log().expect("it keeps one");
    log.write(&[run()], 5).unwrap();
    for table in ["soloist_mutexes", "soloist_mutexes_runs"] {
        server.ask(&format!("ALTER TABLE {table} RENAME COLUMN v1 TO v2"));
    }
    let rows =
        || ["soloist_mutexes", "soloist_mutexes_runs"].map(|table| server.ask(&format!("SELECT * FROM {table}")));
    let before = rows();
    for error in [
        mutex.create(&request("ended")).map(drop).unwrap_err(),
        mutex.exists(ended.name()).map(drop).unwrap_err(),
        mutex.forget(&lease).map(drop).unwrap_err(),
        extend(&mutex, &[lease], Term::MAX).remove(0).map(drop).unwrap_err(),
        mutex.break_lease(ended.name()).map(drop).unwrap_err(),
        mutex.check().map(drop).unwrap_err(),
        S::purge(&mutex).map(drop).unwrap_err(),
        S::create_table(&mutex).unwrap_err(),
        log.write(&[run()], 5).unwrap_err(),
        log.runs("reports").map(drop).unwrap_err(),
        log.skips("reports").map(drop).unwrap_err(),
    ] {
        assert!(error.is_refused() && error.is_outage(), "{error:?}");
        assert_says(
            &error,
            "does not have the columns of the format v1: drop it while nothing runs, and create it again",
        );
    }
    drop(mutex);
    assert_eq!(rows(), before);
}

fn a_table_may_have_another_name<S: SqlServer>() {
    let server = S::start();
    let other = S::named(&server.url(), "order");
    let said = format!("{:?}", other.create(&request("reports")).unwrap_err());
    assert!(said.contains("order") && said.contains("; create the tables, with "), "{said}");
    S::create_table(&other).unwrap();
    assert!(other.create(&request("reports")).unwrap().is_some());
    assert!(!server.mutex().exists(request("reports").name()).unwrap(), "tables don't see each other");
    assert_eq!((other.check().unwrap(), S::purge(&other).unwrap()), (vec![], 0));
}

fn a_table_that_is_not_as_it_should_be_is_warned_of<S: SqlServer>() {
    let server = S::start();
    let changes = if server.url().starts_with("mysql") {
        [
            ("ENGINE = MyISAM", "its engine is MyISAM, but only InnoDB is known to"),
            (
                "MODIFY name VARCHAR(500) CHARACTER SET ascii COLLATE ascii_general_ci",
                "names are not compared byte by byte",
            ),
            ("DROP PRIMARY KEY", "its primary key must be the column `name` alone"),
        ]
    } else {
        [
            ("SET UNLOGGED", "the table can lose its leases, because it is UNLOGGED"),
            ("ALTER name TYPE text COLLATE \"en-x-icu\"", "names are not compared byte by byte"),
            ("DROP CONSTRAINT soloist_mutexes_pkey", "its primary key must be the column `name` alone"),
        ]
    };
    for (at, (change, said)) in changes.into_iter().enumerate() {
        server.ask(&format!("ALTER TABLE soloist_mutexes {change}"));
        let mut warnings: Vec<String> = server.mutex().check().unwrap().iter().map(ToString::to_string).collect();
        // Without its key, the table grants nothing.
        warnings.retain(|warning| !warning.starts_with("the store refused a trial, "));
        assert!(warnings.len() == at + 1 && warnings.iter().any(|warning| warning.contains(said)), "{warnings:?}");
    }
}

#[test]
fn a_schema_with_an_apostrophe_in_its_name_may_have_the_table() {
    let server = Postgres::with(&[]);
    let user = "\"o'brien\"";
    server.ask(&format!("CREATE ROLE {user} LOGIN PASSWORD 'password'; CREATE SCHEMA AUTHORIZATION {user}"));
    let mutex = PostgresMutex::new(&server.url().replace("owner", "o%27brien")).expect("a url");
    mutex.create_table().unwrap();
    assert!(mutex.create(&request("reports")).unwrap().is_some());
    assert_eq!(mutex.check().unwrap(), []);
    assert_eq!(
        server.ask(&format!("SELECT count(*) FROM {user}.soloist_mutexes WHERE name = 'lease/reports'"))[0][0]
            .as_deref(),
        Some("1")
    );
}
