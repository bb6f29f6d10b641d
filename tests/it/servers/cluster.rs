//! A cluster of three primaries with a replica each.

use std::sync::OnceLock;

use super::process::assert_may_start_servers;
use super::redis::{Redis, SLOTS};
use super::replication::{CONFIGURATION, PASSWORD, Replicated, copies, copies_from, is_primary};
use super::resp::Reply;

const PRIMARIES: usize = 3;

/// The configuration of a node. The timeout is so long that no node of a busy machine is taken for dead. A replica takes the place
/// of its primary only when a test orders it, however old its copy is, and stays with its primary.
const OF_A_NODE: &str = "cluster-enabled yes
cluster-node-timeout 3000
cluster-require-full-coverage no
cluster-allow-replica-migration no
cluster-replica-no-failover yes
";

/// The nodes, empty, and ended when this is dropped.
pub(crate) struct Cluster {
    nodes: Vec<Redis>,
    /// The slot of the keys.
    slot: u16,
}

/// The slot of the keys, on its way from one primary to another.
pub(crate) struct SlotMove<'a> {
    cluster: &'a Cluster,
    from: &'a Redis,
    to: &'a Redis,
}

impl Cluster {
    /// Returns the cluster that all tests of this process may use which leave it and the names of others alone. No node is taken for
    /// dead, however busy the machine is.
    #[cfg(feature = "redis")]
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        assert_may_start_servers();
        SHARED.get_or_init(|| {
            let cluster = Self::start();
            for node in &cluster.nodes {
                node.ask(&["CONFIG", "SET", "cluster-node-timeout", "600000"]);
            }
            cluster
        })
    }

    #[track_caller]
    pub(crate) fn start() -> Self {
        let configuration = format!("{OF_A_NODE}{CONFIGURATION}");
        let nodes: Vec<Redis> = (0..2 * PRIMARIES).map(|_| Redis::with_clock_and(&configuration)).collect();
        let share = SLOTS / 3;
        for (primary, slots) in nodes.iter().zip([0..share, share..2 * share, 2 * share..SLOTS]) {
            primary.serve(slots);
        }
        for (epoch, node) in nodes.iter().enumerate() {
            node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]);
        }
        for node in &nodes[1..] {
            nodes[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string()]);
        }
        let slot = nodes[0].ask(&["CLUSTER", "KEYSLOT", "{soloist}"]).number();
        let cluster = Self { slot: u16::try_from(slot).expect("a slot is a small number"), nodes };
        let know_all = || cluster.nodes.iter().all(|node| known_by(node).len() == 2 * PRIMARIES);
        cluster.wait_until("all nodes have met", &know_all);
        let (primaries, replicas) = cluster.nodes.split_at(PRIMARIES);
        for (primary, replica) in primaries.iter().zip(replicas) {
            replica.ask(&["CLUSTER", "REPLICATE", primary.ask(&["CLUSTER", "MYID"]).text()]);
        }
        cluster.mend();
        cluster
    }

    /// Returns the URL of a store that knows of these nodes alone.
    pub(crate) fn url_of(nodes: &[&Redis]) -> String {
        let hosts: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://:{PASSWORD}@{}/", hosts.join(","))
    }

    /// Begins to move the slot of the keys to another primary. No key has moved yet.
    #[track_caller]
    pub(crate) fn begin_to_move_the_slot(&self) -> SlotMove<'_> {
        let from = self.primary();
        let is_another = |node: &&Redis| node.port() != from.port() && is_primary(node);
        let to = self.nodes.iter().find(is_another).expect("the cluster has three primaries");
        let slot_move = SlotMove { cluster: self, from, to };
        to.ask(&["CLUSTER", "SETSLOT", &self.slot.to_string(), "IMPORTING", &id(from)]);
        from.ask(&["CLUSTER", "SETSLOT", &self.slot.to_string(), "MIGRATING", &id(to)]);
        slot_move
    }

    fn running(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| node.is_running())
    }
}

impl<'a> SlotMove<'a> {
    /// Returns the keys that have not moved.
    #[track_caller]
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let asked = self.from.ask(&["CLUSTER", "GETKEYSINSLOT", &self.cluster.slot.to_string(), "1000"]);
        let Reply::Many(keys) = asked else { panic!("the keys are a list: {asked:?}") };
        keys.iter().map(|key| key.text().to_owned()).collect()
    }

    /// Moves these keys.
    #[track_caller]
    pub(crate) fn carry(&self, keys: &[String]) {
        if keys.is_empty() {
            return;
        }
        let port = self.to.port().to_string();
        let to = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "AUTH", PASSWORD, "KEYS"];
        let words: Vec<&str> = to.into_iter().chain(keys.iter().map(String::as_str)).collect();
        self.from.ask(&words);
    }

    /// Moves all other keys and the slot, and waits until all nodes know. Returns the primary that has it.
    #[track_caller]
    pub(crate) fn finish(self) -> &'a Redis {
        self.carry(&self.left_behind());
        let Self { cluster, from, to } = self;
        for primary in [to, from] {
            primary.ask(&["CLUSTER", "SETSLOT", &cluster.slot.to_string(), "NODE", &id(to)]);
        }
        cluster.wait_for_another_primary(from)
    }
}

impl Replicated for Cluster {
    fn url(&self) -> String {
        Self::url_of(&self.nodes.iter().collect::<Vec<_>>())
    }

    fn servers(&self) -> &[Redis] {
        &self.nodes
    }

    fn named_primary(&self) -> Option<&Redis> {
        let name = |node| known_by(node).into_iter().find(|known| known.serves(self.slot)).map(|known| known.port);
        let mut named: Vec<Option<u16>> = self.running().map(name).collect();
        named.dedup();
        let [Some(port)] = named[..] else { return None };
        let primary = self.nodes.iter().find(|node| node.port() == port)?;
        (primary.is_running() && is_primary(primary)).then_some(primary)
    }

    fn promote_a_replica(&self, old: &Redis) {
        let of_old = |node: &&Redis| node.port() != old.port() && copies_from(node) == Some(old.port());
        let replica = self.running().find(of_old).expect("each primary has a replica");
        replica.ask(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    }

    fn is_whole(&self) -> bool {
        let all_run = self.nodes.iter().all(Redis::is_running);
        if !all_run || self.named_primary().is_none() {
            return false;
        }
        let is_well = |node: &Redis| {
            let is_ok = node.ask(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok");
            let known = known_by(node);
            let replicas = known.iter().filter(|known| known.primary.is_some()).count();
            is_ok && replicas == PRIMARIES && known.iter().all(|known| !known.has_failed)
        };
        let primaries: Vec<&Redis> = self.nodes.iter().filter(|node| is_primary(node)).collect();
        let have_copies = primaries.len() == PRIMARIES && primaries.into_iter().all(|primary| copies(primary) == 1);
        have_copies && self.nodes.iter().all(is_well)
    }
}

/// A node, as another one knows it.
struct Known {
    port: u16,
    /// The primary of a replica.
    primary: Option<String>,
    has_failed: bool,
    slots: Vec<(u16, u16)>,
}

impl Known {
    /// Reads a line of `CLUSTER NODES`. `None`: the node has not been met.
    fn of(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, address, flags, primary, _, _, _, _, slots @ ..] = &words[..] else { return None };
        let range = |slots: &&str| {
            let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        let is_known = !["handshake", "noaddr"].iter().any(|flag| flags.contains(flag));
        is_known.then_some(())?;
        Some(Self {
            port: address.split('@').next()?.rsplit(':').next()?.parse().ok()?,
            primary: (*primary != "-").then(|| (*primary).to_owned()),
            has_failed: flags.split(',').any(|flag| ["fail", "fail?"].contains(&flag)),
            slots: slots.iter().filter_map(range).collect(), // A slot that is moving is in brackets.
        })
    }

    fn serves(&self, slot: u16) -> bool {
        self.primary.is_none() && self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

fn known_by(node: &Redis) -> Vec<Known> {
    node.ask(&["CLUSTER", "NODES"]).text().lines().filter_map(Known::of).collect()
}

fn id(node: &Redis) -> String {
    node.ask(&["CLUSTER", "MYID"]).text().to_owned()
}
