//! The address of a MySQL server: its URL read into the options of the driver.

use std::fmt;

use mysql_async::{Opts, OptsBuilder};

use crate::base::error::InvalidOptions;
use crate::store::remote::server_url::{Encryption, HostAndPort, ServerUrl, TlsOption, is_this_host};
#[cfg(feature = "mysql-tls")]
use crate::store::remote::tls::Tls;

/// A server, and how it is reached.
pub(super) struct Target {
    pub(super) address: Address,
    /// How long a statement may wait for what somebody else's transaction has, in seconds.
    pub(super) lock_timeout: u64,
    #[cfg(feature = "mysql-tls")]
    pub(super) tls: Tls,
}

/// What a URL says.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) options: Opts,
    pub(super) encryption: Encryption,
}

const TLS: TlsOption = TlsOption {
    name: "ssl-mode",
    off: "DISABLED",
    on: ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"],
    is_built_in: cfg!(feature = "mysql-tls"),
};

impl Address {
    /// Reads a URL. What is wrong with one is said without repeating it, because there may be a password in it.
    pub(super) fn of_url(url: &str) -> Result<Self, InvalidOptions> {
        let url = ServerUrl::parse(url, "mysql", &["mysql", "mariadb"])?;
        let (wrong, place) = (|what: &str| url.wrong(what), url.place);
        // A password with a slash in it ends there for the driver, and its rest would be shown as the database.
        if place.trim_start_matches('/').split_once('/').is_some_and(|(_, database)| database.contains('@')) {
            return Err(wrong("has an @ behind the host; there it is written as %40, and in a password, / as %2F"));
        }
        let (encryption, passed_on) = url.encryption(&TLS)?;
        let is_known = |option: &&str| matches!(option.split_once('='), Some(("socket" | "client_found_rows", _)));
        if !passed_on.iter().all(is_known) {
            return Err(wrong("has another option behind the ? than ssl-mode, socket and client_found_rows"));
        }
        let form = "is not well-formed, as in mysql://user:password@host:3306/database";
        let options = Opts::from_url(&format!("mysql:{place}?{}", passed_on.join("&"))).map_err(|_| wrong(form))?;
        match (options.user(), options.db_name()) {
            (None | Some(""), _) => Err(wrong("has no user, as in mysql://user:password@host/database")),
            (_, None | Some("")) => Err(wrong("has no database, as in mysql://user:password@host/database")),
            _ => Ok(Self { options: with_a_look_up_in_time(&options), encryption }),
        }
    }
}

impl Address {
    /// Whether what is said may be read on its way.
    pub(super) fn is_overheard(&self) -> bool {
        let is_far = self.options.socket().is_none() && !is_this_host(self.options.ip_or_hostname());
        is_far && self.encryption == Encryption::None
    }
}

/// A host that is known by a URL is looked up before anything is waited for.
fn with_a_look_up_in_time(options: &Opts) -> Opts {
    let host = options.ip_or_hostname().trim_start_matches('[').trim_end_matches(']').to_owned();
    OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(options.tcp_port())
        .user(options.user())
        .pass(options.pass())
        .db_name(options.db_name())
        .socket(options.socket())
        .client_found_rows(options.client_found_rows())
        // What is asked of a server otherwise when a connection has been made.
        .prefer_socket(false)
        .max_allowed_packet(Some(16 * 1024 * 1024))
        .wait_timeout(Some(28_800))
        .into()
}

/// Without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.options.db_name().unwrap_or_default();
        let (host, port) = (self.options.ip_or_hostname(), self.options.tcp_port());
        if let Some(socket) = self.options.socket() {
            write!(f, "mysql:///{database}?socket={socket}")
        } else {
            write!(f, "mysql://{}/{database}", HostAndPort(host, port))
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Address::of_url(url).map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn a_url_says_where_and_who() {
        let address = Address::of_url("mariadb://us%40er:p%3Fss@db.example:7000/app").unwrap();
        assert_eq!((address.options.user(), address.options.pass()), (Some("us@er"), Some("p?ss")));
        assert_eq!(address.to_string(), "mysql://db.example:7000/app");
        assert_eq!(shown("MYSQL://u:p@[::1]/app?"), "mysql://[::1]:3306/app");
        assert_eq!(shown("mysql://u:p@localhost/app?socket=/run/my"), "mysql:///app?socket=/run/my");
        #[cfg(feature = "mysql-tls")]
        for (mode, encryption) in [("DISABLED", Encryption::None), ("required", Encryption::Tls)] {
            assert!(Address::of_url(&format!("mysql://u@h/app?ssl-mode={mode}")).unwrap().encryption == encryption);
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        let modes = "has another ssl-mode than DISABLED (the default), REQUIRED, VERIFY_CA or VERIFY_IDENTITY";
        let cases = [
            ("localhost", "has no scheme"),
            ("http://u:secret@h/app", "has another scheme than mysql or mariadb"),
            ("mysql://", "is not well-formed, as in mysql://user:password@host:3306/database"),
            ("mysql://u:secret@h:port/app", "is not well-formed, as in mysql://user:password@host:3306/database"),
            ("mysql://h/app", "has no user, as in mysql://user:password@host/database"),
            ("mysql://u:secret@h", "has no database, as in mysql://user:password@host/database"),
            (
                "mysql://u:p@q/secret@h/app",
                "has an @ behind the host; there it is written as %40, and in a password, / as %2F",
            ),
            ("mysql://u:sec#ret@h/app", "has a fragment; in a password, # is written as %23"),
            (
                "mysql://u:p@h/app?pass=secret",
                "has another option behind the ? than ssl-mode, socket and client_found_rows",
            ),
            (
                "mysql://u:p@h/app?client_found_rows=secret",
                "is not well-formed, as in mysql://user:password@host:3306/database",
            ),
            ("mysql://u:p@h/app?ssl-mode=secret", modes),
        ];
        for (url, wrong) in cases {
            assert_eq!(shown(url), format!("the url of a mysql server {wrong}"), "{url}");
        }
    }
}
