//! Connections without encryption: when a password is sent in plain text, and the warning about it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use soloist::store::StoreWarning;
use soloist::{EventMutex, PostgresMutex};

use super::trouble::{Trouble, request, said};
use super::{LONG, SqlServer, on_both};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::support::PATIENCE;

on_both!(a_plain_connection_that_leaves_this_host_is_warned_of);

/// Returns an address of this server that is not known to be local.
fn elsewhere(url: &str) -> String {
    url.replace("127.0.0.1", "0.0.0.0")
}

trait Warns {
    const INSTEAD: &'static str;
}

impl Warns for Mariadb {
    const INSTEAD: &'static str = "?ssl-mode=REQUIRED";
}

impl Warns for Postgres {
    const INSTEAD: &'static str = "?sslmode=require";
}

fn a_plain_connection_that_leaves_this_host_is_warned_of<S: Trouble + Warns>() {
    let server = S::shared();
    assert_eq!(server.mutex().check().unwrap(), []);
    let warnings = S::open(&elsewhere(&server.url()), LONG).check().unwrap();
    let text = format!(
        "the connection to another host is not encrypted: others on the network can read the password and change answers; use TLS, \
         with {} in the url",
        S::INSTEAD
    );
    assert_eq!(warnings, [StoreWarning::new(text)]);
}

/// Starts a server that asks for the password in plain text. Returns its port, and the messages after the first.
fn curious() -> (u16, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut startup = [0; 1024];
            let _ = connection.read(&mut startup);
            let _ = connection.write_all(b"R\0\0\0\x08\0\0\0\x03");
            let mut answer = [0; 1024];
            let length = connection.read(&mut answer).unwrap_or_default(); // Nothing if the client has given up.
            let _ = tell.send(answer[..length].to_vec());
        }
    });
    (port, told)
}

#[test]
fn a_server_elsewhere_that_asks_for_the_password_in_plain_text_does_not_get_it() {
    for (host, is_local) in [("0.0.0.0", false), ("127.0.0.1", true), ("localhost", true)] {
        let (port, told) = curious();
        let url = format!("postgres://app:s3cret@{host}:{port}/app");
        let mutex = PostgresMutex::builder(&url).timeout(LONG).build().unwrap();
        let error = mutex.create(&request("report")).expect_err("it is no server");
        let answer = told.recv_timeout(PATIENCE).expect("somebody connected");
        assert_eq!(answer.windows(6).any(|word| word == b"s3cret"), is_local, "{host} was told {answer:?}");
        if !is_local {
            assert!(error.is_unusable() && error.is_outage(), "{error:?}");
            let why = "the server wants the password in plain text, and the connection is not encrypted: use \
                       sslmode=require in the url (feature postgres-tls), or scram-sha-256 in the server's pg_hba.conf";
            assert!(said(&error).ends_with(why), "{error}");
        }
    }
}

#[test]
fn a_postgres_that_wants_plain_passwords_is_used_on_this_host_and_one_with_scram_everywhere() {
    let server = <Postgres as SqlServer>::start();
    assert!(Postgres::open(&elsewhere(&server.url()), LONG).create(&request("scram")).unwrap().is_some());
    let access = "local all all trust\nhost all all 127.0.0.1/32 password\n";
    fs::write(server.directory().join("data/pg_hba.conf"), access).expect("it can be written");
    server.ask("SELECT pg_reload_conf()");
    super::trouble::wait_until("it asks for plain passwords", || {
        Postgres::open(&elsewhere(&server.url()), LONG).exists(request("x").name()).is_err()
    });
    assert!(server.mutex().create(&request("plain")).unwrap().is_some());
}
