//! Servers that do not reply, or refuse a request: an error in time with a remedy, and without a secret.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use soloist::store::MutexErrorKind;
use soloist::{EventMutex, MutexError, SkipReason, Term};

use super::batches::extend;
use super::trouble::{IN_TIME, TIMEOUT, Trouble, assert_out, assert_ran, claim, minute, request, said, schedule};
use super::{LONG, SqlServer, on_both};
use crate::servers::postgres::Postgres;
use crate::servers::proxy::{Fault, Proxy};
use crate::servers::redis::Redis;
use crate::support::{Diary, holder, noon};

on_both!(
    a_server_that_accepts_and_never_answers_costs_one_time_out,
    what_is_no_sql_server_is_an_error,
    what_sort_of_trouble_it_is_is_told_apart,
    a_wrong_password_is_said_without_it,
    a_missing_database_is_said,
    a_server_without_room_for_a_connection_is_out_until_it_has_some,
    a_read_only_server_is_out_until_it_takes_writes,
    four_grants_are_enough_for_all_but_the_table,
    a_missing_grant_is_said
);

/// Returns the error of a call, and asserts that it came in time and contains no secret.
#[track_caller]
fn refused<S: Trouble>(url: &str) -> String {
    unanswered::<S>(url, LONG)
}

/// Returns the error of a call as [`refused`] does, with this timeout for a server that does not reply.
#[track_caller]
fn unanswered<S: Trouble>(url: &str, timeout: Duration) -> String {
    said(&error_of::<S>(url, timeout))
}

#[track_caller]
fn error_of<S: Trouble>(url: &str, timeout: Duration) -> MutexError {
    let began = Instant::now();
    let error = S::open(url, timeout).create(&request("report")).expect_err("it can't be");
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    assert!(error.is_outage(), "{error:?}");
    let text = said(&error);
    assert!(text.starts_with("could not admit lease/report in ") && !text.contains("password@"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    error
}

#[test]
fn a_check_warns_of_rows_that_row_level_security_hides() {
    let server = <Postgres as SqlServer>::start();
    let mutex = Postgres::open(&server.user_with("SELECT, INSERT, UPDATE, DELETE"), LONG);
    assert_eq!(mutex.check().unwrap(), []);
    server.ask("ALTER TABLE soloist_mutexes ENABLE ROW LEVEL SECURITY");
    for (policies, why) in [
        (&["FOR ALL USING (false) WITH CHECK (true)"][..], "row-level security policy"),
        (&["FOR SELECT USING (true)", "FOR INSERT WITH CHECK (true)"], "changes or hides the entries of the store"),
    ] {
        for (at, policy) in policies.iter().enumerate() {
            server.ask(&format!("CREATE POLICY p{at} ON soloist_mutexes {policy}"));
        }
        let warnings = mutex.check().unwrap();
        let [warning] = &warnings[..] else { panic!("{policies:?}: {warnings:?}") };
        assert!(warning.to_string().contains(why), "{policies:?}: {warning}");
        for at in 0..policies.len() {
            server.ask(&format!("DROP POLICY p{at} ON soloist_mutexes"));
        }
    }
}

#[test]
fn a_first_host_that_hangs_leaves_time_for_the_second() {
    let [hanging, healthy] = [(); 2].map(|()| <Postgres as SqlServer>::start());
    let (before, host) =
        healthy.url().rsplit_once('@').map(|(before, host)| (before.to_owned(), host.to_owned())).unwrap();
    let url = hanging.url();
    let (_, first) = url.rsplit_once('@').unwrap();
    let url = format!("{before}@{},{host}?target_session_attrs=read-write", first.split('/').next().unwrap());
    hanging.pause(); // The kernel still accepts connections.
    let mutex = Postgres::open(&url, 4 * TIMEOUT);
    let lease = mutex.create(&request("report")).unwrap().expect("it is free");
    assert!(healthy.mutex().exists(lease.name()).unwrap());
    hanging.resume();
}

/// Asks during a failover: one host is down, and the other is still a standby.
#[test]
fn a_call_is_retried_while_one_host_is_down_and_the_other_takes_no_writes() {
    let server = <Postgres as SqlServer>::start();
    server.ask(Postgres::READ_ONLY[0]);
    let url = server.url();
    let (user, standby) = url.rsplit_once('@').unwrap();
    let standby = standby.strip_suffix("/app").unwrap();
    for hosts in [format!("127.0.0.1:1,{standby}"), format!("{standby},127.0.0.1:1")] {
        let (began, url) = (Instant::now(), format!("{user}@{hosts}/app?target_session_attrs=read-write"));
        let error = error_of::<Postgres>(&url, TIMEOUT);
        assert!(error.is_unavailable(), "{hosts}: {error:?}");
        assert!(began.elapsed() > TIMEOUT / 2, "{hosts}: {:?}", began.elapsed());
    }
}

/// Returns the port of a server that replies as a web server does.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = connection.read(&mut [0; 1024]);
        }
    });
    port
}

/// Tests that the errors distinguish no reply, a refusal, and another kind of server.
fn what_sort_of_trouble_it_is_is_told_apart<S: Trouble>() {
    let server = S::shared();
    let hole = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let nobody = at_port(&server.url(), hole.local_addr().expect("it listens").port());
    let web = at_port(&server.url(), web_server());
    let without_table = S::with(&[]);
    for (url, timeout, kind, headline) in [
        (nobody, TIMEOUT, MutexErrorKind::Unavailable, "the store did not answer: could not admit lease/report in "),
        (without_table.url(), LONG, MutexErrorKind::Refused, "the store refused: could not admit lease/report in "),
        (server.url().replace("password", "s3cret"), LONG, MutexErrorKind::Refused, "the store refused: could not "),
        (web, LONG, MutexErrorKind::Unusable, "the store could not be used: could not admit lease/report in "),
    ] {
        let error = error_of::<S>(&url, timeout);
        assert_eq!(error.kind(), kind, "{error}");
        let reason = SkipReason::StoreUnavailable(error).to_string();
        assert!(reason.starts_with(headline), "{reason}");
    }
}

fn by_kind<S: Trouble>(mysql: &'static str, postgres: &'static str) -> &'static str {
    if S::NOW.starts_with("UTC") { mysql } else { postgres }
}

fn at_port(url: &str, port: u16) -> String {
    let (head, database) = url.rsplit_once('/').expect("a database");
    let (head, _) = head.rsplit_once(':').expect("a port");
    format!("{head}:{port}/{database}")
}

fn a_server_that_accepts_and_never_answers_costs_one_time_out<S: Trouble>() {
    let server = S::shared();
    let proxy = Proxy::of(server);
    for fault in [Fault::Silence, Fault::Dribble, Fault::Endless] {
        proxy.fault_from_the_start(fault);
        let text = unanswered::<S>(&proxy.url(), TIMEOUT);
        assert!(
            fault != Fault::Silence
                || text.ends_with(
                    "no answer within 1s while connecting: check the host, the port, and whether the server uses TLS"
                ),
            "{fault:?}: {text}"
        );
    }
    // The system accepts the connection, and no process replies.
    let hole = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let hole = at_port(&server.url(), hole.local_addr().expect("it listens").port());
    let text = unanswered::<S>(&hole, TIMEOUT);
    assert!(
        text.ends_with(
            "no answer within 1s while connecting: check the host, the port, and whether the server uses TLS"
        ),
        "{text}"
    );
}

fn what_is_no_sql_server_is_an_error<S: Trouble>() {
    let url = S::shared().url();
    for greeting in [&b"SSH-2.0-OpenSSH_9.2\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\0\0\0\0\0", b""] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.expect("somebody connects");
                let _ = connection.write_all(greeting); // The client may have closed the connection.
                let _ = connection.set_read_timeout(Some(Duration::from_secs(1)));
                let _ = connection.read(&mut [0; 1024]);
            }
        });
        let text = refused::<S>(&at_port(&url, port));
        let asks = by_kind::<S>("is it a mysql server?", "is it a postgres server?");
        assert!(text.ends_with(asks) || text.contains("closed the connection"), "{greeting:?}: {text}");
    }
    refused::<S>(&at_port(&url, Redis::shared().port()));
}

fn a_wrong_password_is_said_without_it<S: Trouble>() {
    let text = refused::<S>(&S::shared().url().replace("password", "s3cret"));
    assert!(text.contains(by_kind::<S>("the server answered 1045 ", "the server answered 28P01 ")), "{text}");
    assert!(text.contains("; the user or the password in the url is wrong"), "{text}");
}

fn a_missing_database_is_said<S: Trouble>() {
    let text = refused::<S>(&S::shared().url().replace("/app", "/nowhere"));
    // MariaDB does not tell a user without access whether the database exists.
    let advice = by_kind::<S>(
        "; there is no such database, or the user in the url may not use it",
        "; create the database, or name another in the url",
    );
    assert!(text.ends_with(advice), "{text}");
}

fn a_server_without_room_for_a_connection_is_out_until_it_has_some<S: Trouble>() {
    let server = S::with(&["--max-connections=10"]);
    S::create_table(&server.mutex()).unwrap();
    let diary = Diary::default();
    let schedule = schedule(S::open(&server.url(), LONG), &diary);
    super::trouble::wait_until("nobody is there", || server.ask(S::CONNECTED).is_empty());
    let others: Vec<S::Client> = (0..10).map(|_| server.connect()).collect();
    let text = assert_out(&schedule, noon(), &diary);
    assert!(text.ends_with("; raise max_connections, or let fewer clients connect"), "{text}");
    // If there is room in time, no error is reported.
    let schedule = self::schedule(S::open(&server.url(), Duration::from_secs(40)), &diary);
    thread::scope(|scope| {
        let tick = scope.spawn(|| schedule.run_due(noon()));
        thread::sleep(Duration::from_millis(500)); // it was refused by then
        drop(others);
        assert_ran(&tick.join().unwrap());
    });
}

fn a_read_only_server_is_out_until_it_takes_writes<S: Trouble>() {
    let (server, diary) = (S::start(), Diary::default());
    let schedule = schedule(server.hasty(), &diary);
    assert_ran(&schedule.run_due(noon()));
    server.ask(S::READ_ONLY[0]);
    server.end_connections(); // The setting counts for later sessions.
    for _ in 0..2 {
        let text = assert_out(&schedule, minute(1), &diary);
        assert!(text.contains("; it takes no writes: connect to the primary"), "{text}");
    }
    server.ask(S::READ_ONLY[1]);
    assert_ran(&schedule.run_due(minute(1)));
    assert_eq!(server.held(), [claim(0), claim(1)]);
}

fn four_grants_are_enough_for_all_but_the_table<S: Trouble>() {
    let server = S::start();
    let mutex = S::open(&server.user_with("SELECT, INSERT, UPDATE, DELETE"), LONG);
    let diary = Diary::default();
    assert_ran(&schedule(mutex.clone(), &diary).run_due(noon()));
    let lease = mutex.create(&request("report")).unwrap().expect("it is free");
    assert!(extend(&mutex, std::slice::from_ref(&lease), Term::MAX).remove(0).unwrap());
    assert!(mutex.exists(lease.name()).unwrap() && holder(&mutex, lease.name()).is_some());
    assert!(mutex.break_lease(lease.name()).unwrap().is_some());
    assert!(!mutex.forget(&lease).unwrap());
    assert_eq!((S::purge(&mutex).unwrap(), mutex.check().unwrap()), (0, vec![]));
    let other = S::named(&server.user_with("SELECT, INSERT, UPDATE, DELETE"), "other");
    let text = said(&S::create_table(&other).expect_err("it may not"));
    assert!(text.starts_with("could not create the table other in "), "{text}");
    assert!(text.ends_with(RIGHTS), "{text}");
}

const RIGHTS: &str = "; the user in the url needs SELECT, INSERT, UPDATE and DELETE on the table; for a log of runs, it needs them \
                      on the table with _runs behind its name, too; to create the tables, it needs CREATE";

fn a_missing_grant_is_said<S: Trouble>() {
    let server = S::start();
    for grants in ["SELECT", "SELECT, INSERT", "INSERT, UPDATE, DELETE", "SELECT, UPDATE, DELETE"] {
        let text = refused::<S>(&server.user_with(grants));
        assert!(text.ends_with(RIGHTS), "{grants}: {text}");
    }
    for grants in ["SELECT", "SELECT, INSERT", "SELECT, UPDATE, DELETE", "SELECT, INSERT, UPDATE"] {
        let warnings = S::open(&server.user_with(grants), LONG).check().unwrap();
        let [warning] = &warnings[..] else { panic!("{grants}: {warnings:?}") };
        let text = warning.to_string();
        assert!(text.starts_with("the store refused a trial, ") && text.ends_with(RIGHTS), "{grants}: {text}");
    }
    let without_delete = S::open(&server.user_with("SELECT, INSERT, UPDATE"), LONG);
    let text = said(&S::purge(&without_delete).expect_err("it may not delete"));
    assert!(text.starts_with("could not purge the table ") && text.ends_with(RIGHTS), "{text}");
    // No call waits for the clean-up.
    assert!(without_delete.create(&request("report")).unwrap().is_some());
}
