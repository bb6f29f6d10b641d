//! A primary and two replicas, which three Sentinels watch.

use std::sync::OnceLock;

use super::process::assert_may_start_servers;
use super::redis::Redis;
use super::replication::{CONFIGURATION, PASSWORD, Replicated, copies, is_primary};
use super::resp::Reply;

/// The name of the primary among the Sentinels.
const NAME: &str = "main";

/// The periods of the Sentinels, in milliseconds: so they learn of a change within a second instead of ten. Neither a late timer
/// nor an answer that is three seconds old keeps them from a failover, as on a busy machine. A Sentinel before 7.0 keeps its own periods.
const QUICKLY: [&str; 10] = [
    "SENTINEL",
    "DEBUG",
    "INFO-PERIOD",
    "2000",
    "PUBLISH-PERIOD",
    "500",
    "ASK-PERIOD",
    "500",
    "TILT-TRIGGER",
    "600000",
];

/// The servers and the Sentinels, empty, and ended when this is dropped.
pub(crate) struct Sentinels {
    servers: Vec<Redis>,
    sentinels: Vec<Redis>,
}

impl Sentinels {
    /// Returns the servers that all tests of this process may use which leave them and the names of others alone.
    #[cfg(feature = "redis")]
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Sentinels> = OnceLock::new();
        assert_may_start_servers();
        SHARED.get_or_init(Self::start)
    }

    #[track_caller]
    pub(crate) fn start() -> Self {
        let mut servers = vec![Redis::with_clock_and(CONFIGURATION)];
        let port = servers[0].port();
        for _ in 0..2 {
            servers.push(Redis::with_clock_and(&format!("{CONFIGURATION}replicaof 127.0.0.1 {port}\n")));
        }
        // No server is taken for dead, so that no failover begins by itself, however busy the machine is.
        let lines = [
            format!("sentinel monitor {NAME} 127.0.0.1 {port} 2"),
            format!("sentinel auth-pass {NAME} {PASSWORD}"),
            format!("sentinel down-after-milliseconds {NAME} 600000"),
            format!("sentinel failover-timeout {NAME} 60000"),
        ];
        let sentinels: Vec<Redis> = (0..3).map(|_| Redis::with(&lines.join("\n"))).collect();
        for sentinel in &sentinels {
            let _ = sentinel.try_ask(&QUICKLY);
        }
        let topology = Self { servers, sentinels };
        topology.mend();
        topology
    }

    pub(crate) fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Returns the URL of a store that asks these Sentinels for the primary of this name.
    pub(crate) fn url_of(sentinels: &[Redis], name: &str) -> String {
        let hosts: Vec<String> = sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis+sentinel://:{PASSWORD}@{}/{name}", hosts.join(","))
    }

    /// Makes all Sentinels name this server as the primary, in any role.
    #[track_caller]
    pub(crate) fn name_as_primary(&self, server: &Redis) {
        for sentinel in &self.sentinels {
            sentinel.ask(&["SENTINEL", "REMOVE", NAME]);
            sentinel.ask(&["SENTINEL", "MONITOR", NAME, "127.0.0.1", &server.port().to_string(), "2"]);
            sentinel.ask(&["SENTINEL", "SET", NAME, "down-after-milliseconds", "600000", "auth-pass", PASSWORD]);
        }
    }

    fn running(&self) -> impl Iterator<Item = &Redis> {
        self.sentinels.iter().filter(|sentinel| sentinel.is_running())
    }
}

impl Replicated for Sentinels {
    fn url(&self) -> String {
        Self::url_of(&self.sentinels, NAME)
    }

    fn servers(&self) -> &[Redis] {
        &self.servers
    }

    fn named_primary(&self) -> Option<&Redis> {
        let name = |sentinel: &Redis| match sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]) {
            Reply::Many(address) => address[1].text().to_owned(),
            other => panic!("it watches the primary: {other:?}"),
        };
        let mut named: Vec<String> = self.running().map(name).collect();
        named.dedup();
        let [port] = &named[..] else { return None };
        let primary = self.servers.iter().find(|server| server.port().to_string() == *port)?;
        (primary.is_running() && is_primary(primary)).then_some(primary)
    }

    fn promote_a_replica(&self, _old: &Redis) {
        let sentinel = self.running().next().expect("a Sentinel is running");
        // A Sentinel promotes no replica that it has not asked for a second, as on a busy machine.
        let is_begun =
            || sentinel.try_ask(&["SENTINEL", "FAILOVER", NAME]).is_ok_and(|reply| reply == Reply::Text("OK".into()));
        self.wait_until("a Sentinel promotes a replica", &is_begun);
    }

    fn is_whole(&self) -> bool {
        let all_run = self.servers.iter().chain(&self.sentinels).all(Redis::is_running);
        let Some(primary) = self.named_primary().filter(|_| all_run) else { return false };
        let port = primary.port().to_string();
        let is_ready = |sentinel: &Redis| {
            let primary = fields(&sentinel.ask(&["SENTINEL", "MASTER", NAME]));
            let Reply::Many(replicas) = sentinel.ask(&["SENTINEL", "REPLICAS", NAME]) else { return false };
            let copies = |replica: &Reply| {
                let of_replica = fields(replica);
                let says = |field: &str, value: &str| value_of(&of_replica, field) == Some(value);
                says("flags", "slave") && says("master-link-status", "ok") && says("master-port", &port)
            };
            let says = |field: &str, value: &str| value_of(&primary, field) == Some(value);
            says("flags", "master")
                && says("num-other-sentinels", "2")
                && replicas.len() == 2
                && replicas.iter().all(copies)
        };
        copies(primary) == 2 && self.sentinels.iter().all(is_ready)
    }
}

/// Reads a list of fields and their values.
fn fields(list: &Reply) -> Vec<[String; 2]> {
    let Reply::Many(list) = list else { return Vec::new() };
    list.chunks(2).map(|pair| [pair[0].text().to_owned(), pair[1].text().to_owned()]).collect()
}

fn value_of<'a>(fields: &'a [[String; 2]], name: &str) -> Option<&'a str> {
    fields.iter().find_map(|[field, value]| (field == name).then_some(&**value))
}
