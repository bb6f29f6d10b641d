//! The URL of a server: the options of the store, and the parts for the driver. It also says whether to use TLS, and
//! whether the server is on this host.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::base::error::InvalidOptions;
use crate::base::escape::decoded_text;
use crate::base::similar::{did_you_mean, quoted};

/// The characters, besides letters and digits, that can stand behind the login of a URL. All others are written as
/// `%XX`.
const PLAIN: &[u8] = b"-._~%:,/[]";

/// The further characters that can stand in the options of a URL.
const PLAIN_IN_OPTIONS: &[u8] = b"=&+";

/// The address of a server, with the login. `Display` never shows the login.
pub(crate) trait ServerAddress: fmt::Display + Sized + Send + Sync + 'static {
    /// The kind of server, as in "redis".
    const KIND: &'static str;

    /// The schemes of the URLs.
    const SCHEMES: &'static [&'static str];

    /// The name of the public type of the store, for `Debug`.
    const STORE: &'static str;

    /// The word for the part of the server that a store uses: `prefix` or `table`.
    const NAMESPACE: &'static str;

    /// The part of a URL that asks for TLS.
    const TLS: &'static str;

    /// The form of a URL.
    const FORM: &'static str;

    /// Reads the address from a URL without the store's options. An error shows no part of the URL, because it may
    /// contain a password.
    fn of_url(url: &mut ServerUrl<'_>) -> Result<Self, InvalidOptions>;

    /// Returns whether the connection leaves this host without encryption, so that others on the network can read it.
    fn is_overheard(&self) -> bool;
}

/// The URL of a server, in parts. An error shows no part of it, because the part may contain a password.
pub(crate) struct ServerUrl<'a> {
    /// The kind of server, as in "redis".
    kind: &'static str,
    /// The form of a URL.
    form: &'static str,
    /// The part of a URL that asks for TLS.
    tls: &'static str,
    /// The scheme, in lower case.
    pub(crate) scheme: String,
    /// The text between the scheme's colon and the question mark.
    pub(crate) place: &'a str,
    /// The options behind the question mark, without those that were taken out.
    options: Vec<&'a str>,
}

impl<'a> ServerUrl<'a> {
    pub(crate) fn parse<A: ServerAddress>(url: &'a str) -> Result<Self, InvalidOptions> {
        let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let kind = A::KIND;
        let form = A::FORM;
        let tls = A::TLS;
        let scheme = scheme.to_ascii_lowercase();
        let each = options.split('&').filter(|option| !option.is_empty()).collect();
        let parsed = Self { kind, form, tls, scheme, place, options: each };
        let is_known = A::SCHEMES.contains(&&*parsed.scheme);
        let what = format_args!("begins with none of its schemes, which are {}", A::SCHEMES.join(", "));
        parsed.refuse_if(!is_known, what)?;
        let has_path_alone = parsed.scheme.ends_with("+unix");
        parsed.refuse_if(!has_path_alone && !place.starts_with("//"), parsed.not_well_formed())?;
        // A password with a / or an @ that is not written as `%XX` must not be taken for a host or a path, because
        // messages show these.
        let (login, behind_login) = place.split_once('@').unwrap_or(("//", place));
        let is_login = !login.trim_start_matches("//").contains(['/', '#']);
        let is_plain = |text: &str, also: &[u8]| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) || also.contains(&byte))
        };
        let is_written_well = is_login && is_plain(behind_login, &[]) && is_plain(options, PLAIN_IN_OPTIONS);
        let what = format_args!(
            "has a character that can't stand there: write {form}, then ? and the options, with & between them; in a password, a \
             path or a value, write %40 for an @, %2F for a /, %3F for a ?, and so on"
        );
        parsed.refuse_if(!is_written_well, what)?;
        Ok(parsed)
    }

    /// Takes the option with this name out, and returns its decoded value.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, InvalidOptions> {
        let is_it = |option: &mut &str| option.split('=').next() == Some(name);
        let found: Vec<&str> = self.options.extract_if(.., is_it).collect();
        self.refuse_if(found.len() > 1, format_args!("has the option {name} twice"))?;
        let Some(option) = found.first() else { return Ok(None) };
        let value = decoded_text(option.split_once('=').map_or("", |(_, value)| value));
        let wrong = || self.wrong(format_args!("has a {name} that is not well-formed: write %25 for a %"));
        value.map(Some).ok_or_else(wrong)
    }

    /// Takes the option `timeout` out: the longest time of a call, as in `500ms`, `2s` or `1m`.
    pub(crate) fn take_timeout(&mut self) -> Result<Option<Duration>, InvalidOptions> {
        let Some(value) = self.take("timeout")? else { return Ok(None) };
        let (number, unit) = value.split_at(value.find(|char: char| !char.is_ascii_digit()).unwrap_or(value.len()));
        let unit = match unit {
            "ms" => Some(Duration::from_millis(1)),
            "s" => Some(Duration::from_secs(1)),
            "m" => Some(Duration::from_secs(60)),
            _ => None,
        };
        let timeout = number.parse().ok().zip(unit).and_then(|(number, unit)| unit.checked_mul(number));
        let form = "has a timeout that is not a number with ms, s or m: write timeout=500ms";
        timeout.map(Some).ok_or_else(|| self.wrong(form))
    }

    /// Takes the option with this name out, and returns whether its value asks for TLS. `modes` are the possible
    /// values. The first value is the default, and means no TLS. Each other value means TLS, and a check of the
    /// server's certificate. The URL can have the value in upper or lower case.
    #[cfg(feature = "sql")]
    pub(crate) fn take_encryption(&mut self, name: &str, modes: [&str; 4]) -> Result<bool, InvalidOptions> {
        let Some(mode) = self.take(name)? else { return Ok(false) };
        let [off, first, second, third] = modes;
        let at = modes.iter().position(|known| mode.eq_ignore_ascii_case(known));
        let wrong = || format!("has an unknown {name}: write {off} (the default), {first}, {second} or {third}");
        at.map(|at| at > 0).ok_or_else(|| self.wrong(wrong()))
    }

    /// Returns the options that are left for the driver, because no method has taken them.
    pub(crate) fn left(&self) -> String {
        self.options.join("&")
    }

    /// Refuses a URL with an option that neither the store nor the driver knows. The message does not show the option,
    /// because the option may be a part of a password, but shows the known options with a similar name.
    pub(crate) fn refuse_others(&self, of_store: &[&str], of_driver: &[&str]) -> Result<(), InvalidOptions> {
        let is_known = |option: &&str| option.split_once('=').is_some_and(|(name, _)| of_driver.contains(&name));
        let Some(unknown) = self.options.iter().find(|option| !is_known(option)) else { return Ok(()) };
        let known = [of_store, of_driver].concat();
        let name = unknown.split('=').next().unwrap_or_default();
        let question = did_you_mean(name, known.iter().copied()).map(|question| format!(" ({question})"));
        Err(self.wrong(format_args!(
            "has an unknown option{}: the options are {}; for TLS, write {}, and pass certificates to the builder",
            question.unwrap_or_default(),
            quoted(known, "and"),
            self.tls
        )))
    }

    /// Refuses a URL that asks for TLS, if this build has no TLS for this kind of server.
    pub(crate) fn check_tls(&self, is_encrypted: bool, is_built_in: bool) -> Result<(), InvalidOptions> {
        let needed = format_args!(
            "asks for TLS, which needs the feature `{}-tls`, and this build of soloist does not have it",
            self.kind
        );
        self.refuse_if(is_encrypted && !is_built_in, needed)
    }

    /// Returns the reason for a URL of another form.
    pub(crate) fn not_well_formed(&self) -> String {
        format!("is not well-formed: write {}", self.form)
    }

    pub(crate) fn refuse_if(&self, is_wrong: bool, what: impl fmt::Display) -> Result<(), InvalidOptions> {
        if is_wrong { Err(self.wrong(what)) } else { Ok(()) }
    }

    pub(crate) fn wrong(&self, what: impl fmt::Display) -> InvalidOptions {
        InvalidOptions::new(format!("the url of a {} server {what}", self.kind))
    }
}

/// Returns the host and the port as a URL writes them.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns whether the host in a URL is this host: a loopback address, or `localhost`. Any other name may lead to
/// another address tomorrow, so it does not count.
pub(crate) fn is_this_host(host: &str) -> bool {
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
pub(crate) fn address_of_url<A: ServerAddress>(url: &str) -> Result<A, InvalidOptions> {
    A::of_url(&mut ServerUrl::parse::<A>(url)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_this_host_and_nothing_else() {
        for local in ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "::ffff:127.0.0.1", "localhost", "LocalHost"] {
            assert!(is_this_host(local), "{local}");
        }
        for other in ["", "10.0.0.1", "0.0.0.0", "::", "fe80::1", "db", "localhost.example", "127.0.0.1.example"] {
            assert!(!is_this_host(other), "{other}");
        }
    }

    fn url(options: &str) -> ServerUrl<'_> {
        ServerUrl {
            kind: "test",
            form: "t://h",
            tls: "tls=on",
            scheme: "t".to_owned(),
            place: "//h",
            options: options.split('&').collect(),
        }
    }

    #[test]
    fn the_options_of_the_store_are_taken_out_of_a_url() {
        let prefix = |options| url(options).take("prefix").unwrap();
        for other in ["db=1", "prefixes=1", "Prefix=a"] {
            assert_eq!(prefix(other), None, "{other}");
        }
        assert_eq!([prefix("prefix=a%20b"), prefix("prefix=")], [Some("a b".to_owned()), Some(String::new())]);
        for (timeout, millis) in [("500ms", 500), ("2s", 2_000), ("1m", 60_000), ("0s", 0)] {
            let taken = url(&format!("timeout={timeout}")).take_timeout().unwrap();
            assert_eq!(taken, Some(Duration::from_millis(millis)));
        }
        let mut all = url("ssl-mode=REQUIRED&prefix=a.b&socket=/run/m&timeout=3s");
        assert_eq!(all.take("prefix").unwrap().as_deref(), Some("a.b"));
        assert_eq!(all.take_timeout().unwrap(), Some(Duration::from_secs(3)));
        assert_eq!(all.left(), "ssl-mode=REQUIRED&socket=/run/m");
    }

    #[test]
    fn a_wrong_option_of_the_store_is_told_without_its_value() {
        let told = |error: InvalidOptions| error.to_string().replace("the url of a test server ", "");
        let said = |options: &str| told(url(options).take("prefix").unwrap_err());
        let of_timeout = |options: &str| told(url(options).take_timeout().unwrap_err());
        let unit = "has a timeout that is not a number with ms, s or m: write timeout=500ms";
        for value in ["", "2", "2h", "ms", "-2s", "+2s", "2 s", "1.5s", "secret", "99999999999s", "4294967295m2"] {
            assert_eq!(of_timeout(&format!("timeout={value}")), unit, "{value}");
        }
        let form = "has a prefix that is not well-formed: write %25 for a %";
        for value in ["secret%", "secret%2", "%+1", "%FF"] {
            assert_eq!(said(&format!("prefix={value}")), form, "{value}");
        }
        assert_eq!(said("prefix=secret&prefix=secret"), "has the option prefix twice");
        assert_eq!(of_timeout("timeout=1s&timeout=1s"), "has the option timeout twice");
    }
}
