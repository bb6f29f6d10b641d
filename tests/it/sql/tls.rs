//! Encrypted connections: who is trusted, and what is said where nobody is.

use std::net::{TcpListener, TcpStream};
use std::thread;

use soloist::EventMutex;

use super::trouble::{Trouble, request, said};
use super::{LONG, on_both};

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
    // Who is vouched for by nobody that we trust: the system's authorities, or another one.
    for mutex in [S::open(&server.tls_url(), LONG), S::trusting(&server.tls_url(), S::with_tls().ca())] {
        let text = refused(&mutex);
        let reasons = ["UnknownIssuer", "BadSignature", "the system trusts no root certificate"];
        assert!(reasons.iter().any(|reason| text.contains(reason)) && !text.contains("is it a"), "{text}");
    }
}

fn a_plain_connection_to_a_server_that_wants_encryption_is_refused<S: Trouble>() {
    let text = refused(&S::open(&S::with_tls().url(), LONG));
    let advice = if text.contains(" in mysql:") {
        "; the user or the password in the url is wrong, or it wants TLS, as in ?ssl-mode=REQUIRED"
    } else {
        "; the user or the password in the url is wrong, or pg_hba.conf lets nobody in from here, or not without TLS"
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
