//! The errors for texts that are no crontab. For a fault in a field, the advice is in `parse.rs`.

use super::error::CrontabError;
use super::field_set::Field;
use super::parse::{BLANKS, MAX_BYTES, NICKNAMES, WrongText, lists};
use crate::base::{escape::Quoted, similar::did_you_mean};

/// Returns the error for a text with this fault.
#[cold]
pub(super) fn refusal(text: &str, fault: &WrongText<'_>) -> CrontabError {
    match fault {
        WrongText::Long => {
            CrontabError::new(text, text, format_args!("{} bytes: the limit is {MAX_BYTES}", text.len()))
        }
        WrongText::Nickname => unknown_nickname(text),
        WrongText::Field(fault) => CrontabError::in_field(text, fault.part, &fault.what),
        WrongText::FieldCount => field_count(text),
    }
}

fn unknown_nickname(text: &str) -> CrontabError {
    let name = text.trim_matches(BLANKS);
    let known = NICKNAMES.map(|(known, _)| known);
    let question = did_you_mean(name, known.into_iter());
    let instead = question.unwrap_or_else(|| format!("there are {}", known.join(", ")));
    CrontabError::new(text, name, format_args!("no such nickname: {instead}"))
}

fn field_count(text: &str) -> CrontabError {
    let count = lists(text).count();
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
