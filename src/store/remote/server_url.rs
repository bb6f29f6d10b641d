//! The URL of a server: its parts, whether it asks for TLS, and whether its host is this one.

use std::fmt;
use std::net::IpAddr;

use crate::base::error::InvalidOptions;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    None,
    Tls,
}

/// The option of a URL that asks for TLS, and its values in any case.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) struct TlsOption {
    pub(crate) name: &'static str,
    pub(crate) off: &'static str,
    /// Each of them has the server's certificate checked.
    pub(crate) on: [&'static str; 3],
    pub(crate) is_built_in: bool,
}

impl<'a> ServerUrl<'a> {
    pub(crate) fn parse(url: &'a str, kind: &'static str, schemes: &[&str]) -> Result<Self, InvalidOptions> {
        let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
        let (place, options) = rest.split_once('?').map_or((rest, None), |(place, options)| (place, Some(options)));
        let parsed = Self { kind, scheme: scheme.to_ascii_lowercase(), place, options };
        if !url.contains(':') {
            return Err(parsed.wrong("has no scheme"));
        }
        if !schemes.contains(&&*parsed.scheme) {
            let known = schemes.join(", ");
            let (others, last) = known.rsplit_once(", ").unwrap_or(("", &known));
            return Err(parsed.wrong(format_args!("has another scheme than {others} or {last}")));
        }
        if rest.contains('#') {
            return Err(parsed.wrong("has a fragment; in a password, # is written as %23"));
        }
        Ok(parsed)
    }

    pub(crate) fn wrong(&self, what: impl fmt::Display) -> InvalidOptions {
        InvalidOptions::new(format!("the url of a {} server {what}", self.kind))
    }

    pub(crate) fn without_tls_in_this_build(&self) -> InvalidOptions {
        self.wrong(format_args!("asks for TLS, which needs a soloist with the feature `{}-tls`", self.kind))
    }

    /// Whether the options ask for TLS, and the other options.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn encryption(&self, tls: &TlsOption) -> Result<(Encryption, Vec<&'a str>), InvalidOptions> {
        let mut encryption = Encryption::None;
        let mut others = Vec::new();
        for option in self.options.unwrap_or_default().split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=').filter(|(name, _)| *name == tls.name) {
                None => others.push(option),
                Some((_, mode)) if mode.eq_ignore_ascii_case(tls.off) => encryption = Encryption::None,
                Some((_, mode)) if tls.on.iter().any(|on| mode.eq_ignore_ascii_case(on)) => {
                    encryption = Encryption::Tls;
                }
                Some(_) => {
                    let TlsOption { name, off, on: [first, second, third], .. } = tls;
                    let modes = format!("{off} (the default), {first}, {second} or {third}");
                    return Err(self.wrong(format_args!("has another {name} than {modes}")));
                }
            }
        }
        if encryption == Encryption::Tls && !tls.is_built_in {
            return Err(self.without_tls_in_this_build());
        }
        Ok((encryption, others))
    }
}

/// Shows where a server listens.
pub(crate) struct HostAndPort<'a>(pub(crate) &'a str, pub(crate) u16);

impl fmt::Display for HostAndPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(host, port) = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Whether a host, as a URL names it, is this one. Any name but `localhost` may be somebody else's tomorrow.
pub(crate) fn is_this_host(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(address) => is_loopback(&address),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

pub(crate) fn is_loopback(address: &IpAddr) -> bool {
    address.to_canonical().is_loopback()
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
