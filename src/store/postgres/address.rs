//! The address of a PostgreSQL server: its URL, converted into the configuration of the driver.

use std::fmt;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};

use crate::base::error::InvalidOptions;
use crate::store::server::server_url::{ServerAddress, ServerUrl, host_and_port, is_this_host};
use crate::time::clock::random_index;

/// The address and the login of a URL.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) config: Config,
    /// The configuration for each host alone.
    hosts: Vec<Config>,
}

impl Address {
    /// Returns the configuration for each host alone, in the order in which the hosts are tried.
    pub(super) fn hosts(&self) -> Vec<Config> {
        let mut hosts = self.hosts.clone();
        if self.config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            let first = random_index(hosts.len());
            hosts.rotate_left(first);
        }
        hosts
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }
}

impl ServerAddress for Address {
    const KIND: &'static str = "postgres";
    const SCHEMES: &'static [&'static str] = &["postgres", "postgresql"];
    const STORE: &'static str = "PostgresMutex";
    const NAMESPACE: &'static str = "table";
    const TLS: &'static str = "?sslmode=require";
    const FORM: &'static str = "postgres://user:password@host:5432/database";

    fn is_overheard(&self) -> bool {
        // If the URL has `hostaddr`, the driver connects to the addresses in `hostaddr`, and looks up no host.
        let is_far = match self.config.get_hostaddrs() {
            [] => self.config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(host) if !is_this_host(host))),
            addresses => !addresses.iter().all(|address| is_this_host(&address.to_string())),
        };
        is_far && !self.is_encrypted()
    }

    fn of_url(url: &mut ServerUrl<'_>) -> Result<Self, InvalidOptions> {
        let is_encrypted = url.take_encryption("sslmode", ["disable", "require", "verify-ca", "verify-full"])?;
        url.check_tls(is_encrypted, cfg!(feature = "postgres-tls"))?;
        // If a password contains a question mark, the driver reads the text after the question mark as options. The
        // driver's errors would then show this part of the password.
        url.refuse_if(
            url.left().contains('@'),
            "has an @ behind the ?: write %40 for the @; in a password, write %3F for a ?",
        )?;
        url.refuse_others(&["table", "timeout", "sslmode"], &OF_DRIVER.map(|(name, _)| name))?;
        let read = |place: &str| {
            let config = format!("postgres:{place}?{}", url.left()).parse();
            let mut config: Config =
                config.map_err(|error| url.wrong(said_by(&error).unwrap_or_else(|| url.not_well_formed())))?;
            config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
            if config.get_application_name().is_none() {
                config.application_name("soloist");
            }
            Ok(config)
        };
        let config = read(url.place)?;
        let hosts = config.get_hosts();
        url.refuse_if(hosts.is_empty(), "has no host: write postgres://user:password@host/database")?;
        url.refuse_if(
            url.place.matches('@').count() > 1,
            "has more than one @: write %40 for an @ in a name or a password",
        )?;
        url.refuse_if(config.get_user().is_none(), "has no user: write postgres://user:password@host/database")?;
        let is_tcp = |host: &Host| matches!(host, Host::Tcp(_));
        let is_mixed = hosts.iter().any(is_tcp) && !hosts.iter().all(is_tcp);
        url.refuse_if(is_mixed, "lists a socket and a host: name only sockets or only hosts")?;
        let each: Vec<Config> = each_host(url.place).map(|place| read(&place)).collect::<Result<_, _>>()?;
        // If options name hosts or addresses, too, the driver gets all hosts together.
        let are_all = each.len() == hosts.len() && config.get_hostaddrs().is_empty();
        let hosts = if are_all { each } else { vec![config.clone()] };
        Ok(Self { config, hosts })
    }
}

/// Returns the part of a URL before its options with each of its hosts alone, as `//user:password@host:5432/database`.
fn each_host(place: &str) -> impl Iterator<Item = String> {
    let begin = place.rfind('@').map_or("//".len(), |at| at + 1);
    let end = place[begin..].find('/').map_or(place.len(), |at| begin + at);
    place[begin..end].split(',').map(move |host| format!("{}{host}{}", &place[..begin], &place[end..]))
}

/// Shows no user, no password and no options.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(at, host)| {
            let port = *ports.get(at).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(host) => host_and_port(host, port),
                #[cfg(unix)]
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let hosts: Vec<String> = hosts.collect();
        let database = self.config.get_dbname().unwrap_or_default();
        write!(f, "postgres://{}/{database}", hosts.join(","))
    }
}

/// The options of the driver, with their values. The list has no `sslmode`, because this option is taken out before the
/// driver reads the URL.
const OF_DRIVER: [(&str, &str); 18] = [
    ("user", "a name"),
    ("password", "a text"),
    ("dbname", "a name"),
    ("host", "a name, an address or the folder of a socket"),
    ("hostaddr", "an IP address"),
    ("port", "a number from 1 to 65535; in a password, write %2F for a / and %40 for an @"),
    ("options", "options of the server"),
    ("application_name", "a text"),
    ("target_session_attrs", "any, read-write or read-only"),
    ("load_balance_hosts", "disable or random"),
    ("channel_binding", "disable, prefer or require"),
    ("sslnegotiation", "postgres or direct"),
    ("connect_timeout", "a number of seconds"),
    ("tcp_user_timeout", "a number of seconds"),
    ("keepalives", "0 or 1"),
    ("keepalives_idle", "a number of seconds"),
    ("keepalives_interval", "a number of seconds"),
    ("keepalives_retries", "a number"),
];

/// Returns the reason of this error without values of the URL, if an option is the reason. The details of the driver's
/// error name an option, but show no value.
fn said_by(error: &tokio_postgres::Error) -> Option<String> {
    let said = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let option = said.strip_prefix("invalid value for option `").and_then(|rest| rest.strip_suffix('`'));
    let (name, values) = OF_DRIVER.into_iter().find(|(name, _)| Some(*name) == option)?;
    Some(format!("has an invalid {name}: write {values}"))
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
        let address =
            address_of_url::<Address>("postgres://us%40er:p%3Fss@db.example:7000/app?application_name=reports")
                .unwrap();
        let config = &address.config;
        assert_eq!((config.get_user(), config.get_password()), (Some("us@er"), Some(&b"p?ss"[..])));
        assert_eq!(
            (address.to_string(), config.get_application_name()),
            ("postgres://db.example:7000/app".into(), Some("reports"))
        );
        assert_eq!(read("postgres://u:p@h/my%40db"), "postgres://h:5432/my@db");
        assert_eq!(read("PostgreSQL://u:p@[::1]"), "postgres://[::1]:5432/");
        assert_eq!(read("postgres://u@%2Frun%2Fpg/app"), "postgres:///run/pg:5432/app");
        assert_eq!(read("postgres://u@a,b:7000/app?target_session_attrs=read-write"), "postgres://a:5432,b:7000/app");
        #[cfg(feature = "postgres-tls")]
        for (mode, expected) in [("disable", SslMode::Disable), ("verify-full", SslMode::Require)] {
            let url = format!("postgres://u@h/app?connect_timeout=1&sslmode={mode}");
            assert_eq!(address_of_url::<Address>(&url).unwrap().config.get_ssl_mode(), expected);
        }
    }

    #[test]
    fn a_connection_is_overheard_if_any_of_its_servers_may_be_elsewhere() {
        let is_overheard =
            |place: &str| address_of_url::<Address>(&format!("postgres://u:p@{place}")).unwrap().is_overheard();
        for here in ["localhost/app", "127.0.0.1,[::1]/app", "%2Frun%2Fpg/app", "db/app?hostaddr=127.0.0.1"] {
            assert!(!is_overheard(here), "{here}");
        }
        for elsewhere in
            ["db/app", "localhost,db/app", "localhost/app?hostaddr=10.0.0.1", "%2Frun%2Fpg/app?hostaddr=10.0.0.1"]
        {
            assert!(is_overheard(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        let unknown = |name: &str, it: &str| {
            let known = OF_DRIVER.map(|(name, _)| format!("`{name}`"));
            let (last, others) = known.split_last().expect("there are several");
            format!(
                "has the unknown option `{name}`: {it} takes `table`, `timeout`, `sslmode`, {} and {last}",
                others.join(", ")
            )
        };
        let cases: [(&str, &str); _] = [
            ("localhost", "has no scheme: it begins with postgres://"),
            ("http://u:secret@h/app", "has an unknown scheme: write postgres or postgresql"),
            ("postgres://u:secret@/app", "has no host: write postgres://user:password@host/database"),
            ("postgres://h/app", "has no user: write postgres://user:password@host/database"),
            (
                "postgres://u:secret@h:port/app",
                "has an invalid port: write a number from 1 to 65535; in a password, write %2F for a / and %40 for an @",
            ),
            (
                "postgres://u:p@h/app?target_session_attrs=secret",
                "has an invalid target_session_attrs: write any, read-write or read-only",
            ),
            ("postgres://u:sec#ret@h/app", "has a #; in a password, write %23 for a #"),
            ("postgres://u:p@h/app?prefix=secret", &unknown("prefix", "did you mean `table`? It")),
            (
                "postgres://u:p@h/app?schema=secret",
                &unknown("schema", "the schema belongs to the name of the table: table=SCHEMA.soloist_mutexes. It"),
            ),
            ("postgres://u:p@h/app?ssl-mode=secret", &unknown("ssl-mode", "did you mean `sslmode`? It")),
            (
                "postgres://u:p@h/app?sslrootcert=secret",
                &unknown(
                    "sslrootcert",
                    "`sslrootcert` is not read from a url: pass certificates to `root_certificates(..)` or \
                     `client_certificate(..)` of the builder. It",
                ),
            ),
            ("postgres://u:p@h/app?application_name=a&nothing=secret", &unknown("nothing", "it")),
            // The password has a &, so `secret` is a part of it.
            (
                "postgres://u@h/app?password=a&secret=b",
                &unknown("secret", "it")
                    .replace("the unknown option `secret`", "an unknown option behind the ?")
                    .replace(
                        " and `keepalives_retries`",
                        " and `keepalives_retries`; in a password, write %3F for a ?",
                    ),
            ),
            ("postgres://u:secret@h,%2Frun%2Fpg/app", "lists a socket and a host: name only sockets or only hosts"),
            ("postgres://u:p@secret@h/app", "has more than one @: write %40 for an @ in a name or a password"),
            ("postgres://u:secret@h/my@db", "has more than one @: write %40 for an @ in a name or a password"),
            (
                "postgres://u:p?secret=@h/app",
                "has an @ behind the ?: write %40 for the @; in a password, write %3F for a ?",
            ),
            (
                "postgres://u:p@h/app?sslmode=secret",
                "has an unknown sslmode: write disable (the default), require, verify-ca or verify-full",
            ),
        ];
        for (url, wrong) in cases {
            assert_eq!(read(url), format!("the url of a postgres server {wrong}"), "{url}");
        }
    }

    #[test]
    fn each_host_gets_a_share_of_the_time_unless_addresses_are_listed() {
        let ports = |url: &str| -> Vec<Vec<u16>> {
            let address = address_of_url::<Address>(url).expect("a url");
            address.hosts().iter().map(|config| config.get_ports().to_vec()).collect()
        };
        assert_eq!(ports("postgres://u:p,q@a:1,b/app"), [vec![1], vec![5432]]);
        assert_eq!(ports("postgres://u:p@a,b/app?hostaddr=10.0.0.1,10.0.0.2"), [vec![5432, 5432]]);
    }
}
