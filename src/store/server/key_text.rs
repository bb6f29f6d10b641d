//! The text of a name in a key or in a column of a server. Control characters, spaces, quotes, backslashes, braces and
//! all bytes that are not ASCII are written as `%XX`. So every client can show the text, and no collation changes it.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::base::escape::decoded_text;
use crate::lease::name::MutexName;
use crate::store::event_mutex::held::Names;

/// The ASCII bytes that are written as `%XX` in a part of a name. Bytes that are not ASCII are always written as `%XX`.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'{').add(b'}').add(b'"').add(b'\'').add(b'\\').add(b'%').add(b'/');

/// Returns `prefix` and the text of a name.
pub(crate) fn of_name(prefix: &str, name: &MutexName) -> String {
    let mut text = String::with_capacity(prefix.len() + 100);
    text.push_str(prefix);
    let _ = name.write(&mut text, of_event); // Writing to a text never fails.
    text
}

/// Returns the text of an event in the log of runs. It is encoded like a part of a name.
pub(crate) fn of_event(event: &str) -> Cow<'_, str> {
    utf8_percent_encode(event, ENCODED).into()
}

/// Returns the beginning that the texts of these leases or markers have in common.
pub(crate) fn beginning(names: Names<'_>) -> String {
    match names {
        Names::LeasesWithPrefix(prefix) => format!("lease/{}", of_event(prefix)),
        Names::MarksOf(mutex) => format!("mark/{}/", of_event(mutex)),
        Names::Each(_) => String::new(),
    }
}

/// Returns the lease or the marker with this text, or `None` if the text is neither.
pub(crate) fn name_at(text: &str) -> Option<MutexName> {
    let name = match text.strip_prefix("lease/") {
        Some(mutex) => MutexName::lease(decoded_text(mutex)?).ok()?,
        None => MutexName::read_mark(text)?,
    };
    (of_name("", &name) == text).then_some(name)
}

/// Returns the event with this text, or `None` if no event has this text.
pub(crate) fn event_at(text: &str) -> Option<String> {
    let event = decoded_text(text)?;
    (of_event(&event) == text).then_some(event)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    #[test]
    fn a_text_is_readable() {
        let name = MutexName::lease("reports:generate").unwrap();
        let noon = DateTime::UNIX_EPOCH;
        for (name, text) in [
            (name.clone(), "lease/reports:generate"),
            (MutexName::lease("100% ü}").unwrap(), "lease/100%25%20%C3%BC%7D"),
            (MutexName::lease("a/b%20 'ü'\\\n").unwrap(), "lease/a%2Fb%2520%20%27%C3%BC%27%5C%0A"),
            (name.claim("import all", noon), "claim/reports:generate/import%20all/1970-01-01T00:00:00Z"),
            (name.claim("a {b}/c", noon), "claim/reports:generate/a%20%7Bb%7D%2Fc/1970-01-01T00:00:00Z"),
            (name.permit("weekly", "day@1/2 é+01:00"), "permit/reports:generate/weekly/day@1%2F2%20%C3%A9+01:00"),
            (name.mark("seen", "slot 1"), "mark/reports:generate/seen/slot%201"),
        ] {
            assert_eq!(of_name("", &name), text);
        }
        assert_eq!(of_event("a {b}/c%"), "a%20%7Bb%7D%2Fc%25");
    }

    #[test]
    fn the_text_of_a_lease_a_mark_or_an_event_is_read_back_and_no_other_is() {
        for text in ["reports:generate", "a/b%20 'ü'\\\n", "100%_!", "%25", "%~", "100% ü}*?[x]\\:{%41"] {
            let name = MutexName::lease(text).unwrap();
            let mark = name.mark(text, "event paused");
            let of_name = |name: &MutexName| of_name("", name);
            assert_eq!(name_at(&of_name(&name)), Some(name.clone()), "{text}");
            assert_eq!(name_at(&of_name(&mark)), Some(mark), "{text}");
            assert_eq!(name_at(&of_name(&name.claim(text, DateTime::UNIX_EPOCH))), None);
            assert_eq!(event_at(&of_event(text)).as_deref(), Some(text));
            assert_eq!(beginning(Names::LeasesWithPrefix(text)), of_name(&name));
        }
        for other in [
            "",
            "lease",
            "lease/",
            "lease/a b",
            "lease/a%2f",
            "lease/%FF",
            "lease/%31",
            "lease/a/x",
            "claim/a",
            "token",
        ] {
            assert_eq!(name_at(other), None, "{other}");
        }
        for other in ["a b", "a/b", "%", "%~", "%FF", "%31"] {
            assert_eq!(event_at(other), None, "{other}");
        }
        assert_eq!(beginning(Names::LeasesWithPrefix("")), "lease/");
        assert_eq!(beginning(Names::MarksOf("a_/b")), "mark/a_%2Fb/");
    }
}
