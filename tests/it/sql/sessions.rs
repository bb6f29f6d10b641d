//! However a server's sessions are set up: one winner of many threads, both protections or neither, and true answers.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use chrono::Utc;
use soloist::store::{Admission, Admitted, Grant};
use soloist::{EventMutex, MutexName, Term};

use super::batches::extend;
use super::trouble::{Trouble, request};
use super::{SqlServer, on_both};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::support::{holder, noon};

const THREADS: usize = 8;

/// Sets up the sessions that begin from then on.
trait Settings: Trouble {
    /// Settings that change how rows are counted and compared, and which changes of others a transaction sees.
    const ALL: &'static [&'static str];
    const ZONES: [&'static str; 2];
}

impl Settings for Mariadb {
    const ALL: &'static [&'static str] = &[
        "SET GLOBAL tx_isolation = 'READ-UNCOMMITTED'",
        "SET GLOBAL tx_isolation = 'READ-COMMITTED'",
        "SET GLOBAL tx_isolation = 'SERIALIZABLE'",
        "SET GLOBAL tx_isolation = 'REPEATABLE-READ', sql_mode = ''",
        "SET GLOBAL sql_mode = 'TRADITIONAL'",
        "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,SIMULTANEOUS_ASSIGNMENT'",
        "SET GLOBAL sql_mode = 'ORACLE'",
        "SET GLOBAL sql_mode = DEFAULT, autocommit = 0",
        "SET GLOBAL completion_type = 'CHAIN'",
        "SET GLOBAL completion_type = 'NO_CHAIN', sql_select_limit = 1, sql_safe_updates = 1",
    ];
    const ZONES: [&'static str; 2] = ["SET GLOBAL time_zone = '+05:00'", "SET GLOBAL time_zone = '-09:30'"];
}

impl Settings for Postgres {
    const ALL: &'static [&'static str] = &[
        "ALTER DATABASE app SET default_transaction_isolation = 'repeatable read'",
        "ALTER DATABASE app SET default_transaction_isolation = 'serializable'",
        "ALTER DATABASE app SET default_transaction_deferrable = on",
        "ALTER DATABASE app RESET ALL",
        "ALTER DATABASE app SET DateStyle = 'German, DMY'; ALTER DATABASE app SET IntervalStyle = 'iso_8601'",
        "ALTER DATABASE app SET extra_float_digits = -15; ALTER DATABASE app SET standard_conforming_strings = off",
    ];
    const ZONES: [&'static str; 2] =
        ["ALTER DATABASE app SET timezone = '<+05>-05'", "ALTER DATABASE app SET timezone = '<-0930>+09:30'"];
}

on_both!(
    one_of_eight_threads_wins_in_every_isolation_mode_and_style,
    of_two_that_exclude_each_other_one_wins_in_every_isolation_mode,
    uncommitted_changes_are_read_in_no_isolation_mode,
    two_sessions_in_two_time_zones_know_the_same_instants
);

fn one_of_eight_threads_wins_in_every_isolation_mode_and_style<S: Settings>() {
    let server = S::start();
    for settings in S::ALL {
        server.ask(settings);
        // Eight at once on a busy machine may take their time.
        one_of_eight_threads_wins(settings, || S::open(&server.url(), Duration::from_secs(30)));
    }
}

fn of_two_that_exclude_each_other_one_wins_in_every_isolation_mode<S: Settings>() {
    let server = S::start();
    for settings in S::ALL.iter().filter(|settings| settings.contains("isolation")) {
        server.ask(settings);
        let mutexes = [(), ()].map(|()| S::open(&server.url(), Duration::from_secs(30)));
        for round in 0..16 {
            // Every other time they have rows, which have ended.
            let names =
                ["a", "b"].map(|side| MutexName::lease(format!("{side}{}:{settings}", round / 2)).expect("a name"));
            let all_are_there = Barrier::new(2);
            let ask = |at: usize| {
                let wanted = request("x").with(names[at].clone(), Term::MAX);
                let admission = Admission::lease_only(wanted).unless(names[1 - at].clone());
                all_are_there.wait();
                admission.ask(&mutexes[at]).unwrap_or_else(|error| panic!("{settings}: {error:?}"))
            };
            let answers = thread::scope(|scope| {
                [0, 1]
                    .map(|at| {
                        let ask = &ask;
                        scope.spawn(move || ask(at))
                    })
                    .map(|thread| thread.join().expect("an answer"))
            });
            let [grant] = answers.iter().filter_map(granted).collect::<Vec<_>>()[..] else {
                panic!("{settings}: not one winner: {answers:?}")
            };
            assert!(answers.iter().any(|answer| matches!(answer, Admitted::Excluded(_))), "{answers:?}");
            assert!(mutexes[0].forget(grant.lease().expect("it was asked for")).unwrap());
        }
    }
}

fn uncommitted_changes_are_read_in_no_isolation_mode<S: Settings>() {
    let server = S::start();
    for settings in S::ALL.iter().filter(|settings| settings.contains("isolation")) {
        server.ask(settings);
        let mutex = S::open(&server.url(), Duration::from_secs(30));
        let lease = mutex.create(&request("report")).unwrap().expect("it is free");
        let transaction = server.holding(&[S::BEGIN, "DELETE FROM soloist_mutexes"]);
        assert!(mutex.exists(lease.name()).unwrap(), "{settings}: the delete may be rolled back");
        drop(transaction);
        assert!(mutex.forget(&lease).unwrap(), "{settings}");
    }
}

#[test]
fn one_of_eight_threads_wins_where_rows_are_counted_as_found() {
    let server = <Mariadb as SqlServer>::shared();
    one_of_eight_threads_wins("found_rows", || {
        Mariadb::open(&format!("{}?client_found_rows=true", server.url()), Duration::from_secs(30))
    });
}

/// Returns the names of this round's lease and claim.
fn names(round: &str) -> [MutexName; 2] {
    let lease = MutexName::lease(format!("rounds:{round}")).expect("a name");
    let claim = lease.claim("report", noon());
    [lease, claim]
}

fn admission(names: &[MutexName; 2], term: Term) -> Admission {
    let lease = request("x").with(names[0].clone(), term);
    let claim = lease.with(names[1].clone(), Term::MAX);
    Admission::both(lease, claim)
}

#[track_caller]
fn one_of_eight_threads_wins<M: EventMutex>(what: &str, open: impl Fn() -> M) {
    let mutexes: Vec<M> = (0..THREADS).map(|_| open()).collect();
    for round in 0..2 {
        let names = names(&format!("{what}:{round}"));
        let term = Term::new(Duration::from_secs(3600)).expect("a term");
        let all_are_there = Barrier::new(THREADS);
        let ask = |mutex: &M| {
            all_are_there.wait();
            admission(&names, term).ask(&mutex).unwrap_or_else(|error| panic!("{what}: {error:?}"))
        };
        let answers: Vec<Admitted> = thread::scope(|scope| {
            let threads: Vec<_> = mutexes.iter().map(|mutex| scope.spawn(|| ask(mutex))).collect();
            threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
        });
        let grants: Vec<&Grant> = answers.iter().filter_map(granted).collect();
        let [grant] = grants[..] else { panic!("{what}: not one winner: {answers:?}") };
        all_answers_are_true(what, &mutexes, &names, term, grant);
    }
}

fn granted(answer: &Admitted) -> Option<&Grant> {
    match answer {
        Admitted::Granted(grant) => Some(grant),
        _ => None,
    }
}

/// Asserts that the winner has both names, no other owner has one of them, and the winner's answers are true.
#[track_caller]
fn all_answers_are_true(what: &str, mutexes: &[impl EventMutex], names: &[MutexName; 2], term: Term, grant: &Grant) {
    let [ours, theirs, ..] = mutexes else { panic!("there are eight") };
    let lease = grant.lease().expect("both were asked for");
    let holders = names.each_ref().map(|name| holder(&theirs, name).expect("it is held"));
    for holder in &holders {
        assert_eq!((holder.owner(), holder.token()), (lease.owner(), grant.token()), "{what}");
        assert!((Utc::now() - holder.since()).abs() < chrono::TimeDelta::seconds(30), "{what}: {holder:?}");
    }
    let length = holders[0].until() - holders[0].since();
    let is_exact = (length - chrono::TimeDelta::from_std(term.get()).unwrap()).abs() < chrono::TimeDelta::seconds(1);
    assert!(is_exact, "{what}: {length}");

    let others = [names[0].mark("report", "another place"), names[0].claim("another", noon())];
    for half in [[names[0].clone(), others[1].clone()], [others[0].clone(), names[1].clone()]] {
        let refused = admission(&half, term).ask(&theirs).unwrap();
        let taken = match refused {
            Admitted::LeaseTaken(Some(holder)) | Admitted::ClaimTaken(Some(holder)) => holder,
            other => panic!("{what}: {other:?}"),
        };
        assert_eq!(taken.owner(), lease.owner(), "{what}");
    }
    assert!(!others.iter().any(|name| theirs.exists(name).unwrap()), "{what}: half of an admission is left");

    let foreign = request("x").with(names[0].clone(), term).granted(grant.token());
    assert_eq!(
        (extend(&theirs, std::slice::from_ref(&foreign), term).remove(0).unwrap(), theirs.forget(&foreign).unwrap()),
        (false, false),
        "{what}"
    );
    assert!(extend(&ours, std::slice::from_ref(lease), term).remove(0).unwrap(), "{what}");
    assert_eq!((ours.forget(lease).unwrap(), ours.forget(lease).unwrap()), (true, false), "{what}");
    assert_eq!(names.each_ref().map(|name| theirs.exists(name).unwrap()), [false, true], "{what}");
    assert!(ours.create(&request("x").with(names[0].clone(), term)).unwrap().is_some(), "{what}");
    assert!(theirs.exists(&names[0]).unwrap(), "{what}: a second read on the same connection returns an old row");
}

fn two_sessions_in_two_time_zones_know_the_same_instants<S: Settings>() {
    let server = S::start();
    let mutexes = S::ZONES.map(|zone| {
        server.ask(zone);
        let mutex = server.mutex();
        mutex.exists(request("report").name()).unwrap(); // The handle keeps its connection with the current settings.
        mutex
    });
    let term = Term::new(Duration::from_secs(60)).expect("a term");
    for (at, [ours, theirs]) in [[0, 1], [1, 0]].into_iter().enumerate() {
        let [ours, theirs] = [&mutexes[ours], &mutexes[theirs]];
        let names = names(&at.to_string());
        let Admitted::Granted(grant) = admission(&names, term).ask(&ours).unwrap() else { panic!("it is free") };
        let [here, there] = [ours, theirs].map(|mutex| holder(&mutex, &names[0]).expect("it is held"));
        assert_eq!((here.since(), here.until()), (there.since(), there.until()));
        assert!(theirs.check().unwrap().is_empty());
        all_answers_are_true("zones", &[ours, theirs], &names, term, &grant);
    }
}
