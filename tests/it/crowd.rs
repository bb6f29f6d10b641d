//! More processes at one moment than a server takes connections: each that had time for its run succeeds.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

use soloist::{Event, Schedule, Verdict};

use crate::fork::{all_succeed, fork, patient, started_again};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::servers::redis::Redis;
use crate::servers::resp::Reply;
use crate::sql::SqlServer;
use crate::support::{noon, until};

/// The environment variable for a crowd: the end of its tasks, and its store.
const ORDER: &str = "SOLOIST_TEST_CROWD";

const PROCESSES: usize = 40;
const CONNECTIONS: usize = 20;

/// The two ends of a pipe between processes.
struct Pipe {
    hears: PipeReader,
    says: PipeWriter,
}

impl Pipe {
    fn new() -> Self {
        let (hears, says) = pipe().expect("a pipe");
        Self { hears, says }
    }
}

#[test]
fn a_crowd_does_as_it_is_told() {
    let Ok(told) = std::env::var(ORDER) else { return };
    let (how, url) = told.split_once('\n').expect("two lines");
    let waits = how == "wait";
    let (begin, end, at_work) = (Pipe::new(), Pipe::new(), Pipe::new());
    let child = |number: usize| {
        let (begin, end, at_work) = (&begin, &end, &at_work);
        move || {
            // The task keeps these ends alone: a read ends when no process can write any more.
            let task = {
                let (hears, says) = (end.hears.try_clone().expect("a pipe"), at_work.says.try_clone().expect("a pipe"));
                move |_: &soloist::Run| {
                    (&says).write_all(b"!").expect("somebody counts");
                    if waits {
                        (&hears).read_exact(&mut [0]).expect("it is told to end");
                    }
                }
            };
            let schedule = Schedule::new(patient(url));
            let event = Event::call(format!("crowd-{number}"), task).every_minute();
            schedule.add(event.on_one_server().without_overlapping()).expect("an event");
            (&begin.hears).read_exact(&mut [0]).expect("it is told to begin");
            let report = schedule.run_due(noon());
            assert!(matches!(report.entries()[0].verdict(), Verdict::Ran(_)) && !report.is_failure(), "{report}");
        }
    };
    let children: Vec<_> = (0..PROCESSES).map(|number| fork(child(number))).collect();
    (&begin.says).write_all(&[b'!'; PROCESSES]).expect("they listen");
    if waits {
        (&at_work.hears).read_exact(&mut [0; PROCESSES]).expect("all are at work at once");
        println!("\n>all are at work"); // behind what libtest has begun
        std::io::stdin().read_exact(&mut [0]).expect("it is told to let them end");
        (&end.says).write_all(&[b'!'; PROCESSES]).expect("they listen");
    }
    all_succeed(children);
}

/// Runs the tasks of all processes at one moment, first with short tasks and then with longer ones.
#[track_caller]
fn a_crowd_loses_no_run(url: &str, connections: impl Fn() -> usize, forget: impl Fn()) {
    started_again("crowd::a_crowd_does_as_it_is_told", ORDER, &format!("end\n{url}")).succeeds();
    forget();
    let mut crowd = started_again("crowd::a_crowd_does_as_it_is_told", ORDER, &format!("wait\n{url}"));
    crowd.waits_until_it_says("all are at work");
    until(|| connections() == 0).expect("no connection is held while a task is at work");
    crowd.send_word();
    crowd.succeeds();
}

#[test]
fn more_processes_than_postgres_has_connections_all_run() {
    let server = Postgres::with(&[&format!("--max-connections={CONNECTIONS}")]);
    <Postgres as SqlServer>::create_table(&SqlServer::mutex(&server)).expect("the table is made");
    let question = "SELECT pid FROM pg_stat_activity WHERE usename = 'owner'";
    let connected = || server.try_ask(question).map_or(CONNECTIONS, |rows| rows.len()); // a full server may have no room
    a_crowd_loses_no_run(&server.url(), connected, || drop(server.ask("DELETE FROM soloist_mutexes")));
}

#[test]
fn more_processes_than_mariadb_has_connections_all_run() {
    let server = Mariadb::with(&[&format!("--max-connections={CONNECTIONS}")]);
    <Mariadb as SqlServer>::create_table(&SqlServer::mutex(&server)).expect("the table is made");
    let question = "SELECT id FROM information_schema.processlist WHERE user = 'owner'";
    let connected = || server.try_ask(question).map_or(CONNECTIONS, |rows| rows.len()); // a full server may have no room
    a_crowd_loses_no_run(&server.url(), connected, || drop(server.ask("DELETE FROM soloist_mutexes")));
}

#[test]
fn more_processes_than_redis_has_connections_all_run() {
    let server = Redis::with(&format!("maxclients {CONNECTIONS}"));
    // The asking connection counts, too. A full server has no room for it.
    let connected = || match server.try_ask(&["CLIENT", "LIST"]) {
        Ok(Reply::Text(list)) => list.lines().count() - 1,
        _ => CONNECTIONS,
    };
    a_crowd_loses_no_run(&server.url(), connected, || drop(server.ask(&["FLUSHALL"])));
}
