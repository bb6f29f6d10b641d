//! Escapes untrusted text, so that it can't steer a terminal, hide other text, or break a line of a log. Also encodes
//! and decodes `%XX`.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// A text on one line. Characters that steer a terminal or hide text are escaped, as in `\n` and `\u{1b}`.
pub(crate) struct OneLine<T>(pub(crate) T);

/// A text that may have several lines. It is escaped as by [`OneLine`], but `\n` and tabs stay.
pub(crate) struct Lines<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { f, stays: |_| false }, "{}", self.0)
    }
}

impl<T: fmt::Display> fmt::Display for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { f, stays: |char| matches!(char, '\n' | '\t') }, "{}", self.0)
    }
}

struct Escaping<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    stays: fn(char) -> bool,
}

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            self.write_char(char)?;
        }
        Ok(())
    }

    fn write_char(&mut self, char: char) -> fmt::Result {
        if steers_or_hides(char) && !(self.stays)(char) {
            write!(self.f, "{}", char.escape_debug())
        } else {
            self.f.write_char(char)
        }
    }
}

/// Returns whether a character is a control character, ends a line or a paragraph, has no width, or changes the
/// direction of the text. Returns `false` for the joiners U+200C and U+200D, because several scripts need them.
pub(crate) fn steers_or_hides(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Encodes `%`, control characters, and the characters in `others`: each of their bytes becomes `%XX`. All other
/// characters stay readable.
pub(crate) fn percent_encoded<'a>(text: &'a str, others: &[char]) -> Cow<'a, str> {
    let is_encoded = |char: char| char == '%' || char.is_control() || others.contains(&char);
    if !text.contains(is_encoded) {
        return text.into();
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_encoded(char) {
            encoded.extend(utf8_percent_encode(char.encode_utf8(&mut [0; 4]), NON_ALPHANUMERIC));
        } else {
            encoded.push(char);
        }
    }
    encoded.into()
}

/// Decodes each `%XX` of a text. Returns `None` if a `%` is not followed by two hexadecimal digits.
pub(crate) fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let is_byte = |after: &str| after.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    text.split('%').skip(1).all(is_byte).then(|| percent_decode_str(text).collect())
}

/// Decodes each `%XX` of a text. Returns `None` if a `%` is not followed by two hexadecimal digits, or if the result is
/// not UTF-8.
pub(crate) fn decoded_text(text: &str) -> Option<String> {
    String::from_utf8(percent_decoded(text)?).ok()
}

const NO_TEXT: &str = "an error without a text";

/// The greatest number of sources in a text.
const MOST_SOURCES: usize = 100;

/// An error and its sources, as in `could not create lease/reports: permission denied`. The texts are escaped, because
/// they come from foreign code.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Lines(self.0).to_string() {
            text if text.trim().is_empty() => f.write_str(NO_TEXT)?,
            text => f.write_str(&text)?,
        }
        let mut error = self.0;
        // An error may be its own source.
        for _ in 0..MOST_SOURCES {
            let Some(source) = error.source() else { break };
            write!(f, ": {}", Lines(source))?;
            error = source;
        }
        Ok(())
    }
}

/// A foreign text between backticks, on one line. A long text is shortened. The text is copied, so that errors can keep
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quoted(Box<str>);

impl Quoted {
    const MAX_CHARS: usize = 60;

    /// Shortens, escapes and quotes the text.
    pub(crate) fn new(text: &str) -> Self {
        let mut quoted = String::from("`");
        for (at, char) in text.chars().enumerate() {
            if at == Self::MAX_CHARS {
                quoted.push('…');
                break;
            }
            // All white space except for the plain space is escaped, too. For example, a no-break space looks like a
            // plain space.
            if steers_or_hides(char) || (char.is_whitespace() && char != ' ') {
                quoted.extend(char.escape_debug());
            } else {
                quoted.push(char);
            }
        }
        quoted.push('`');
        Self(quoted.into())
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of an event on one line. It is quoted only if it is long, or has white space or hidden characters.
pub(crate) struct Named<'a>(pub(crate) &'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_odd = |char: char| steers_or_hides(char) || char.is_whitespace();
        if self.0.chars().count() > Quoted::MAX_CHARS || self.0.contains(is_odd) {
            Quoted::new(self.0).fmt(f)
        } else {
            f.write_str(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_a_text_says_so() {
        let shown = |text: &str| Chain(&std::io::Error::other(text)).to_string();
        assert_eq!([shown("no paper"), shown(""), shown(" \n")], ["no paper", NO_TEXT, NO_TEXT]);
    }

    #[test]
    fn an_error_that_is_its_own_source_has_a_text_with_an_end() {
        #[derive(Debug)]
        struct Own;

        impl fmt::Display for Own {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("own")
            }
        }

        impl Error for Own {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(self)
            }
        }

        assert!(Chain(&Own).to_string().starts_with("own: own: own"));
    }

    #[test]
    fn a_text_on_one_line_shows_all_of_itself() {
        let cases = [
            ("plain words, Grüße and 時間", "plain words, Grüße and 時間"),
            ("two\r\nlines\tand \u{1b}[2Ja \0 screen", r"two\r\nlines\tand \u{1b}[2Ja \0 screen"),
            ("back\u{8}\u{7f}space, next\u{85}line, C1 \u{9b}2J", r"back\u{8}\u{7f}space, next\u{85}line, C1 \u{9b}2J"),
            ("line\u{2028}paragraph\u{2029}", r"line\u{2028}paragraph\u{2029}"),
            ("\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}", r"\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}"),
            ("\u{2066}\u{2067}\u{2068}\u{2069}", r"\u{2066}\u{2067}\u{2068}\u{2069}"),
            ("\u{200e}\u{200f}\u{61c}\u{200b}\u{feff}", r"\u{200e}\u{200f}\u{61c}\u{200b}\u{feff}"),
        ];
        for (said, shown) in cases {
            assert_eq!(OneLine(said).to_string(), shown);
            let stays = shown.replace(r"\t", "\t").replace(r"\n", "\n");
            assert_eq!(Lines(said).to_string(), stays);
        }
    }
}
