//! A primary and its replicas: when the primary fails, a replica takes its place.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use super::process::PATIENCE;
use super::redis::Redis;
use super::resp::Reply;

/// The password of the servers.
pub(crate) const PASSWORD: &str = "secret";

/// The configuration of each server. Replicas log in as a user of their own: so a primary can be cut off from its replicas
/// alone.
pub(super) const CONFIGURATION: &str = "requirepass secret
appendonly yes
user replicator on >copies +psync +replconf +ping
masteruser replicator
masterauth copies
repl-timeout 5
";

/// Servers that copy their data. A replica is promoted only when a test orders it: so no failover begins by itself on a busy machine.
pub(crate) trait Replicated: Send + Sync {
    /// Returns the URL of a store. Options can be appended to it.
    fn url(&self) -> String;

    /// Returns the servers that have data.
    fn servers(&self) -> &[Redis];

    /// Returns the primary of the keys in the slot of `{soloist}`, if all others agree on it, and it agrees, too.
    fn named_primary(&self) -> Option<&Redis>;

    /// Makes a replica the primary in the place of another server, which may be well, ended or stopped. Does not wait until all know of it.
    #[track_caller]
    fn promote_a_replica(&self, old: &Redis);

    /// Returns whether all servers run, and each replica has a copy and can be promoted.
    fn is_whole(&self) -> bool;

    /// Returns the primary, as soon as all agree on one.
    #[track_caller]
    fn primary(&self) -> &Redis {
        self.wait_for("all agree on a primary", &|_| true)
    }

    /// Makes a replica the primary in the place of another server, and returns it when all know of it.
    #[track_caller]
    fn fail_over(&self, old: &Redis) -> &Redis {
        self.promote_a_replica(old);
        self.wait_for_another_primary(old)
    }

    /// Waits until the failover is over: all agree on another primary than this. Returns that.
    #[track_caller]
    fn wait_for_another_primary(&self, old: &Redis) -> &Redis {
        self.wait_for("another server is the primary", &|primary| primary.port() != old.port())
    }

    /// Waits until all agree on an accepted primary, and returns it.
    #[track_caller]
    fn wait_for(&self, what: &str, is_accepted: &dyn Fn(&Redis) -> bool) -> &Redis {
        let found = Cell::new(None);
        self.wait_until(what, &|| {
            found.set(self.named_primary().filter(|primary| is_accepted(primary)));
            found.get().is_some()
        });
        found.get().expect("it was waited for")
    }

    /// Waits until the failover is over, and lets the old primary come back. Returns the fencing tokens of the claims that the failover
    /// has lost, when all replicas have a copy.
    #[track_caller]
    fn lost_in_failover(&self, old: &Redis, come_back: &dyn Fn(&Redis)) -> Vec<u64> {
        let new = self.wait_for_another_primary(old);
        // Without a copy, the old primary keeps its data visible.
        self.cut_off_replicas();
        come_back(old);
        self.wait_until("the old primary is a replica", &|| !is_primary(old));
        self.wait_until("both show what they have", &|| claims(old).is_some() && claims(new).is_some());
        let (had, kept) = (claims(old).unwrap_or_default(), claims(new).unwrap_or_default());
        let lost =
            had.into_iter().filter(|claim| !kept.contains(claim)).filter_map(|(_, entry)| token(&entry)).collect();
        self.mend();
        assert_eq!(self.primary().port(), new.port(), "another failover began, which no test had ordered");
        lost
    }

    /// Waits until all replicas of the primary have this key.
    #[track_caller]
    fn wait_until_copied(&self, key: &str) {
        let has_it = |server: &&Redis| matches!(server.try_ask(&["EXISTS", key]), Ok(Reply::Number(1)));
        let all = || 1 + copies(self.primary());
        self.wait_until("all replicas have it", &|| self.servers().iter().filter(has_it).count() == all());
    }

    /// Cuts all servers off from one another. A replica keeps its copy, and a primary goes on.
    #[track_caller]
    fn cut_off_replicas(&self) {
        for server in self.servers().iter().filter(|server| server.is_running()) {
            server.ask(&["ACL", "SETUSER", "replicator", "off"]);
            server.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
        }
    }

    /// Lets replicas log in again.
    #[track_caller]
    fn let_replicas_in(&self) {
        for server in self.servers().iter().filter(|server| server.is_running()) {
            server.ask(&["ACL", "SETUSER", "replicator", "on"]);
        }
    }

    /// Lets replicas log in again, and waits until each has a copy and can be promoted.
    #[track_caller]
    fn mend(&self) {
        self.let_replicas_in();
        self.wait_until("all replicas have a copy", &|| self.is_whole());
    }

    /// Waits until something happens; fails, with the logs of the servers, when `PATIENCE` has ended.
    #[track_caller]
    fn wait_until(&self, what: &str, happens: &dyn Fn() -> bool) {
        let began = Instant::now();
        while !happens() {
            let logs = || self.servers().iter().map(end_of_log).collect::<String>();
            assert!(began.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {what}:\n{}", logs());
            thread::sleep(Duration::from_millis(100)); // between two checks of other processes
        }
    }
}

fn end_of_log(server: &Redis) -> String {
    let log = server.log();
    let lines: Vec<&str> = log.lines().rev().take(15).collect();
    let lines = lines.into_iter().rev().map(|line| format!("{}: {line}\n", server.port()));
    lines.collect()
}

/// Returns whether the server says that it is a primary.
pub(crate) fn is_primary(server: &Redis) -> bool {
    matches!(server.ask(&["ROLE"]), Reply::Many(role) if role[0].text() == "master")
}

/// Returns how many replicas have a copy of all that the server has.
pub(super) fn copies(server: &Redis) -> usize {
    server.ask(&["INFO", "replication"]).text().matches("state=online").count()
}

/// Returns the port of the primary from which a replica copies. `None`: the server is a primary.
pub(super) fn copies_from(server: &Redis) -> Option<u16> {
    let replication = server.ask(&["INFO", "replication"]);
    replication.text().lines().find_map(|line| line.strip_prefix("master_port:")?.parse().ok())
}

/// Returns the claims of a server with their keys. `None`: the node has not found its cluster again.
fn claims(server: &Redis) -> Option<Vec<(String, String)>> {
    let Reply::Many(keys) = server.ask(&["KEYS", "{soloist}:claim/*"]) else { panic!("KEYS answers a list") };
    if keys.is_empty() {
        return Some(Vec::new());
    }
    let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(Reply::text)).collect();
    let Ok(Reply::Many(entries)) = server.try_ask(&words) else { return None };
    let pairs = keys.iter().zip(&entries).filter(|(_, entry)| **entry != Reply::Nothing);
    Some(pairs.map(|(key, entry)| (key.text().to_owned(), entry.text().to_owned())).collect())
}

fn token(entry: &str) -> Option<u64> {
    entry.split(" token=").nth(1)?.split(' ').next()?.parse().ok()
}
