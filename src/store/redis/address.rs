//! The address of a Redis server: its URL read into place, user, password and database.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo};

use crate::base::error::InvalidOptions;
use crate::store::remote::server_url::{Encryption, HostAndPort, ServerUrl, is_this_host};
#[cfg(feature = "redis-tls")]
use crate::store::remote::tls::Tls;

/// A server, and how it is reached.
pub(super) struct Target {
    pub(super) address: Address,
    #[cfg(feature = "redis-tls")]
    pub(super) tls: Tls,
}

/// What a URL says.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) endpoint: Endpoint,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
}

#[derive(Clone)]
pub(super) enum Endpoint {
    Tcp { host: String, port: u16, encryption: Encryption },
    Unix(PathBuf),
}

impl Address {
    /// Reads a URL. What is wrong with one is said without repeating it, because there may be a password in it.
    pub(super) fn of_url(url: &str) -> Result<Self, InvalidOptions> {
        let url = ServerUrl::parse(url, "redis", &["redis", "rediss", "redis+unix"])?;
        let wrong = |what: &str| url.wrong(what);
        let is_path = url.scheme == "redis+unix";
        let encryption = if url.scheme == "rediss" { Encryption::Tls } else { Encryption::None };
        if encryption == Encryption::Tls && !cfg!(feature = "redis-tls") {
            return Err(url.without_tls_in_this_build());
        }
        if url.options.is_some() && !is_path {
            return Err(wrong("has options behind a ?, and there are none; in a password, ? is written as %3F"));
        }
        // The driver passes over a user, a password and a host before a path.
        match url.place.strip_prefix("//").filter(|place| is_path && !place.starts_with('/')) {
            Some(place) if place.contains('/') => {
                return Err(wrong("has something before its path, as in redis+unix:///run/redis.sock"));
            }
            Some(_) => return Err(wrong("has no path, as in redis+unix:///run/redis.sock")),
            None => {}
        }
        // The driver knows `rediss` only when it does the encryption.
        let scheme = if is_path { "redis+unix" } else { "redis" };
        let (place, options) = (url.place, url.options.unwrap_or_default());
        let info = format!("{scheme}:{place}?{options}").into_connection_info();
        let info = info.map_err(|error| wrong(said_by(&error)))?;
        let login = info.redis_settings();
        let address = Self {
            endpoint: match info.addr() {
                ConnectionAddr::Tcp(host, port) => Endpoint::Tcp { host: host.clone(), port: *port, encryption },
                ConnectionAddr::Unix(path) => Endpoint::Unix(path.clone()),
                _ => return Err(wrong("names a place that is not known")),
            },
            user: login.username().map(str::to_owned),
            password: login.password().map(str::to_owned),
            database: login.db(),
        };
        match (&address.user, &address.password) {
            (Some(_), None) => Err(wrong("has a user and no password, as in redis://user:password@host")),
            _ if address.database < 0 => Err(wrong("has a database below 0")),
            _ => Ok(address),
        }
    }
}

impl Address {
    /// Whether what is said may be read on its way.
    pub(super) fn is_overheard(&self) -> bool {
        match &self.endpoint {
            Endpoint::Tcp { host, encryption, .. } => *encryption == Encryption::None && !is_this_host(host),
            Endpoint::Unix(_) => false,
        }
    }
}

/// Without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Unix(path) => {
                write!(f, "redis+unix://{}", path.display())?;
                if self.database == 0 { Ok(()) } else { write!(f, "?db={}", self.database) }
            }
            Endpoint::Tcp { host, port, encryption } => {
                let scheme = if *encryption == Encryption::Tls { "rediss" } else { "redis" };
                write!(f, "{scheme}://{}/{}", HostAndPort(host, *port), self.database)
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// The driver's reasons are fixed texts; its details repeat parts of the URL.
fn said_by(error: &redis::RedisError) -> &'static str {
    let said = error.to_string().to_ascii_lowercase();
    let known = [
        ("hostname", "has no host, as in redis://host:6379"),
        ("wildcard", "has the host 0.0.0.0 or ::, where nobody can be reached"),
        ("database", "has something else than a number as its database, as in redis://host:6379/0"),
        ("username", "has a user that is not UTF-8"),
        ("password", "has a password that is not UTF-8"),
        ("path", "has no path, as in redis+unix:///run/redis.sock"),
    ];
    known
        .iter()
        .find(|(part, _)| said.contains(part))
        .map_or("is not well-formed, as in redis://host:6379/0", |(_, s)| *s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Address::of_url(url).map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn a_url_says_where_and_who() {
        let address = Address::of_url("redis://us%40er:p%3Fss@cache.example:7000/3").unwrap();
        assert_eq!(address.user.as_deref(), Some("us@er"));
        assert_eq!(address.password.as_deref(), Some("p?ss"));
        assert_eq!(address.to_string(), "redis://cache.example:7000/3");
        let address = Address::of_url("redis+unix:///run/redis.sock?db=2&user=u&pass=p").unwrap();
        assert_eq!((address.user.as_deref(), address.password.as_deref()), (Some("u"), Some("p")));
        assert_eq!(address.to_string(), "redis+unix:///run/redis.sock?db=2");
        assert_eq!(shown("redis+unix:/run/redis.sock?db=2"), "redis+unix:///run/redis.sock?db=2");
        assert_eq!(shown("redis://:secret@[::1]"), "redis://[::1]:6379/0");
        assert_eq!(shown("REDIS://localhost"), "redis://localhost:6379/0");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        let cases = [
            ("localhost", "has no scheme"),
            ("http://localhost", "has another scheme than redis, rediss or redis+unix"),
            ("redis://", "has no host, as in redis://host:6379"),
            ("redis:///0", "has no host, as in redis://host:6379"),
            ("redis://0.0.0.0", "has the host 0.0.0.0 or ::, where nobody can be reached"),
            ("redis://h/secret", "has something else than a number as its database, as in redis://host:6379/0"),
            ("redis://h/-1", "has a database below 0"),
            ("redis://secret@h", "has a user and no password, as in redis://user:password@host"),
            ("redis://h:secret", "is not well-formed, as in redis://host:6379/0"),
            ("redis://h/0?secret", "has options behind a ?, and there are none; in a password, ? is written as %3F"),
            ("redis://h/0#secret", "has a fragment; in a password, # is written as %23"),
            ("redis+unix://secret", "has no path, as in redis+unix:///run/redis.sock"),
            ("redis+unix://secret?pass=a/b", "has no path, as in redis+unix:///run/redis.sock"),
            ("redis+unix:secret", "has no path, as in redis+unix:///run/redis.sock"),
            ("redis+unix:", "has no path, as in redis+unix:///run/redis.sock"),
            ("redis+unix://user:secret@/run/r", "has something before its path, as in redis+unix:///run/redis.sock"),
            ("redis+unix://secret/run/r?db=1", "has something before its path, as in redis+unix:///run/redis.sock"),
            (
                "redis+unix:///run/r?db=secret",
                "has something else than a number as its database, as in redis://host:6379/0",
            ),
        ];
        for (url, wrong) in cases {
            assert_eq!(shown(url), format!("the url of a redis server {wrong}"), "{url}");
        }
    }
}
