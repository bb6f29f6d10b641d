//! Whether what is said to a server leaves this host.

use std::net::IpAddr;

/// Whether a host, as a URL names it, is this one. Any name but `localhost` may be somebody else's tomorrow.
pub(crate) fn is_local(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_local_and_nothing_else() {
        for local in ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "::ffff:127.0.0.1", "localhost", "LocalHost"] {
            assert!(is_local(local), "{local}");
        }
        for other in ["", "10.0.0.1", "0.0.0.0", "::", "fe80::1", "db", "localhost.example", "127.0.0.1.example"] {
            assert!(!is_local(other), "{other}");
        }
    }
}
