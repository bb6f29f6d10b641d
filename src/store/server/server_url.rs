//! The URL of a server: its parts, whether it asks for TLS, and whether its host is this one.

use std::fmt;
use std::net::IpAddr;

use crate::base::error::InvalidOptions;

/// The address of a server, with our login, which it does not display.
pub(crate) trait ServerAddress: fmt::Display + Sized + Send + Sync + 'static {
    /// The part of a URL that asks for TLS.
    const TLS: &'static str;

    /// Reads a URL. An error repeats no part of it, because it may contain a password.
    fn of_url(url: &str) -> Result<Self, InvalidOptions>;

    /// Returns whether others can read the connection: it leaves this host without encryption.
    fn is_overheard(&self) -> bool;
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
        parsed.refuse_if(!url.contains(':'), "has no scheme")?;
        if let Some((last, others)) = schemes.split_last().filter(|_| !schemes.contains(&&*parsed.scheme)) {
            return Err(parsed.wrong(format_args!("has another scheme than {} or {last}", others.join(", "))));
        }
        parsed.refuse_if(rest.contains('#'), "has a fragment; in a password, # is written as %23")?;
        Ok(parsed)
    }

    pub(crate) fn wrong(&self, what: impl fmt::Display) -> InvalidOptions {
        InvalidOptions::new(format!("the url of a {} server {what}", self.kind))
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
}
