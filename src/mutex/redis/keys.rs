//! Which keys a name has in Redis.
//!
//! `PREFIXlease:{MUTEX}`, `PREFIXclaim:{MUTEX}:EVENT/INSTANT` and `PREFIXtoken:{MUTEX}`, with `%XX` for each byte that
//! could be mistaken. What stands between the first braces decides on a cluster's slot, so that all keys of a mutex
//! lie on one (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags>).

use chrono::SecondsFormat;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::error::InvalidOptions;
use crate::lease::MutexName;

/// What stands before all keys.
#[derive(Clone, Debug)]
pub(super) struct Prefix(String);

/// Bytes that would end a part of a key, or that a terminal would not show; every byte that is not ASCII as well.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'/').add(b'{').add(b'}').add(b'"').add(b'\'').add(b'\\');

impl Prefix {
    pub(super) fn new(prefix: String) -> Result<Self, InvalidOptions> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
        if !prefix.is_empty() && prefix.len() <= 100 && prefix.bytes().all(plain) {
            Ok(Self(prefix))
        } else {
            let what = "the prefix of keys in redis is 1 to 100 visible ASCII characters, and no braces";
            Err(InvalidOptions::new(what))
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of a lease or a claim.
    pub(super) fn key(&self, name: &MutexName) -> String {
        match (name.event(), name.occurrence()) {
            (Some(event), Some(occurrence)) => {
                let mut key = self.of_mutex("claim:{", name);
                key.push(':');
                key.extend(utf8_percent_encode(event, ENCODED));
                key.push('/');
                key.push_str(&occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true));
                key
            }
            _ => self.of_mutex("lease:{", name),
        }
    }

    /// The key of the last token of the mutex that a name belongs to.
    pub(super) fn token_key(&self, name: &MutexName) -> String {
        self.of_mutex("token:{", name)
    }

    fn of_mutex(&self, kind: &str, name: &MutexName) -> String {
        let mut key = String::with_capacity(self.0.len() + kind.len() + 2 * name.mutex().len() + 32);
        key.push_str(&self.0);
        key.push_str(kind);
        key.extend(utf8_percent_encode(name.mutex(), ENCODED));
        key.push('}');
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_mutex_are_readable_and_share_a_hash_tag() {
        let prefix = Prefix::new("soloist:".to_owned()).unwrap();
        let name = MutexName::lease("reports:generate").unwrap();
        let claim = name.claim("a {b}/c", chrono::DateTime::UNIX_EPOCH);
        assert_eq!(prefix.key(&name), "soloist:lease:{reports:generate}");
        assert_eq!(prefix.key(&claim), "soloist:claim:{reports:generate}:a%20%7Bb%7D%2Fc/1970-01-01T00:00:00Z");
        assert_eq!(prefix.token_key(&claim), "soloist:token:{reports:generate}");
        assert_eq!(prefix.key(&MutexName::lease("100% ü}").unwrap()), "soloist:lease:{100%25%20%C3%BC%7D}");
    }

    #[test]
    fn a_prefix_leaves_the_braces_to_the_mutex() {
        for wrong in ["", "{app}:", "a b", "ü", &"x".repeat(101)] {
            assert!(Prefix::new(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
