//! The keys of a prefix in Redis: `{PREFIX}:NAME`, where `NAME` is the text of a [`MutexName`], as in
//! `{soloist}:lease/reports`. Beside the names are the hash `{PREFIX}:runs/EVENT`, `{PREFIX}:token`, `{PREFIX}:revoked` and
//! `{PREFIX}:check`.
//!
//! The text in the braces is the [hash tag](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags)
//! of all these keys, so that they lie on one slot of a cluster and a script can take any of them. Each byte that a terminal
//! would not show, or that would need quotes, is `%XX`.

use std::fmt::{self, Write};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::base::error::InvalidOptions;
use crate::lease::name::MutexName;
use crate::store::event_mutex::held::Names;

/// The prefix of all keys.
pub(super) struct Prefix(pub(super) String);

/// The bytes that a key has as `%XX`, and so every byte that is not ASCII. The text of a name has its own `%` and `/` so already.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'{').add(b'}').add(b'"').add(b'\'').add(b'\\');

/// The bytes that a part of a name has as `%XX` in a key.
const ENCODED_IN_A_PART: &AsciiSet = &ENCODED.add(b'%').add(b'/');

/// A key that percent-encodes the text that is written to it.
struct Encoded<'a>(&'a mut String);

impl Write for Encoded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend(utf8_percent_encode(text, ENCODED));
        Ok(())
    }
}

impl Prefix {
    pub(super) fn new(prefix: String) -> Result<Self, InvalidOptions> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
        let is_valid = !prefix.is_empty() && prefix.len() <= 100 && prefix.bytes().all(plain);
        let what = "the prefix of keys in redis has to be 1 to 100 visible ASCII characters without braces, as in ?prefix=shop";
        if is_valid { Ok(Self(prefix)) } else { Err(InvalidOptions::new(what)) }
    }

    /// Returns the key of a lease, of a claim, or of another name under this prefix.
    pub(super) fn key(&self, name: impl fmt::Display) -> String {
        let mut key = String::with_capacity(self.0.len() + 100);
        let _ = write!(key, "{{{}}}:", self.0).and_then(|()| write!(Encoded(&mut key), "{name}")); // A text takes all.
        key
    }

    /// Returns the key of the log of an event's runs.
    pub(super) fn runs_key(&self, event: &str) -> String {
        self.key(format_args!("runs/{}", utf8_percent_encode(event, ENCODED_IN_A_PART)))
    }

    /// Returns the pattern of `SCAN` for the keys of these leases or marks.
    pub(super) fn pattern_of(&self, names: Names<'_>) -> String {
        let literally = self.key(names.beginning(|part| utf8_percent_encode(part, ENCODED_IN_A_PART).to_string()));
        beginning_with(&literally)
    }

    /// Returns the pattern of `SCAN` for the keys of all logs of runs.
    pub(super) fn pattern_of_runs(&self) -> String {
        beginning_with(&self.runs_key(""))
    }

    /// Returns the event whose log of runs has this key.
    pub(super) fn event_at(&self, key: &str) -> Option<String> {
        let event = percent_decode_str(key.strip_prefix(&self.runs_key(""))?).decode_utf8().ok()?.into_owned();
        (self.runs_key(&event) == key).then_some(event)
    }

    /// Returns the lease or the mark that has this key; `None` if the key is none of these.
    pub(super) fn name_at(&self, key: &str) -> Option<MutexName> {
        let name = Names::read(key.strip_prefix(&self.key(""))?)?;
        (self.key(&name) == key).then_some(name)
    }
}

/// Returns the pattern of the keys that begin with this text.
fn beginning_with(text: &str) -> String {
    let is_special = |char: &char| matches!(char, '*' | '?' | '[' | ']' | '\\');
    let escaped = text.chars().flat_map(|char| is_special(&char).then_some('\\').into_iter().chain([char]));
    escaped.chain(['*']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_prefix_are_readable_and_share_a_hash_tag() {
        let prefix = Prefix::new("soloist".to_owned()).unwrap();
        let name = MutexName::lease("reports:generate").unwrap();
        let noon = chrono::DateTime::UNIX_EPOCH;
        let of_a_day = name.permit("weekly", "day@1/2 é+01:00");
        for (name, key) in [
            (name.clone(), "{soloist}:lease/reports:generate"),
            (MutexName::lease("100% ü}").unwrap(), "{soloist}:lease/100%25%20%C3%BC%7D"),
            (
                name.claim("reports:generate", noon),
                "{soloist}:claim/reports:generate/reports:generate/1970-01-01T00:00:00Z",
            ),
            (name.claim("a {b}/c", noon), "{soloist}:claim/reports:generate/a%20%7Bb%7D%2Fc/1970-01-01T00:00:00Z"),
            (of_a_day, "{soloist}:permit/reports:generate/weekly/day@1%2F2%20%C3%A9+01:00"),
            (name.mark("seen", "slot 1"), "{soloist}:mark/reports:generate/seen/slot%201"),
        ] {
            assert_eq!(prefix.key(&name), key);
        }
        assert_eq!(prefix.key("token"), "{soloist}:token");
        assert_eq!(prefix.runs_key("a {b}/c%"), "{soloist}:runs/a%20%7Bb%7D%2Fc%25");
        assert_eq!(prefix.event_at("{soloist}:runs/a%20%7Bb%7D%2Fc%25").as_deref(), Some("a {b}/c%"));
        assert_eq!(prefix.event_at("{soloist}:lease/a"), None);
        assert_eq!(prefix.pattern_of_runs(), "{soloist}:runs/*");
    }

    #[test]
    fn the_key_of_a_lease_is_read_back_and_no_other_key_is() {
        let prefix = Prefix::new(r"a*[b]?\:".to_owned()).unwrap();
        let odd = "100% ü}*?[x]\\:{%41";
        let lease = MutexName::lease(odd).unwrap();
        let key = prefix.key(&lease);
        assert_eq!(prefix.name_at(&key), Some(lease.clone()));
        let claim = prefix.key(lease.claim(odd, chrono::DateTime::UNIX_EPOCH));
        for other in [
            &claim,
            &prefix.key("token"),
            &prefix.runs_key(odd),
            &key.replace("100", "%31%30%30"),
            &key[1..],
            "",
            &format!("{key}/x"),
        ] {
            assert_eq!(prefix.name_at(other), None, "{other}");
        }
        let mark = lease.mark(odd, "event paused");
        assert_eq!(prefix.name_at(&prefix.key(&mark)), Some(mark));
        assert_eq!(prefix.pattern_of(Names::MarksOf("a")), r"{a\*\[b\]\?\\:}:mark/a/*");
        assert_eq!(prefix.name_at(r"{a*[b]?\:}:lease/"), None);
        assert_eq!(prefix.pattern_of(Names::LeasesWithPrefix("ü*/")), r"{a\*\[b\]\?\\:}:lease/%C3%BC\*%2F*");
    }

    #[test]
    fn a_prefix_leaves_the_braces_to_the_hash_tag() {
        for wrong in ["", "{app}:", "a b", "ü", &"x".repeat(101)] {
            assert!(Prefix::new(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
