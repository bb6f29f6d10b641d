//! Parses the text of a crontab into bit sets. Allocates memory only for errors.

use std::fmt;

use chrono::{Month, Weekday};

use super::calendar_day::CalendarDay;
use super::error::CrontabError;
use super::field_set::{Field, FieldSet};
use crate::base::{escape::OneLine, escape::Quoted, similar::did_you_mean};
use crate::time::zone::Zone;

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
    if text.trim_start_matches(BLANKS).starts_with('@') {
        return nickname(text);
    }
    let mut sets = Field::ALL.map(FieldSet::every);
    let mut lists = lists(text);
    for (field, set) in Field::ALL.into_iter().zip(&mut sets) {
        let list = lists.next().ok_or_else(|| wrong_count(text))?;
        *set = read_list(field, list).map_err(|fault| refusal(text, &fault))?;
    }
    if lists.next().is_some() { Err(wrong_count(text)) } else { Ok(sets) }
}

fn nickname(text: &str) -> Result<[FieldSet; 5], CrontabError> {
    let name = text.trim_matches(BLANKS);
    if let Some((_, stands_for)) = NICKNAMES.iter().find(|(known, _)| *known == name) {
        return fields(stands_for);
    }
    let what = if name == "@every_minute" {
        "no such nickname: write `* * * * *`".to_owned()
    } else if name.starts_with("@every") {
        "a crontab has no intervals: say the interval instead, as in `every(Duration::from_secs(300))` or `--every 5m`"
            .to_owned()
    } else if let Some((known, _)) =
        NICKNAMES.iter().find(|(known, _)| *known == lists(name).next().unwrap_or_default())
    {
        format!(
            "write `{known}` alone: a time needs the five fields, as in `30 2 * * *`, and a command `Event::exec(..)` or \
             `-- COMMAND`"
        )
    } else if ["@biweekly", "@fortnightly"].contains(&name) {
        "no such nickname: for every second week, write `every_weeks(2, date)`".to_owned()
    } else if name == "@reboot" {
        "it means the start of the machine, not a time: run the task when your program starts".to_owned()
    } else {
        let known = NICKNAMES.map(|(known, _)| known);
        let question = did_you_mean(name, known.into_iter());
        format!("no such nickname: {}", question.unwrap_or_else(|| format!("there are {}", known.join(", "))))
    };
    Err(CrontabError::new(text, name, what))
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
    let seconds = match field {
        Field::Minute => 60,
        Field::Hour => 60 * 60,
        _ => return String::new(),
    };
    let unit = field.name();
    match step.checked_mul(seconds) {
        Some(seconds) => format!(
            "; for every {step} {unit}s use an interval, `every(Duration::from_secs({seconds}))` or `--every {step}{}`",
            &unit[..1]
        ),
        None => String::new(),
    }
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
fn digits(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Returns the error for a fault in a field. If the number of fields is wrong, the item with the fault may stand in a
/// wrong field, so the error is about the number of fields instead.
#[cold]
fn refusal(text: &str, fault: &BadPart<'_>) -> CrontabError {
    let is_fault = lists(text).count() == Field::ALL.len() && zone_in(text).is_none();
    match around_fields(text) {
        None if is_fault => CrontabError::in_field(text, fault.part, &fault.what),
        _ => wrong_count(text),
    }
}

/// Returns advice for a text with characters that are neither fields nor the spaces between them.
fn around_fields(text: &str) -> Option<String> {
    let inside = text.trim();
    if inside.contains(['\r', '\n']) {
        return Some(
            "it has several lines: write one, such as `0 9,18 * * *`, or add an event for each line".to_owned(),
        );
    }
    let bare = inside.trim_matches(['"', '\'', '`', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}']);
    if bare != inside {
        return Some(format!("remove the quotes: write {}", Quoted::new(bare)));
    }
    let blank = text.chars().find(|char| char.is_whitespace() && !BLANKS.contains(char))?;
    Some(format!("it has a `{}`: remove it, or write a plain space", blank.escape_default()))
}

#[cold]
fn wrong_count(text: &str) -> CrontabError {
    if let Some(advice) = around_fields(text) {
        return CrontabError::new(text, text, advice);
    }
    if let Some((word, zone)) = zone_in(text) {
        let zone: String = zone.chars().take(60).collect();
        let (quoted, zone) = (Quoted::new(word), OneLine(&zone));
        let what = format_args!("{quoted} is no field: remove it, and write `timezone(\"{zone}\")`");
        return CrontabError::new(text, word, what);
    }
    if let Some(comment) = lists(text).nth(Field::ALL.len()).filter(|list| list.starts_with('#')) {
        return CrontabError::new(text, comment, "a comment is not allowed here: remove the `#` and the text after it");
    }
    if let Some(fields) = text.trim_matches(BLANKS).strip_prefix("cron(").and_then(|rest| rest.strip_suffix(')')) {
        let five = Quoted::new(&lists(fields).take(Field::ALL.len()).collect::<Vec<_>>().join(" "));
        let what =
            format_args!("cron(..) and the year are syntax of AWS: write {five}; Sunday is 0 or 7 here, and 1 in AWS");
        return CrontabError::new(text, text, what);
    }
    if let Some(joined) = without_spaces_in_lists(text) {
        let what = format_args!("a list or a range has a space: write {}", Quoted::new(&joined));
        return CrontabError::new(text, text, what);
    }
    if let Some(command) = command_in(text) {
        let end = command.as_ptr().addr() - text.as_ptr().addr();
        let (command, alone) = (Quoted::new(command), Quoted::new(text[..end].trim_matches(BLANKS)));
        let what = format_args!(
            "{command} is a command, not a field: write {alone} here, and the command in `Event::exec(..)` or `-- COMMAND`"
        );
        return CrontabError::new(text, text, what);
    }
    let count = lists(text).count();
    let plural = if count == 1 { "" } else { "s" };
    let has_year = lists(text).last().is_some_and(|last| last.len() == 4 && digits(last).is_some());
    let advice = match count {
        1 if NICKNAMES.iter().any(|(known, _)| known[1..] == *text.trim_matches(BLANKS)) => {
            format!(": write `@{}`", text.trim_matches(BLANKS))
        }
        0..=4 if text.contains(':') => ": write five, such as `30 2 * * *` for 02:30".to_owned(),
        0..=4 if text.starts_with("every") => {
            ": write five, such as `*/5 * * * *`; an interval is `every(Duration::from_secs(300))` or `--every 5m`"
                .to_owned()
        }
        0..=4 => ": write five, such as `*/5 * * * *`".to_owned(),
        6 if [2, 4].iter().any(|at| lists(text).nth(*at) == Some("?")) => {
            ": the sixth field is the year of AWS: leave it out; Sunday is 0 or 7 here, and 1 in AWS".to_owned()
        }
        6 if has_year => {
            ": a crontab has no year: leave it out; the first and the last year are `from(..)` and `until(..)`"
                .to_owned()
                + OF_CRON
        }
        6 => {
            let instead = "`every_ten_seconds()` or `--every 10s`";
            format!(
                ": seconds are not part of a crontab: leave them out; for less than a minute, write {instead}{OF_CRON}"
            )
        }
        7 if has_year => ": seconds and years are not part of a crontab: leave them out".to_owned() + OF_CRON,
        _ => String::new(),
    };
    let what =
        format_args!("{count} field{plural} instead of 5 (minute, hour, day of month, month, day of week){advice}");
    CrontabError::new(text, text, what)
}

/// The end of the advice for an expression of the crate `cron`.
const OF_CRON: &str = if cfg!(feature = "cron") {
    "; or write `on(\"0 30 9 * * Mon-Fri 2027\".parse::<cron::Schedule>()?)`, where Sunday is 1"
} else {
    ""
};

/// Returns the command, if the text is a whole line of a crontab: five fields and a command.
fn command_in(text: &str) -> Option<&str> {
    let command = lists(text).nth(Field::ALL.len())?;
    let five = lists(text).take(Field::ALL.len()).zip(Field::ALL);
    let are_fields = five.fold(true, |all, (list, field)| all && read_list(field, list).is_ok());
    let is_field = command.bytes().all(|byte| byte.is_ascii_digit() || b"*/,-?#".contains(&byte))
        || read_list(Field::DayOfWeek, command).is_ok();
    (are_fields && !is_field).then_some(command)
}

/// Returns the text without the spaces beside `,`, `-` and `/`, if the result is a crontab.
fn without_spaces_in_lists(text: &str) -> Option<String> {
    let mut joined = String::new();
    for word in lists(text) {
        let is_apart = !joined.ends_with([',', '-', '/']) && !word.starts_with([',', '-', '/']);
        joined += if is_apart && !joined.is_empty() { " " } else { "" };
        joined += word;
    }
    (lists(&joined).count() == Field::ALL.len() && fields(&joined).is_ok()).then_some(joined)
}

/// Returns the word of the text that sets a zone, and the zone. The word is the first, if it is `TZ=..` or
/// `CRON_TZ=..`, or a zone behind the five fields.
fn zone_in(text: &str) -> Option<(&str, &str)> {
    let first = lists(text).next()?;
    let zone = first.strip_prefix("TZ=").or_else(|| first.strip_prefix("CRON_TZ="));
    let behind = || lists(text).nth(Field::ALL.len()).filter(|word| word.parse::<Zone>().is_ok());
    zone.map(|zone| (first, zone)).or_else(|| behind().map(|word| (word, word)))
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

const BLANKS: [char; 2] = [' ', '\t'];

/// Returns the texts of the fields.
fn lists(text: &str) -> impl Iterator<Item = &str> {
    text.split(BLANKS).filter(|list| !list.is_empty())
}
