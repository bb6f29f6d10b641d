//! The keys of a name in Redis.
//!
//! `PREFIXlease:{MUTEX}`, `PREFIXclaim:{MUTEX}:INSTANT`, `PREFIXpermit:{MUTEX}:PERIOD`, and `EVENT/INSTANT` or
//! `EVENT/PERIOD` behind the colon for an event that is not called as its mutex is, with `%XX` for each byte that could be
//! mistaken; `PREFIXruns:{EVENT}`, a hash with the log of an event's runs; and `PREFIXtoken`, which on a cluster is
//! `PREFIXtoken:{MUTEX}`, with `PREFIXtoken:spent` or `PREFIXtoken:{MUTEX}:spent` beside it. What stands between the first
//! braces decides on a cluster's slot, so that all keys of a mutex lie on one
//! (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags>).

use std::fmt;

use chrono::SecondsFormat;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::base::error::InvalidOptions;
use crate::lease::name::MutexName;

/// What stands before all keys.
#[derive(Clone, Debug)]
pub(super) struct Prefix(pub(super) String);

/// Bytes that would end a part of a key, or that a terminal would not show; every byte that is not ASCII as well.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'/').add(b'{').add(b'}').add(b'"').add(b'\'').add(b'\\');

impl Prefix {
    pub(super) fn new(prefix: String) -> Result<Self, InvalidOptions> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
        let is_valid = !prefix.is_empty() && prefix.len() <= 100 && prefix.bytes().all(plain);
        let what = "the prefix of keys in redis is 1 to 100 visible ASCII characters, and no braces";
        if is_valid { Ok(Self(prefix)) } else { Err(InvalidOptions::new(what)) }
    }

    /// The key of a lease or a claim.
    pub(super) fn key<'a>(&'a self, name: &'a MutexName) -> Key<'a> {
        let kind = match (name.is_claim(), name.period(), name.marked()) {
            (false, ..) => "lease",
            (true, None, None) => "claim",
            (true, Some(_), _) => "permit",
            (true, None, Some(_)) => "mark",
        };
        Key { prefix: self, kind, of: Some(name) }
    }

    /// Matches the keys of the leases of all mutexes whose names begin with `mutex`, as `SCAN` reads a pattern.
    pub(super) fn pattern_of_leases(&self, mutex: &str) -> String {
        let literally = format!("{}lease:{{{}", self.0, utf8_percent_encode(mutex, ENCODED));
        let is_special = |char: &char| matches!(char, '*' | '?' | '[' | ']' | '\\');
        let escaped = literally.chars().flat_map(|char| is_special(&char).then_some('\\').into_iter().chain([char]));
        escaped.chain("*}".chars()).collect()
    }

    /// The lease that has this key, if it is the key of one.
    pub(super) fn lease_at(&self, key: &str) -> Option<MutexName> {
        let mutex = key.strip_prefix(&self.0)?.strip_prefix("lease:{")?.strip_suffix('}')?;
        let name = MutexName::lease(percent_decode_str(mutex).decode_utf8().ok()?).ok()?;
        (self.key(&name).to_string() == key).then_some(name)
    }

    /// The key of the log of an event's runs.
    pub(super) fn runs_key(&self, event: &str) -> String {
        format!("{}runs:{{{}}}", self.0, utf8_percent_encode(event, ENCODED))
    }

    /// The key of the last token of all.
    pub(super) fn token_key(&self) -> Key<'_> {
        Key { prefix: self, kind: "token", of: None }
    }

    /// Returns the key that a check writes.
    pub(super) fn check_key(&self) -> Key<'_> {
        Key { prefix: self, kind: "check", of: None }
    }

    /// The key of the last token of a mutex, for a cluster: there it must lie on the slot of the mutex.
    pub(super) fn token_key_of<'a>(&'a self, name: &'a MutexName) -> Key<'a> {
        Key { prefix: self, kind: "token", of: Some(name) }
    }
}

/// A key, written straight into a command.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    prefix: &'a Prefix,
    kind: &'static str,
    of: Option<&'a MutexName>,
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix.0)?;
        f.write_str(self.kind)?;
        let Some(name) = self.of else { return Ok(()) };
        write!(f, ":{{{}}}", utf8_percent_encode(name.mutex(), ENCODED))?;
        let ("claim" | "permit" | "mark", Some(event)) = (self.kind, name.event()) else { return Ok(()) };
        f.write_str(":")?;
        if event != name.mutex() {
            write!(f, "{}/", utf8_percent_encode(event, ENCODED))?;
        }
        match (name.occurrence(), name.period().or(name.marked())) {
            (Some(occurrence), _) => f.write_str(&occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
            (None, text) => write!(f, "{}", utf8_percent_encode(text.unwrap_or_default(), ENCODED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_mutex_are_readable_and_share_a_hash_tag() {
        let prefix = Prefix::new("soloist:".to_owned()).unwrap();
        let name = MutexName::lease("reports:generate").unwrap();
        let own = name.claim("reports:generate", chrono::DateTime::UNIX_EPOCH);
        assert_eq!(prefix.key(&own).to_string(), "soloist:claim:{reports:generate}:1970-01-01T00:00:00Z");
        let claim = name.claim("a {b}/c", chrono::DateTime::UNIX_EPOCH);
        assert_eq!(prefix.key(&name).to_string(), "soloist:lease:{reports:generate}");
        assert_eq!(
            prefix.key(&claim).to_string(),
            "soloist:claim:{reports:generate}:a%20%7Bb%7D%2Fc/1970-01-01T00:00:00Z"
        );
        let permit = name.permit("reports:generate", "day@2026-03-01T00:00:00+01:00");
        let key = "soloist:permit:{reports:generate}:day@2026-03-01T00:00:00+01:00";
        assert_eq!(prefix.key(&permit).to_string(), key);
        let permit = name.permit("weekly", "day@1/2 é");
        assert_eq!(prefix.key(&permit).to_string(), "soloist:permit:{reports:generate}:weekly/day@1%2F2%20%C3%A9");
        assert_eq!(prefix.token_key_of(&permit).to_string(), "soloist:token:{reports:generate}");
        assert_eq!(prefix.token_key_of(&claim).to_string(), "soloist:token:{reports:generate}");
        assert_eq!(prefix.token_key().to_string(), "soloist:token");
        assert_eq!(prefix.runs_key("a {b}/c"), "soloist:runs:{a%20%7Bb%7D%2Fc}");
        assert_eq!(prefix.key(&MutexName::lease("100% ü}").unwrap()).to_string(), "soloist:lease:{100%25%20%C3%BC%7D}");
    }

    #[test]
    fn the_key_of_a_lease_is_read_back_and_no_other_key_is() {
        let prefix = Prefix::new(r"a*[b]?\:".to_owned()).unwrap();
        let odd = "100% ü}*?[x]\\:{%41";
        let lease = MutexName::lease(odd).unwrap();
        let key = prefix.key(&lease).to_string();
        assert_eq!(prefix.lease_at(&key), Some(lease.clone()));
        let claim = prefix.key(&lease.claim(odd, chrono::DateTime::UNIX_EPOCH)).to_string();
        for other in [
            &claim,
            &prefix.token_key_of(&lease).to_string(),
            &key.replace("100", "%31%30%30"),
            &key[1..],
            "",
            &format!("{key}x"),
        ] {
            assert_eq!(prefix.lease_at(other), None, "{other}");
        }
        assert_eq!(prefix.lease_at(r"a*[b]?\:lease:{}"), None);
        assert_eq!(prefix.pattern_of_leases("ü*"), r"a\*\[b\]\?\\:lease:{%C3%BC\**}");
    }

    #[test]
    fn a_prefix_leaves_the_braces_to_the_mutex() {
        for wrong in ["", "{app}:", "a b", "ü", &"x".repeat(101)] {
            assert!(Prefix::new(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
