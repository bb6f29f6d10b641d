//! Encrypted connections: the trusted authorities, and the errors of others.

use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use rustls::crypto::{CryptoProvider, ring};
use soloist::EventMutex;

use super::trouble::{Trouble, request, said};
use super::{LONG, on_both};
use crate::servers::mariadb::Mariadb;

on_both!(
    an_encrypted_connection_needs_the_authority_of_the_server,
    a_plain_connection_to_a_server_that_wants_encryption_is_refused,
    an_encrypted_connection_to_a_server_without_encryption_is_refused,
    a_name_that_the_certificate_does_not_have_is_refused
);

#[track_caller]
fn refused<M: EventMutex>(mutex: &M) -> String {
    let error = mutex.create(&request("report")).expect_err("it can't be trusted");
    assert!(error.is_outage(), "{error:?}");
    let text = said(&error);
    assert!(text.starts_with("could not admit lease/report in ") && !text.contains("password@"), "{text}");
    text
}

fn an_encrypted_connection_needs_the_authority_of_the_server<S: Trouble>() {
    let server = S::with_tls();
    let mutex = S::trusting(&server.tls_url(), server.ca());
    S::create_table(&mutex).unwrap();
    let lease = mutex.create(&request("report")).unwrap().expect("it is free");
    assert!(S::trusting(&server.tls_url(), server.ca()).exists(lease.name()).unwrap());
    assert!(mutex.forget(&lease).unwrap());
    // The authority is not trusted: by the system, or by our own list.
    for mutex in [S::open(&server.tls_url(), LONG), S::trusting(&server.tls_url(), S::with_tls().ca())] {
        let text = refused(&mutex);
        let reasons = ["UnknownIssuer", "BadSignature", "the system trusts no root certificate"];
        assert!(reasons.iter().any(|reason| text.contains(reason)) && !text.contains("is it a"), "{text}");
        assert!(text.contains(" to `root_certificates(..)` of the builder"), "{text}");
    }
}

fn a_plain_connection_to_a_server_that_wants_encryption_is_refused<S: Trouble>() {
    let text = refused(&S::open(&S::with_tls().url(), LONG));
    let advice = if text.contains(" in mysql:") {
        "; the user or the password in the url is wrong, or the server wants TLS: write ?ssl-mode=REQUIRED"
    } else {
        "; the user or the password in the url is wrong, or pg_hba.conf lets no client in from here, or only with TLS"
    };
    assert!(text.ends_with(advice), "{text}");
}

fn an_encrypted_connection_to_a_server_without_encryption_is_refused<S: Trouble>() {
    let server = S::without_tls();
    let text = refused(&S::trusting(&server.tls_url(), S::with_tls().ca()));
    let reasons = ["server does not support TLS", "asked for SSL but server does not have this capability"];
    assert!(reasons.iter().any(|reason| text.contains(reason)) && !text.contains("is it a"), "{text}");
}

fn a_name_that_the_certificate_does_not_have_is_refused<S: Trouble>() {
    let server = S::with_tls();
    let here = server.address().1;
    let listener = TcpListener::bind("127.0.0.2:0").expect("Linux has all of 127");
    let there = listener.local_addr().expect("it listens").to_string();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(("127.0.0.1", here)).expect("the server is there");
            let ends = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
            for (from, to) in ends {
                thread::spawn(move || std::io::copy(&mut from.expect("a stream"), &mut to.expect("a stream")));
            }
        }
    });
    let url = server.tls_url().replace(&format!("127.0.0.1:{here}"), &there);
    let text = refused(&S::trusting(&url, server.ca()));
    assert!(text.contains("NotValidForName") || text.contains("not valid for name"), "{text}");
}

/// The URL and the certificate of the server, for a process of its own: those of the tests share their provider.
const SERVER: [&str; 2] = ["SOLOIST_TEST_TLS_URL", "SOLOIST_TEST_TLS_CA"];

#[test]
fn mysql_takes_the_provider_of_the_process_and_installs_none() {
    if let [Ok(url), Ok(ca)] = SERVER.map(env::var) {
        let mutex = Mariadb::trusting(&url, fs::read(ca).expect("there is a certificate"));
        let text = refused(&mutex);
        assert!(text.ends_with("::default_provider().install_default() when the program starts"), "{text}");
        assert!(CryptoProvider::get_default().is_none(), "it is the program's to choose");
        ring::default_provider().install_default().expect("nobody has installed one");
        assert!(mutex.create(&request("report")).unwrap().is_some());
        return;
    }
    let server = Mariadb::with_tls();
    Mariadb::trusting(&server.tls_url(), Trouble::ca(&server)).create_table().unwrap();
    let mut child = Command::new(env::current_exe().expect("it is this one"));
    child.args(["--exact", "sql::tls::mysql_takes_the_provider_of_the_process_and_installs_none", "--nocapture"]);
    child.env(SERVER[0], server.tls_url()).env(SERVER[1], server.ca());
    let output = child.output().expect("it starts");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
