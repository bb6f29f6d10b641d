//! The way to the server that has the keys: it is the one in the URL, or Sentinels name it, or any node of its cluster does.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::{ConnectionAddr, RedisConnectionInfo, Value, cmd};

use super::address::Address;
use super::connection::{Connection, Pipeline};
use super::keys::Prefix;
use super::script::{read, unless_refused};
use super::server_error::is_unknown;
use super::stream::shares;
use crate::store::server::failure::{Failure, Retry};
use crate::store::server::server_builder::Target;
use crate::store::server::server_url::host_and_port;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The servers in a URL.
pub(super) enum Topology {
    /// One server, which has the keys.
    Standalone,
    /// Nodes of a cluster. Each knows which node has the slot of the keys.
    Cluster,
    /// Sentinels, which know where the primary of this name is, and log their clients in with `login`.
    Sentinel { primary: String, login: RedisConnectionInfo },
}

/// The most redirections of a cluster that are followed. A node that has lost the slot knows its successor, unless nodes disagree.
const REDIRECTIONS: usize = 5;

/// Connects to the server that has the keys of this prefix. Of several servers in a URL, one that does not answer leaves time for the
/// next.
pub(super) fn connect(
    target: &Target<Address>,
    prefix: &Prefix,
    answered_last: &AtomicUsize,
    until: Moment,
) -> Result<Connection, Failure> {
    let servers = &target.address.servers;
    match &target.address.topology {
        Topology::Standalone => Ok(Connection::to(target, &servers[0], None, until)?.0),
        Topology::Cluster => {
            first_answer(servers, answered_last, until, |node, until| connect_to_slot(target, prefix, node, until))
        }
        Topology::Sentinel { primary, login } => {
            let now = Clock::system().moment();
            let half = now.plus(until.since(now) / 2);
            let found = first_answer(servers, answered_last, half, |sentinel, until| {
                ask_sentinel(target, sentinel, login, primary, until)
            })?;
            connect_to_primary(target, &found, until).map_err(|failure| failure.of_server(&shown(&found)))
        }
    }
}

/// Asks servers one after another, beginning with the one that answered last, until one answers.
fn first_answer<T>(
    servers: &[ConnectionAddr],
    answered_last: &AtomicUsize,
    until: Moment,
    ask: impl Fn(&ConnectionAddr, Moment) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (first, mut failed) = (answered_last.load(Ordering::Relaxed), None);
    for (at, until) in (first..).zip(shares(servers.len(), until)) {
        let server = &servers[at % servers.len()];
        match ask(server, until) {
            Ok(answer) => {
                answered_last.store(at % servers.len(), Ordering::Relaxed);
                return Ok(answer);
            }
            // A refusal says more than a server that is away.
            Err(failure) => {
                let before = failed.filter(|before: &Failure| before.retry != Retry::Later);
                failed = before.or_else(|| Some(failure.of_server(&shown(server))));
            }
        }
    }
    Err(failed.unwrap_or_else(|| Failure::unusable("the url names no server")))
}

/// Connects to the node that has the slot of the keys; this node knows which one that is.
fn connect_to_slot(
    target: &Target<Address>,
    prefix: &Prefix,
    node: &ConnectionAddr,
    until: Moment,
) -> Result<Connection, Failure> {
    let (mut connected, key) = (node.clone(), prefix.key("token"));
    for _ in 0..REDIRECTIONS {
        let question = cmd("EXISTS").arg(&key).take();
        let asked = Connection::to(target, &connected, Some(question), until);
        let named = |failure: Failure| if connected == *node { failure } else { failure.of_server(&shown(&connected)) };
        let (connection, answer) = asked.map_err(named)?;
        match moved_to(&answer, &connected) {
            Some(other) => connected = other,
            None => return unless_refused(&answer).map(|()| connection).map_err(Failure::undone),
        }
    }
    Err(Failure::not_asked(io::Error::new(io::ErrorKind::NotFound, "the nodes of the cluster name one another")))
}

/// Returns the node that a redirection names, as in `MOVED 866 10.0.0.7:6379`; without a host it is that of the node that was asked.
fn moved_to(answer: &Value, asked: &ConnectionAddr) -> Option<ConnectionAddr> {
    let Value::ServerError(error) = answer else { return None };
    let (host, port) = error.details().filter(|_| error.code() == "MOVED")?.split_once(' ')?.1.rsplit_once(':')?;
    match asked {
        ConnectionAddr::Tcp(same, _) if host.is_empty() => Some(ConnectionAddr::Tcp(same.clone(), port.parse().ok()?)),
        _ => Some(ConnectionAddr::Tcp(host.to_owned(), port.parse().ok()?)),
    }
}

/// Asks a Sentinel where the primary is.
fn ask_sentinel(
    target: &Target<Address>,
    sentinel: &ConnectionAddr,
    login: &RedisConnectionInfo,
    primary: &str,
    until: Moment,
) -> Result<ConnectionAddr, Failure> {
    let question = cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(primary).take();
    let (_, answers) = Pipeline::open(target, sentinel, login, &[question], until)?;
    match answers.first() {
        Some(answer) if is_unknown(answer) => Err(Failure::unusable("this is no Redis Sentinel")),
        None | Some(Value::Nil) => {
            Err(Failure::unusable(&format!("this Sentinel watches no primary of the name {primary}")))
        }
        Some(answer) => {
            unless_refused(answer).map_err(Failure::undone)?;
            let (host, port) = read(answer)?;
            Ok(ConnectionAddr::Tcp(host, port))
        }
    }
}

/// Connects to the server that the Sentinels name. Until they have all heard of a failover, it may be a replica.
fn connect_to_primary(target: &Target<Address>, server: &ConnectionAddr, until: Moment) -> Result<Connection, Failure> {
    let (connection, role) = Connection::to(target, server, Some(cmd("ROLE")), until)?;
    unless_refused(&role).map_err(Failure::undone)?;
    match role.as_sequence() {
        Some([Value::BulkString(role), ..]) if role == b"master" => Ok(connection),
        _ => {
            let what = "the Sentinels name it as the primary, and it is none: a failover is under way";
            Err(Failure::not_asked(io::Error::new(io::ErrorKind::NotFound, what)))
        }
    }
}

/// Returns the place of a server, for people.
pub(super) fn shown(server: &ConnectionAddr) -> String {
    match server {
        ConnectionAddr::Tcp(host, port) => host_and_port(host, *port),
        path => path.to_string(),
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
