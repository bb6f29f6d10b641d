//! The address of a Redis server: its URL read into place, user, password and database.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::base::error::InvalidOptions;
use crate::store::server::server_url::{ServerAddress, ServerUrl, host_and_port, is_this_host};

const NO_PATH: &str = "has no path, as in redis+unix:///run/redis.sock";

/// The address and the login of a URL.
pub(super) struct Address {
    pub(super) info: ConnectionInfo,
    pub(super) is_encrypted: bool,
}

impl ServerAddress for Address {
    const KIND: &'static str = "redis";
    const TLS: &'static str = "rediss://";

    fn of_url(url: &str) -> Result<Self, InvalidOptions> {
        let url = ServerUrl::parse(url, Self::KIND, &["redis", "rediss", "redis+unix"])?;
        let (is_path, is_encrypted) = (url.scheme == "redis+unix", url.scheme == "rediss");
        url.check_tls(is_encrypted, cfg!(feature = "redis-tls"))?;
        url.refuse_if(
            url.options.is_some() && !is_path,
            "has another option behind the ? than prefix and timeout; in a password, ? is written as %3F",
        )?;
        // The driver passes over a user, a password and a host before a path.
        let before_path = url.place.strip_prefix("//").filter(|place| is_path && !place.starts_with('/'));
        url.refuse_if(before_path.is_some_and(|place| !place.contains('/')), NO_PATH)?;
        url.refuse_if(before_path.is_some(), "has something before its path, as in redis+unix:///run/redis.sock")?;
        // The driver knows `rediss` only when it does the encryption.
        let scheme = if is_path { "redis+unix" } else { "redis" };
        let info = format!("{scheme}:{}?{}", url.place, url.options.unwrap_or_default()).into_connection_info();
        let info = info.map_err(|error| url.wrong(said_by(&error)))?;
        let login = info.redis_settings();
        url.refuse_if(
            login.username().is_some() && login.password().is_none(),
            "has a user and no password, as in redis://user:password@host",
        )?;
        url.refuse_if(login.db() < 0, "has a database below 0")?;
        Ok(Self { info, is_encrypted })
    }

    fn is_overheard(&self) -> bool {
        !self.is_encrypted && matches!(self.info.addr(), ConnectionAddr::Tcp(host, _) if !is_this_host(host))
    }
}

/// Without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.info.redis_settings().db();
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let scheme = if self.is_encrypted { "rediss" } else { "redis" };
                write!(f, "{scheme}://{}/{database}", host_and_port(host, *port))
            }
            path if database == 0 => write!(f, "redis+unix://{path}"),
            path => write!(f, "redis+unix://{path}?db={database}"),
        }
    }
}

/// Returns a reason without parts of the URL. The driver's reasons are fixed texts, but its details repeat such parts.
fn said_by(error: &redis::RedisError) -> &'static str {
    let said = error.to_string().to_ascii_lowercase();
    let known = [
        ("hostname", "has no host, as in redis://host:6379"),
        ("wildcard", "has the host 0.0.0.0 or ::, where nobody can be reached"),
        ("database", "has something else than a number as its database, as in redis://host:6379/0"),
        ("username", "has a user that is not UTF-8"),
        ("password", "has a password that is not UTF-8"),
        ("path", NO_PATH),
    ];
    let known = known.iter().find(|(part, _)| said.contains(part));
    known.map_or("is not well-formed, as in redis://host:6379/0", |(_, what)| *what)
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
        let login = address.info.redis_settings();
        assert_eq!((login.username(), login.password()), (Some("us@er"), Some("p?ss")));
        assert_eq!(address.to_string(), "redis://cache.example:7000/3");
        let address = Address::of_url("redis+unix:///run/redis.sock?db=2&user=u&pass=p").unwrap();
        let login = address.info.redis_settings();
        assert_eq!((login.username(), login.password()), (Some("u"), Some("p")));
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
            (
                "redis://h/0?secret",
                "has another option behind the ? than prefix and timeout; in a password, ? is written as %3F",
            ),
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
