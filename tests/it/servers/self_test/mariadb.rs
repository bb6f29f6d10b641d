//! MariaDB: the faults of the tests work, and its counters count everything.

use std::net::{Ipv4Addr, TcpStream};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use super::super::mariadb::{Mariadb, Rows, ask};
use super::super::process::{PATIENCE, state};
use super::{A_WHILE, verifies};

/// A table of one column.
const TABLE: &str = "CREATE TABLE things (name VARCHAR(20) PRIMARY KEY)";

/// Connects as a store does. Without the option, the driver would ask the server for its Unix socket, and bypass a
/// proxy.
pub(super) fn client(url: &str) -> Conn {
    Conn::new(Opts::from_url(&format!("{url}?prefer_socket=false")).expect("a URL")).expect("it accepts")
}

fn row(words: &[&str]) -> Rows {
    vec![words.iter().map(|&word| Some(word.to_owned())).collect()]
}

#[test]
fn a_server_starts_empty_and_keeps_its_data_over_a_kill() {
    let server = Mariadb::start();
    let mut store = client(&server.url());
    assert_eq!(ask(&mut store, "SHOW TABLES").unwrap(), Rows::new());
    store.query_drop(TABLE).unwrap();
    store.query_drop("INSERT INTO things VALUES ('one')").unwrap();
    let pid = server.pid();

    server.kill();
    assert_eq!(state(pid), None, "it is gone");
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).is_err());
    assert!(server.try_ask("SELECT 1").is_err());

    server.start_again();
    assert_eq!(ask(&mut client(&server.url()), "SELECT * FROM things").unwrap(), row(&["one"]));
}

#[test]
fn a_paused_server_accepts_and_answers_when_it_goes_on() {
    let server = Mariadb::start();
    server.pause();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).is_ok());
    assert!(!server.answers_within(A_WHILE));
    server.resume();
    assert!(server.answers_within(PATIENCE));
    server.pause();
    server.kill();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).is_err());
}

#[test]
fn a_server_listens_to_its_options() {
    let options = ["--transaction-isolation=READ-COMMITTED", "--sql-mode=", "--default-time-zone=+05:00"];
    let server = Mariadb::with(&options);
    let asked = server.ask("SELECT @@tx_isolation, @@sql_mode, @@time_zone, @@bind_address");
    assert_eq!(asked, row(&["READ-COMMITTED", "", "+05:00", "127.0.0.1"]));
}

#[test]
fn a_user_may_do_what_is_granted_and_nothing_else() {
    let server = Mariadb::shared();
    server.ask("CREATE TABLE IF NOT EXISTS granted (name VARCHAR(20))");
    let mut user = client(&server.user_with("SELECT, INSERT"));
    user.query_drop("INSERT INTO granted VALUES ('one')").unwrap();
    assert_eq!(ask(&mut user, "SELECT DISTINCT name FROM granted").unwrap(), row(&["one"]));
    for refused in ["DELETE FROM granted", "UPDATE granted SET name = ''", "CREATE TABLE others (a INT)"] {
        let error = ask(&mut user, refused).unwrap_err().to_string();
        assert!(error.contains(" command denied to user "), "{refused}: {error}");
    }
    let mut owner = client(&server.url());
    let error = ask(&mut owner, "SELECT * FROM mysql.global_priv").unwrap_err().to_string();
    assert!(error.contains(" command denied to user "), "{error}");
}

#[test]
fn a_server_counts_what_stores_do_and_not_that_it_is_looked_at() {
    let server = Mariadb::start();
    server.ask(TABLE);
    let mut store = server.connection();
    // The first statement on a table reads its statistics.
    ask(&mut store, "INSERT INTO things VALUES ('zero')").unwrap();
    let names = ["Com_commit", "Rows_read", "Handler_write", "Handler_read_key", "Questions"];
    let look = || names.map(|name| server.status(name));
    let before = look();
    for statement in ["BEGIN", "INSERT INTO things VALUES ('one')", "COMMIT"] {
        ask(&mut store, statement).unwrap();
    }
    let after = look();
    let counted: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(counted[..4], [1, 0, 1, 0]);
    // Reading the counter is a request. The end of an earlier connection may count, too.
    assert!(counted[4] >= 3 + names.len() as u64, "{counted:?}");
}

#[test]
fn a_server_with_a_certificate_speaks_tls_alone() {
    let server = Mariadb::with_tls();
    let other = Mariadb::with_tls();
    assert!(verifies("mysql", server.port(), &server.ca()));
    assert!(!verifies("mysql", server.port(), &other.ca()), "another authority does not vouch for it");
    let plain = Conn::new(Opts::from_url(&server.url()).unwrap()).unwrap_err().to_string();
    assert!(plain.contains("Access denied") || plain.contains("require_secure_transport=ON"), "{plain}");
    assert!(server.tls_url().starts_with(&server.url()));
    assert!(server.answers_within(PATIENCE), "a witness comes by the socket");
}
