//! Reads the text of a crontab into bit sets, in one pass over its bytes; it allocates only where something is wrong.

use std::fmt;
use std::ops::Range;

use super::error::CrontabError;
use super::field::{Field, FieldSet};
use crate::base::escape::OneLine;
use crate::base::escape::Quoted;

/// More than the longest list of all five fields has, and little enough that refusing any text is cheap.
const MAX_BYTES: usize = 1_000;

const MONTHS: [&[u8]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
const WEEKDAYS: [&[u8]; 7] = [b"sun", b"mon", b"tue", b"wed", b"thu", b"fri", b"sat"];

/// Each stands for the text that its manual page gives, and reads the same: where cronie sets no star for the days of
/// `@daily`, both are whole, and either rule says every day.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The sets of the five fields, in their order.
pub(super) fn fields(text: &str) -> Result<[FieldSet; 5], CrontabError> {
    if text.len() > MAX_BYTES {
        let what = format!("{} bytes, the limit is {MAX_BYTES}", text.len());
        return Err(CrontabError::new(text, 0..text.len(), what));
    }
    if text.trim_start_matches(is_blank).starts_with('@') {
        return nickname(text);
    }
    Reader { text: text.as_bytes(), at: 0 }.fields().map_err(|fault| refusal(text, fault))
}

fn nickname(text: &str) -> Result<[FieldSet; 5], CrontabError> {
    let name = text.trim_matches(is_blank);
    if let Some((_, stands_for)) = NICKNAMES.iter().find(|(known, _)| *known == name) {
        return fields(stands_for);
    }
    let what = match NICKNAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((known, _)) => format!("nicknames are written in small letters, write `{known}`"),
        None if name == "@reboot" => "it names no time: run that task when your program starts".into(),
        None => {
            let name = Quoted::new(name);
            format!("{name} is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly")
        }
    };
    let start = text.len() - text.trim_start_matches(is_blank).len();
    Err(CrontabError::new(text, start..start + name.len(), what))
}

/// What is wrong in a field, and where.
struct Fault {
    at: Range<usize>,
    what: String,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn fields(&mut self) -> Result<[FieldSet; 5], Fault> {
        let mut sets = Field::ALL.map(FieldSet::every);
        for (field, set) in Field::ALL.into_iter().zip(&mut sets) {
            self.skip_blanks();
            *set = self.list(field)?;
        }
        self.skip_blanks();
        // A sixth field is refused for being one too many, and not for what stands in it.
        if self.at < self.text.len() { Err(self.unreadable(Field::DayOfWeek, self.at)) } else { Ok(sets) }
    }

    /// `list = item {"," item}`
    fn list(&mut self, field: Field) -> Result<FieldSet, Fault> {
        let star = self.peek() == Some(b'*');
        let mut bits = 0;
        loop {
            bits |= self.item(field)?.bits;
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return Ok(FieldSet { bits, star }.of(field)),
            }
        }
    }

    /// `item = number | (number "-" number | "*") ["/" step] | "L"`, up to a comma, a blank or the end.
    fn item(&mut self, field: Field) -> Result<FieldSet, Fault> {
        let start = self.at;
        if field == Field::DayOfMonth && self.eat_last_day() {
            return Ok(FieldSet::LAST_DAY);
        }
        let (low, high) = if self.eat(b'*') {
            (field.first(), field.last())
        } else {
            let low = self.number(field, start)?;
            if self.eat(b'-') {
                (low, self.end_of_range(field, start, low)?)
            } else if self.eat(b'/') {
                let step = self.step(field, start)?;
                let (low, last) = (without_7(field, low), if field == Field::DayOfWeek { 6 } else { field.last() });
                let what = format_args!("has a step but no range, write `{low}-{last}/{step}`");
                return Err(self.fault(field, start, what));
            } else {
                (low, low)
            }
        };
        let step = if self.eat(b'/') { self.step(field, start)? } else { 1 };
        match self.peek() {
            None | Some(b' ' | b'\t' | b',') => Ok(FieldSet::stepped(low, high, step)),
            Some(_) => Err(self.unreadable(field, start)),
        }
    }

    fn end_of_range(&mut self, field: Field, start: usize, low: u32) -> Result<u32, Fault> {
        let high = self.number(field, start)?;
        if low <= high {
            return Ok(high);
        }
        // cronie does so, too, except before a step.
        if field == Field::DayOfWeek && high == 0 {
            return Ok(7);
        }
        let instead = match without_7(field, low) {
            _ if self.peek() == Some(b'/') => String::new(),
            first if first <= high => format!(", write `{first}-{high}`"),
            _ => {
                let last = if field == Field::DayOfWeek { 6 } else { field.last() };
                format!(", write `{low}-{last},{}-{high}`", field.first())
            }
        };
        Err(self.fault(field, start, format_args!("runs backwards{instead}")))
    }

    /// A number within the field, or a name that stands for one.
    fn number(&mut self, field: Field, item: usize) -> Result<u32, Fault> {
        let start = self.at;
        let Some(number) = self.digits() else {
            return self.name(field, item);
        };
        if (field.first()..=field.last()).contains(&number) {
            return Ok(number);
        }
        Err(self.fault_at(field, start..self.at, format_args!("is outside of {}-{}", field.first(), field.last())))
    }

    fn name(&mut self, field: Field, item: usize) -> Result<u32, Fault> {
        let start = self.at;
        let length = self.text[start..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let name = &self.text[start..start + length];
        let (names, first): (&[&[u8]], u32) = match field {
            Field::Month => (&MONTHS, 1),
            Field::DayOfWeek => (&WEEKDAYS, 0),
            _ => (&[], 0),
        };
        self.at = start + length;
        if let Some(number) = (first..).zip(names).find_map(|(n, known)| known.eq_ignore_ascii_case(name).then_some(n))
        {
            return Ok(number);
        }
        if length == 0 {
            let is_empty = item == start && self.at_separator();
            let empty = || Fault { at: item..item, what: format!("{} has an empty list item", field.name()) };
            return Err(if is_empty { empty() } else { self.unreadable(field, item) });
        }
        let (first, last) = (field.first(), field.last());
        let what = match field {
            Field::Month => "is neither a number from 1-12 nor a name from jan to dec",
            Field::DayOfWeek => "is neither a number from 0-7 nor a name from sun to sat",
            _ => return Err(self.fault_at(field, start..self.at, format_args!("is not a number from {first}-{last}"))),
        };
        Err(self.fault_at(field, start..self.at, what))
    }

    fn step(&mut self, field: Field, item: usize) -> Result<u32, Fault> {
        match self.digits() {
            Some(0) => Err(self.fault(field, item, "has a step of 0")),
            Some(step) => Ok(step),
            None => Err(self.unreadable(field, item)),
        }
    }

    /// A whole word of digits; a number that is larger than any field has is as good as any other such number.
    fn digits(&mut self) -> Option<u32> {
        let mut number: u32 = 0;
        let mut end = self.at;
        while let Some(byte) = self.text.get(end)
            && byte.is_ascii_digit()
        {
            number = number.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
            end += 1;
        }
        let word_ends = self.text.get(end).is_none_or(|byte| !byte.is_ascii_alphabetic());
        if end == self.at || !word_ends {
            return None;
        }
        self.at = end;
        Some(number)
    }

    fn unreadable(&self, field: Field, start: usize) -> Fault {
        self.fault(field, start, "can't be read, an item is `*`, `*/2`, `3`, `3-9` or `3-9/2`")
    }

    /// The whole item that starts at `start` is wrong: for `what`, unless it has a character that says more.
    fn fault(&self, field: Field, start: usize, what: impl fmt::Display) -> Fault {
        let length = self.text[start..].iter().take_while(|byte| !matches!(byte, b',' | b' ' | b'\t')).count();
        let at = start..start + length;
        let item = &self.text[at.clone()];
        if item.contains(&b'~') {
            self.fault_at(field, at, "picks a time at random, another on each server: write a number")
        } else if item.contains(&b'?') {
            self.fault_at(field, at, "has a `?`, which is not crontab syntax: write `*`")
        } else {
            self.fault_at(field, at, what)
        }
    }

    fn fault_at(&self, field: Field, at: Range<usize>, what: impl fmt::Display) -> Fault {
        let part = Quoted::new(str::from_utf8(&self.text[at.clone()]).unwrap_or_default());
        Fault { at, what: format!("{} {part} {what}", field.name()) }
    }

    fn eat_last_day(&mut self) -> bool {
        let start = self.at;
        let is_last_day = (self.eat(b'L') || self.eat(b'l')) && self.at_separator();
        if !is_last_day {
            self.at = start;
        }
        is_last_day
    }

    fn at_separator(&self) -> bool {
        matches!(self.peek(), None | Some(b' ' | b'\t' | b','))
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

/// Sunday as a 0, where a 7 would begin a range that runs backwards again.
fn without_7(field: Field, number: u32) -> u32 {
    if field == Field::DayOfWeek { number % 7 } else { number }
}

/// With a field too many or too few the numbers stand in the wrong places, and the reader's fault is not what is wrong.
#[cold]
fn refusal(text: &str, fault: Fault) -> CrontabError {
    let first = parts(text).next().unwrap_or_default();
    let word = &text[first.clone()];
    // In the tables of other programs this sets the zone; in cronie's, that of the lines after it.
    if let Some(zone) = word.strip_prefix("TZ=").or_else(|| word.strip_prefix("CRON_TZ=")) {
        let (word, zone): (_, String) = (Quoted::new(word), zone.chars().take(60).collect());
        let what = format!("{word} is no field, leave it out and say `.timezone(\"{}\")`", OneLine(&zone));
        return CrontabError::new(text, first, what);
    }
    let count = parts(text).count();
    if count == Field::ALL.len() {
        return CrontabError::in_field(text, fault.at, fault.what);
    }
    let plural = if count == 1 { "" } else { "s" };
    let seconds =
        if count == 6 { ", seconds are not part of a crontab: use `every_ten_seconds()` and the like" } else { "" };
    let what = format!("{count} field{plural} instead of 5 (minute, hour, day of month, month, day of week){seconds}");
    CrontabError::new(text, 0..text.len(), what)
}

/// Of a text that was read, whose days of the month come in none of its months.
#[cold]
pub(super) fn never_comes(text: &str) -> CrontabError {
    let mut parts = parts(text).skip(2);
    let (day_of_month, month) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let [day, month] = [day_of_month.clone(), month].map(|part| Quoted::new(&text[part]));
    CrontabError::in_field(text, day_of_month, format_args!("day of month {day} never comes in month {month}"))
}

fn parts(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    let range = move |field: &str| {
        let start = at;
        at += field.len() + 1;
        start..start + field.len()
    };
    text.split(is_blank).map(range).filter(|field| !field.is_empty())
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}
