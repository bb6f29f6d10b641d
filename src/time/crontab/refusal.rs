//! The errors for texts that are no crontab, with advice on what to write instead. For a fault in a field, the advice
//! is in `parse.rs`.

use super::error::CrontabError;
use super::field_set::Field;
use super::parse::{BLANKS, MAX_BYTES, NICKNAMES, WrongText, digits, fields, lists, read_list};
use crate::base::{escape::OneLine, escape::Quoted, similar::did_you_mean};
use crate::time::zone::Zone;

/// Returns the error for a text with this fault. If the number of fields is wrong, an item with a fault may stand in a
/// wrong field, so then the error is about the number of fields.
#[cold]
pub(super) fn refusal(text: &str, fault: &WrongText<'_>) -> CrontabError {
    match fault {
        WrongText::Long => {
            CrontabError::new(text, text, format_args!("{} bytes: the limit is {MAX_BYTES}", text.len()))
        }
        WrongText::Nickname => unknown_nickname(text),
        WrongText::Field(fault)
            if lists(text).count() == Field::ALL.len() && around_fields(text).is_none() && zone(text).is_none() =>
        {
            CrontabError::in_field(text, fault.part, &fault.what)
        }
        WrongText::Field(_) | WrongText::FieldCount => {
            let known = [around_fields, zone, comment, of_aws, spaces_in_lists, command];
            known.iter().find_map(|known| known(text)).unwrap_or_else(|| field_count(text))
        }
    }
}

fn unknown_nickname(text: &str) -> CrontabError {
    let name = text.trim_matches(BLANKS);
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
    CrontabError::new(text, name, what)
}

/// Refuses characters that are neither fields nor the spaces between them.
fn around_fields(text: &str) -> Option<CrontabError> {
    let inside = text.trim();
    let bare = inside.trim_matches(['"', '\'', '`', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}']);
    let advice = if inside.contains(['\r', '\n']) {
        "it has several lines: write one, such as `0 9,18 * * *`, or add an event for each line".to_owned()
    } else if bare != inside {
        format!("remove the quotes: write {}", Quoted::new(bare))
    } else {
        let blank = text.chars().find(|char| char.is_whitespace() && !BLANKS.contains(char))?;
        format!("it has a `{}`: remove it, or write a plain space", blank.escape_default())
    };
    Some(CrontabError::new(text, text, advice))
}

/// Refuses a zone: `TZ=..` or `CRON_TZ=..` in front of the fields, or the name of a zone behind them.
fn zone(text: &str) -> Option<CrontabError> {
    let first = lists(text).next()?;
    let in_front = first.strip_prefix("TZ=").or_else(|| first.strip_prefix("CRON_TZ="));
    let behind = || lists(text).nth(Field::ALL.len()).filter(|word| word.parse::<Zone>().is_ok());
    let (word, zone) = in_front.map(|zone| (first, zone)).or_else(|| behind().map(|word| (word, word)))?;
    let zone: String = zone.chars().take(60).collect();
    let (quoted, zone) = (Quoted::new(word), OneLine(&zone));
    let what = format_args!("{quoted} is no field: remove it, and write `timezone(\"{zone}\")`");
    Some(CrontabError::new(text, word, what))
}

fn comment(text: &str) -> Option<CrontabError> {
    let comment = lists(text).nth(Field::ALL.len()).filter(|list| list.starts_with('#'))?;
    let what = "a comment is not allowed here: remove the `#` and the text after it";
    Some(CrontabError::new(text, comment, what))
}

/// Refuses `cron(..)` of AWS, which has a year.
fn of_aws(text: &str) -> Option<CrontabError> {
    let inside = text.trim_matches(BLANKS).strip_prefix("cron(")?.strip_suffix(')')?;
    let five = Quoted::new(&lists(inside).take(Field::ALL.len()).collect::<Vec<_>>().join(" "));
    let what =
        format_args!("cron(..) and the year are syntax of AWS: write {five}; Sunday is 0 or 7 here, and 1 in AWS");
    Some(CrontabError::new(text, text, what))
}

/// Refuses a text that is a crontab without the spaces beside `,`, `-` and `/`.
fn spaces_in_lists(text: &str) -> Option<CrontabError> {
    let mut joined = String::new();
    for word in lists(text) {
        let is_apart = !joined.ends_with([',', '-', '/']) && !word.starts_with([',', '-', '/']);
        joined += if is_apart && !joined.is_empty() { " " } else { "" };
        joined += word;
    }
    let is_crontab = lists(&joined).count() == Field::ALL.len() && fields(&joined).is_ok();
    let joined = is_crontab.then(|| Quoted::new(&joined))?;
    Some(CrontabError::new(text, text, format_args!("a list or a range has a space: write {joined}")))
}

/// Refuses a whole line of a crontab: five fields and a command.
fn command(text: &str) -> Option<CrontabError> {
    let command = lists(text).nth(Field::ALL.len())?;
    let five = lists(text).take(Field::ALL.len()).zip(Field::ALL);
    let are_fields = five.fold(true, |all, (list, field)| all && read_list(field, list).is_ok());
    let is_field = command.bytes().all(|byte| byte.is_ascii_digit() || b"*/,-?#".contains(&byte))
        || read_list(Field::DayOfWeek, command).is_ok();
    if !are_fields || is_field {
        return None;
    }
    let end = command.as_ptr().addr() - text.as_ptr().addr();
    let (command, alone) = (Quoted::new(command), Quoted::new(text[..end].trim_matches(BLANKS)));
    let what = format_args!(
        "{command} is a command, not a field: write {alone} here, and the command in `Event::exec(..)` or `-- COMMAND`"
    );
    Some(CrontabError::new(text, text, what))
}

fn field_count(text: &str) -> CrontabError {
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
        6 if lists(text).next() == Some("0") => {
            let five = Quoted::new(&lists(text).skip(1).collect::<Vec<_>>().join(" "));
            format!(": seconds are not part of a crontab: write {five}{OF_CRON}")
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
