//! The URL of a store, with an unescaped password: accepted or refused, and the password is never shown.

use std::error::Error;
use std::fmt::{Debug, Write};
use std::net::TcpListener;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use soloist::{EventMutex, MysqlMutex, PostgresMutex, RedisMutex, connect};

use super::Rounds;

/// The start and the end of a password. No error contains either.
const SECRETS: [&str; 2] = ["kqzx", "vwyp"];

const PIECES: [&str; 39] = [
    "@",
    "?",
    "#",
    "/",
    "//",
    ":",
    "%",
    "%zz",
    "%40",
    "%00",
    "%ff",
    "=",
    "&",
    "[",
    "]",
    "[::1]",
    " ",
    "\t",
    "\n",
    "\0",
    "\\",
    "'",
    "\"",
    "é",
    "😀",
    "+",
    ",",
    ";",
    "~",
    "1",
    "65536",
    "-1",
    "host=",
    "db=",
    "ssl-mode=",
    "sslmode=",
    "prefix=",
    "table=",
    "timeout=1s",
];

#[derive(Clone, Debug)]
struct Url {
    scheme: String,
    user: String,
    password: String,
    host: String,
    rest: String,
}

impl Url {
    fn text(&self) -> String {
        let Self { scheme, user, password, host, rest } = self;
        let [begin, end] = SECRETS;
        format!("{scheme}://{user}:{begin}{password}{end}@{host}{rest}")
    }
}

fn junk(most: usize) -> impl Strategy<Value = String> {
    let pieces = vec(select(&PIECES[..]), 0..most).prop_map(|pieces| pieces.concat());
    prop_oneof![3 => pieces, 1 => "[ -~]{0,6}", 1 => vec(any::<char>(), 0..4).prop_map(String::from_iter)]
}

fn urls(host: String) -> impl Strategy<Value = Url> {
    let schemes =
        vec!["redis", "rediss", "redis+unix", "mysql", "mariadb", "postgres", "postgresql", "POSTGRES", "amqp"];
    let rests = vec![
        "",
        "/",
        "/0",
        "/app",
        "/app?",
        "/app?ssl-mode=REQUIRED",
        "/app?socket=/run/my",
        "/app?client_found_rows=true",
        "/app?sslmode=require",
        "/app?connect_timeout=1&application_name=a",
        "/run/r.sock?db=1",
        "/0?prefix=app",
        "/app?table=app&timeout=1s&",
    ];
    let hosts = prop_oneof![3 => Just(host), 1 => Just(String::new()), 1 => Just("a,b:70".to_owned()), 1 => junk(4)];
    let rest = (select(rests), junk(3)).prop_map(|(rest, junk)| format!("{rest}{junk}"));
    let users = prop_oneof![3 => Just("user".to_owned()), 1 => Just(String::new()), 1 => junk(2).prop_map(|user| user.replace('/', ""))];
    (select(schemes), users, junk(4), hosts, rest).prop_map(|(scheme, user, password, host, rest)| Url {
        scheme: scheme.to_owned(),
        user,
        password,
        host,
        rest,
    })
}

#[track_caller]
fn assert_shows_no_secret(what: &str, shown: &str) {
    let lower = shown.to_lowercase();
    assert!(!SECRETS.iter().any(|secret| lower.contains(secret)), "{what} shows the password: {shown}");
}

/// Asserts that an error is a sentence on one line, and that neither the error, its sources nor the store show a
/// password.
#[track_caller]
fn judge_answer<S: Debug, E: Error>(answer: Result<S, E>, kinds: [&str; 2]) {
    match answer {
        Ok(store) => assert_shows_no_secret("the store", &format!("{store:?}")),
        Err(error) => {
            let said = error.to_string();
            assert!(kinds.iter().any(|kind| said.contains(kind)) && !said.contains('\n'), "{said:?}");
            let mut shown = format!("{said} {error:?}");
            let mut source = error.source();
            while let Some(cause) = source {
                write!(shown, " {cause} {cause:?}").expect("a text takes what is written to it");
                source = cause.source();
            }
            assert_shows_no_secret("the error", &shown);
        }
    }
}

fn judge(text: &str) {
    judge_answer(connect(text), ["", ""]);
    judge_answer(RedisMutex::new(text), ["the url of a redis server ", "the prefix of keys "]);
    judge_answer(MysqlMutex::new(text), ["the url of a mysql server ", "the name of a table "]);
    judge_answer(PostgresMutex::new(text), ["the url of a postgres server ", "the name of a table "]);
}

#[test]
fn no_url_shows_its_password_or_connects_at_once() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    nobody.set_nonblocking(true).expect("it can");
    let host = nobody.local_addr().expect("it has one").to_string();
    Rounds { rounds: 4, inputs: 250 }.feed(|| urls(host), |url| judge(&url.text()));
    assert!(nobody.accept().is_err(), "something was asked before the first question");
}

#[test]
fn no_text_is_too_strange_to_be_refused_as_a_url() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("of-a-store").to_str().expect("a plain path").to_owned();
    let inputs = move || {
        let schemes =
            vec!["", "memory:", "file:", "file://", "redis:", "redis+unix:", "mysql:", "postgres:", "redis://"];
        (select(schemes), junk(8), "[ -~]{0,12}").prop_map(move |(scheme, junk, rest)| {
            // Paths must lie in the temporary directory.
            let path = if scheme.starts_with("file") { &*path } else { "" };
            format!("{scheme}{path}{}{}", junk.replace(['.', '/'], ""), rest.replace(['.', '/'], ""))
        })
    };
    Rounds { rounds: 5, inputs: 200 }.feed(inputs, |text| {
        if let Ok(store) = connect(text) {
            let name = soloist::MutexName::lease("fuzzed").expect("a name");
            if store.describe().scope() != soloist::store::Scope::Fleet {
                assert!(!store.exists(&name).expect("it answers"));
            }
        }
    });
}
