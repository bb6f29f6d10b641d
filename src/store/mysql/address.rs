//! The address of a MySQL server: its URL, converted into the options of the driver.

use std::fmt;

use mysql_async::{Opts, OptsBuilder};

use crate::base::error::InvalidOptions;
use crate::store::server::server_url::{ServerAddress, ServerUrl, host_and_port, is_this_host};

/// The address and the login of a URL.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) options: Opts,
    pub(super) is_encrypted: bool,
}

impl ServerAddress for Address {
    const KIND: &'static str = "mysql";
    const SCHEMES: &'static [&'static str] = &["mysql", "mariadb"];
    const STORE: &'static str = "MysqlMutex";
    const NAMESPACE: &'static str = "table";
    const TLS: &'static str = "?ssl-mode=REQUIRED";
    const FORM: &'static str = "mysql://user:password@host:3306/database";

    fn of_url(url: &mut ServerUrl<'_>) -> Result<Self, InvalidOptions> {
        let modes = ["DISABLED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"];
        let is_encrypted = url.take_encryption("ssl-mode", modes)?;
        url.check_tls(is_encrypted, cfg!(feature = "mysql-tls"))?;
        url.refuse_others(&["table", "timeout", "ssl-mode"], &["socket", "client_found_rows"])?;
        let options = Opts::from_url(&format!("mysql:{}?{}", url.place, url.left()))
            .map_err(|_| url.wrong(url.not_well_formed()))?;
        let has_no = |part: Option<&str>| part.is_none_or(str::is_empty);
        // The driver ignores what follows a second slash.
        let has_more = url.place.trim_start_matches('/').matches('/').count() > 1;
        url.refuse_if(has_more || has_no(options.user()) || has_no(options.db_name()), url.not_well_formed())?;
        let is_relative = options.socket().is_some_and(|path| !path.starts_with('/'));
        url.refuse_if(is_relative, "has a socket that is no absolute path: write ?socket=/run/mysqld/mysqld.sock")?;
        url.refuse_if(
            options.ip_or_hostname().contains(','),
            "names several hosts, and this store uses one: name one",
        )?;
        // The driver looks up the host of a URL in a call that blocks the thread, and no timeout can end this call. If
        // the host is set as a text, the driver does not make this call.
        let host = options.ip_or_hostname().trim_start_matches('[').trim_end_matches(']').to_owned();
        let options = OptsBuilder::from_opts(options).ip_or_hostname(host).prefer_socket(false);
        // If these two values were not set here, the driver would read them from the server after each connect.
        let options = options.max_allowed_packet(Some(16 * 1024 * 1024)).wait_timeout(Some(28_800)).into();
        Ok(Self { options, is_encrypted })
    }

    fn is_overheard(&self) -> bool {
        !self.is_encrypted && self.options.socket().is_none() && !is_this_host(self.options.ip_or_hostname())
    }
}

/// Shows no user and no password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.options.db_name().unwrap_or_default();
        let (host, port) = (self.options.ip_or_hostname(), self.options.tcp_port());
        match self.options.socket() {
            Some(socket) => write!(f, "mysql:///{database}?socket={socket}"),
            None => write!(f, "mysql://{}/{database}", host_and_port(host, port)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::server::server_url::address_of_url;

    fn shown(url: &str) -> String {
        address_of_url::<Address>(url).map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn a_url_says_where_and_who() {
        let address = address_of_url::<Address>("mariadb://us%40er:p%3Fss@db.example:7000/app").unwrap();
        assert_eq!((address.options.user(), address.options.pass()), (Some("us@er"), Some("p?ss")));
        assert_eq!(address.to_string(), "mysql://db.example:7000/app");
        assert_eq!(shown("MYSQL://u:p@[::1]/app?"), "mysql://[::1]:3306/app");
        assert_eq!(shown("mysql://u:p@localhost/app?socket=/run/my"), "mysql:///app?socket=/run/my");
        #[cfg(feature = "mysql-tls")]
        for (mode, is_encrypted) in [("DISABLED", false), ("required", true)] {
            assert_eq!(
                address_of_url::<Address>(&format!("mysql://u@h/app?ssl-mode={mode}")).unwrap().is_encrypted,
                is_encrypted
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_secrets() {
        let modes = "has an unknown ssl-mode: write DISABLED (the default), REQUIRED, VERIFY_CA or VERIFY_IDENTITY";
        let form = "is not well-formed: write mysql://user:password@host:3306/database";
        let schemes = "begins with none of its schemes, which are mysql, mariadb";
        let character = "has a character that can't stand there: write mysql://user:password@host:3306/database, then ? and the \
                         options, with & between them; in a password, a path or a value, write %40 for an @, %2F for a /, %3F for \
                         a ?, and so on";
        let unknown = "has an unknown option: the options are `table`, `timeout`, `ssl-mode`, `socket` and `client_found_rows`; for \
                       TLS, write ?ssl-mode=REQUIRED, and pass certificates to the builder";
        let cases = [
            ("localhost", schemes),
            ("http://u:secret@h/app", schemes),
            ("mysql:host=127.0.0.1;port=3306;dbname=app", form),
            ("mysql://", form),
            ("mysql://u:secret@h:port/app", form),
            ("mysql://h/app", form),
            ("mysql://u:secret@h", form),
            ("mysql://u:p@q/secret@h/app", character),
            ("mysql://u:p@h/app/secret", form),
            (
                "mysql://u:p@h/app?socket=secret",
                "has a socket that is no absolute path: write ?socket=/run/mysqld/mysqld.sock",
            ),
            ("mysql://u:secret@h1,h2/app", "names several hosts, and this store uses one: name one"),
            ("mysql://u:p@h/app?prefix=secret", unknown),
            ("mysql://u:p@h/app?pass=secret", unknown),
            ("mysql://u:p@h/app?tabel=secret", &unknown.replace("option:", "option (did you mean `table`?):")),
            ("mysql://u:p@h/app?ssl-ca=secret", unknown),
            ("mysql://u:sec#ret@h/app", character),
            ("mysql://u:p@h/app?client_found_rows=secret", form),
            ("mysql://u:p@h/app?ssl-mode=secret", modes),
        ];
        for (url, wrong) in cases {
            assert_eq!(shown(url), format!("the url of a mysql server {wrong}"), "{url}");
        }
    }
}
