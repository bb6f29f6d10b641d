//! The keys of a prefix in Redis: `{PREFIX}:NAME`, where `NAME` is the text of a [`MutexName`], as in
//! `{soloist}:lease/reports`. Other keys are `{PREFIX}:runs/EVENT` for the log of runs, `{PREFIX}:token`,
//! `{PREFIX}:revoked` and `{PREFIX}:check`.
//!
//! The text in the braces is the [hash
//! tag](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags) of all these keys. So
//! they lie on one slot of a cluster, and one script can use them together.

use std::fmt::Display;

use crate::base::error::InvalidOptions;
use crate::lease::name::MutexName;
use crate::store::event_mutex::held::Names;
use crate::store::server::key_text;

/// The prefix of all keys.
pub(super) struct Prefix(pub(super) String);

impl Prefix {
    pub(super) fn new(prefix: String) -> Result<Self, InvalidOptions> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
        let is_valid = !prefix.is_empty() && prefix.len() <= 100 && prefix.bytes().all(plain);
        let what = "the prefix of keys in redis has to be 1 to 100 visible ASCII characters without braces, as in `prefix(\"shop\")` or ?prefix=shop";
        if is_valid { Ok(Self(prefix)) } else { Err(InvalidOptions::new(what)) }
    }

    /// Returns the key of a name, such as a lease or a claim.
    pub(super) fn key(&self, name: &MutexName) -> String {
        self.with(key_text::of_name(name))
    }

    /// Returns the key that has this text behind the prefix.
    pub(super) fn with(&self, text: impl Display) -> String {
        format!("{{{}}}:{text}", self.0)
    }

    /// Returns the key of the log of an event's runs.
    pub(super) fn runs_key(&self, event: &str) -> String {
        self.with(format_args!("runs/{}", key_text::of_event(event)))
    }

    /// Returns the pattern of `SCAN` for the keys of these leases or markers.
    pub(super) fn pattern_of(&self, names: Names<'_>) -> String {
        beginning_with(&self.with(key_text::beginning(names)))
    }

    /// Returns the pattern of `SCAN` for the keys of all logs of runs.
    pub(super) fn pattern_of_runs(&self) -> String {
        beginning_with(&self.runs_key(""))
    }

    /// Returns the event whose log of runs has this key.
    pub(super) fn event_at(&self, key: &str) -> Option<String> {
        key_text::event_at(key.strip_prefix(&self.runs_key(""))?)
    }

    /// Returns the lease or the marker that has this key, or `None` if it is another key.
    pub(super) fn name_at(&self, key: &str) -> Option<MutexName> {
        key_text::name_at(key.strip_prefix(&self.with(""))?)
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
    fn all_keys_of_a_prefix_share_a_hash_tag_and_are_read_back() {
        let prefix = Prefix::new(r"a*[b]?\:".to_owned()).unwrap();
        let odd = "100% ü}*?[x]\\:{%41";
        let lease = MutexName::lease(odd).unwrap();
        let (key, runs) = (prefix.key(&lease), prefix.runs_key(odd));
        assert_eq!(key, r"{a*[b]?\:}:lease/100%25%20%C3%BC%7D*?[x]%5C:%7B%2541");
        assert_eq!([prefix.with("token"), prefix.runs_key("a/b")], [r"{a*[b]?\:}:token", r"{a*[b]?\:}:runs/a%2Fb"]);
        assert_eq!((prefix.name_at(&key), prefix.event_at(&runs).as_deref()), (Some(lease), Some(odd)));
        for other in [&runs, &key[1..], ""] {
            assert_eq!(prefix.name_at(other), None, "{other}");
        }
        assert_eq!(prefix.event_at(&key), None);
        assert_eq!(prefix.pattern_of(Names::MarksOf("a")), r"{a\*\[b\]\?\\:}:mark/a/*");
        assert_eq!(prefix.pattern_of(Names::LeasesWithPrefix("ü*/")), r"{a\*\[b\]\?\\:}:lease/%C3%BC\*%2F*");
        assert_eq!(prefix.pattern_of_runs(), r"{a\*\[b\]\?\\:}:runs/*");
    }

    #[test]
    fn a_prefix_leaves_the_braces_to_the_hash_tag() {
        for wrong in ["", "{app}:", "a b", "ü", &"x".repeat(101)] {
            assert!(Prefix::new(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
