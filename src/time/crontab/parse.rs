//! Parses the text of a crontab into bit sets. Allocates memory only for errors. A fault in a field has its advice here;
//! the file `refusal.rs` has the advice on the text as a whole.

use std::fmt;
use std::time::Duration;

use chrono::{Month, Weekday};

use super::civil_minute::CalendarDay;
use super::field_set::{Field, FieldSet};
use crate::base::escape::Quoted;
use crate::time::timetable::interval::INTERVALS;

/// The largest number of bytes in a text. Useful texts are shorter. A longer text is refused before it is parsed.
pub(super) const MAX_BYTES: usize = 1_000;

/// The nicknames and their fields, as in the manual page of cronie. In cronie, `@daily` sets no star for the days. That
/// makes no difference here, because both day fields have all days.
pub(super) const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The reason why a text is no crontab.
pub(super) enum WrongText<'a> {
    /// The text has more than [`MAX_BYTES`] bytes.
    Long,
    /// The text begins with an `@`, but is no nickname.
    Nickname,
    /// The text does not have five fields.
    FieldCount,
    Field(BadPart<'a>),
}

/// Returns the sets of the five fields, in their order.
pub(super) fn fields(text: &str) -> Result<[FieldSet; 5], WrongText<'_>> {
    if text.len() > MAX_BYTES {
        return Err(WrongText::Long);
    }
    let name = text.trim_matches(BLANKS);
    if name.starts_with('@') {
        let (_, stands_for) = NICKNAMES.iter().find(|(known, _)| *known == name).ok_or(WrongText::Nickname)?;
        return fields(stands_for);
    }
    let mut sets = Field::ALL.map(FieldSet::every);
    let mut lists = lists(text);
    for (field, set) in Field::ALL.into_iter().zip(&mut sets) {
        let list = lists.next().ok_or(WrongText::FieldCount)?;
        *set = read_list(field, list).map_err(WrongText::Field)?;
    }
    if lists.next().is_some() { Err(WrongText::FieldCount) } else { Ok(sets) }
}

/// A fault in a field, and the part of the text with the fault.
pub(super) struct BadPart<'a> {
    pub(super) part: &'a str,
    pub(super) what: String,
}

impl<'a> BadPart<'a> {
    fn new(field: Field, part: &'a str, what: impl fmt::Display) -> Self {
        Self { part, what: format!("{} {} {what}", field.name(), Quoted::new(part)) }
    }

    fn unreadable(field: Field, item: &'a str) -> Self {
        if let Some(dash) = item.chars().find(|char| DASHES.contains(char)) {
            let instead = Quoted::new(&item.replace(DASHES, "-"));
            return Self::new(field, item, format_args!("has a `{dash}`, which is no plain hyphen: write {instead}"));
        }
        Self::new(
            field,
            item,
            if item.contains('~') {
                "picks a random time, which differs between servers: write a number; `jitter(..)` delays each start by a \
                 different time"
            } else if item.contains('?') {
                "has a `?`, which is allowed only alone, as day of month or day of week: write `*`"
            } else if item.contains(':') {
                "has a `:`: a time of day is two fields, first the minute, as in `30 17 * * *`; a part of the day is \
                 `between(..)`"
            } else if item.matches('-').count() > 1 {
                "has several hyphens: a range has one, as in `1-5`, and a list has commas, as in `1,3,5`"
            } else {
                match field {
                    Field::DayOfMonth => {
                        "can't be read: an item is `*`, `*/2`, `3`, `3-9`, `3-9/2`, `L` (the last day), `L-2` (two days \
                         before it), `LW` (the last weekday) or `15W`"
                    }
                    Field::DayOfWeek => {
                        "can't be read: an item is `*`, `*/2`, `3`, `1-5`, `mon-fri`, `1-5/2`, `5#3` (the third Friday) or \
                         `5L` (the last Friday)"
                    }
                    _ => "can't be read: an item is `*`, `*/2`, `3`, `3-9` or `3-9/2`",
                }
            },
        )
    }
}

/// Characters that look like a hyphen. Some programs write them in its place.
const DASHES: [char; 5] = ['\u{2010}', '\u{2011}', '\u{2013}', '\u{2014}', '\u{2212}'];

/// Parses `list = item {"," item} | "?"`.
pub(super) fn read_list(field: Field, list: &str) -> Result<FieldSet, BadPart<'_>> {
    if list == "?" && matches!(field, Field::DayOfMonth | Field::DayOfWeek) {
        return Ok(FieldSet::every(field));
    }
    let mut set = FieldSet { bits: 0, star: list.starts_with('*') };
    for item in list.split(',') {
        set = set.with(read_item(field, item)?);
    }
    Ok(set.of(field))
}

/// Parses `item = number | (number "-" number | "*") ["/" step] | calendar-day`.
fn read_item(field: Field, item: &str) -> Result<FieldSet, BadPart<'_>> {
    if item.is_empty() {
        return Err(BadPart { part: item, what: format!("{} has an empty list item: remove a comma", field.name()) });
    }
    if let Some(day) = read_calendar_day(field, item)? {
        return Ok(FieldSet::calendar_day(day));
    }
    let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
    let ends = range.split_once('-');
    let (low, high) = match ends {
        _ if range == "*" => field.ends(),
        Some((low, high)) => (read_number(field, item, low)?, read_number(field, item, high)?),
        None => [read_number(field, item, range)?; 2].into(),
    };
    // `first` and `last` are for the advice in the errors below. A range that begins with Sunday as 7, such as `7-3`,
    // runs backwards. So the advice writes this Sunday as 0: `0-3`.
    let (first, last) = if field == Field::DayOfWeek { (low % 7, 6) } else { (low, field.ends().1) };
    let high = match high {
        // A range of days may end with Sunday, as in cronie. Unlike in cronie, such a range may also have a step.
        0 if field == Field::DayOfWeek && low > 0 => 7,
        high if low <= high => high,
        _ if step.is_some() => return Err(BadPart::new(field, item, "runs backwards: write two ranges")),
        high if first <= high => {
            return Err(BadPart::new(field, item, format_args!("runs backwards: write `{first}-{high}`")));
        }
        high => {
            let instead = format_args!("{low}-{last},{}-{high}", field.ends().0);
            return Err(BadPart::new(field, item, format_args!("runs backwards: write `{instead}`")));
        }
    };
    let step = match step.map(digits) {
        None => 1,
        Some(None) => return Err(BadPart::unreadable(field, item)),
        Some(Some(0)) => return Err(BadPart::new(field, item, "has a step of 0: write a step of 1 or more")),
        Some(Some(step)) if range != "*" && ends.is_none() => {
            let instead = if step > last - first { first.to_string() } else { format!("{first}-{last}/{step}") };
            let weeks = match field {
                Field::DayOfWeek if step > 1 => format!("; for every {step} weeks, use `every_weeks(..)`"),
                _ => String::new(),
            };
            return Err(BadPart::new(field, item, format_args!("has a step but no range: write `{instead}`{weeks}")));
        }
        Some(Some(step)) if step > high - low + 1 => {
            let what =
                format_args!("has a step that is larger than its range, so that only {low} is left: write `{low}`");
            return Err(BadPart::new(field, item, format_args!("{what}{}", real_time(field, step))));
        }
        Some(Some(step)) => step,
    };
    Ok(FieldSet::stepped(low, high, step))
}

/// Returns advice for a step that was probably meant as an interval of real time.
fn real_time(field: Field, step: u32) -> String {
    let every = match field {
        Field::Minute => Duration::from_secs(60) * step,
        Field::Hour => Duration::from_secs(60 * 60) * step,
        _ => return String::new(),
    };
    if !INTERVALS.contains(&every) {
        return String::new();
    }
    let (unit, seconds) = (field.name(), every.as_secs());
    format!(
        "; for every {step} {unit}s use an interval, `every(Duration::from_secs({seconds}))` or `--every {step}{}`",
        &unit[..1]
    )
}

/// Parses `calendar-day = "L" ["-" number] | "LW" | number "W"` in the day of month, and
/// `calendar-day = number ("#" number | "L")` in the day of week.
fn read_calendar_day(field: Field, item: &str) -> Result<Option<CalendarDay>, BadPart<'_>> {
    let last = |by: u8| item.split_at_checked(item.len() - 1).filter(|(_, last)| last.as_bytes()[0] == by);
    let ends_with = |letter: u8| last(letter).or_else(|| last(letter.to_ascii_lowercase())).map(|(rest, _)| rest);
    let begins_with_l = item.as_bytes()[0].eq_ignore_ascii_case(&b'L');
    match field {
        Field::DayOfMonth if begins_with_l && item.len() == 1 => Ok(Some(CalendarDay::BeforeLast(0))),
        Field::DayOfMonth if item.eq_ignore_ascii_case("LW") => Ok(Some(CalendarDay::LastWeekday)),
        Field::DayOfMonth if begins_with_l => match item[1..].strip_prefix('-').and_then(digits) {
            Some(days @ 1..=30) => Ok(Some(CalendarDay::BeforeLast(days))),
            Some(_) => Err(BadPart::new(field, item, "is outside of L-1 to L-30: the last day is `L`")),
            None => Err(BadPart::unreadable(field, item)),
        },
        Field::DayOfMonth => match ends_with(b'W').map(digits) {
            None => Ok(None),
            Some(Some(day @ 1..=31)) => Ok(Some(CalendarDay::WeekdayNearest(day))),
            Some(Some(_)) => Err(BadPart::new(field, item, "is outside of 1W to 31W")),
            Some(None) => {
                Err(BadPart::new(field, item, "has no single day before the `W`: write one day, as in `15W`, or `LW`"))
            }
        },
        Field::DayOfWeek => {
            if let Some((day, nth)) = item.split_once('#') {
                let nth = digits(nth).filter(|nth| (1..=5).contains(nth));
                let what = "has no number from 1 to 5 after the `#`: write `5#3` or `fri#3`";
                let refusal = || BadPart::new(field, item, format_args!("{what}; {FROM_SUNDAY}"));
                let (nth, day_of_week) = (nth.ok_or_else(refusal)?, read_day_of_calendar(item, day)?);
                return Ok(Some(CalendarDay::NthOfMonth { day_of_week, nth }));
            }
            match ends_with(b'L') {
                Some("") => {
                    let what = "is not known here: write `6` for Saturdays, or `5L` for the last Friday of the month";
                    Err(BadPart::new(field, item, what))
                }
                Some(day) => {
                    let day_of_week = read_day_of_calendar(item, day)?;
                    Ok(Some(CalendarDay::LastOfMonth { day_of_week }))
                }
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Parses the day of the week in front of a `#` or an `L`.
fn read_day_of_calendar<'a>(item: &'a str, day: &'a str) -> Result<u32, BadPart<'a>> {
    let field = Field::DayOfWeek;
    let day = read_number(field, item, day).map_err(|_| {
        let what = "has no valid day of the week in front of `#` or `L`: write `5#3`, `fri#3` or `5L`";
        BadPart::new(field, item, format_args!("{what}; {FROM_SUNDAY}"))
    })?;
    Ok(day % 7)
}

/// A hint for users who know `#` and `L` from Quartz, where the days of the week have other numbers.
const FROM_SUNDAY: &str = "Sunday is 0 or 7 here, and Friday is 5 (in Quartz, Sunday is 1 and Friday is 6)";

/// Parses a number of the field, or a name for such a number.
fn read_number<'a>(field: Field, item: &'a str, text: &'a str) -> Result<u32, BadPart<'a>> {
    let (first, last) = field.ends();
    if let Some(number) = digits(text) {
        let is_in_field = (first..=last).contains(&number);
        let hint = if field == Field::DayOfMonth { ": the last day is `L`" } else { "" };
        let refusal = || BadPart::new(field, text, format_args!("is outside of {first}-{last}{hint}"));
        return is_in_field.then_some(number).ok_or_else(refusal);
    }
    let (number, or_a_name) = match field {
        Field::Month => (text.parse().ok().map(|month: Month| month.number_from_month()), "from jan to dec"),
        Field::DayOfWeek => (text.parse().ok().map(|day: Weekday| day.num_days_from_sunday()), "from sun to sat"),
        _ => (None, ""),
    };
    number.ok_or_else(|| {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            BadPart::unreadable(field, item)
        } else if text.eq_ignore_ascii_case("h") {
            BadPart::new(
                field,
                text,
                "is not known here: write a number, such as `17`; `jitter(..)` delays each start by a different time",
            )
        } else if field == Field::DayOfMonth && text[..1].eq_ignore_ascii_case("w") {
            BadPart::new(field, text, "begins with `W`: write the `W` after the day, as in `15W`")
        } else if or_a_name.is_empty() {
            BadPart::new(field, text, format_args!("is not a number from {first}-{last}"))
        } else {
            BadPart::new(field, text, format_args!("is neither a number from {first}-{last} nor a name {or_a_name}"))
        }
    })
}

/// Parses a number. A number that is too large for the type becomes the largest number of the type, which is outside of
/// all fields, too.
pub(super) fn digits(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

pub(super) const BLANKS: [char; 2] = [' ', '\t'];

/// Returns the texts of the fields.
pub(super) fn lists(text: &str) -> impl Iterator<Item = &str> {
    text.split(BLANKS).filter(|list| !list.is_empty())
}
