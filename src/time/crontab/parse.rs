//! Text ─▶ bit sets, in one pass over the bytes and without allocating; what is wrong is found out only once
//! something is.

use std::ops::Range;
use std::str::FromStr;

use super::error::{Advice, CrontabError, Problem};
use super::{Crontab, Field, Set};

/// More than the longest list of all five fields has, and little enough that refusing any text is cheap.
const MAX_BYTES: usize = 1_000;

const MONTHS: [&[u8]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
const WEEKDAYS: [&[u8]; 7] = [b"sun", b"mon", b"tue", b"wed", b"thu", b"fri", b"sat"];

impl FromStr for Crontab {
    type Err = CrontabError;

    /// Reads five fields, or a nickname such as `@daily`. At most 1,000 bytes are looked at.
    fn from_str(text: &str) -> Result<Self, CrontabError> {
        if text.len() > MAX_BYTES {
            return Err(CrontabError::new(text, None, 0..text.len(), Problem::TooLong { max: MAX_BYTES }));
        }
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        reader.skip_blanks();
        if reader.peek() == Some(b'@') {
            return nickname(text);
        }
        match reader.crontab() {
            Ok(crontab) if crontab.comes() => Ok(crontab),
            Ok(_) => Err(never_comes(text)),
            Err(fault) => Err(refuse(text, fault)),
        }
    }
}

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

fn nickname(text: &str) -> Result<Crontab, CrontabError> {
    let name = text.trim_matches(is_blank);
    if let Some((_, stands_for)) = NICKNAMES.iter().find(|(known, _)| *known == name) {
        return stands_for.parse();
    }
    let start = text.len() - text.trim_start_matches(is_blank).len();
    let problem = match NICKNAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((known, _)) => Problem::Nickname(known),
        None if name == "@reboot" => Problem::Reboot,
        None => Problem::UnknownNickname,
    };
    Err(CrontabError::new(text, None, start..start + name.len(), problem))
}

/// What is wrong, and where.
struct Fault {
    field: Field,
    at: Range<usize>,
    problem: Problem,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn crontab(&mut self) -> Result<Crontab, Fault> {
        let mut crontab = Crontab::EVERY_MINUTE;
        for field in Field::ALL {
            crontab.set(field, self.list(field)?);
            self.skip_blanks();
        }
        if self.at < self.text.len() {
            // A sixth field, which is said instead of what stands in it.
            return Err(self.fault(Field::DayOfWeek, self.at, Problem::Item));
        }
        Ok(crontab)
    }

    /// `list = item {"," item}`
    fn list(&mut self, field: Field) -> Result<Set, Fault> {
        let star = self.peek() == Some(b'*');
        let mut bits = 0;
        loop {
            bits |= self.item(field)?.bits;
            match self.peek() {
                Some(b',') => self.at += 1,
                _ => return Ok(Set { bits, star }.of(field)),
            }
        }
    }

    /// `item = number | (number "-" number | "*") ["/" step] | "L"`, up to a comma, a blank or the end.
    fn item(&mut self, field: Field) -> Result<Set, Fault> {
        let start = self.at;
        if field == Field::DayOfMonth && self.eat_last_day() {
            return Ok(Set::LAST_DAY);
        }
        let (low, high) = if self.eat(b'*') {
            (field.first(), field.last())
        } else {
            let low = self.number(field, start)?;
            if self.eat(b'-') {
                (low, self.end_of_range(field, start, low)?)
            } else if self.eat(b'/') {
                let step = self.step(field, start)?;
                return Err(self.fault(field, start, Problem::StepWithoutRange(Advice::Stepped { low, step, field })));
            } else {
                (low, low)
            }
        };
        let step = if self.eat(b'/') { self.step(field, start)? } else { 1 };
        match self.peek() {
            None | Some(b' ' | b'\t' | b',') => Ok(Set::stepped(low, high, step)),
            Some(_) => Err(self.fault(field, start, Problem::Item)),
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
        let stepped = self.peek() == Some(b'/');
        let advice = if stepped { Advice::None } else { Advice::TwoRanges { low, high, field } };
        Err(self.fault(field, start, Problem::Backwards(advice)))
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
        Err(Fault { field, at: start..self.at, problem: Problem::OutOfRange })
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
            let problem = if item == start && self.at_separator() { Problem::EmptyItem } else { Problem::Item };
            return Err(self.fault(field, item, problem));
        }
        Err(Fault { field, at: start..self.at, problem: Problem::NotANumber })
    }

    fn step(&mut self, field: Field, item: usize) -> Result<u32, Fault> {
        match self.digits() {
            Some(0) => Err(self.fault(field, item, Problem::ZeroStep)),
            Some(step) => Ok(step),
            None => Err(self.fault(field, item, Problem::Item)),
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

    /// `problem` with the whole item that starts at `start`.
    fn fault(&self, field: Field, start: usize, problem: Problem) -> Fault {
        let length = self.text[start..].iter().take_while(|byte| !matches!(byte, b',' | b' ' | b'\t')).count();
        let at = start..start + length;
        let has = |byte| self.text[at.clone()].contains(&byte);
        let problem = match problem {
            _ if has(b'~') => Problem::Random,
            _ if has(b'?') => Problem::QuestionMark,
            problem => problem,
        };
        Fault { field, at, problem }
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

/// With a field too many or too few the numbers stand in the wrong places, and what the reader tripped over is not
/// what is wrong.
#[cold]
fn refuse(text: &str, Fault { field, at, problem }: Fault) -> CrontabError {
    let first = fields(text).next().unwrap_or_default();
    if let Some(zone) = zone_of(&text[first.clone()]) {
        return CrontabError::new(text, None, first, Problem::zone(zone));
    }
    let count = fields(text).count();
    if count == Field::ALL.len() {
        CrontabError::new(text, Some(field), at, problem)
    } else {
        CrontabError::new(text, None, 0..text.len(), Problem::Count(count))
    }
}

/// What a word says that sets the zone in the tables of other programs, and of a whole table in cronie's.
fn zone_of(word: &str) -> Option<&str> {
    word.strip_prefix("TZ=").or_else(|| word.strip_prefix("CRON_TZ="))
}

#[cold]
fn never_comes(text: &str) -> CrontabError {
    let mut fields = fields(text).skip(2);
    // A text that was read has five fields.
    let day_of_month = fields.next().unwrap_or_default();
    let month = fields.next().unwrap_or_default();
    CrontabError::new(text, Some(Field::DayOfMonth), day_of_month, Problem::never_comes(&text[month]))
}

fn fields(text: &str) -> impl Iterator<Item = Range<usize>> {
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
