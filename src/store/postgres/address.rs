//! The address of a PostgreSQL server: its URL read into the configuration of the driver.

use std::fmt;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::base::error::InvalidOptions;
use crate::store::remote::server_url::{Encryption, HostAndPort, ServerUrl, TlsOption, is_loopback, is_this_host};
#[cfg(feature = "postgres-tls")]
use crate::store::remote::tls::Tls;

/// A server, and how it is reached.
pub(super) struct Target {
    pub(super) address: Address,
    /// How long a statement may wait for what somebody else's transaction has, and how long it may last, in milliseconds.
    pub(super) lock_timeout: u128,
    pub(super) statement_timeout: u128,
    #[cfg(feature = "postgres-tls")]
    pub(super) tls: Tls,
}

/// What a URL says.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
}

const TLS: TlsOption = TlsOption {
    name: "sslmode",
    off: "disable",
    on: ["require", "verify-ca", "verify-full"],
    is_built_in: cfg!(feature = "postgres-tls"),
};

impl Address {
    pub(super) fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }

    /// Whether it is reached over a socket of this host.
    pub(super) fn is_a_socket(&self) -> bool {
        !self.config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)))
    }

    /// Whether what is said may be read on its way.
    pub(super) fn is_overheard(&self) -> bool {
        let is_far = match self.are_addresses_local() {
            Some(all_are_local) => !all_are_local,
            None => self.config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(host) if !is_this_host(host))),
        };
        is_far && !self.is_encrypted()
    }

    /// Whether all the addresses are of this host that stand in the place of the hosts' own, if there are such.
    pub(super) fn are_addresses_local(&self) -> Option<bool> {
        let addresses = self.config.get_hostaddrs();
        (!addresses.is_empty()).then(|| addresses.iter().all(is_loopback))
    }

    /// Reads a URL. What is wrong with one is said without repeating it, because there may be a password in it.
    pub(super) fn of_url(url: &str) -> Result<Self, InvalidOptions> {
        let url = ServerUrl::parse(url, "postgres", &["postgres", "postgresql"])?;
        let (wrong, place) = (|what: &str| url.wrong(what), url.place);
        let (encryption, others) = url.encryption(&TLS)?;
        // A password with such a character in it ends there for the driver, and its rest would be shown as what follows.
        if url.options.is_some_and(|options| options.contains('@')) {
            return Err(wrong(
                "has an @ behind the ?; there it is written as %40, and in a password, ? is written as %3F",
            ));
        }
        let config = format!("postgres:{place}?{}", others.join("&")).parse();
        let mut config: Config = config.map_err(|error: tokio_postgres::Error| wrong(&said_by(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(wrong("has no host, as in postgres://user:password@host/database"));
        }
        if place.matches('@').count() > 1 {
            return Err(wrong("has more than one @; where it is part of a name or a password it is written as %40"));
        }
        if config.get_user().is_none() {
            return Err(wrong("has no user, as in postgres://user:password@host/database"));
        }
        let is_tcp = |host: &Host| matches!(host, Host::Tcp(_));
        if config.get_hosts().iter().any(is_tcp) && !config.get_hosts().iter().all(is_tcp) {
            return Err(wrong("lists a socket beside a host; name one or the other"));
        }
        config.ssl_mode(if encryption == Encryption::Tls { SslMode::Require } else { SslMode::Disable });
        if config.get_application_name().is_none() {
            config.application_name("soloist");
        }
        Ok(Self { config })
    }
}

/// Without user, password and options.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(at, host)| {
            let port = *ports.get(at).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(host) => HostAndPort(host, port).to_string(),
                #[cfg(unix)]
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let hosts: Vec<String> = hosts.collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(f, "postgres://{}/{database}", hosts.join(","))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// The driver's details name an option, and show no value.
fn said_by(error: &tokio_postgres::Error) -> String {
    let said = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let names_an_option = said.starts_with("unknown option") || said.starts_with("invalid value for option");
    if names_an_option && !said.contains(char::is_control) {
        format!("has an {said}")
    } else {
        "is not well-formed, as in postgres://user:password@host:5432/database".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> String {
        Address::of_url(url).map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn a_url_says_where_and_who() {
        let address =
            Address::of_url("postgres://us%40er:p%3Fss@db.example:7000/app?application_name=reports").unwrap();
        let config = &address.config;
        assert_eq!((config.get_user(), config.get_password()), (Some("us@er"), Some(&b"p?ss"[..])));
        assert_eq!(
            (address.to_string(), config.get_application_name()),
            ("postgres://db.example:7000/app".into(), Some("reports"))
        );
        assert_eq!(read("postgres://u:p@h/my%40db"), "postgres://h:5432/my@db");
        assert_eq!(read("PostgreSQL://u:p@[::1]"), "postgres://[::1]:5432/u");
        assert_eq!(read("postgres://u@%2Frun%2Fpg/app"), "postgres:///run/pg:5432/app");
        assert_eq!(read("postgres://u@a,b:7000/app?target_session_attrs=read-write"), "postgres://a:5432,b:7000/app");
        #[cfg(feature = "postgres-tls")]
        for (mode, expected) in [("disable", SslMode::Disable), ("verify-full", SslMode::Require)] {
            let url = format!("postgres://u@h/app?connect_timeout=1&sslmode={mode}");
            assert_eq!(Address::of_url(&url).unwrap().config.get_ssl_mode(), expected);
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        let cases = [
            ("localhost", "has no scheme"),
            ("http://u:secret@h/app", "has another scheme than postgres or postgresql"),
            ("postgres://u:secret@/app", "has no host, as in postgres://user:password@host/database"),
            ("postgres://h/app", "has no user, as in postgres://user:password@host/database"),
            ("postgres://u:secret@h:port/app", "has an invalid value for option `port`"),
            ("postgres://u:sec#ret@h/app", "has a fragment; in a password, # is written as %23"),
            ("postgres://u:p@h/app?pass=secret", "has an unknown option `pass`"),
            ("postgres://u:secret@h,%2Frun%2Fpg/app", "lists a socket beside a host; name one or the other"),
            (
                "postgres://u:p@secret@h/app",
                "has more than one @; where it is part of a name or a password it is written as %40",
            ),
            (
                "postgres://u:secret@h/my@db",
                "has more than one @; where it is part of a name or a password it is written as %40",
            ),
            (
                "postgres://u:p?secret=@h/app",
                "has an @ behind the ?; there it is written as %40, and in a password, ? is written as %3F",
            ),
            (
                "postgres://u:p@h/app?sslmode=secret",
                "has another sslmode than disable (the default), require, verify-ca or verify-full",
            ),
        ];
        for (url, wrong) in cases {
            assert_eq!(read(url), format!("the url of a postgres server {wrong}"), "{url}");
        }
    }
}
