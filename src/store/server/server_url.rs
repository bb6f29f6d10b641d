//! The URL of a server: the options of the store, the parts for the driver, whether it asks for TLS, and whether its host is this one.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::base::error::InvalidOptions;
use crate::base::escape::percent_decoded;

/// The address of a server, with our login, which it does not display.
pub(crate) trait ServerAddress: fmt::Display + Sized + Send + Sync + 'static {
    /// The kind of server, as in "redis".
    const KIND: &'static str;

    /// The name of the public store.
    const STORE: &'static str;

    /// The kind of the part of the server that a store uses: a prefix or a table.
    const NAMESPACE: &'static str;

    /// The part of a URL that asks for TLS.
    const TLS: &'static str;

    /// Reads a URL. An error repeats no part of it, because it may contain a password.
    fn of_url(url: &str) -> Result<Self, InvalidOptions>;

    /// Returns whether others can read the connection: it leaves this host without encryption.
    fn is_overheard(&self) -> bool;
}

/// The options of a URL that are the store's own, and not the driver's. A builder has the same options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UrlOptions {
    /// The prefix of the keys, or the table.
    pub(crate) namespace: Option<String>,
    pub(crate) timeout: Option<Duration>,
}

/// The names of the namespace: `prefix` on Redis, `table` on SQL servers.
const NAMESPACES: [&str; 2] = ["prefix", "table"];

impl UrlOptions {
    /// Takes the store's options out of a URL, and returns them with the URL that is left for the driver; or returns the fault. `own`
    /// is the name of the namespace on this kind of server. No fault repeats a value, because there may be a password in it.
    pub(crate) fn take(url: &str, own: &'static str) -> Result<(Self, String), String> {
        let (mut options, mut left) = (Self::default(), Vec::new());
        // A fragment is refused with the address.
        let Some((place, all)) = url.split_once('?').filter(|_| !url.contains('#')) else {
            return Ok((options, url.to_owned()));
        };
        for option in all.split('&') {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "timeout" => fill(&mut options.timeout, name, timeout(value))?,
                name if name == own => fill(&mut options.namespace, name, decoded(value))?,
                name if NAMESPACES.contains(&name) => {
                    return Err(format!("has the option {name}; on this kind of server it is {own}"));
                }
                _ => left.push(option),
            }
        }
        let left = left.join("&");
        Ok((options, if left.is_empty() { place.to_owned() } else { format!("{place}?{left}") }))
    }
}

/// Fills an option that stands once in the URL.
fn fill<T>(option: &mut Option<T>, name: &str, value: Result<T, &str>) -> Result<(), String> {
    let value = value.map_err(|why| format!("has a {name} {why}"))?;
    if option.replace(value).is_some() { Err(format!("has the option {name} twice")) } else { Ok(()) }
}

/// Reads `500ms`, `2s` or `1m`.
fn timeout(value: &str) -> Result<Duration, &'static str> {
    let (number, unit) = value.split_at(value.find(|char: char| !char.is_ascii_digit()).unwrap_or(value.len()));
    let unit = match unit {
        "ms" => Some(Duration::from_millis(1)),
        "s" => Some(Duration::from_secs(1)),
        "m" => Some(Duration::from_secs(60)),
        _ => None,
    };
    let timeout = number.parse().ok().zip(unit).and_then(|(number, unit)| unit.checked_mul(number));
    timeout.ok_or("that is not a number with ms, s or m, as in timeout=500ms")
}

/// Reads the value of an option.
pub(crate) fn decoded(value: &str) -> Result<String, &'static str> {
    if value.contains('@') {
        return Err("with an @; there it is written as %40, and in a password, ? is written as %3F");
    }
    let text = percent_decoded(value).and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or("that is not well-formed; % itself is written as %25")
}

/// The URL of a server, in parts. No error repeats any of it, because there may be a password in it.
pub(crate) struct ServerUrl<'a> {
    /// The kind of server, as in "redis".
    kind: &'static str,
    /// In lower case.
    pub(crate) scheme: String,
    /// The text between the scheme's colon and the question mark.
    pub(crate) place: &'a str,
    /// The text behind the question mark.
    pub(crate) options: Option<&'a str>,
}

impl<'a> ServerUrl<'a> {
    pub(crate) fn parse(url: &'a str, kind: &'static str, schemes: &[&str]) -> Result<Self, InvalidOptions> {
        let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
        let (place, options) = rest.split_once('?').map_or((rest, None), |(place, options)| (place, Some(options)));
        let parsed = Self { kind, scheme: scheme.to_ascii_lowercase(), place, options };
        if !url.contains(':') {
            return Err(parsed.wrong(format_args!("has no scheme: it begins with {}://", schemes[0])));
        }
        if let Some((last, others)) = schemes.split_last().filter(|_| !schemes.contains(&&*parsed.scheme)) {
            return Err(parsed.wrong(format_args!("has another scheme than {} or {last}", others.join(", "))));
        }
        parsed.refuse_if(rest.contains('#'), "has a fragment; in a password, # is written as %23")?;
        Ok(parsed)
    }

    pub(crate) fn wrong(&self, what: impl fmt::Display) -> InvalidOptions {
        wrong(self.kind, what)
    }

    /// Returns whether the option of this name asks for TLS, and the other options. The first of its modes, which are read in any
    /// case, is the default and asks for none; each of the others has the server's certificate checked.
    #[cfg(feature = "sql")]
    pub(crate) fn encryption(&self, name: &str, modes: [&str; 4]) -> Result<(bool, String), InvalidOptions> {
        let options = self.options.unwrap_or_default().split('&').filter(|option| !option.is_empty());
        let (mut is_encrypted, mut others) = (false, Vec::new());
        for option in options {
            let Some((_, mode)) = option.split_once('=').filter(|(known, _)| *known == name) else {
                others.push(option);
                continue;
            };
            let Some(at) = modes.iter().position(|known| mode.eq_ignore_ascii_case(known)) else {
                let [off, first, second, third] = modes;
                let modes = format!("{off} (the default), {first}, {second} or {third}");
                return Err(self.wrong(format_args!("has another {name} than {modes}")));
            };
            is_encrypted = at > 0;
        }
        Ok((is_encrypted, others.join("&")))
    }

    /// Refuses a URL that asks for TLS, where this build has none for its kind of server.
    pub(crate) fn check_tls(&self, is_encrypted: bool, is_built_in: bool) -> Result<(), InvalidOptions> {
        let needed = format_args!("asks for TLS, which needs a soloist with the feature `{}-tls`", self.kind);
        self.refuse_if(is_encrypted && !is_built_in, needed)
    }

    pub(crate) fn refuse_if(&self, is_wrong: bool, what: impl fmt::Display) -> Result<(), InvalidOptions> {
        if is_wrong { Err(self.wrong(what)) } else { Ok(()) }
    }
}

/// Returns the error of a URL for this kind of server.
pub(super) fn wrong(kind: &str, what: impl fmt::Display) -> InvalidOptions {
    InvalidOptions::new(format!("the url of a {kind} server {what}"))
}

/// Returns the host and the port as a URL has them.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns whether the host of a URL is this one. Any name but `localhost` may lead elsewhere tomorrow.
pub(crate) fn is_this_host(host: &str) -> bool {
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
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

    #[test]
    fn the_options_of_the_store_are_taken_out_of_a_url() {
        let taken = |url: &str, own| {
            let (options, left) = UrlOptions::take(url, own).unwrap();
            (options.namespace, options.timeout.map(|timeout| timeout.as_millis()), left)
        };
        let none = |url: &str| (None, None, url.to_owned());
        for url in
            ["redis://h", "redis://h?", "redis://h?db=1", "redis://h?prefixes=1", "redis://h?Prefix=a", "a?prefix=b#c"]
        {
            let left = url.strip_suffix('?').unwrap_or(url);
            assert_eq!(taken(url, "prefix"), none(left), "{url}");
        }
        assert_eq!(taken("r://h?prefix=a%20b", "prefix"), (Some("a b".into()), None, "r://h".into()));
        assert_eq!(taken("r://h?prefix=", "prefix"), (Some(String::new()), None, "r://h".into()));
        for (timeout, millis) in [("500ms", 500), ("2s", 2_000), ("1m", 60_000), ("0s", 0)] {
            assert_eq!(taken(&format!("r://h?timeout={timeout}"), "prefix"), (None, Some(millis), "r://h".into()));
        }
        let all = "m://u:p@h/app?ssl-mode=REQUIRED&table=a.b&socket=/run/m&timeout=3s";
        assert_eq!(
            taken(all, "table"),
            (Some("a.b".into()), Some(3_000), "m://u:p@h/app?ssl-mode=REQUIRED&socket=/run/m".into())
        );
    }

    #[test]
    fn a_wrong_option_of_the_store_is_told_without_its_value() {
        let said = |url: &str| UrlOptions::take(url, "prefix").unwrap_err();
        let unit = "has a timeout that is not a number with ms, s or m, as in timeout=500ms";
        for value in ["", "2", "2h", "ms", "-2s", "+2s", "2 s", "1.5s", "secret", "99999999999s", "4294967295m2"] {
            assert_eq!(said(&format!("r://h?timeout={value}")), unit, "{value}");
        }
        let form = "has a prefix that is not well-formed; % itself is written as %25";
        for value in ["secret%", "secret%2", "%+1", "%FF"] {
            assert_eq!(said(&format!("r://h?prefix={value}")), form, "{value}");
        }
        assert_eq!(
            said("r://:pass?prefix=secret@h"),
            "has a prefix with an @; there it is written as %40, and in a password, ? is written as %3F"
        );
        assert_eq!(said("r://h?table=secret"), "has the option table; on this kind of server it is prefix");
        assert_eq!(said("r://h?prefix=secret&prefix=secret"), "has the option prefix twice");
        assert_eq!(said("r://h?timeout=1s&timeout=1s"), "has the option timeout twice");
    }
}
