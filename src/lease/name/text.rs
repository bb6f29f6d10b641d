//! The text of a name: in messages, and in a key or a column of a server.
//!
//! In the key of a server, control characters, spaces, quotes, backslashes, braces and all bytes that are not ASCII are
//! written as `%XX`. So every client can show the text, and no collation changes it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{ClaimPart, Claimed, InvalidName, MutexName};
use crate::base::escape::{OneLine, decoded_text};
use crate::time::clock::shown::Rfc3339;

/// The ASCII bytes that are written as `%XX` in a part of a key. Bytes that are not ASCII are always written as `%XX`.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'{').add(b'}').add(b'"').add(b'\'').add(b'\\').add(b'%').add(b'/');

impl fmt::Display for MutexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, part)
    }
}

impl MutexName {
    /// Returns `prefix` and the text of the name in the key of a server.
    pub(crate) fn key_text(&self, prefix: &str) -> String {
        let mut text = String::with_capacity(prefix.len() + 100);
        text.push_str(prefix);
        let _ = self.write(&mut text, event_key_text); // Writing to a text never fails.
        text
    }

    /// Returns the name for a message: a lease, a claim or a permit as its text, and a marker in words.
    pub(crate) fn in_words(&self) -> String {
        let (Some(event), Some(mark)) = (self.event(), self.marked()) else { return self.to_string() };
        let what = match mark.split_once(' ') {
            None if mark == "paused" => "the pause",
            Some(("event", "paused")) => "the pause",
            Some(("queue" | "waits", _)) => "the queue",
            Some(("slot", _)) => "a slot",
            Some(("backfill", _)) => "the backfill",
            _ => "a marker",
        };
        format!("{what} of {event}")
    }

    /// Writes the text of the name, with each part as `encoded` returns it. A part that was encoded must not have the
    /// separator `/`.
    fn write(&self, to: &mut impl fmt::Write, encoded: impl Fn(&str) -> Cow<'_, str>) -> fmt::Result {
        let mutex = encoded(self.mutex());
        let Some(ClaimPart { event, claimed }) = &self.0.claim else { return write!(to, "lease/{mutex}") };
        let event = encoded(event);
        match claimed {
            Claimed::Occurrence(occurrence) => write!(to, "claim/{mutex}/{event}/{}", Rfc3339(*occurrence)),
            Claimed::Period(period) => write!(to, "permit/{mutex}/{event}/{}", encoded(period)),
            Claimed::Mark(mark) => write!(to, "mark/{mutex}/{event}/{}", encoded(mark)),
        }
    }

    /// Returns the lease or the marker with this text in the key of a server, or `None` if the text is neither.
    pub(crate) fn read_key_text(text: &str) -> Option<Self> {
        let name: Self = text.parse().ok()?;
        let is_listed = name.is_lease() || name.marked().is_some();
        (is_listed && name.key_text("") == text).then_some(name)
    }
}

/// Parses the text that `Display` writes. Any byte of a part may be written as `%XX`, because a store may encode more
/// characters than `Display` does.
///
/// ```
/// use soloist::MutexName;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let claim = MutexName::lease("db/backup")?.claim("backup", "2026-03-01T12:00:00Z".parse()?);
/// assert_eq!(claim.to_string().parse(), Ok(claim));
/// assert!("db/backup".parse::<MutexName>().is_err());
/// # Ok(())
/// # }
/// ```
impl FromStr for MutexName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let unreadable = || InvalidName::because(format_args!("`{}` can't be read", OneLine(text)));
        let (kind, parts) = text.split_once('/').ok_or_else(unreadable)?;
        let parts: Vec<String> = parts.split('/').map(decoded_text).collect::<Option<_>>().ok_or_else(unreadable)?;
        let name = Self::lease(parts[0].as_str())?;
        match (kind, &parts[1..]) {
            ("lease", []) => Ok(name),
            ("claim", [event, occurrence]) => {
                Ok(name.claim(event.as_str(), occurrence.parse().map_err(|_| unreadable())?))
            }
            ("permit", [event, period]) => Ok(name.permit(event.as_str(), period.as_str())),
            ("mark", [event, mark]) => Ok(name.mark(event.as_str(), mark.as_str())),
            _ => Err(unreadable()),
        }
    }
}

/// Escapes one part of a name, so that the part can't contain the separator `/`.
fn part(text: &str) -> Cow<'_, str> {
    if text.contains(['%', '/']) { text.replace('%', "%25").replace('/', "%2F").into() } else { text.into() }
}

/// Returns the text of an event, or of a part of a name, in the key of a server.
pub(crate) fn event_key_text(event: &str) -> Cow<'_, str> {
    utf8_percent_encode(event, ENCODED).into()
}

/// Returns the event with this text in the key of a server, or `None` if no event has this text.
pub(crate) fn read_event_key_text(text: &str) -> Option<String> {
    let event = decoded_text(text)?;
    (event_key_text(&event) == text).then_some(event)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn lease(name: &str) -> MutexName {
        MutexName::lease(name).unwrap()
    }

    #[test]
    fn the_texts_of_different_names_differ() {
        let noon = DateTime::from_timestamp(1_772_366_400, 0).unwrap();
        let names = [
            lease("a"),
            lease("a/a/2026-03-01T12:00:00Z"),
            lease("a%2Fa"),
            lease("a/a"),
            lease("A"),
            lease("a "),
            lease("a\0"),
            lease("a").claim("a", noon),
            lease("a").claim("a", DateTime::from_timestamp_nanos(1_772_366_400_000_000_001)),
            lease("a/b").claim("c", noon),
            lease("a").claim("b/c", noon),
            lease("a").permit("a", "2026-03-01T12:00:00Z"),
            lease("a").permit("a", "day@2026-03-01T00:00:00+00:00"),
            lease("a").permit("a", "day@2026-03-01T00:00:00+01:00"),
            lease("a").permit("a", ""),
            lease("a").permit("a/b", "c"),
            lease("a").permit("a", "b/c"),
            lease("a/a").permit("b", "c"),
            lease("a").permit("a%2Fb", "c"),
            lease("permit/a/a/c"),
            lease("a").mark("a", ""),
            lease("a").mark("a", "day@2026-03-01T00:00:00+00:00"),
            lease("a").mark("a", "2026-03-01T12:00:00Z"),
            lease("a").mark("a/b", "c"),
            lease("a").mark("a", "b/c"),
            lease("claim/a"),
        ];
        for (at, name) in names.iter().enumerate() {
            for other in &names[at + 1..] {
                assert_ne!(name, other);
                assert_ne!(name.to_string(), other.to_string());
            }
        }
    }

    #[test]
    fn the_text_of_a_name_is_read_back() {
        let (odd, instant) = (lease("a/b%"), DateTime::from_timestamp_nanos(1_772_366_400_000_000_001));
        for name in [
            lease("a"),
            odd.clone(),
            odd.mark("c d/e", "queue 1"),
            lease("ü").mark("", ""),
            odd.claim("c d/e", instant),
            odd.permit("c d/e", "day@2026-03-01T00:00:00+01:00"),
        ] {
            assert_eq!(name.to_string().parse(), Ok(name.clone()));
            assert_eq!(name.to_string().replace(' ', "%20").parse(), Ok(name));
        }
        for other in [
            "",
            "a",
            "lease/",
            "lease/a/b",
            "mark/",
            "mark/a/b",
            "mark//b/c",
            "mark/a/b/c/d",
            "mark/a/b/%zz",
            "claim/a/b/c",
        ] {
            assert!(other.parse::<MutexName>().is_err(), "{other}");
        }
    }

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
            assert_eq!(name.key_text(""), text);
        }
        assert_eq!(event_key_text("a {b}/c%"), "a%20%7Bb%7D%2Fc%25");
    }

    #[test]
    fn a_message_names_a_marker_in_words() {
        let name = lease("shop");
        for (mark, words) in [
            ("paused", "the pause of import"),
            ("event paused", "the pause of import"),
            ("queue 1", "the queue of import"),
            ("waits 2026-03-01T12:00:00Z", "the queue of import"),
            ("slot 1", "a slot of import"),
            ("backfill 2026-03-01T12:00:00Z", "the backfill of import"),
            ("seen hourly, UTC", "a marker of import"),
            ("event x", "a marker of import"),
        ] {
            assert_eq!(name.mark("import", mark).in_words(), words);
        }
        assert_eq!(name.in_words(), "lease/shop");
    }

    #[test]
    fn the_text_of_a_lease_a_mark_or_an_event_is_read_back_and_no_other_is() {
        for text in ["reports:generate", "a/b%20 'ü'\\\n", "100%_!", "%25", "%~", "100% ü}*?[x]\\:{%41"] {
            let name = MutexName::lease(text).unwrap();
            let mark = name.mark(text, "event paused");
            assert_eq!(MutexName::read_key_text(&name.key_text("")), Some(name.clone()), "{text}");
            assert_eq!(MutexName::read_key_text(&mark.key_text("")), Some(mark), "{text}");
            assert_eq!(MutexName::read_key_text(&name.claim(text, DateTime::UNIX_EPOCH).key_text("")), None);
            assert_eq!(read_event_key_text(&event_key_text(text)).as_deref(), Some(text));
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
            assert_eq!(MutexName::read_key_text(other), None, "{other}");
        }
        for other in ["a b", "a/b", "%", "%~", "%FF", "%31"] {
            assert_eq!(read_event_key_text(other), None, "{other}");
        }
    }
}
