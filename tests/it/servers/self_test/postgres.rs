//! PostgreSQL: the faults of the tests work, and its counters count everything.

use std::net::{Ipv4Addr, TcpStream};

use postgres::{Client, NoTls};

use super::super::postgres::{Postgres, Rows, ask, count};
use super::super::process::{PATIENCE, state};
use super::{A_WHILE, verifies, wait_until};

/// A table of one column.
const TABLE: &str = "CREATE TABLE things (name TEXT PRIMARY KEY)";

/// Connects as a store does.
fn client(url: &str) -> Client {
    Client::connect(url, NoTls).expect("it accepts")
}

fn row(words: &[&str]) -> Rows {
    vec![words.iter().map(|&word| Some(word.to_owned())).collect()]
}

#[test]
fn a_server_starts_empty_and_keeps_its_data_over_a_kill() {
    let server = Postgres::start();
    let mut store = client(&server.url());
    assert_eq!(ask(&mut store, "SELECT * FROM pg_tables WHERE schemaname = 'public'").unwrap(), Rows::new());
    ask(&mut store, TABLE).unwrap();
    ask(&mut store, "INSERT INTO things VALUES ('one')").unwrap();
    let processes = server.processes();
    assert!(processes.len() > 2 && processes.contains(&server.pid()), "the store's has one too: {processes:?}");

    server.kill();
    assert!(processes.into_iter().all(is_gone), "they are gone");
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).is_err());
    assert!(server.try_ask("SELECT 1").is_err());

    server.start_again();
    assert_eq!(ask(&mut client(&server.url()), "SELECT * FROM things").unwrap(), row(&["one"]));
}

/// Returns whether the process has ended; it may be a zombie.
fn is_gone(process: u32) -> bool {
    matches!(state(process), None | Some('Z'))
}

#[test]
fn a_paused_server_accepts_and_answers_when_it_goes_on() {
    let server = Postgres::start();
    let _store = client(&server.url());
    server.pause();
    assert!(server.processes().into_iter().all(|process| matches!(state(process), Some('T' | 'Z'))));
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).is_ok());
    assert!(!server.answers_within(A_WHILE));
    server.resume();
    assert!(server.answers_within(PATIENCE));
    server.pause();
    let processes = server.processes();
    server.kill();
    assert!(processes.into_iter().all(is_gone), "they are gone");
}

#[test]
fn a_server_and_its_directory_go_with_the_value() {
    let server = Postgres::start();
    let (processes, directory) = (server.processes(), server.directory().to_owned());
    let segments = || std::fs::read_to_string("/proc/sysvipc/shm").expect("Linux has one");
    let segment = std::fs::read_to_string(directory.join("data/postmaster.pid")).expect("it runs");
    let segment = segment.lines().nth(6).and_then(|line| line.split_whitespace().last()).expect("it has one");
    let is_there = || segments().lines().any(|line| line.split_whitespace().nth(1) == Some(segment));
    assert!(directory.is_dir() && is_there());
    drop(server);
    assert!(processes.into_iter().all(is_gone) && !directory.exists() && !is_there());
}

#[test]
fn a_server_listens_to_its_options() {
    let server = Postgres::with(&["--default-transaction-isolation=serializable", "-c", "TimeZone=+05"]);
    let asked = server.ask("SELECT current_setting('transaction_isolation'), current_setting('listen_addresses')");
    assert_eq!(asked, row(&["serializable", "127.0.0.1"]));
}

#[test]
fn a_user_may_do_what_is_granted_and_nothing_else() {
    let server = Postgres::start();
    server.ask("CREATE TABLE before (name TEXT)");
    let mut user = client(&server.user_with("SELECT, INSERT"));
    server.ask("CREATE TABLE afterwards (name TEXT)");
    for table in ["before", "afterwards"] {
        ask(&mut user, &format!("INSERT INTO {table} VALUES ('one')")).unwrap();
        assert_eq!(ask(&mut user, &format!("SELECT name FROM {table}")).unwrap(), row(&["one"]));
    }
    let changes = ["DELETE FROM before", "UPDATE afterwards SET name = ''"];
    for refused in changes.into_iter().chain(["CREATE TABLE others (a INT)", "CREATE TEMPORARY TABLE others (a INT)"]) {
        let error = ask(&mut user, refused).unwrap_err();
        assert!(error.as_db_error().is_some_and(|error| error.code().code() == "42501"), "{refused}: {error}");
    }
    let mut creator = client(&server.user_with("CREATE"));
    ask(&mut creator, TABLE).unwrap();
    assert!(ask(&mut creator, "SELECT * FROM before").is_err());
}

#[test]
fn a_server_counts_what_stores_do_when_it_was_told_to_count() {
    let server = Postgres::start();
    server.ask(TABLE);
    let mut store = server.connection();
    count(&mut store).unwrap();
    let look = || [server.status("xact_commit"), server.status("tup_inserted")];
    let before = look();
    assert_eq!(look(), before, "to look does not count");
    for statement in ["BEGIN", "INSERT INTO things VALUES ('one')", "COMMIT", "SELECT 1"] {
        ask(&mut store, statement).unwrap();
    }
    count(&mut store).unwrap();
    // The request to count is a transaction, too.
    assert_eq!(look(), [before[0] + 3, before[1] + 1]);
    assert_eq!(server.table_status("things", "n_tup_ins"), 1);
    assert_eq!(server.table_status("things", "n_tup_del"), 0);

    ask(&mut store, "DELETE FROM things").unwrap();
    drop(store);
    wait_until("an end counts", || server.table_status("things", "n_tup_del") == 1);
}

#[test]
fn a_server_with_a_certificate_speaks_tls_alone() {
    let server = Postgres::with_tls();
    let other = Postgres::with_tls();
    assert!(verifies("postgres", server.port(), &server.ca()));
    assert!(!verifies("postgres", server.port(), &other.ca()), "another authority does not vouch for it");
    let plain = Client::connect(&server.url(), NoTls).err().expect("it refuses");
    assert!(plain.as_db_error().is_some_and(|error| error.message().contains("no encryption")), "{plain}");
    assert!(server.tls_url().starts_with(&server.url()));
    assert!(server.answers_within(PATIENCE), "a witness comes by the socket");
}
