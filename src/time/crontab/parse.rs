//! Parses the text of a crontab into bit sets. Allocates memory only for errors.

use std::fmt;

use chrono::{Month, Weekday};

use super::civil_minute::CalendarDay;
use super::error::CrontabError;
use super::field_set::{Field, FieldSet};
use crate::base::{escape::Quoted, similar::did_you_mean};

/// The largest number of bytes in a text. Useful texts are shorter. A longer text is refused before it is parsed.
const MAX_BYTES: usize = 1_000;

/// The nicknames and their fields, as in the manual page of cronie. In cronie, `@daily` sets no star for the days. That
/// makes no difference here, because both day fields have all days.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Returns the sets of the five fields, in their order.
pub(super) fn fields(text: &str) -> Result<[FieldSet; 5], CrontabError> {
    if text.len() > MAX_BYTES {
        return Err(CrontabError::new(text, text, format_args!("{} bytes: the limit is {MAX_BYTES}", text.len())));
    }
    let name = text.trim_matches(BLANKS);
    if name.starts_with('@') {
        let nickname = NICKNAMES.iter().find(|(known, _)| *known == name);
        return nickname.map_or_else(|| Err(unknown_nickname(text, name)), |(_, stands_for)| fields(stands_for));
    }
    let count = lists(text).count();
    if count != Field::ALL.len() {
        return Err(wrong_count(text, count));
    }
    let mut sets = Field::ALL.map(FieldSet::every);
    for ((field, set), list) in Field::ALL.into_iter().zip(&mut sets).zip(lists(text)) {
        *set = read_list(field, list).map_err(|bad| CrontabError::in_field(text, bad.part, bad.what))?;
    }
    Ok(sets)
}

/// A fault in a field, and the part of the text with the fault.
struct BadPart<'a> {
    part: &'a str,
    what: String,
}

impl<'a> BadPart<'a> {
    fn new(field: Field, part: &'a str, what: impl fmt::Display) -> Self {
        Self { part, what: format!("{} {} {what}", field.name(), Quoted::new(part)) }
    }

    fn unreadable(field: Field, part: &'a str) -> Self {
        let items = match field {
            Field::Minute | Field::Hour => "`*`, `*/2`, `3`, `3-9` or `3-9/2`",
            Field::DayOfMonth => {
                "`*`, `*/2`, `3`, `3-9`, `3-9/2`, `L` (the last day), `L-2` (two days before it; up to `L-30`), `LW` (the \
                 last weekday) or `15W`"
            }
            Field::Month => "`*`, `*/2`, `3`, `3-9`, `3-9/2` or `mar-sep`",
            Field::DayOfWeek => {
                "`*`, `*/2`, `3`, `1-5`, `mon-fri`, `1-5/2`, `5#3` (the third Friday) or `5L` (the last Friday)"
            }
        };
        Self::new(field, part, format_args!("can't be read: an item is {items}"))
    }
}

/// Parses `list = item {"," item} | "?"`.
fn read_list(field: Field, list: &str) -> Result<FieldSet, BadPart<'_>> {
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
    if let Some(day) = read_calendar_day(field, item) {
        return Ok(FieldSet::calendar_day(day));
    }
    let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
    let ends = range.split_once('-');
    let (low, high) = match ends {
        _ if range == "*" => field.ends(),
        Some((low, high)) => (read_number(field, item, low)?, read_number(field, item, high)?),
        None => [read_number(field, item, range)?; 2].into(),
    };
    // A range of days may end with Sunday, as in cronie. Unlike in cronie, such a range may also have a step.
    let high = if field == Field::DayOfWeek && high == 0 && low > 0 { 7 } else { high };
    if high < low {
        return Err(BadPart::new(field, item, "runs backwards: write two ranges"));
    }
    let step = match step.map(digits) {
        None => 1,
        Some(None) => return Err(BadPart::unreadable(field, item)),
        Some(Some(_)) if range != "*" && ends.is_none() => {
            let why = "has a step but no range: write a range or `*` before the step, as in `3-9/2`";
            return Err(BadPart::new(field, item, why));
        }
        Some(Some(step)) if step == 0 || step > high - low + 1 => {
            let why = "has a step that is zero or larger than its range; an interval is `every(Duration::from_secs(5400))` or \
                       `--every 90m`";
            return Err(BadPart::new(field, item, why));
        }
        Some(Some(step)) => step,
    };
    Ok(FieldSet::stepped(low, high, step))
}

/// Parses `calendar-day = "L" ["-" number] | "LW" | number "W"` in the day of month, and
/// `calendar-day = number ("#" number | "L")` in the day of week.
fn read_calendar_day(field: Field, item: &str) -> Option<CalendarDay> {
    let last = |by: char| item.strip_suffix([by, by.to_ascii_lowercase()]);
    match field {
        Field::DayOfMonth if item.eq_ignore_ascii_case("L") => Some(CalendarDay::BeforeLast(0)),
        Field::DayOfMonth if item.eq_ignore_ascii_case("LW") => Some(CalendarDay::LastWeekday),
        Field::DayOfMonth => {
            let before_last = item.strip_prefix(['L', 'l']).and_then(|rest| digits(rest.strip_prefix('-')?));
            let nearest = last('W').and_then(digits).filter(|day| (1..=31).contains(day));
            let before_last = before_last.filter(|days| (1..=30).contains(days)).map(CalendarDay::BeforeLast);
            before_last.or(nearest.map(CalendarDay::WeekdayNearest))
        }
        Field::DayOfWeek => {
            let day_of_week = |day| read_number(field, item, day).ok().map(|day| day % 7);
            match item.split_once('#') {
                Some((day, nth)) => {
                    let nth = digits(nth).filter(|nth| (1..=5).contains(nth))?;
                    Some(CalendarDay::NthOfMonth { day_of_week: day_of_week(day)?, nth })
                }
                None => Some(CalendarDay::LastOfMonth { day_of_week: day_of_week(last('L')?)? }),
            }
        }
        _ => None,
    }
}

/// Parses `text`, a number of the field in `item`, or a name for such a number.
fn read_number<'a>(field: Field, item: &'a str, text: &'a str) -> Result<u32, BadPart<'a>> {
    let (first, last) = field.ends();
    match digits(text) {
        Some(number) if (first..=last).contains(&number) => return Ok(number),
        Some(_) => return Err(BadPart::new(field, text, format_args!("is outside of {first}-{last}"))),
        None => {}
    }
    let number = match field {
        Field::Month => text.parse().ok().map(|month: Month| month.number_from_month()),
        Field::DayOfWeek => text.parse().ok().map(|day: Weekday| day.num_days_from_sunday()),
        _ => None,
    };
    number.ok_or_else(|| BadPart::unreadable(field, item))
}

/// Parses a number. A number that is too large for the type becomes the largest number of the type, which is outside of
/// all fields, too.
fn digits(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Returns the texts of the fields.
fn lists(text: &str) -> impl Iterator<Item = &str> {
    text.split(BLANKS).filter(|list| !list.is_empty())
}

#[cold]
fn unknown_nickname(text: &str, name: &str) -> CrontabError {
    let known = NICKNAMES.map(|(known, _)| known);
    let question = did_you_mean(name, known.into_iter());
    let instead = question.unwrap_or_else(|| {
        format!("there are {}; `@reboot` is no time; an interval is `every(..)` or `--every 5m`", known.join(", "))
    });
    CrontabError::new(text, name, format_args!("no such nickname: {instead}"))
}

#[cold]
fn wrong_count(text: &str, count: usize) -> CrontabError {
    let plural = if count == 1 { "" } else { "s" };
    let advice = if count < Field::ALL.len() {
        "write five, such as `*/5 * * * *`"
    } else if cfg!(feature = "cron") {
        "leave out seconds, a year, a zone, a command, and spaces in lists; with seconds or a year, use `on(..)`"
    } else {
        "leave out seconds, a year, a zone, a command, and spaces in lists"
    };
    let what =
        format_args!("{count} field{plural} instead of 5 (minute, hour, day of month, month, day of week): {advice}");
    CrontabError::new(text, text, what)
}

/// Returns the error for a text whose days of the month do not exist in any of its months, or never fall on its days of
/// the week.
#[cold]
pub(super) fn never_comes(text: &str, day_of_month_comes: bool) -> CrontabError {
    let list = |field: Field| lists(text).nth(field as usize).unwrap_or_default();
    let day = list(Field::DayOfMonth);
    let other = if day_of_month_comes { Field::DayOfWeek } else { Field::Month };
    let ([quoted, with], on) = ([day, list(other)].map(Quoted::new), if day_of_month_comes { "on" } else { "in" });
    let name = other.name();
    let hint = if day_of_month_comes { "" } else { ": the last day of a month is `L`" };
    let what = format_args!("day of month {quoted} never comes {on} {name} {with}{hint}");
    CrontabError::in_field(text, day, what)
}
