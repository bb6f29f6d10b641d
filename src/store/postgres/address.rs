//! The address of a PostgreSQL server: its URL, converted into the configuration of the driver.

use std::fmt;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::base::error::InvalidOptions;
use crate::store::server::server_url::{ServerAddress, ServerUrl, host_and_port, is_this_host};

/// The address and the login of a URL.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) config: Config,
    /// The configuration for each host alone, in the order in which the hosts are tried.
    pub(super) hosts: Vec<Config>,
}

impl Address {
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
        let is_far = |host: &Host| matches!(host, Host::Tcp(host) if !is_this_host(host));
        !self.is_encrypted() && self.config.get_hosts().iter().any(is_far)
    }

    fn of_url(url: &mut ServerUrl<'_>) -> Result<Self, InvalidOptions> {
        let is_encrypted = url.take_encryption("sslmode", ["disable", "require", "verify-ca", "verify-full"])?;
        url.check_tls(is_encrypted, cfg!(feature = "postgres-tls"))?;
        url.refuse_others(&["table", "timeout", "sslmode"], &OF_DRIVER)?;
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
        url.refuse_if(hosts.is_empty() || config.get_user().is_none(), url.not_well_formed())?;
        let is_tcp = |host: &Host| matches!(host, Host::Tcp(_));
        let is_mixed = hosts.iter().any(is_tcp) && !hosts.iter().all(is_tcp);
        url.refuse_if(is_mixed, "lists a socket and a host: name only sockets or only hosts")?;
        let hosts: Vec<Config> = each_host(url.place).map(|place| read(&place)).collect::<Result<_, _>>()?;
        let is_one = |config: &Config| match config.get_hosts() {
            [Host::Tcp(host)] => !host.contains(','),
            [Host::Unix(socket)] => !socket.to_string_lossy().contains(','),
            _ => false,
        };
        let form = "lists hosts in its options: write them as in postgres://user:password@a,b:5433/database";
        url.refuse_if(!hosts.iter().all(is_one), form)?;
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

/// The options of the driver. The list has no `sslmode`, because this option is taken out before the driver reads the
/// URL.
const OF_DRIVER: [&str; 14] = [
    "user",
    "password",
    "dbname",
    "host",
    "port",
    "options",
    "application_name",
    "target_session_attrs",
    "channel_binding",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
];

/// Returns the reason of this error without values of the URL, if an option is the reason. The details of the driver's
/// error name an option, but show no value.
fn said_by(error: &tokio_postgres::Error) -> Option<String> {
    let said = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let option = said.strip_prefix("invalid value for option `").and_then(|rest| rest.strip_suffix('`'));
    OF_DRIVER.into_iter().find(|name| Some(*name) == option).map(|name| format!("has an invalid {name}"))
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
            let url = format!("postgres://u@h/app?keepalives=1&sslmode={mode}");
            assert_eq!(address_of_url::<Address>(&url).unwrap().config.get_ssl_mode(), expected);
        }
    }

    #[test]
    fn a_connection_is_overheard_if_any_of_its_servers_may_be_elsewhere() {
        let is_overheard =
            |place: &str| address_of_url::<Address>(&format!("postgres://u:p@{place}")).unwrap().is_overheard();
        for here in ["localhost/app", "127.0.0.1,[::1]/app", "%2Frun%2Fpg/app", "/app?host=localhost"] {
            assert!(!is_overheard(here), "{here}");
        }
        for elsewhere in ["db/app", "localhost,db/app", "/app?host=db"] {
            assert!(is_overheard(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        let unknown = format!(
            "has an unknown option: the options are `table`, `timeout`, `sslmode`, {}; for TLS, write ?sslmode=require, and pass \
             certificates to the builder",
            crate::base::similar::quoted(OF_DRIVER.to_vec(), "and")
        );
        let hosts = "lists hosts in its options: write them as in postgres://user:password@a,b:5433/database";
        let form = "is not well-formed: write postgres://user:password@host:5432/database";
        let schemes = "begins with none of its schemes, which are postgres, postgresql";
        let character = "has a character that can't stand there: write postgres://user:password@host:5432/database, then ? and the \
                         options, with & between them; in a password, a path or a value, write %40 for an @, %2F for a /, %3F for \
                         a ?, and so on";
        let cases: [(&str, &str); _] = [
            ("localhost", schemes),
            ("http://u:secret@h/app", schemes),
            ("postgres://u:secret@/app", form),
            ("postgres://h/app", form),
            ("postgres://u:secret@h:port/app", "has an invalid port"),
            ("postgres://u:p@h/app?target_session_attrs=secret", "has an invalid target_session_attrs"),
            ("postgres://u:sec#ret@h/app", character),
            ("postgres://u:p@h/app?prefix=secret", &unknown),
            ("postgres://u:p@h/app?sslrootcert=secret", &unknown),
            ("postgres://u:p@h/app?connect_timeout=5", &unknown),
            ("postgres://u:p@/app?host=h,secret", hosts),
            ("postgres://u:p@h/app?host=secret", hosts),
            ("postgres://u:p@/app?host=%2Frun%2Fa,%2Fsecret", hosts),
            // The password has a &, so `secret` is a part of it.
            ("postgres://u@h/app?password=a&secret=b", &unknown),
            ("postgres://u:secret@h,%2Frun%2Fpg/app", "lists a socket and a host: name only sockets or only hosts"),
            ("postgres://u:p@secret@h/app", character),
            ("postgres://u:secret@h/my@db", character),
            ("postgres://u:p?secret=@h/app", character),
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
    fn each_host_gets_a_share_of_the_time() {
        let address = address_of_url::<Address>("postgres://u:p%2Cq@a:1,b/app").expect("a url");
        let ports: Vec<&[u16]> = address.hosts.iter().map(Config::get_ports).collect();
        assert_eq!(ports, [[1], [5432]]);
    }
}
