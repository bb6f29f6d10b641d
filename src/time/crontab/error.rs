//! Why a text is no crontab: what is wrong, where, and what to write instead.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use super::Field;
use crate::base::error::debug_as_display;
use crate::base::escape::{OneLine, Quoted};

/// A text that is not a [`Crontab`](crate::Crontab). `Display` quotes it, names the field and says what is wrong there.
///
/// ```
/// use soloist::Crontab;
///
/// let error = "0 9 * * mon-fir".parse::<Crontab>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`0 9 * * mon-fir`: day of week `fir` is neither a number from 0-7 nor a name from sun to sat (column 13)"
/// );
/// assert_eq!(error.range(), 12..15);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct CrontabError {
    text: Quoted,
    part: Quoted,
    at: Range<usize>,
    field: Option<Field>,
    problem: Problem,
}

debug_as_display!(CrontabError);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    TooLong { max: usize },
    Count(usize),
    Zone { name: Box<str> },
    UnknownNickname,
    Nickname(&'static str),
    Reboot,
    Item,
    EmptyItem,
    NotANumber,
    OutOfRange,
    Backwards(Advice),
    StepWithoutRange(Advice),
    ZeroStep,
    Random,
    QuestionMark,
    NeverComes { month: Quoted },
}

/// What to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    None,
    Stepped { low: u32, step: u32, field: Field },
    TwoRanges { low: u32, high: u32, field: Field },
}

impl CrontabError {
    pub(super) fn new(text: &str, field: Option<Field>, at: Range<usize>, problem: Problem) -> Self {
        let part = Quoted::new(text.get(at.clone()).unwrap_or_default());
        Self { text: Quoted::new(text), part, at, field, problem }
    }

    /// Which bytes of the text are wrong: one item of a list where it is one, all of them where it is none in
    /// particular.
    ///
    /// ```
    /// use soloist::Crontab;
    ///
    /// let text = "0 12,24 * * *";
    /// let error = text.parse::<Crontab>().unwrap_err();
    /// assert_eq!(&text[error.range()], "24");
    /// ```
    pub fn range(&self) -> Range<usize> {
        self.at.clone()
    }
}

impl Problem {
    /// No more of the name than is worth showing.
    pub(super) fn zone(name: &str) -> Self {
        Self::Zone { name: name.chars().take(60).collect() }
    }

    pub(super) fn never_comes(month: &str) -> Self {
        Self::NeverComes { month: Quoted::new(month) }
    }
}

impl fmt::Display for CrontabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, part, .. } = self;
        write!(f, "{text}: ")?;
        let Some(field) = self.field else {
            return match &self.problem {
                Problem::TooLong { max } => write!(f, "{} bytes, the limit is {max}", self.at.len()),
                Problem::Count(count) => write_count(f, *count),
                Problem::Zone { name } => {
                    write!(f, "{part} is no field, leave it out and say `.timezone(\"{}\")`", OneLine(name))
                }
                Problem::Nickname(name) => write!(f, "nicknames are written in small letters, write `{name}`"),
                Problem::Reboot => write!(f, "it names no time: run that task when your program starts"),
                _ => {
                    write!(f, "{part} is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly")
                }
            };
        };
        let (name, first, last) = (field.name(), field.first(), field.last());
        match &self.problem {
            Problem::EmptyItem => write!(f, "{name} has an empty list item"),
            Problem::OutOfRange => write!(f, "{name} {part} is outside of {first}-{last}"),
            Problem::NotANumber => match field {
                Field::Month => write!(f, "{name} {part} is neither a number from 1-12 nor a name from jan to dec"),
                Field::DayOfWeek => write!(f, "{name} {part} is neither a number from 0-7 nor a name from sun to sat"),
                _ => write!(f, "{name} {part} is not a number from {first}-{last}"),
            },
            Problem::Backwards(advice) => write!(f, "{name} {part} runs backwards{advice}"),
            Problem::StepWithoutRange(advice) => write!(f, "{name} {part} has a step but no range{advice}"),
            Problem::ZeroStep => write!(f, "{name} {part} has a step of 0"),
            Problem::Random => {
                write!(f, "{name} {part} picks a time at random, another on each server: write a number")
            }
            Problem::QuestionMark => write!(f, "{name} {part} has a `?`, which is not crontab syntax: write `*`"),
            Problem::NeverComes { month } => write!(f, "{name} {part} never comes in month {month}"),
            _ => write!(f, "{name} {part} can't be read, an item is `*`, `*/2`, `3`, `3-9` or `3-9/2`"),
        }?;
        write!(f, " (column {})", self.at.start + 1)
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sunday as a 0 does for both ends; as a 7 it would begin a range that runs backwards again.
        let last = |field: Field| if field == Field::DayOfWeek { 6 } else { field.last() };
        let first = |low: u32, field: Field| if field == Field::DayOfWeek { low % 7 } else { low };
        match *self {
            Self::None => Ok(()),
            Self::Stepped { low, step, field } => write!(f, ", write `{}-{}/{step}`", first(low, field), last(field)),
            Self::TwoRanges { low, high, field } if first(low, field) <= high => {
                write!(f, ", write `{}-{high}`", first(low, field))
            }
            Self::TwoRanges { low, high, field } => {
                write!(f, ", write `{low}-{},{}-{high}`", last(field), field.first())
            }
        }
    }
}

impl Error for CrontabError {}

fn write_count(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    let plural = if count == 1 { "" } else { "s" };
    write!(f, "{count} field{plural} instead of 5 (minute, hour, day of month, month, day of week)")?;
    if count == 6 {
        write!(f, ", seconds are not part of a crontab: use `every_ten_seconds()` and the like")
    } else {
        Ok(())
    }
}
