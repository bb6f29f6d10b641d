//! A client of Redis that only acquires and releases claims and leases. Its times are the floors with which soloist is
//! compared.

use std::io::Write;
use std::net::TcpStream;
use std::ops::Range;

use redis::{Connection, Parser, Value, cmd};

use crate::ticks::callback;

/// The number of events in one pipeline or script.
const BATCH: usize = 100;
const TERM: &str = "60000"; // milliseconds
/// The last part of an entry, after owner and token. It is about as long as in an entry of soloist.
const ENTRY: &str = " term=60000 since=2026-03-01T12:00:00.000Z host=web-1";

pub(crate) struct RawRedis {
    clients: Clients,
    scripts: Scripts,
    owner: String,
}

pub(crate) struct Clients {
    driver: Connection,
    socket: TcpStream,
    parser: Parser,
    request: Vec<u8>,
}

/// Calls a script with keys and arguments.
pub(crate) type Call = fn(&mut Clients, &str, &[String], &[&str]) -> Value;

/// The hashes of the scripts, by which `EVALSHA` calls them.
struct Scripts {
    in_order: String,
    batch: String,
    release: String,
    nothing: String,
}

impl RawRedis {
    pub(crate) fn connect(url: &str) -> Self {
        let address = url.trim_start_matches("redis://");
        let socket = TcpStream::connect(address).expect("the server is there");
        socket.set_nodelay(true).expect("it is a socket");
        let client = redis::Client::open(url).expect("the url is in order");
        let mut driver = client.get_connection().expect("the server answers");
        let mut load = |text: &str| cmd("SCRIPT").arg("LOAD").arg(text).query(&mut driver).expect("it is a script");
        let scripts = Scripts {
            in_order: load(include_str!("floor/in_order.lua")),
            batch: load(include_str!("floor/batch.lua")),
            release: load(include_str!("floor/release.lua")),
            nothing: load("return 1"),
        };
        let clients = Clients { driver, socket, parser: Parser::new(), request: Vec::new() };
        Self { clients, scripts, owner: format!("2f4a9f0e8f0b4b0c9a570e7a6f3d51c8-{}", std::process::id()) }
    }

    /// Acquires the claim and the lease of each event, one event after another. Each round trip also releases the lease
    /// of the previous event.
    pub(crate) fn in_order(&mut self, call: Call, events: usize, minute: i64) {
        let mut keys = vec!["raw:token".to_owned()];
        for number in 0..events {
            let last = keys.get(2).cloned();
            keys.truncate(1);
            keys.extend(names(number, minute).into_iter().chain(last));
            let token = call(&mut self.clients, &self.scripts.in_order, &keys, &[&self.owner, ENTRY, TERM]);
            assert!(matches!(token, Value::BulkString(_)), "no other client asks: {token:?}");
            callback();
        }
        self.release(call, &keys[2..3]);
    }

    /// Makes a round trip for each event, with a script that does nothing.
    pub(crate) fn trips(&mut self, call: Call, events: usize, minute: i64) {
        for number in 0..events {
            let keys = names(number, minute);
            let answer = call(&mut self.clients, &self.scripts.nothing, &keys, &[&self.owner, ENTRY, TERM]);
            assert_eq!(answer, Value::Int(1));
            callback();
        }
    }

    /// Acquires the claims and leases of the events in scripts for a hundred events each, and releases the leases.
    /// Returns how many events were free.
    pub(crate) fn in_batches(&mut self, call: Call, events: usize, minute: i64) -> usize {
        let mut granted = 0;
        for batch in batches(events) {
            let names: Vec<[String; 2]> = batch.map(|number| names(number, minute)).collect();
            let mut keys = vec!["raw:token".to_owned()];
            keys.extend(names.iter().flatten().cloned());
            let answers = call(&mut self.clients, &self.scripts.batch, &keys, &[&self.owner, ENTRY, TERM]);
            let Value::Array(answers) = answers else { panic!("{answers:?}") };
            let ours = names.into_iter().zip(answers).filter(|(_, answer)| *answer == Value::Int(1));
            let leases: Vec<String> = ours.map(|([_, lease], _)| lease).collect();
            (0..leases.len()).for_each(|_| callback());
            if !leases.is_empty() {
                self.release(call, &leases);
            }
            granted += leases.len();
        }
        granted
    }

    /// Acquires claims and leases without a script. So no owner is compared, no token is granted, and a claim is not
    /// released if its lease is held.
    pub(crate) fn pipelined(&mut self, events: usize, minute: i64) {
        let entry = format!("{} token=1772366400000000{ENTRY}", self.owner);
        for batch in batches(events) {
            let (mut gate, mut release) = (redis::pipe(), redis::pipe());
            for [claim, lease] in batch.clone().map(|number| names(number, minute)) {
                for key in [&claim, &lease] {
                    gate.cmd("SET").arg(key).arg(&entry).arg("NX").arg("PX").arg(TERM);
                }
                release.cmd("DEL").arg(lease);
            }
            let granted: Vec<Value> = gate.query(&mut self.clients.driver).expect("the server answers");
            assert!(granted.iter().all(|answer| *answer == Value::Okay), "no other client asks");
            batch.for_each(|_| callback());
            let released: Vec<usize> = release.query(&mut self.clients.driver).expect("the server answers");
            assert!(released.iter().all(|count| *count == 1), "all of them were held");
        }
    }

    fn release(&mut self, call: Call, leases: &[String]) {
        let released = call(&mut self.clients, &self.scripts.release, leases, &[&self.owner]);
        assert_eq!(released, Value::Int(leases.len().try_into().expect("they are few")), "all of them were held");
    }
}

impl Clients {
    /// Calls a script by the blocking client of the driver.
    pub(crate) fn driver(&mut self, script: &str, keys: &[String], arguments: &[&str]) -> Value {
        let answer = cmd("EVALSHA").arg(script).arg(keys.len()).arg(keys).arg(arguments).query(&mut self.driver);
        answer.expect("the server answers")
    }

    /// Calls a script by a plain socket. Only the parser of the reply is from the driver.
    pub(crate) fn socket(&mut self, script: &str, keys: &[String], arguments: &[&str]) -> Value {
        let request = &mut self.request;
        request.clear();
        let count = keys.len().to_string();
        let words = ["EVALSHA", script, &count].into_iter().chain(keys.iter().map(String::as_str));
        write!(request, "*{}\r\n", 3 + keys.len() + arguments.len()).expect("there is memory");
        for word in words.chain(arguments.iter().copied()) {
            write!(request, "${}\r\n{word}\r\n", word.len()).expect("there is memory");
        }
        self.socket.write_all(request).expect("the server listens");
        self.parser.parse_value(&mut self.socket).expect("the server answers")
    }
}

/// Returns the keys of an event's claim and lease.
fn names(number: usize, minute: i64) -> [String; 2] {
    [format!("raw:claim:{{event:{number}}}:{minute}"), format!("raw:lease:{{event:{number}}}")]
}

fn batches(events: usize) -> impl Iterator<Item = Range<usize>> {
    (0..events).step_by(BATCH).map(move |first| first..events.min(first + BATCH))
}
