//! The key of a name in the table: the text of the name. A text of more than 500 bytes is cut: its key is the first
//! part of the text, then `%~`, then a hash of the whole text. Only a cut key has `%~`.

use std::fmt;

use uuid::Uuid;

use crate::lease::name::{MutexName, text::event_key_text};

/// The longest key, in bytes. A key of this length fits into an index on MySQL and on PostgreSQL.
const LONGEST: usize = 500;

/// A name in the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RowKey(pub(super) Box<str>);

impl RowKey {
    pub(super) fn of(name: &MutexName) -> Self {
        Self::cut(name.key_text(""))
    }

    /// Returns the key of an event in the log of runs.
    pub(super) fn of_event(event: &str) -> Self {
        Self::cut(event_key_text(event).into_owned())
    }

    fn cut(whole: String) -> Self {
        if whole.len() <= LONGEST {
            return Self(whole.into());
        }
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, whole.as_bytes()).simple().to_string();
        let kept = &whole[..LONGEST - id.len() - 2]; // It is ASCII, so that it can be cut anywhere.
        Self(format!("{kept}%~{id}").into())
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
        assert!(keys.iter().all(|key| MutexName::read_key_text(key).is_none()), "what was cut is not known");
        // `%~` is only in the key of a name that was cut. A `%` that a user writes into a name becomes `%25` in the
        // key.
        assert!(!key(&MutexName::lease("a%~b").unwrap()).contains("%~"));
    }
}
