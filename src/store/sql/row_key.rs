//! The key of a name in the table: the text of the name. A text of more than 500 bytes is cut: its key is the first
//! part of the text, then `%~`, then a hash of the whole text. Only a cut key has `%~`.

use uuid::Uuid;

use crate::lease::name::{MutexName, text::event_key_text};

/// The longest key, in bytes. A key of this length fits into an index on MySQL and on PostgreSQL.
const LONGEST: usize = 500;

/// Returns the key of a name.
pub(super) fn row_key(name: &MutexName) -> String {
    cut(name.key_text(""))
}

/// Returns the key of an event in the log of runs.
pub(super) fn event_key(event: &str) -> String {
    cut(event_key_text(event).into_owned())
}

fn cut(whole: String) -> String {
    if whole.len() <= LONGEST {
        return whole;
    }
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, whole.as_bytes()).simple().to_string();
    let kept = &whole[..LONGEST - id.len() - 2]; // It is ASCII, so that it can be cut anywhere.
    format!("{kept}%~{id}")
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    #[test]
    fn an_event_has_one_key() {
        assert_eq!(event_key("import all/%"), "import%20all%2F%25");
        let longest = "x".repeat(500);
        assert_eq!(event_key(&longest), longest);
        assert_ne!(event_key(&"x".repeat(501)), event_key(&"x".repeat(502)));
    }

    #[test]
    fn long_names_are_cut_and_told_apart() {
        let longest = MutexName::lease("x".repeat(494)).unwrap();
        assert_eq!(row_key(&longest), longest.to_string());
        let (a, b) = ("😀".repeat(512), "😀".repeat(511) + "😁");
        let names = [&a, &b].map(|name| MutexName::lease(&**name).unwrap());
        let claims = [
            names[0].claim(&*a, DateTime::UNIX_EPOCH),
            names[0].claim(&*b, DateTime::UNIX_EPOCH),
            names[0].claim(&*a, DateTime::from_timestamp(60, 0).unwrap()),
        ];
        let mut keys: Vec<String> = names.iter().chain(&claims).map(row_key).collect();
        assert!(keys.iter().all(|key| key.len() == LONGEST && key.contains("%~")));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 5);
        assert!(keys.iter().all(|key| MutexName::read_key_text(key).is_none()), "what was cut is not known");
        // `%~` is only in the key of a name that was cut. A `%` that a user writes into a name becomes `%25` in the
        // key.
        assert!(!row_key(&MutexName::lease("a%~b").unwrap()).contains("%~"));
    }
}
