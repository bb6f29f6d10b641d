//! Redis: the faults of the tests work, and its monitor shows everything.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::super::process::PATIENCE;
use super::super::redis::Redis;
use super::super::resp::Reply;
use super::A_WHILE;

/// A store's connection, by the address of a URL.
pub(super) struct Client(TcpStream);

impl Client {
    #[track_caller]
    pub(super) fn of(url: &str) -> Self {
        let (_, rest) = url.split_once("://").expect("a URL");
        let address = rest.split('/').next().and_then(|authority| authority.rsplit('@').next()).expect("an address");
        let stream = TcpStream::connect(address).expect("it accepts");
        Self(stream)
    }

    pub(super) fn say(&mut self, words: &str) {
        let _ = write!(self.0, "{words}\r\n");
    }

    /// Asserts that this comes next.
    #[track_caller]
    pub(super) fn expects(&mut self, answer: &str) {
        let mut bytes = vec![0; answer.len()];
        self.0.set_read_timeout(Some(PATIENCE)).expect("it has a timeout");
        self.0.read_exact(&mut bytes).unwrap_or_else(|error| panic!("{error} instead of {answer:?}"));
        assert_eq!(String::from_utf8_lossy(&bytes), answer);
    }

    /// Asserts that this comes next, and then the end.
    #[track_caller]
    pub(super) fn expects_at_last(&mut self, answer: &str) {
        let mut bytes = Vec::new();
        self.0.set_read_timeout(Some(PATIENCE)).expect("it has a timeout");
        // A connection may end with an error.
        let error = self.0.read_to_end(&mut bytes).err();
        assert_eq!(String::from_utf8_lossy(&bytes), answer, "{error:?}");
        assert!(error.is_none_or(|error| error.kind() != ErrorKind::WouldBlock), "it did not end");
    }

    /// Reads all bytes that come within a while. Returns them, and whether the connection ended.
    pub(super) fn read_all(&mut self) -> (String, bool) {
        self.0.set_read_timeout(Some(A_WHILE)).expect("it has a timeout");
        let mut heard = Vec::new();
        let mut bytes = [0; 4096];
        let began = Instant::now();
        let mut ended = false;
        while !ended && began.elapsed() < A_WHILE {
            let Ok(count) = self.0.read(&mut bytes) else { break };
            heard.extend_from_slice(&bytes[..count]);
            ended = count == 0;
        }
        (String::from_utf8_lossy(&heard).into_owned(), ended)
    }

    #[track_caller]
    pub(super) fn asks(&mut self, words: &str, answer: &str) {
        self.say(words);
        self.expects(answer);
    }

    #[track_caller]
    pub(super) fn asks_in_vain(&mut self, words: &str) {
        self.say(words);
        assert_eq!(self.read_all(), (String::new(), false), "{words} was answered");
    }
}

pub(super) fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

#[test]
fn a_server_that_is_told_to_keeps_its_data_over_a_restart() {
    let server = Redis::with("appendonly yes");
    server.ask(&["SET", "key", "value"]);
    server.restart();
    assert_eq!(server.ask(&["GET", "key"]), text("value"));
}

#[test]
fn a_paused_server_accepts_and_answers_when_it_goes_on() {
    let server = Redis::start();
    server.pause();
    let mut client = Client::of(&server.url());
    client.asks_in_vain("SET key value");
    assert!(!server.answers_within(A_WHILE));
    server.resume();
    client.expects("+OK\r\n");
    assert_eq!(server.ask(&["GET", "key"]), text("value"), "it carried out what it was sent meanwhile");
    assert!(server.answers_within(PATIENCE));
}

#[test]
fn a_password_is_asked_for() {
    let server = Redis::with("requirepass secret");
    Client::of(&server.url()).asks("GET key", "-NOAUTH Authentication required.\r\n");
    Client::of(&server.url()).asks("AUTH secret", "+OK\r\n");
    assert_eq!(server.ask(&["GET", "key"]), Reply::Nothing);
}

#[test]
fn a_cluster_node_has_all_slots_and_refuses_keys_of_two() {
    let server = Redis::cluster_node();
    for restarted in [false, true] {
        if restarted {
            server.restart();
        }
        assert!(server.ask(&["CLUSTER", "INFO"]).text().contains("cluster_slots_ok:16384"));
        assert_eq!(server.ask(&["MSET", "{tag}1", "a", "{tag}2", "b"]), text("OK"));
        let Reply::Error(error) = server.try_ask(&["MSET", "one", "a", "other", "b"]).unwrap() else {
            panic!("it took keys of two slots");
        };
        assert!(error.starts_with("CROSSSLOT "), "{error}");
    }
}

#[test]
fn a_server_that_loads_its_data_says_so_until_it_has() {
    let server = Redis::start();
    server.restart_loading();
    let mut client = Client::of(&server.url());
    client.asks("SET key value", "-LOADING ");
    server.finish_loading();
    client = Client::of(&server.url());
    client.asks("SET key value", "+OK\r\n");
    assert_eq!(server.ask(&["STRLEN", "ballast:5000"]).number(), 1100);
    server.restart();
}

#[test]
fn a_monitor_tells_the_commands_of_stores_and_nothing_else() {
    let server = Redis::start();
    let mut monitor = server.monitor();
    let mut client = Client::of(&server.url());
    client.asks("CLIENT SETNAME store", "+OK\r\n");
    client.asks("SELECT 0", "+OK\r\n");
    client.asks("EVAL \"return redis.call('SET', KEYS[1], '] 1')\" 1 key", "+OK\r\n");
    server.ask(&["GET", "key"]);
    let commands = monitor.commands();
    assert_eq!(commands.len(), 1, "{commands:?}");
    assert!(commands[0].to_lowercase().contains("\"eval\""), "{commands:?}");
    assert_eq!(monitor.commands(), [""; 0]);
    client.asks("GET key", "$3\r\n] 1\r\n");
    assert!(monitor.commands()[0].ends_with("] \"GET\" \"key\""));
}
