//! The URL of a server: the options of the store, and the parts for the driver. It also says whether to use TLS, and
//! whether the server is on this host.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::base::error::InvalidOptions;
use crate::base::escape::{decoded_text, surplus_around};

const SEMICOLON: &str =
    "has a ;: options begin with ?, and & separates them; in a path, a password or a value, write %3B for a ;";

const SECOND_QUESTION_MARK: &str = "has a second ?: & separates options; in a password or a value, write %3F for a ?";

const SECOND_URL: &str = "has a second url in it: a store has one url, in which a comma separates the hosts; in a password, \
                          write %2F for a /";

const NO_QUESTION_MARK: &str =
    "has a & in front of its first option: write ? there, and & between two options; in a path, write %26 for a &";

/// The characters that no host has. They are found in placeholders, and in the forms of other programs.
const IN_NO_HOST: [char; 8] = ['$', '(', ')', '{', '}', '<', '>', '='];

const NO_BRACKETS: &str = "has an IPv6 address without brackets: write it as [::1], and the port behind the brackets";

const CHECKED: &str = "the certificate of a server is always checked: pass the certificate of its authority to \
                       `root_certificates(..)` of the builder, or install it on this machine";

/// The address of a server, with the login. `Display` never shows the login.
pub(crate) trait ServerAddress: fmt::Display + Sized + Send + Sync + 'static {
    /// The kind of server, as in "redis".
    const KIND: &'static str;

    /// The schemes of the URLs. Messages suggest the first.
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
    /// The part of a URL that asks for TLS.
    tls: &'static str,
    /// The form of a URL.
    form: &'static str,
    /// The scheme, in lower case.
    pub(crate) scheme: String,
    /// The text between the scheme's colon and the question mark.
    pub(crate) place: &'a str,
    /// The options behind the question mark, without those that were taken out.
    options: Vec<&'a str>,
    /// Whether the URL asks for TLS. It is `false` before `check_tls`.
    is_encrypted: bool,
}

impl<'a> ServerUrl<'a> {
    pub(crate) fn parse<A: ServerAddress>(url: &'a str) -> Result<Self, InvalidOptions> {
        let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let has_second_question_mark = options.contains('?');
        let options = options.split('&').filter(|option| !option.is_empty()).collect();
        let (kind, tls, form, scheme) = (A::KIND, A::TLS, A::FORM, scheme.to_ascii_lowercase());
        let parsed = Self { kind, tls, form, scheme, place, options, is_encrypted: false };
        surplus_around(url).map_or(Ok(()), |around| Err(parsed.wrong(around)))?;
        parsed.refuse_if(!url.contains(':'), format_args!("has no scheme: it begins with {}://", A::SCHEMES[0]))?;
        if let Some((last, others)) = A::SCHEMES.split_last().filter(|_| !A::SCHEMES.contains(&&*parsed.scheme)) {
            return Err(parsed.wrong(format_args!("has an unknown scheme: write {} or {last}", others.join(", "))));
        }
        parsed.refuse_if(rest.ends_with("#insecure"), format_args!("ends with #insecure, but {CHECKED}"))?;
        parsed.refuse_if(rest.contains('#'), "has a #; in a password, write %23 for a #")?;
        parsed.refuse_if(place.trim_start_matches([':', '/']).contains("://"), SECOND_URL)?;
        let has_path_alone = parsed.scheme.ends_with("+unix");
        parsed.refuse_if(!has_path_alone && !place.starts_with("//"), parsed.not_well_formed())?;
        let behind_login = rest.rsplit('@').next().unwrap_or_default();
        parsed.refuse_if(behind_login.contains(';'), SEMICOLON)?;
        parsed.refuse_if(has_second_question_mark, SECOND_QUESTION_MARK)?;
        let authority = place.strip_prefix("//").unwrap_or_default().split('/').next().unwrap_or_default();
        let mut hosts = authority.rsplit('@').next().unwrap_or_default().split(',');
        parsed.refuse_if(hosts.clone().any(is_ipv6_without_brackets), NO_BRACKETS)?;
        let first_option = place.rsplit('@').next().and_then(|place| place.split_once('&'));
        parsed.refuse_if(first_option.is_some_and(|(_, options)| options.contains('=')), NO_QUESTION_MARK)?;
        let why = format_args!(
            "has a host with $, =, a bracket and the like: write {}, with the host itself in the place of a variable; in a \
             password, write %2F for a /",
            A::FORM
        );
        parsed.refuse_if(!has_path_alone && hosts.any(|host| host.contains(IN_NO_HOST)), why)?;
        Ok(parsed)
    }

    /// Takes the option with this name out, and returns its decoded value.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, InvalidOptions> {
        let is_it = |option: &mut &str| option.split('=').next() == Some(name);
        let found: Vec<&str> = self.options.extract_if(.., is_it).collect();
        self.refuse_if(found.len() > 1, format_args!("has the option {name} twice"))?;
        let value = found.first().map(|option| decoded(option.split_once('=').map_or("", |(_, value)| value)));
        value.transpose().map_err(|why| self.wrong(format_args!("has a {name} {why}")))
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

    /// Refuses a URL with an option that neither the store nor the driver knows. The message shows the name of the
    /// option, unless this name may be a part of a password.
    pub(crate) fn refuse_others(&self, of_store: &[&str], of_driver: &[&str]) -> Result<(), InvalidOptions> {
        use crate::base::similar::{did_you_mean, quoted};

        let is_of_driver = |option: &&str| option.split_once('=').is_some_and(|(name, _)| of_driver.contains(&name));
        let Some(option) = self.options.iter().find(|option| !is_of_driver(option)) else { return Ok(()) };
        let known = [of_store, of_driver].concat();
        let name = option.split('=').next().unwrap_or_default();
        let of_others = match name {
            // If the URL has another store's option for the namespace, the message suggests the option of this store: the
            // first option in `of_store`.
            "prefix" | "table" => Some(format!("did you mean `{}`?", of_store[0])),
            "search_path" | "currentSchema" | "schema" => {
                Some("the schema belongs to the name of the table: table=SCHEMA.soloist_mutexes.".to_owned())
            }
            "master" | "master_name" | "service_name" | "sentinelMasterId" => {
                Some("the name of the primary stands behind the hosts: redis+sentinel://host1,host2/NAME.".to_owned())
            }
            "sentinel_user" | "sentinel_password" => Some(format!("`{name}` is for redis+sentinel://.")),
            "sslrootcert" | "sslcert" | "sslkey" | "ssl-ca" | "ssl-cert" | "ssl-key" | "ssl_ca_certs"
            | "ssl_certfile" | "ssl_keyfile" => Some(format!(
                "`{name}` is not read from a url: pass certificates to `root_certificates(..)` or \
                 `client_certificate(..)` of the builder."
            )),
            _ => None,
        };
        let is_tls = ["ssl", "tls"].iter().any(|word| name.to_ascii_lowercase().contains(word));
        let of_tls = || is_tls.then(|| format!("for TLS, write {}.", self.tls));
        let checked = || (is_tls && self.is_encrypted).then(|| format!("the url asks for TLS already, and {CHECKED}."));
        let similar = || did_you_mean(name, known.iter().copied());
        let it = match of_others.or_else(checked).or_else(similar).or_else(of_tls) {
            Some(advice) => format!("{advice} It"),
            None => "it".to_owned(),
        };
        let known = quoted(known, "and");
        // A password with a ? leads to a login behind the ?, and a password with a & to an option that was cut.
        let may_be_secret = self.options.iter().any(|option| option.contains('@') || option.contains("pass"));
        let is_name =
            option.contains('=') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let what = if is_name && !may_be_secret {
            format!("the unknown option `{name}`: {it} takes {known}")
        } else {
            format!("an unknown option behind the ?: {it} takes {known}; in a password, write %3F for a ?")
        };
        Err(self.wrong(format_args!("has {what}")))
    }

    /// Refuses a URL that asks for TLS, if this build has no TLS for this kind of server.
    pub(crate) fn check_tls(&mut self, is_encrypted: bool, is_built_in: bool) -> Result<(), InvalidOptions> {
        self.is_encrypted = is_encrypted;
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

/// Decodes the value of an option.
fn decoded(value: &str) -> Result<String, &'static str> {
    if value.contains('@') {
        return Err("with an @: write %40 for the @; in a password, write %3F for a ?");
    }
    decoded_text(value).ok_or("that is not well-formed: write %25 for a %")
}

/// Returns the host and the port as a URL writes them.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns whether this is an IPv6 address as a URL can't have it: without brackets, perhaps with a port.
fn is_ipv6_without_brackets(host: &str) -> bool {
    let is_address = |host: &str| host.parse::<Ipv6Addr>().is_ok();
    is_address(host) || host.rsplit_once(':').is_some_and(|(host, _)| is_address(host))
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
            tls: "tls=on",
            form: "t://h",
            scheme: "t".to_owned(),
            place: "//h",
            options: options.split('&').collect(),
            is_encrypted: false,
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
        let at = "has a prefix with an @: write %40 for the @; in a password, write %3F for a ?";
        assert_eq!(said("prefix=secret@h"), at);
        assert_eq!(said("prefix=secret&prefix=secret"), "has the option prefix twice");
        assert_eq!(of_timeout("timeout=1s&timeout=1s"), "has the option timeout twice");
    }
}
