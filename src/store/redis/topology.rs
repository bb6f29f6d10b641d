//! Finds the server that has the keys, if the URL names Sentinels or nodes of a cluster.

use std::sync::atomic::{AtomicUsize, Ordering};

use redis::{Cmd, ConnectionAddr, RedisConnectionInfo, Value, cmd};

use super::address::{Address, Topology, shown};
use super::connection::Connection;
use super::scripts::Prefix;
use super::server_error::{is_unknown, read, unless_refused};
use crate::store::server::attempts::shares;
use crate::store::server::failure::{AskAgain, Failure};
use crate::store::server::server_builder::Target;
use crate::time::clock::moment::Moment;

/// The most redirections that are followed. One is enough, unless the nodes of the cluster disagree.
const REDIRECTIONS: usize = 5;

/// Connects to the server that has the keys of this prefix. The servers in the URL are asked one after another,
/// beginning with the server that answered last. Each server gets a share of the time, so that time is left for the
/// next server.
pub(super) fn connect(
    target: &Target<Address>,
    topology: &Topology,
    prefix: &Prefix,
    answered_last: &AtomicUsize,
    until: Moment,
) -> Result<Connection, Failure> {
    let servers = &target.address.servers;
    let connect_through = |server: &ConnectionAddr, until| match topology {
        Topology::Cluster => connect_to_slot(target, prefix, server, until),
        Topology::Sentinel { primary, login } => {
            let found = ask_sentinel(target, server, login, primary, until)?;
            connect_to_primary(target, &found, until).map_err(|failure| failure.of_server(&shown(&found)))
        }
    };
    if let [server] = &servers[..] {
        return connect_through(server, until);
    }
    let first = answered_last.load(Ordering::Relaxed);
    let mut failed = None;
    for (at, until) in (first..).zip(shares(servers.len(), until)) {
        let server = &servers[at % servers.len()];
        match connect_through(server, until) {
            Ok(connection) => {
                answered_last.store(at % servers.len(), Ordering::Relaxed);
                return Ok(connection);
            }
            Err(failure) => failed = Some(Failure::more_telling(failed, failure.of_server(&shown(server)))),
        }
    }
    Err(failed.unwrap_or_else(|| Failure::unusable("the url names no server")))
}

/// Returns a command that asks for a key that never exists. A node answers this command with an error if the node does
/// not have the slot of this prefix, or if the slot is being moved.
pub(super) fn question_of_slot(prefix: &Prefix) -> Cmd {
    cmd("MGET").arg(prefix.with("none")).take()
}

/// Asks a node for the slot of this prefix, and follows redirections to the node that has it.
fn connect_to_slot(
    target: &Target<Address>,
    prefix: &Prefix,
    node: &ConnectionAddr,
    until: Moment,
) -> Result<Connection, Failure> {
    let mut asked = node.clone();
    for _ in 0..REDIRECTIONS {
        let named = |failure: Failure| if asked == *node { failure } else { failure.of_server(&shown(&asked)) };
        let connected = Connection::to(target, &asked, Some(question_of_slot(prefix)), until);
        let (connection, answer) = connected.map_err(named)?;
        match moved_to(&answer, &asked) {
            Some(other) => asked = other,
            None => return unless_refused(&answer).map(|()| connection).map_err(named),
        }
    }
    let what = "the nodes of the cluster disagree about the slot of the keys: a failover may be under way";
    Err(Failure::unavailable(what, AskAgain::Later))
}

/// Returns the node that a redirection names, as in `MOVED 866 10.0.0.7:6379`. If the redirection names no host, the
/// new node has the host of the node that was asked.
fn moved_to(answer: &Value, asked: &ConnectionAddr) -> Option<ConnectionAddr> {
    let Value::ServerError(error) = answer else { return None };
    let (host, port) = error.details().filter(|_| error.code() == "MOVED")?.split_once(' ')?.1.rsplit_once(':')?;
    let host: &str = match asked {
        ConnectionAddr::Tcp(same, _) if matches!(host, "" | "?") => same,
        _ => host,
    };
    Some(ConnectionAddr::Tcp(host.to_owned(), port.parse().ok()?))
}

/// Asks a Sentinel where the primary is.
fn ask_sentinel(
    target: &Target<Address>,
    sentinel: &ConnectionAddr,
    login: &RedisConnectionInfo,
    primary: &str,
    until: Moment,
) -> Result<ConnectionAddr, Failure> {
    let advised = |failure: Failure| match failure.code() {
        Some("NOAUTH" | "WRONGPASS") => {
            failure.advised("sentinel_user and sentinel_password in the url are for the Sentinels")
        }
        _ => failure,
    };
    let question = cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(primary).take();
    let (_, answers) = Connection::open(target, sentinel, login, &[question], until).map_err(advised)?;
    match answers.first() {
        Some(answer) if is_unknown(answer) => Err(Failure::unusable("this is no Redis Sentinel")),
        None | Some(Value::Nil) => {
            Err(Failure::unusable(&format!("this Sentinel watches no primary of the name {primary}")))
        }
        Some(answer) => {
            let (host, port) = read(answer).map_err(advised)?;
            Ok(ConnectionAddr::Tcp(host, port))
        }
    }
}

/// Connects to the server that the Sentinels name, and checks that it is the primary. Shortly after a failover, a
/// Sentinel may still name a server that is now a replica.
fn connect_to_primary(target: &Target<Address>, server: &ConnectionAddr, until: Moment) -> Result<Connection, Failure> {
    let (connection, role) = Connection::to(target, server, Some(cmd("ROLE")), until)?;
    unless_refused(&role)?;
    match role.as_sequence() {
        Some([Value::BulkString(role), ..]) if role == b"master" => Ok(connection),
        _ => {
            let what =
                "a Sentinel names this server as the primary, but it is not the primary: a failover may be under way";
            Err(Failure::unavailable(what, AskAgain::Later))
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    #[test]
    fn a_redirection_names_a_node_and_no_other_answer_does() {
        let asked = ConnectionAddr::Tcp("10.0.0.1".to_owned(), 7000);
        let moved = |answer: &str| {
            let answer = parse_redis_value(format!("{answer}\r\n").as_bytes()).unwrap();
            moved_to(&answer, &asked).map(|node| shown(&node))
        };
        for (answer, node) in [
            ("-MOVED 866 10.0.0.7:6379", Some("10.0.0.7:6379")),
            ("-MOVED 866 node-2.example:6379", Some("node-2.example:6379")),
            ("-MOVED 866 2001:db8::1:6379", Some("[2001:db8::1]:6379")),
            ("-MOVED 866 ?:7001", Some("10.0.0.1:7001")),
            ("-MOVED 866 :7001", Some("10.0.0.1:7001")), // The node does not know by which name its clients reach it.
            ("-MOVED 866 10.0.0.7:", None),
            ("-MOVED 866", None),
            ("-ASK 866 10.0.0.7:6379", None),
            ("-ERR MOVED 866 10.0.0.7:6379", None),
            (":1", None),
        ] {
            assert_eq!(moved(answer).as_deref(), node, "{answer}");
        }
    }
}
