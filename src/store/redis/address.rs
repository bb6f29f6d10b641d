//! The address of a Redis server: the servers, the user, the password and the database in its URL.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::base::error::InvalidOptions;
use crate::store::server::server_url::{ServerAddress, ServerUrl, host_and_port, is_this_host};

const NO_PATH: &str = "has no path, or something before it: write redis+unix:///run/redis.sock";

const NO_PRIMARY: &str =
    "has no name of a primary: write redis+sentinel://host1,host2/NAME, with letters, digits, dots, - and _ in NAME";

const NO_PASSWORD: &str = "has a user and no password: write redis://user:password@host, or ?user=USER&pass=PASSWORD for a \
                           socket; without a user, redis://:password@host";

const SEVERAL_HOSTS: &str =
    "names several hosts: write redis+sentinel://host1,host2/NAME or redis+cluster://host1,host2";

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
                let is_plain = name.chars().all(|char| char.is_ascii_alphanumeric() || ".-_".contains(char));
                let is_number = name.bytes().all(|byte| byte.is_ascii_digit()); // A database, and no name before it.
                url.refuse_if(is_number || !is_plain, NO_PRIMARY)?;
                let topology = Topology::Sentinel { primary: name.to_owned(), login };
                (hosts.iter().map(|host| format!("redis://{host}/{database}")).collect(), Some(topology))
            }
            "cluster" => {
                url.refuse_others(&["prefix", "timeout", "wait"], &[])?;
                let (hosts, path) = split_hosts(url, 6379)?;
                let what = "has a database other than 0, but a cluster has only database 0";
                url.refuse_if(!matches!(path, "" | "0"), what)?;
                (hosts.iter().map(|host| format!("redis://{host}")).collect(), Some(Topology::Cluster))
            }
            "unix" => {
                url.refuse_others(&["prefix", "timeout", "wait"], &["db", "user", "pass"])?;
                let path = url.place.strip_prefix("//").unwrap_or(url.place);
                url.refuse_if(!path.starts_with('/'), NO_PATH)?;
                (vec![format!("redis+unix://{path}?{}", url.left())], None)
            }
            _ => {
                url.refuse_others(&["prefix", "timeout", "wait"], &[])?;
                let (hosts, database) = split_hosts(url, 6379)?;
                url.refuse_if(hosts.len() > 1, SEVERAL_HOSTS)?;
                (vec![format!("redis://{}/{database}", hosts[0])], None)
            }
        };
        // The driver's error is not shown, because it repeats parts of the URL.
        let read = |server: String| server.into_connection_info().map_err(|_| url.wrong(url.not_well_formed()));
        let servers = servers.into_iter().map(read).collect::<Result<Vec<ConnectionInfo>, _>>()?;
        let login = servers.first().map(|server| server.redis_settings().clone()).unwrap_or_default();
        url.refuse_if(login.username().is_some() && login.password().is_none(), NO_PASSWORD)?;
        url.refuse_if(login.db() < 0, url.not_well_formed())?;
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
    url.refuse_if(hosts.split(',').any(str::is_empty), "has no host, or a comma too many between its hosts")?;
    let has_port = |host: &str| host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let hosts = hosts.split(',').map(|host| host.strip_suffix(':').unwrap_or(host));
    let server = |host| if has_port(host) { format!("{login}{host}") } else { format!("{login}{host}:{port}") };
    Ok((hosts.map(server).collect(), path))
}

/// Shows no user and no password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.login.db();
        let servers = self.servers.iter().map(shown).collect::<Vec<_>>().join(",");
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
        for slashes in ["/", "///", "////"] {
            let url = format!("redis+unix:{slashes}run/redis.sock?db=2");
            assert!(read(&url).ends_with("/run/redis.sock?db=2"), "{url}: {}", read(&url));
        }
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
        let schemes = "begins with none of its schemes, which are redis, rediss, redis+sentinel, rediss+sentinel, \
                       redis+cluster, rediss+cluster, redis+unix";
        let form = "is not well-formed: write redis://user:password@host:6379/0";
        let no_host = "has no host, or a comma too many between its hosts";
        let character = "has a character that can't stand there: write redis://user:password@host:6379/0, then ? and the options, \
                         with & between them; in a password, a path or a value, write %40 for an @, %2F for a /, %3F for a ?, and \
                         so on";
        let unknown = |options: &str| {
            format!(
                "has an unknown option: the options are {options}; for TLS, write rediss://, and pass certificates to the builder"
            )
        };
        let (plain, of_unix) = (
            unknown("`prefix`, `timeout` and `wait`"),
            unknown("`prefix`, `timeout`, `wait`, `db`, `user` and `pass`"),
        );
        let of_sentinels = unknown("`prefix`, `timeout`, `wait`, `sentinel_user` and `sentinel_password`");
        let cases: [(&str, &str); _] = [
            ("localhost", schemes),
            ("http://localhost", schemes),
            ("redis:h", form),
            ("redis://", no_host),
            ("redis:///0", no_host),
            ("redis://0.0.0.0", form),
            ("redis://h/secret", form),
            ("redis://:p@se/cret@h", character),
            ("redis://:p/secret@h", character),
            ("redis://:a,secret@h1,h2/0", SEVERAL_HOSTS),
            ("redis://:secret@h ", character),
            ("redis://secret@h", NO_PASSWORD),
            ("redis+unix:///run/r?user=secret", NO_PASSWORD),
            ("redis://h:secret", form),
            ("redis://h:70000", form),
            ("redis://::1", form),
            ("redis://h/0?secret", &plain),
            ("redis://h/0#secret", character),
            ("redis://:sec#ret@h", character),
            ("redis://:secret@${HOST}/0", character),
            ("redis://h?wait=secret", "has a wait that is not a number of replicas: write wait=1"),
            ("redis+cluster://h/1", "has a database other than 0, but a cluster has only database 0"),
            ("redis+cluster://h,", no_host),
            ("redis+cluster:///0", no_host),
            ("redis+sentinel:///main/0", no_host),
            (
                "redis+sentinel://h/main?sentinel_user=secret",
                "has a sentinel_user but no sentinel_password: write both",
            ),
            (
                "redis+sentinel://h/main?sentinel_password=secret%FF",
                "has a sentinel_password that is not well-formed: write %25 for a %",
            ),
            ("redis+sentinel://u:secret@a,u:secret@b/main", character),
            ("redis+sentinel://u:secret@h", NO_PRIMARY),
            ("redis+sentinel://h/0", NO_PRIMARY),
            ("redis+sentinel://h/my%20main", NO_PRIMARY),
            ("redis://h/-1", form),
            ("redis+unix:/run/r?db=-1", form),
            ("redis://:se;cret@h:6379;prefix=secret", character),
            ("redis://h?prefix=secret;timeout=2s", character),
            ("redis://h?prefix=a?secret", character),
            ("redis://h/0&prefix=secret", character),
            ("redis://h?sentinel_user=secret&sentinel_password=secret", &plain),
            ("redis+sentinel://h?master_name=secret", &of_sentinels),
            ("redis+unix://secret", NO_PATH),
            ("redis+unix:secret", NO_PATH),
            ("redis+unix:", NO_PATH),
            ("redis+unix://user:secret@/run/r", NO_PATH),
            ("redis+unix:///run/r?password=secret", &of_unix),
            ("redis+unix:///run/r?db=secret", form),
        ];
        for (url, wrong) in cases {
            assert_eq!(read(url), format!("the url of a redis server {wrong}"), "{url}");
        }
    }
}
