//! The state of a Redis server, and the warnings about it.

use redis::{Value, cmd};

use super::connection::{Connection, micros};
use super::engine::RedisEngine;
use super::scripts::exchange;
use super::server_error::{read, unexpected, unless_refused};
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::server::engine::{Attempt, Health, IS_REPLICA, instant};
use crate::store::server::failure::Failure;

const CLUSTER_NODE: &str = "the server is a node of a Redis Cluster, and no event runs while another node has the slot of the keys: \
                            write redis+cluster:// in the url";

impl RedisEngine {
    /// Reads the state of the server.
    pub(super) fn read_health(&self, attempt: &mut Attempt<Connection>) -> Result<Health, Failure> {
        let last = cmd("MGET").arg(self.prefix.with("token")).take();
        let answers = exchange(attempt, &[last, cmd("TIME"), cmd("INFO")])?;
        answers[1..].iter().try_for_each(unless_refused)?;
        let (time, address) = (instant(micros(&answers[1])?), &self.target.address);
        let warnings = warnings(&answers[2], address.replicas, address.topology.is_some())?;
        let skips_trial = [IS_REPLICA, CLUSTER_NODE].iter().any(|why| warnings.contains(&StoreWarning::new(why)));
        // A token is the server's time of its grant, or a later time if the clock was set back before the grant. So a
        // last token that is later than `time` shows that the clock was set back. An error is ignored, because the
        // trial of the check shows it, too.
        let granted = read(&answers[0]).map(|(last,): (i64,)| instant(last));
        let ahead = granted.ok().and_then(|last| (last - time).to_std().ok());
        Ok(Health { time, ahead, skips_trial, warnings })
    }
}

/// Returns the warnings about a server with this `INFO`. `needed` is the number of replicas that must confirm a grant.
/// `fails_over` is true if the URL names Sentinels, or nodes of a cluster.
fn warnings(info: &Value, needed: u32, fails_over: bool) -> Result<Vec<StoreWarning>, Failure> {
    let Value::BulkString(info) = info else { return Err(unexpected(info)) };
    let info = String::from_utf8_lossy(info);
    let field = |name: &str| info.lines().find_map(|pooled| pooled.strip_prefix(name)?.strip_prefix(':'));
    // The keys of leases and claims expire, so a policy for keys that expire (`volatile-…`) evicts them, too.
    let policy = field("maxmemory_policy").filter(|policy| *policy != "noeviction");
    let replicas: u32 = field("connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0);
    let evicts = |policy: &str| {
        StoreWarning::new(format_args!(
            "the server evicts keys when its memory is full (maxmemory-policy {policy}), also those of live leases: set it to \
             noeviction, or use a server of its own"
        ))
    };
    let is_ahead_of_replicas = || {
        StoreWarning::new(format_args!(
            "the server answers before its replicas ({replicas}) have the write: a failover can lose the last grants, and an \
             occurrence then runs twice; with wait=1 in the url, a grant counts when a replica has it"
        ))
    };
    let warnings = [
        policy.map(evicts),
        (field("role") == Some("slave")).then(|| StoreWarning::new(IS_REPLICA)),
        (field("cluster_enabled") == Some("1") && !fails_over).then(|| StoreWarning::new(CLUSTER_NODE)),
        (replicas > 0 && needed == 0).then(is_ahead_of_replicas),
        StoreWarning::if_older(field("redis_version").unwrap_or("unknown"), "6.2"),
    ];
    Ok(warnings.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(info: &str) -> Vec<String> {
        let warnings = warnings(&Value::BulkString(info.into()), 0, false).unwrap();
        warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_server_in_order_is_not_warned_of() {
        let info =
            "# Server\r\nredis_version:6.2.0\r\nmaxmemory_policy:noeviction\r\nrole:master\r\ncluster_enabled:0\r\n";
        assert!(told(info).is_empty());
        assert!(told(&info.replace("6.2.0", "10.0.1")).is_empty());
    }

    #[test]
    fn each_warning_says_what_to_do() {
        let info = "redis_version:6.0.16\r\nmaxmemory_policy:volatile-lru\r\nrole:slave\r\ncluster_enabled:1\r\n";
        assert_eq!(
            told(info),
            [
                "the server evicts keys when its memory is full (maxmemory-policy volatile-lru), also those of live \
                 leases: set it to noeviction, or use a server of its own",
                "the server is a replica and can't be written to: connect to its primary",
                "the server is a node of a Redis Cluster, and no event runs while another node has the slot of the keys: \
                 write redis+cluster:// in the url",
                "the server's version 6.0.16 is older than 6.2, the oldest that is supported: update it",
            ]
        );
    }

    #[test]
    fn replicas_are_warned_of_unless_a_grant_waits_for_them() {
        let info = Value::BulkString(
            b"redis_version:7.2.0\r\nrole:master\r\nconnected_slaves:1\r\ncluster_enabled:1\r\n".into(),
        );
        let told = |needed| warnings(&info, needed, true).unwrap();
        assert!(told(0)[0].to_string().starts_with("the server answers before its replicas (1) have the write: "));
        assert_eq!(told(1), []);
    }
}
