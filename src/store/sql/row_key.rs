//! The key of a name in the table.
//!
//! The key is the text of the name, with `%XX` for each byte that is not plain ASCII: every client shows it, no collation folds or pads
//! it, and it needs no escapes between quotes. A text of more than 500 bytes is cut. It ends in `%~`, which no whole name has, and an
//! id that is made of the whole text.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use uuid::Uuid;

use crate::lease::name::MutexName;
use crate::store::event_mutex::held::Names;

/// The bytes that clients hide, or that need escapes between quotes.
const NOT_PLAIN: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'\'').add(b'\\');

/// Those bytes, and the separators of a name's parts.
const NOT_IN_A_PART: &AsciiSet = &NOT_PLAIN.add(b'%').add(b'/');

/// The longest key, in bytes, which fits into an index of both servers.
pub(crate) const LONGEST: usize = 500;

/// A name in the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RowKey(pub(super) Box<str>);

impl RowKey {
    pub(super) fn of(name: &MutexName) -> Self {
        let whole = name.to_string();
        Self::cut(utf8_percent_encode(&whole, NOT_PLAIN).to_string(), &whole)
    }

    /// Returns the key of an event in the log of runs.
    pub(super) fn of_event(event: &str) -> Self {
        Self::cut(utf8_percent_encode(event, NOT_IN_A_PART).to_string(), event)
    }

    /// Returns the event that has this key in the log of runs. `None`: the key was cut.
    pub(super) fn event_at(key: &str) -> Option<String> {
        let event = percent_decode_str(key).decode_utf8().ok()?.into_owned();
        (*Self::of_event(&event).0 == *key).then_some(event)
    }

    fn cut(plain: String, whole: &str) -> Self {
        if plain.len() <= LONGEST {
            return Self(plain.into());
        }
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, whole.as_bytes()).simple().to_string();
        let kept = &plain[..LONGEST - id.len() - 2]; // It is ASCII, so that it can be cut anywhere.
        Self(format!("{kept}%~{id}").into())
    }

    /// Returns the pattern of the keys of these leases or marks, for `LIKE … ESCAPE '!'`.
    pub(super) fn pattern_of(names: Names<'_>) -> String {
        let literally = names.beginning(|part| utf8_percent_encode(part, NOT_IN_A_PART).to_string());
        literally.replace('!', "!!").replace('%', "!%").replace('_', "!_") + "%"
    }

    /// Returns the lease or the mark that has this key. `None`: it is another key, or was cut.
    pub(super) fn name_at(key: &str) -> Option<MutexName> {
        let name = Names::read(key)?;
        (*Self::of(&name).0 == *key).then_some(name)
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn key(name: &MutexName) -> String {
        RowKey::of(name).to_string()
    }

    #[test]
    fn a_key_reads_as_the_name() {
        let name = MutexName::lease("reports:generate").unwrap();
        assert_eq!(key(&name), "lease/reports:generate");
        let claim = name.claim("import all", DateTime::UNIX_EPOCH);
        assert_eq!(key(&claim), "claim/reports:generate/import%20all/1970-01-01T00:00:00Z");
        let odd = MutexName::lease("a/b%20 'ü'\\\n").unwrap();
        assert_eq!(key(&odd), "lease/a%2Fb%2520%20%27%C3%BC%27%5C%0A");
    }

    #[test]
    fn the_key_of_a_lease_is_read_back_and_matches_the_pattern_of_its_beginning() {
        for text in ["reports:generate", "a/b%20 'ü'\\\n", "100%_!", "%25", "%~", &"x".repeat(494)] {
            let name = MutexName::lease(text).unwrap();
            assert_eq!(RowKey::name_at(&key(&name)), Some(name.clone()), "{text}");
            assert_eq!(RowKey::name_at(&key(&name.claim(text, DateTime::UNIX_EPOCH))), None);
            // The text before the wildcard is the key, when nothing is escaped any more.
            let pattern = RowKey::pattern_of(Names::LeasesWithPrefix(text));
            let literally = pattern.strip_suffix('%').unwrap().replace("!%", "%").replace("!_", "_").replace("!!", "!");
            assert_eq!(literally, key(&name));
        }
        for foreign in ["lease/", "lease/a b", "lease/a%2f", "lease/%FF", "lease", "claim/a"] {
            assert_eq!(RowKey::name_at(foreign), None, "{foreign}");
        }
        assert_eq!(RowKey::pattern_of(Names::LeasesWithPrefix("50 %_!")), "lease/50!%20!%25!_!!%");
        assert_eq!(RowKey::pattern_of(Names::LeasesWithPrefix("")), "lease/%");
        assert_eq!(RowKey::pattern_of(Names::MarksOf("a_/b")), "mark/a!_!%2Fb/%");
        let mark = MutexName::lease("a/b 'ü'").unwrap().mark("100%", "event paused");
        assert_eq!(RowKey::name_at(&key(&mark)), Some(mark));
    }

    #[test]
    fn an_event_has_one_key() {
        let key = |event: &str| RowKey::of_event(event).to_string();
        assert_eq!(key("import all/%"), "import%20all%2F%25");
        let longest = "x".repeat(500);
        assert_eq!(key(&longest), longest);
        assert_ne!(key(&"x".repeat(501)), key(&"x".repeat(502)));
    }

    #[test]
    fn long_names_are_cut_and_told_apart() {
        let longest = MutexName::lease("x".repeat(494)).unwrap();
        assert_eq!(key(&longest), longest.to_string());
        let (a, b) = ("😀".repeat(512), "😀".repeat(511) + "😁");
        let names = [&a, &b].map(|name| MutexName::lease(&**name).unwrap());
        let claims = [
            names[0].claim(&*a, DateTime::UNIX_EPOCH),
            names[0].claim(&*b, DateTime::UNIX_EPOCH),
            names[0].claim(&*a, DateTime::from_timestamp(60, 0).unwrap()),
        ];
        let mut keys: Vec<String> = names.iter().chain(&claims).map(key).collect();
        assert!(keys.iter().all(|key| key.len() == LONGEST && key.contains("%~")));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 5);
        assert!(keys.iter().all(|key| RowKey::name_at(key).is_none()), "what was cut is not known");
        // No user can write such an end into a name that is not cut.
        assert!(!key(&MutexName::lease("a%~b").unwrap()).contains("%~"));
    }
}
