//! The address of a Redis server: the servers, the user, the password and the database in its URL.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::base::error::InvalidOptions;
use crate::store::server::server_url::{ServerAddress, ServerUrl, host_and_port, is_this_host};

const NO_PATH: &str = "has no path: write redis+unix:///run/redis.sock";

const NO_PRIMARY: &str =
    "has no name of a primary: write redis+sentinel://host1,host2/NAME, with letters, digits, dots, - and _ in NAME";

const NO_PASSWORD: &str =
    "has a user and no password: write redis://user:password@host, or redis://:password@host without a user";

const NO_DATABASE: &str = "has a database that is not a number: write redis://host:6379/0; the name of an application is \
                           ?prefix=NAME; in a password, write %2F for a / and %40 for an @";

const NO_PORT: &str =
    "has a port that is not a number from 1 to 65535: write redis://host:6379/0; in a password, write %2F for a /";

/// The servers of a URL, and the login of the server that has the keys.
pub(super) struct Address {
    /// The way from the servers of the URL to the server that has the keys. `None`: the URL names that server itself.
    pub(super) topology: Option<Topology>,
    pub(super) servers: Vec<ConnectionAddr>,
    pub(super) login: RedisConnectionInfo,
    pub(super) is_encrypted: bool,
    /// The number of replicas that must confirm a change.
    pub(super) replicas: u32,
}

/// The kind of servers that know which server has the keys.
pub(super) enum Topology {
    /// Nodes of a cluster. Each node knows which node has the slot of the keys.
    Cluster,
    /// Sentinels. They know the address of the primary whose name is in `primary`. `login` is for the Sentinels.
    Sentinel { primary: String, login: RedisConnectionInfo },
}

impl Address {
    /// Returns whether the URL names Sentinels, or nodes of a cluster.
    pub(super) fn fails_over(&self) -> bool {
        self.topology.is_some()
    }
}

impl ServerAddress for Address {
    const KIND: &'static str = "redis";
    const SCHEMES: &'static [&'static str] =
        &["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster", "redis+unix"];
    const STORE: &'static str = "RedisMutex";
    const NAMESPACE: &'static str = "prefix";
    const TLS: &'static str = "rediss://";
    const FORM: &'static str = "redis://user:password@host:6379/0";

    fn of_url(url: &mut ServerUrl<'_>) -> Result<Self, InvalidOptions> {
        let scheme = url.scheme.clone();
        let (transport, kind) = scheme.split_once('+').unwrap_or((&scheme, ""));
        let is_encrypted = transport == "rediss";
        url.check_tls(is_encrypted, cfg!(feature = "redis-tls"))?;
        let wait = url.take("wait")?.map_or(Ok(0), |count| count.parse());
        let replicas = wait.map_err(|_| url.wrong("has a wait that is not a number of replicas: write wait=1"))?;
        let (servers, topology) = match kind {
            "sentinel" => {
                let login = take_login_of_sentinels(url)?;
                url.refuse_others(&["prefix", "timeout", "wait", "sentinel_user", "sentinel_password"], &[])?;
                let (hosts, path) = split_hosts(url, 26379)?;
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
                let is_database = database.is_empty() && name.parse::<u8>().is_ok();
                url.refuse_if(name.is_empty() || is_database || !name.bytes().all(is_plain), NO_PRIMARY)?;
                let topology = Topology::Sentinel { primary: name.to_owned(), login };
                (hosts.iter().map(|host| format!("redis://{host}/{database}")).collect(), Some(topology))
            }
            "cluster" => {
                url.refuse_others(&["prefix", "timeout", "wait"], &[])?;
                let (hosts, path) = split_hosts(url, 6379)?;
                url.refuse_if(
                    !matches!(path, "" | "0"),
                    "has a database other than 0, but a cluster has only database 0",
                )?;
                (hosts.iter().map(|host| format!("redis://{host}")).collect(), Some(Topology::Cluster))
            }
            "unix" => {
                url.refuse_others(&["prefix", "timeout", "wait"], &["db", "user", "pass"])?;
                // If the URL has a user, a password or a host before the path of the socket, the driver would ignore
                // them. So they are refused here.
                let before_path = url.place.strip_prefix("//").filter(|place| !place.starts_with('/'));
                url.refuse_if(before_path.is_some_and(|place| !place.contains('/')), NO_PATH)?;
                let what = "has something before its path: write redis+unix:///run/redis.sock";
                url.refuse_if(before_path.is_some(), what)?;
                (vec![format!("redis+unix:{}?{}", url.place, url.left())], None)
            }
            _ => {
                url.refuse_others(&["prefix", "timeout", "wait"], &[])?;
                let authority = url.place.trim_start_matches('/').split('/').next().unwrap_or_default();
                let host = authority.rsplit('@').next().unwrap_or_default();
                let what =
                    "names several hosts: write redis+sentinel://host1,host2/NAME or redis+cluster://host1,host2";
                url.refuse_if(host.contains(','), what)?;
                let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
                let is_number = |port: &str| port.is_empty() || port.parse::<u16>().is_ok();
                url.refuse_if(!port.is_none_or(is_number), NO_PORT)?;
                (vec![format!("redis:{}", url.place)], None)
            }
        };
        let read = |server: String| server.into_connection_info().map_err(|error| url.wrong(said_by(&error)));
        let servers = servers.into_iter().map(read).collect::<Result<Vec<ConnectionInfo>, _>>()?;
        let login = servers.first().map(|server| server.redis_settings().clone()).unwrap_or_default();
        let what = match kind {
            "unix" => "has a user and no password: write ?user=USER&pass=PASSWORD",
            _ => NO_PASSWORD,
        };
        url.refuse_if(login.username().is_some() && login.password().is_none(), what)?;
        url.refuse_if(login.db() < 0, "has a database below 0")?;
        let servers = servers.iter().map(|server| server.addr().clone()).collect();
        Ok(Self { topology, servers, login, is_encrypted, replicas })
    }

    fn is_overheard(&self) -> bool {
        let is_far = |server: &ConnectionAddr| matches!(server, ConnectionAddr::Tcp(host, _) if !is_this_host(host));
        !self.is_encrypted && self.servers.iter().any(is_far)
    }
}

fn take_login_of_sentinels(url: &mut ServerUrl<'_>) -> Result<RedisConnectionInfo, InvalidOptions> {
    let login = RedisConnectionInfo::default();
    match (url.take("sentinel_user")?, url.take("sentinel_password")?) {
        (None, None) => Ok(login),
        (None, Some(password)) => Ok(login.set_password(password)),
        (Some(user), Some(password)) => Ok(login.set_username(user).set_password(password)),
        (Some(_), None) => Err(url.wrong("has a sentinel_user but no sentinel_password: write both")),
    }
}

/// Returns the hosts in the URL, and the path behind them. Each host is returned with a port, and with the login that
/// stands before the first host.
fn split_hosts<'a>(url: &ServerUrl<'a>, port: u16) -> Result<(Vec<String>, &'a str), InvalidOptions> {
    let place = url.place.strip_prefix("//").unwrap_or(url.place);
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    let what = "has more than one @: write %40 for an @ in a user or a password";
    url.refuse_if(login.matches('@').count() > 1, what)?;
    url.refuse_if(hosts.is_empty(), "has no host: write redis://host:6379")?;
    url.refuse_if(hosts.split(',').any(str::is_empty), "has an empty host in its list: remove a comma")?;
    let has_port = |host: &str| host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let hosts = hosts.split(',').map(|host| host.strip_suffix(':').unwrap_or(host));
    let server = |host| if has_port(host) { format!("{login}{host}") } else { format!("{login}{host}:{port}") };
    Ok((hosts.map(server).collect(), path))
}

/// Shows no user and no password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (database, servers) = (self.login.db(), self.servers.iter().map(shown).collect::<Vec<_>>().join(","));
        let scheme = if self.is_encrypted { "rediss" } else { "redis" };
        match (&self.topology, &self.servers[..]) {
            (Some(Topology::Sentinel { primary, .. }), _) => {
                write!(f, "{scheme}+sentinel://{servers}/{primary}/{database}")
            }
            (Some(Topology::Cluster), _) => write!(f, "{scheme}+cluster://{servers}"),
            (None, [ConnectionAddr::Unix(_)]) if database == 0 => write!(f, "redis+unix://{servers}"),
            (None, [ConnectionAddr::Unix(_)]) => write!(f, "redis+unix://{servers}?db={database}"),
            (None, _) => write!(f, "{scheme}://{servers}/{database}"),
        }
    }
}

/// Returns the host and the port of a server, or the path of its socket.
pub(super) fn shown(server: &ConnectionAddr) -> String {
    match server {
        ConnectionAddr::Tcp(host, port) => host_and_port(host, *port),
        path => path.to_string(),
    }
}

/// Returns the message for an error of the driver, without parts of the URL. The message must not use the error's
/// details, because they repeat parts of the URL.
fn said_by(error: &redis::RedisError) -> &'static str {
    let said = error.to_string().to_ascii_lowercase();
    let known = [
        ("hostname", "has no host: write redis://host:6379"),
        ("wildcard", "has the host 0.0.0.0 or ::, which is no server's address"),
        ("database", NO_DATABASE),
        ("username", "has a user that is not UTF-8"),
        ("password", "has a password that is not UTF-8"),
        ("path", NO_PATH),
    ];
    let known = known.iter().find(|(part, _)| said.contains(part));
    known.map_or("can't be read: write it as redis://user:password@host:6379/0", |(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::server::server_url::address_of_url;

    fn read(url: &str) -> String {
        address_of_url::<Address>(url).map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn a_url_says_where_and_who() {
        let address = address_of_url::<Address>("redis://us%40er:p%3Fss@cache.example:7000/3").unwrap();
        let login = &address.login;
        assert_eq!((login.username(), login.password()), (Some("us@er"), Some("p?ss")));
        assert_eq!(address.to_string(), "redis://cache.example:7000/3");
        let address = address_of_url::<Address>("redis+unix:///run/redis.sock?db=2&user=u&pass=p").unwrap();
        let login = &address.login;
        assert_eq!((login.username(), login.password()), (Some("u"), Some("p")));
        assert_eq!(address.to_string(), "redis+unix:///run/redis.sock?db=2");
        assert_eq!(read("redis+unix:/run/redis.sock?db=2"), "redis+unix:///run/redis.sock?db=2");
        assert_eq!(read("redis://:secret@[::1]"), "redis://[::1]:6379/0");
        assert_eq!(read("REDIS://localhost"), "redis://localhost:6379/0");
    }

    #[test]
    fn a_url_lists_the_sentinels_of_a_primary_or_nodes_of_a_cluster() {
        let login = |info: &RedisConnectionInfo| {
            (info.username().map(str::to_owned), info.password().map(str::to_owned), info.db())
        };
        let text = |text: &str| Some(text.to_owned());
        let hosts = "us%40er:p%3Fss@a:,b:7000,[::1]";
        let url = format!("redis+sentinel://{hosts}/my-master.1/3?wait=1&sentinel_user=s&sentinel_password=t%26u");
        let address = address_of_url::<Address>(&url).unwrap();
        assert_eq!(address.to_string(), "redis+sentinel://a:26379,b:7000,[::1]:26379/my-master.1/3");
        assert_eq!((login(&address.login), address.replicas), ((text("us@er"), text("p?ss"), 3), 1));
        let Some(Topology::Sentinel { primary, login: of_sentinels }) = &address.topology else { panic!("sentinels") };
        assert_eq!((&**primary, login(of_sentinels)), ("my-master.1", (text("s"), text("t&u"), 0)));

        let address = address_of_url::<Address>(&format!("redis+cluster://{hosts}")).unwrap();
        assert_eq!(address.to_string(), "redis+cluster://a:6379,b:7000,[::1]:6379");
        assert_eq!((login(&address.login), address.replicas), ((text("us@er"), text("p?ss"), 0), 0));
        assert_eq!(read("redis+cluster://a/0"), "redis+cluster://a:6379");
        assert!(address.is_overheard());
        assert!(!address_of_url::<Address>("redis+cluster://127.0.0.1,localhost").unwrap().is_overheard());
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        let cases = [
            ("localhost", "has no scheme: it begins with redis://"),
            (
                "http://localhost",
                "has an unknown scheme: write redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster or redis+unix",
            ),
            ("redis://", "has no host: write redis://host:6379"),
            ("redis:///0", "has no host: write redis://host:6379"),
            ("redis://0.0.0.0", "has the host 0.0.0.0 or ::, which is no server's address"),
            ("redis://h/secret", NO_DATABASE),
            ("redis://:p@se/cret@h", NO_DATABASE),
            (
                "redis://:a,secret@h1,h2/0",
                "names several hosts: write redis+sentinel://host1,host2/NAME or redis+cluster://host1,host2",
            ),
            ("redis://h/-1", "has a database below 0"),
            (
                "redis://:secret@h ",
                "begins or ends with a space or a line end: leave it out; in a path or a password, write %20 for a space",
            ),
            ("redis://secret@h", NO_PASSWORD),
            ("redis+unix:///run/r?user=secret", "has a user and no password: write ?user=USER&pass=PASSWORD"),
            ("redis://h:secret", NO_PORT),
            ("redis://u:se/cret@h", NO_PORT),
            ("redis://h:70000", NO_PORT),
            (
                "redis://h/0?secret",
                "has an unknown option behind the ?: it takes `prefix`, `timeout` and `wait`; in a password, write %3F for a ?",
            ),
            ("redis://h/0#secret", "has a #; in a password, write %23 for a #"),
            (
                "redis://:secret@h/0#insecure",
                "ends with #insecure, but the certificate of a server is always checked: pass the certificate of its authority to \
                 `root_certificates(..)` of the builder, or install it on this machine",
            ),
            ("redis://h?wait=secret", "has a wait that is not a number of replicas: write wait=1"),
            ("redis+cluster://h/1", "has a database other than 0, but a cluster has only database 0"),
            ("redis+cluster://h,", "has an empty host in its list: remove a comma"),
            ("redis+cluster:///0", "has no host: write redis://host:6379"),
            ("redis+sentinel:///main/0", "has no host: write redis://host:6379"),
            (
                "redis+sentinel://h/main?sentinel_user=secret",
                "has a sentinel_user but no sentinel_password: write both",
            ),
            (
                "redis+sentinel://h/main?sentinel_password=secret%FF",
                "has a sentinel_password that is not well-formed: write %25 for a %",
            ),
            (
                "redis+sentinel://u:secret@a,u:secret@b/main",
                "has more than one @: write %40 for an @ in a user or a password",
            ),
            ("redis+sentinel://u:secret@h", NO_PRIMARY),
            ("redis+sentinel://h/a%20b", NO_PRIMARY),
            ("redis+sentinel://h/0", NO_PRIMARY),
            (
                "redis://:se;cret@h:6379;prefix=secret",
                "has a ;: options begin with ?, and & separates them; in a path, a password or a value, write %3B for a ;",
            ),
            (
                "redis://h?prefix=secret;timeout=2s",
                "has a ;: options begin with ?, and & separates them; in a path, a password or a value, write %3B for a ;",
            ),
            (
                "redis://h/0?ssl_cert_reqs=secret",
                "has the unknown option `ssl_cert_reqs`: for TLS, write rediss://. It takes `prefix`, `timeout` and `wait`",
            ),
            (
                "redis://h?sentinel_user=secret&sentinel_password=secret",
                "has an unknown option behind the ?: `sentinel_user` is for redis+sentinel://. It takes `prefix`, `timeout` and \
                 `wait`; in a password, write %3F for a ?",
            ),
            (
                "redis+sentinel://h?master_name=secret",
                "has the unknown option `master_name`: the name of the primary stands behind the hosts: \
                 redis+sentinel://host1,host2/NAME. It takes `prefix`, `timeout`, `wait`, `sentinel_user` and `sentinel_password`",
            ),
            ("redis+unix://secret", "has no path: write redis+unix:///run/redis.sock"),
            ("redis+unix://secret?pass=a/b", "has no path: write redis+unix:///run/redis.sock"),
            ("redis+unix:secret", "has no path: write redis+unix:///run/redis.sock"),
            ("redis+unix:", "has no path: write redis+unix:///run/redis.sock"),
            ("redis+unix://user:secret@/run/r", "has something before its path: write redis+unix:///run/redis.sock"),
            ("redis+unix://secret/run/r?db=1", "has something before its path: write redis+unix:///run/redis.sock"),
            (
                "redis+unix:///run/r?password=secret",
                "has an unknown option behind the ?: it takes `prefix`, `timeout`, `wait`, `db`, `user` and `pass`; in a password, write \
                 %3F for a ?",
            ),
            ("redis+unix:///run/r?db=secret", NO_DATABASE),
            (
                "redis://h?table=secret",
                "has the unknown option `table`: did you mean `prefix`? It takes `prefix`, `timeout` and `wait`",
            ),
        ];
        for (url, wrong) in cases {
            assert_eq!(read(url), format!("the url of a redis server {wrong}"), "{url}");
        }
    }
}
