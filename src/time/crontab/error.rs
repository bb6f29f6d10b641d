//! The error for a text that is not a crontab: the fault, its place in the text, and the correction.

use std::fmt;
use std::ops::Range;

use crate::base::{error::debug_as_display, escape::Quoted};

/// A text that is not a [`Crontab`](crate::time::Crontab). `Display` quotes the text, names the field and describes the
/// fault.
///
/// ```
/// use soloist::time::Crontab;
///
/// let error = "0 9 * * 1-8".parse::<Crontab>().unwrap_err();
/// assert_eq!(error.to_string(), "`0 9 * * 1-8`: day of week `8` is outside of 0-7 (column 11)");
/// assert_eq!(error.range(), 10..11);
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CrontabError {
    message: Box<str>,
    at: Range<usize>,
}

debug_as_display!(CrontabError);

impl CrontabError {
    /// Makes the error with the message `what` about `part`, which must be a slice of `text`.
    pub(super) fn new(text: &str, part: &str, what: impl fmt::Display) -> Self {
        let start = part.as_ptr().addr() - text.as_ptr().addr();
        Self { message: format!("{}: {what}", Quoted::new(text)).into(), at: start..start + part.len() }
    }

    /// Makes the error with the message `what` about `part`, a part of one of the five fields. The message also has the
    /// column of the part.
    pub(super) fn in_field(text: &str, part: &str, what: impl fmt::Display) -> Self {
        let column = part.as_ptr().addr() - text.as_ptr().addr() + 1;
        Self::new(text, part, format_args!("{what} (column {column})"))
    }

    /// Returns the place of the fault, as a range of bytes in the text. The place is an item, a word or the whole text.
    ///
    /// ```
    /// use soloist::time::Crontab;
    ///
    /// let text = "0 12,24 * * *";
    /// let error = text.parse::<Crontab>().unwrap_err();
    /// assert_eq!(&text[error.range()], "24");
    /// ```
    pub fn range(&self) -> Range<usize> {
        self.at.clone()
    }
}
