//! Proxies.

use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mysql::prelude::Queryable;
use postgres::NoTls;

use super::super::mariadb::Mariadb;
use super::super::postgres::Postgres;
use super::super::process::PATIENCE;
use super::super::proxy::{Fault, Proxy, REFUSING};
use super::super::redis::Redis;
use super::A_WHILE;
use super::redis::{Client, text};

#[test]
fn a_proxy_passes_on_what_is_said_and_counts_who_says_it() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    assert_eq!(proxy.connections(), 0);
    let mut client = Client::of(&proxy.url());
    client.asks("SET key value", "+OK\r\n");
    client.asks("MGET key none", "*2\r\n$5\r\nvalue\r\n$-1\r\n");
    client.asks("SET", "-ERR wrong number of arguments for 'set' command\r\n");
    client.asks("HELLO 3", "%"); // a reply of the newer protocol
    client.read_all();
    client.asks("CONFIG GET port", &format!("%1\r\n$4\r\nport\r\n$5\r\n{}\r\n", server.port()));
    Client::of(&proxy.url()).asks("PING", "+PONG\r\n");
    assert_eq!(proxy.connections(), 2);
    proxy.cut();
    client.expects_at_last("");
    assert_eq!(server.ask(&["GET", "key"]), text("value"));
}

#[test]
fn a_proxy_fails_as_it_is_told_once_the_connection_is_set_up() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    // The fault; the client's reply; whether the connection ends; whether the server acted.
    let cases = [
        (Fault::Silence, "", false, false),
        (Fault::Cut, "", true, false),
        (Fault::Answer(b"-OOM no room\r\n"), "-OOM no room\r\n", false, false),
        (Fault::ReplyLost, "", false, true),
        (Fault::ReplyCut, "", true, true),
        (Fault::HalfAReply, "+O", false, true),
        (Fault::ReplyCutInHalf, "+O", true, true),
        (Fault::ReplyHeld, "", false, true),
        (Fault::HalfClosed, "", true, true),
        (Fault::Dribble, "$500000000\r\n1", false, true),
        (Fault::Endless, "$500000000\r\n1111", false, true),
    ];
    for (fault, heard, ends, acted) in cases {
        server.ask(&["FLUSHALL"]);
        proxy.fault(fault);
        let mut client = Client::of(&proxy.url());
        client.asks("CLIENT SETNAME store", "+OK\r\n");
        client.say("SET key value");
        proxy.wait_until_met();
        assert_eq!(server.ask(&["DBSIZE"]).number() == 1, acted, "{fault:?}");
        if ends {
            client.expects_at_last(heard);
        } else {
            client.expects(heard);
            let (more, ended) = client.read_all();
            let endless = matches!(fault, Fault::Dribble | Fault::Endless);
            assert!((endless || more.is_empty()) && !ended, "{fault:?}: {more}");
        }
        proxy.mend();
        if fault == Fault::ReplyHeld {
            client.expects("+OK\r\n");
        }
        Client::of(&proxy.url()).asks("PING", "+PONG\r\n");
    }
}

#[test]
fn a_proxy_holds_a_request_until_it_is_mended_and_the_client_gone() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    proxy.fault(Fault::RequestHeld);
    let mut client = Client::of(&proxy.url());
    client.asks("CLIENT SETNAME store", "+OK\r\n");
    let replies = proxy.replies();
    client.say("SET key value");
    proxy.wait_until_met();
    drop(client);
    assert_eq!(server.ask(&["DBSIZE"]).number(), 0);
    proxy.mend();
    proxy.wait_for_replies(replies + 1);
    assert_eq!(server.ask(&["DBSIZE"]).number(), 1);
}

#[test]
fn a_proxy_fails_once_where_it_is_told_to() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    proxy.fault_once(Fault::ReplyCut);
    assert_eq!(proxy.met(), 0);
    let mut client = Client::of(&proxy.url());
    client.say("SET key value");
    client.expects_at_last("");
    assert_eq!(proxy.met(), 1);
    Client::of(&proxy.url()).asks("GET key", "$5\r\nvalue\r\n");
}

#[test]
fn a_proxy_fails_in_another_way_from_then_on_where_it_is_told_to() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    proxy.fault_once_after_then(Fault::ReplyCut, 1, Fault::Cut);
    let mut client = Client::of(&proxy.url());
    client.asks("GET first", "$-1\r\n");
    client.say("SET first value");
    client.expects_at_last("");
    for _ in 0..2 {
        let mut client = Client::of(&proxy.url());
        client.say("SET second value");
        client.expects_at_last("");
    }
    assert_eq!(server.ask(&["DBSIZE"]).number(), 1, "it has heard of the first alone");
    proxy.mend();
    Client::of(&proxy.url()).asks("GET first", "$5\r\nvalue\r\n");
}

#[test]
fn a_proxy_delays_replies_by_as_much_as_it_is_told_to() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    proxy.delay_replies(A_WHILE);
    let began = Instant::now();
    Client::of(&proxy.url()).asks("PING", "+PONG\r\n");
    assert!(began.elapsed() >= A_WHILE);
}

#[test]
fn a_proxy_fails_from_the_start_where_it_is_told_to() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    proxy.fault_from_the_start(Fault::Silence);
    Client::of(&proxy.url()).asks_in_vain("CLIENT SETNAME store");
    proxy.fault_from_the_start(Fault::Answer(b"HTTP/1.1 400 Bad Request\r\n"));
    Client::of(&proxy.url()).asks("CLIENT SETNAME store", "HTTP/1.1 400 Bad Request\r\n");
    assert!(TcpStream::connect(REFUSING.strip_prefix("redis://").unwrap()).is_err());
}

/// The ends of a statement on a connection from before the fault: true for success, false for an error, none for
/// no end within a while. The second value is the end after the fault was mended, which differs only from none.
type Ends = [Option<bool>; 2];

/// The fault; how the statement ends; whether the server acted before it was mended.
const SQL_FAULTS: [(Fault, Ends, bool); 10] = [
    (Fault::Silence, [None, None], false),
    (Fault::Cut, [Some(false), Some(false)], false),
    (Fault::RequestHeld, [None, Some(true)], false),
    (Fault::ReplyLost, [None, None], true),
    (Fault::ReplyCut, [Some(false), Some(false)], true),
    (Fault::HalfAReply, [None, None], true),
    (Fault::ReplyCutInHalf, [Some(false), Some(false)], true),
    (Fault::ReplyHeld, [None, Some(true)], true),
    (Fault::HalfClosed, [Some(false), Some(false)], true),
    (Fault::Dribble, [None, None], true),
];

/// Connects through the proxy, inserts one row under each fault, and checks the end.
#[track_caller]
fn fails_as_it_is_told(
    proxy: &Proxy,
    insert: impl Fn(&str) -> Box<dyn FnOnce() -> bool + Send>,
    rows: impl Fn() -> String,
) {
    for (fault, ends, acts) in SQL_FAULTS {
        let insert = insert(&proxy.url());
        let before = rows();
        proxy.fault(fault);
        let (says, hears) = mpsc::channel();
        thread::spawn(move || says.send(insert()));
        proxy.wait_until_met();
        let patience = |end: Option<bool>| if end.is_some() { PATIENCE } else { A_WHILE };
        let at_first = hears.recv_timeout(patience(ends[0])).ok();
        assert_eq!((at_first, rows() != before), (ends[0], acts), "{fault:?}");
        proxy.mend();
        assert_eq!(at_first.or_else(|| hears.recv_timeout(patience(ends[1])).ok()), ends[1], "{fault:?}, mended");
        proxy.cut();
    }
}

#[test]
fn a_proxy_of_mariadb_fails_as_it_is_told_once_the_connection_is_set_up() {
    let server = Mariadb::start();
    server.ask("CREATE TABLE things (number INT)");
    let insert = |url: &str| -> Box<dyn FnOnce() -> bool + Send> {
        let mut store = super::mariadb::client(url);
        Box::new(move || store.query_drop("INSERT INTO things VALUES (1)").is_ok())
    };
    let rows = || server.ask("SELECT COUNT(*) FROM things")[0][0].clone().unwrap();
    fails_as_it_is_told(&Proxy::of(&server), insert, rows);
}

#[test]
fn a_proxy_of_postgresql_fails_as_it_is_told_once_the_connection_is_set_up() {
    let server = Postgres::start();
    server.ask("CREATE TABLE things (number INT); ALTER TABLE things OWNER TO owner");
    let insert = |url: &str| -> Box<dyn FnOnce() -> bool + Send> {
        let mut store = postgres::Client::connect(url, NoTls).unwrap();
        Box::new(move || store.batch_execute("INSERT INTO things VALUES (1)").is_ok())
    };
    let rows = || server.ask("SELECT COUNT(*) FROM things")[0][0].clone().unwrap();
    fails_as_it_is_told(&Proxy::of(&server), insert, rows);
}

#[test]
fn a_proxy_accepts_silently_where_it_is_told_to() {
    let (mariadb, postgres) = (Mariadb::shared(), Postgres::shared());
    for proxy in [Proxy::of(mariadb), Proxy::of(postgres)] {
        proxy.fault_from_the_start(Fault::Silence);
        let mut client = Client::of(&proxy.url());
        // A version of PostgreSQL's protocol, and no user.
        client.asks_in_vain("\0\0\0\u{8}\0\u{3}\0\0");
        assert_eq!(proxy.connections(), 1);
        proxy.cut();
        client.expects_at_last("");
    }
}
