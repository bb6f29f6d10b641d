//! Crontab means crontab: compared with an oracle that reads the text slowly and in its own way, with cases worked
//! out by hand, and with the messages of wrong expressions.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use fastrand::Rng;
use soloist::time::Crontab;

/// The rules of cronie's manual page for a text, field by field: sets of numbers, and the day rule by the text.
pub(crate) struct Oracle {
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    days: BTreeSet<u32>,
    months: BTreeSet<u32>,
    weekdays: BTreeSet<u32>,
    restricted_days: bool,
    restricted_weekdays: bool,
    /// Whether neither minute nor hour begins with a star.
    pub(crate) is_at_fixed_times: bool,
}

impl Oracle {
    /// `L` among the days, which cronie does not have.
    const LAST_DAY: u32 = 0;

    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t']);
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
        let [minute, hour, day, month, weekday] = fields[..] else { return None };
        let (last_days, numbered): (Vec<&str>, Vec<&str>) =
            day.split(',').partition(|item| item.eq_ignore_ascii_case("L"));
        let mut days = if numbered.is_empty() { BTreeSet::new() } else { numbers(&numbered.join(","), 1, 31, &[])? };
        days.extend(last_days.first().map(|_| Self::LAST_DAY));
        let oracle = Self {
            minutes: numbers(minute, 0, 59, &[])?,
            hours: numbers(hour, 0, 23, &[])?,
            days,
            months: numbers(
                month,
                1,
                12,
                &"jan feb mar apr may jun jul aug sep oct nov dec".split(' ').collect::<Vec<_>>(),
            )?,
            weekdays: numbers(weekday, 0, 7, &"sun mon tue wed thu fri sat".split(' ').collect::<Vec<_>>())?,
            restricted_days: !day.starts_with('*'),
            restricted_weekdays: !weekday.starts_with('*'),
            is_at_fixed_times: !minute.starts_with('*') && !hour.starts_with('*'),
        };
        oracle.ever_due().then_some(oracle)
    }

    pub(crate) fn matches(&self, civil: NaiveDateTime) -> bool {
        self.matches_time(civil.time()) && self.matches_date(civil.date())
    }

    pub(crate) fn matches_time(&self, time: NaiveTime) -> bool {
        self.minutes.contains(&time.minute()) && self.hours.contains(&time.hour())
    }

    pub(crate) fn matches_date(&self, date: NaiveDate) -> bool {
        let is_last = date.succ_opt().is_none_or(|tomorrow| tomorrow.day() == 1);
        self.months.contains(&date.month())
            && self.matches_day(date.day(), is_last, date.weekday().num_days_from_sunday())
    }

    fn matches_day(&self, day: u32, is_last: bool, weekday: u32) -> bool {
        let day = self.days.contains(&day) || (is_last && self.days.contains(&Self::LAST_DAY));
        // Both 0 and 7 are Sunday.
        let weekday = self.weekdays.contains(&weekday) || (weekday == 0 && self.weekdays.contains(&7));
        if self.restricted_days && self.restricted_weekdays { day || weekday } else { day && weekday }
    }

    /// Returns whether any date of a leap year on any day of the week is due: each combination comes within 400
    /// years.
    fn ever_due(&self) -> bool {
        let dates = (1..=366).map(|day| NaiveDate::from_yo_opt(2024, day).unwrap());
        dates.filter(|date| self.months.contains(&date.month())).any(|date| {
            let is_last = date.succ_opt().unwrap().day() == 1;
            (0..7).any(|weekday| self.matches_day(date.day(), is_last, weekday))
        })
    }
}

/// Returns the numbers of a field's list.
fn numbers(field: &str, first: u32, last: u32, names: &[&str]) -> Option<BTreeSet<u32>> {
    let number = |text: &str| -> Option<u32> {
        if let Some(at) = names.iter().position(|name| *name == text.to_lowercase()) {
            return Some(first + u32::try_from(at).unwrap());
        }
        if text.is_empty() || !text.chars().all(|char| char.is_ascii_digit()) {
            return None;
        }
        // Longer than any number here, leading zeros aside.
        let text = text.trim_start_matches('0');
        if text.len() > 9 { Some(u32::MAX) } else { Some(text.parse().unwrap_or(0)) }
    };
    let mut all = BTreeSet::new();
    for item in field.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => {
                if step.chars().any(|char| !char.is_ascii_digit()) {
                    return None;
                }
                (range, Some(number(step)?))
            }
            None => (item, None),
        };
        let (low, high) = if range == "*" {
            (first, last)
        } else if let Some((low, high)) = range.split_once('-') {
            let (low, mut high) = (number(low)?, number(high)?);
            if last == 7 && high == 0 && low > 0 {
                high = 7;
            }
            (low, high)
        } else if step.is_some() {
            return None;
        } else {
            (number(range)?, number(range)?)
        };
        if low < first || high > last || low > high || step == Some(0) {
            return None;
        }
        let mut at = low;
        while at <= high {
            all.insert(at);
            at = at.saturating_add(step.unwrap_or(1));
        }
    }
    Some(all)
}

/// A writer of expressions, plain ones and odd ones.
pub(crate) struct Writer(pub(crate) Rng);

impl Writer {
    pub(crate) fn expression(&mut self) -> String {
        let random = &mut self.0;
        if random.u32(0..200) == 0 {
            let nicknames = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
            return nicknames[random.usize(..nicknames.len())].into();
        }
        let fields = [
            self.field(0, 59, &[]),
            self.field(0, 23, &[]),
            self.field(1, 31, &[]),
            self.field(1, 12, &["jan", "Feb", "MAR", "apr", "May", "jun", "JUL", "aug", "sEp", "oct", "nov", "dec"]),
            self.field(0, 7, &["sun", "Mon", "TUE", "wed", "Thu", "fri", "SAT"]),
        ];
        let mut text = String::new();
        for (at, field) in fields.iter().enumerate() {
            if at > 0 || self.0.u32(0..20) == 0 {
                text.push_str(["\t", "  ", " \t ", " ", " ", " ", " ", " "][self.0.usize(..8)]);
            }
            text.push_str(field);
        }
        if self.0.u32(0..20) == 0 {
            text.push(' ');
        }
        text
    }

    fn field(&mut self, first: u32, last: u32, names: &[&str]) -> String {
        if self.0.u32(0..3) == 0 {
            return "*".into();
        }
        let items = [1, 1, 1, 1, 2, 2, 3, 5][self.0.usize(..8)];
        (0..items).map(|_| self.item(first, last, names)).collect::<Vec<_>>().join(",")
    }

    fn item(&mut self, first: u32, last: u32, names: &[&str]) -> String {
        if last == 31 && self.0.u32(0..6) == 0 {
            return ["L", "L", "l"][self.0.usize(..3)].into();
        }
        let low = self.0.u32(first..=last);
        let high = self.0.u32(low..=last);
        let range = match self.0.u32(0..8) {
            0 => "*".into(),
            1..4 => return self.number(low, first, names),
            4 if last == 7 => format!("{}-{}", self.number(low, first, names), self.number(0, first, names)),
            _ => format!("{}-{}", self.number(low, first, names), self.number(high, first, names)),
        };
        match self.0.u32(0..3) {
            0 => format!("{range}/{}", self.0.u32(1..=last + 3)),
            1 if range == "*" => format!("{range}/{}", [2, 3, 5, 7, 10, 15][self.0.usize(..6)]),
            _ => range,
        }
    }

    fn number(&mut self, number: u32, first: u32, names: &[&str]) -> String {
        match names.get(usize::try_from(number - first).unwrap()) {
            Some(name) if self.0.bool() => (*name).into(),
            _ if self.0.u32(0..10) == 0 => format!("{number:02}"),
            _ => number.to_string(),
        }
    }

    /// Returns a valid expression with one to three characters changed, gone, or too many.
    pub(crate) fn garbage(&mut self) -> String {
        const PIECES: [&str; 25] = [
            "*",
            "/",
            "-",
            ",",
            " ",
            "\t",
            "0",
            "1",
            "7",
            "8",
            "24",
            "31",
            "60",
            "99999999999999999999",
            "sun",
            "jan",
            "x",
            "L",
            "?",
            "#",
            "+",
            "é",
            "\u{a0}",
            "\n",
            "@",
        ];
        let mut text: Vec<String> = self.expression().chars().map(String::from).collect();
        for _ in 0..self.0.u32(1..=3) {
            let at = self.0.usize(..text.len());
            let piece = PIECES[self.0.usize(..PIECES.len())].to_owned();
            match self.0.u32(0..3) {
                0 => text[at] = piece,
                1 => text.insert(at, piece),
                _ => drop(text.remove(at)),
            }
            if text.is_empty() {
                break;
            }
        }
        text.concat()
    }

    /// Picks an instant. Half of them are in a minute and an hour that the expression names, so that the days
    /// decide.
    fn instant(&mut self, oracle: &Oracle) -> NaiveDateTime {
        let day = self.0.i32(0..48_000);
        let mut date = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap() + chrono::TimeDelta::days(day.into());
        if self.0.u32(0..8) == 0 {
            date = date.with_day(u32::from(date.num_days_in_month()) - self.0.u32(0..2)).unwrap();
        }
        let mut pick = |set: &BTreeSet<u32>, end: u32| {
            if self.0.u32(0..4) == 0 {
                return self.0.u32(0..end);
            }
            *set.iter().nth(self.0.usize(..set.len())).unwrap()
        };
        let (hour, minute) = (pick(&oracle.hours, 24), pick(&oracle.minutes, 60));
        date.and_hms_opt(hour, minute, self.0.u32(0..60)).unwrap()
    }
}

/// Returns how many random expressions to try: 20,000, or the number in `SOLOIST_EXPRESSIONS`.
fn expressions() -> usize {
    std::env::var("SOLOIST_EXPRESSIONS")
        .map_or(20_000, |number| number.parse().expect("SOLOIST_EXPRESSIONS is a number"))
}

#[test]
fn random_expressions_mean_what_the_manual_page_says() {
    let mut writer = Writer(Rng::with_seed(1970));
    let (mut read, mut due, mut not_due) = (0, 0, 0);
    for _ in 0..expressions() {
        let text = writer.expression();
        let Some(oracle) = Oracle::read(&text) else {
            assert!(text.parse::<Crontab>().is_err(), "`{text}` should be refused");
            continue;
        };
        read += 1;
        let crontab: Crontab = text.parse().unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..60 {
            let civil = writer.instant(&oracle);
            let expected = oracle.matches(civil);
            assert_eq!(crontab.matches(civil), expected, "`{text}` at {civil}");
            if expected { due += 1 } else { not_due += 1 }
        }
        let again = crontab.to_string();
        assert_eq!(again.parse(), Ok(crontab), "`{text}` is written as `{again}`");
        assert_eq!(again, again.parse::<Crontab>().unwrap().to_string());
    }
    // The comparison is worth something only if both answers come, and often.
    assert!(read > expressions() * 9 / 10 && due > read * 10 && not_due > read * 10, "{read} {due} {not_due}");
}

#[test]
fn random_garbage_is_refused_where_the_manual_page_refuses_it() {
    let mut writer = Writer(Rng::with_seed(2100));
    let (mut refused, mut read) = (0, 0);
    for _ in 0..expressions() {
        let text = writer.garbage();
        match (text.parse::<Crontab>(), Oracle::read(&text)) {
            (Ok(crontab), Some(oracle)) => {
                read += 1;
                for _ in 0..5 {
                    let civil = writer.instant(&oracle);
                    assert_eq!(crontab.matches(civil), oracle.matches(civil), "`{text}` at {civil}");
                }
            }
            (Err(error), None) => {
                refused += 1;
                // Cuts the text at characters, and names a place in it.
                assert!(text.get(error.range()).is_some(), "{error}");
                assert!(!error.to_string().contains('\n'));
            }
            (ours, oracle) => panic!("`{text}`: {ours:?}, the oracle says {}", oracle.is_some()),
        }
    }
    assert!(refused > expressions() / 2 && read > expressions() / 20, "{refused} refused, {read} read");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn cases_worked_out_by_hand() {
    // March 2026: the 1st is a Sunday, the 13th a Friday.
    for (expression, civil, due) in [
        ("* * * * *", "2026-03-01 00:00", true),
        ("* * * * *", "2026-12-31 23:59", true),
        // Numbers, lists, ranges.
        ("30 2 * * *", "2026-03-01 02:30", true),
        ("30 2 * * *", "2026-03-01 02:31", false),
        ("30 2 * * *", "2026-03-01 03:30", false),
        ("30 2 * * *", "2026-03-01 14:30", false),
        ("0,30 * * * *", "2026-03-01 05:30", true),
        ("0,30 * * * *", "2026-03-01 05:15", false),
        ("0 8-17 * * *", "2026-03-01 08:00", true),
        ("0 8-17 * * *", "2026-03-01 17:00", true),
        ("0 8-17 * * *", "2026-03-01 18:00", false),
        ("0 8-17,22 * * *", "2026-03-01 22:00", true),
        ("0 8-17,22 * * *", "2026-03-01 21:00", false),
        ("59 23 31 12 *", "2026-12-31 23:59", true),
        ("59 23 31 12 *", "2026-12-30 23:59", false),
        ("007 009 * * *", "2026-03-01 09:07", true),
        ("5-5 * * * *", "2026-03-01 09:05", true),
        // Steps count within their range.
        ("*/15 * * * *", "2026-03-01 09:45", true),
        ("*/15 * * * *", "2026-03-01 09:50", false),
        ("*/7 * * * *", "2026-03-01 09:56", true),
        ("*/7 * * * *", "2026-03-01 10:03", false),
        ("*/35 * * * *", "2026-03-01 10:35", true),
        ("*/35 * * * *", "2026-03-01 10:10", false),
        ("5-59/10 * * * *", "2026-03-01 09:55", true),
        ("5-59/10 * * * *", "2026-03-01 09:50", false),
        ("0 */23 * * *", "2026-03-01 23:00", true),
        ("0 */23 * * *", "2026-03-01 22:00", false),
        ("0 1-10/4 * * *", "2026-03-01 09:00", true),
        ("0 1-10/4 * * *", "2026-03-01 10:00", false),
        ("10-20/99 * * * *", "2026-03-01 09:10", true),
        ("10-20/99 * * * *", "2026-03-01 09:20", false),
        ("*/99999999999999999999 * * * *", "2026-03-01 09:00", true),
        ("*/4294967301 * * * *", "2026-03-01 09:05", false),
        ("0 0 */2 * *", "2026-03-01 00:00", true),
        ("0 0 */2 * *", "2026-03-02 00:00", false),
        ("0 0 1 */3 *", "2026-04-01 00:00", true),
        ("0 0 1 */3 *", "2026-03-01 00:00", false),
        // Names.
        ("0 0 1 mar *", "2026-03-01 00:00", true),
        ("0 0 1 MAR *", "2026-04-01 00:00", false),
        ("0 0 1 Jan-Mar *", "2026-02-01 00:00", true),
        ("0 0 1 dec,mar *", "2026-03-01 00:00", true),
        ("0 0 * * mon", "2026-03-02 00:00", true),
        ("0 0 * * mon", "2026-03-03 00:00", false),
        ("0 0 * * Mon,wed-FRI", "2026-03-05 00:00", true),
        ("0 0 * * Mon,wed-FRI", "2026-03-03 00:00", false),
        ("0 0 * * mon-fri/2", "2026-03-04 00:00", true),
        ("0 0 * * mon-fri/2", "2026-03-03 00:00", false),
        // Sunday is 0 and 7, and ends a week that begins on another day.
        ("0 0 * * 0", "2026-03-01 00:00", true),
        ("0 0 * * 7", "2026-03-01 00:00", true),
        ("0 0 * * sun", "2026-03-01 00:00", true),
        ("0 0 * * 7", "2026-03-07 00:00", false),
        ("0 0 * * MON-SUN", "2026-03-01 00:00", true),
        ("0 0 * * MON-SUN", "2026-03-04 00:00", true),
        ("0 0 * * sat-sun", "2026-03-01 00:00", true),
        ("0 0 * * sat-sun", "2026-03-06 00:00", false),
        ("0 0 * * fri-sun/2", "2026-03-01 00:00", true),
        ("0 0 * * fri-sun/2", "2026-03-06 00:00", true),
        ("0 0 * * fri-sun/2", "2026-03-07 00:00", false),
        ("0 0 * * sun-mon", "2026-03-01 00:00", true),
        ("0 0 * * sun-mon", "2026-03-03 00:00", false),
        ("0 0 * * 5-7", "2026-03-01 00:00", true),
        ("0 0 * * 6-0", "2026-03-01 00:00", true),
        ("0 0 * * 0-7", "2026-03-04 00:00", true),
        // `*` is 0-7, and 7 is Sunday.
        ("0 0 * * */2", "2026-03-01 00:00", true),
        ("0 0 * * */7", "2026-03-01 00:00", true),
        ("0 0 * * */7", "2026-03-02 00:00", false),
        ("0 0 * * 1-7/2", "2026-03-01 00:00", true),
        // Either day, where both are restricted.
        ("0 9 13 * fri", "2026-03-13 09:00", true),
        ("0 9 13 * fri", "2026-03-06 09:00", true),
        ("0 9 13 * fri", "2026-04-13 09:00", true),
        ("0 9 13 * fri", "2026-03-14 09:00", false),
        ("30 4 1,15 * 5", "2026-03-15 04:30", true),
        ("30 4 1,15 * 5", "2026-03-20 04:30", true),
        ("30 4 1,15 * 5", "2026-03-21 04:30", false),
        ("0 0 1-31 * mon", "2026-03-03 00:00", true),
        ("0 0 31 2 mon", "2026-02-02 00:00", true),
        // Both days, where one begins with a star.
        ("0 9 * * fri", "2026-03-13 09:00", true),
        ("0 9 * * fri", "2026-03-14 09:00", false),
        ("0 9 13 * *", "2026-03-13 09:00", true),
        ("0 9 13 * *", "2026-03-06 09:00", false),
        ("0 9 */2 * fri", "2026-03-13 09:00", true),
        ("0 9 */2 * fri", "2026-03-06 09:00", false),
        ("0 9 */2 * fri", "2026-03-15 09:00", false),
        ("0 9 13 * */5", "2026-03-13 09:00", true),
        ("0 9 13 * */5", "2026-03-06 09:00", false),
        ("0 9 *,13 * fri", "2026-03-14 09:00", false),
        ("0 9 13,* * fri", "2026-03-14 09:00", true),
        ("0 0 1-7 * */7", "2026-03-01 00:00", true),
        ("0 0 1-7 * */7", "2026-03-08 00:00", false),
        // The 29th of February.
        ("0 0 29 2 *", "2028-02-29 00:00", true),
        ("0 0 29 2 *", "2028-02-28 00:00", false),
        ("0 0 29 2 *", "2028-03-29 00:00", false),
        // The last day of any month.
        ("0 18 L * *", "2026-02-28 18:00", true),
        ("0 18 L * *", "2028-02-28 18:00", false),
        ("0 18 L * *", "2028-02-29 18:00", true),
        ("0 18 L * *", "2026-04-30 18:00", true),
        ("0 18 L * *", "2026-05-30 18:00", false),
        ("0 18 l * *", "2026-12-31 18:00", true),
        ("0 18 15,L 2 *", "2026-02-15 18:00", true),
        ("0 18 15,L 2 *", "2026-01-31 18:00", false),
        ("0 18 L * sun", "2026-03-01 18:00", true),
        ("0 18 L * sun", "2026-03-31 18:00", true),
        ("0 18 L * sun", "2026-03-30 18:00", false),
        ("0 18 L * */7", "2026-03-31 18:00", false),
        ("0 18 L * */7", "2026-05-31 18:00", true),
        ("0 0 */30,L * *", "2026-02-28 00:00", true),
        ("0 0 */30,L * sat", "2026-02-28 00:00", true),
        ("0 0 */30,L * sun", "2026-02-28 00:00", false),
        // Nicknames, and blanks around and between.
        ("@yearly", "2026-01-01 00:00", true),
        ("@annually", "2026-02-01 00:00", false),
        ("@monthly", "2026-02-01 00:00", true),
        ("@monthly", "2026-02-02 00:00", false),
        ("@weekly", "2026-03-01 00:00", true),
        ("@weekly", "2026-03-02 00:00", false),
        ("@daily", "2026-03-02 00:00", true),
        ("@midnight", "2026-03-02 00:00", true),
        ("@daily", "2026-03-02 00:01", false),
        ("@hourly", "2026-03-02 17:00", true),
        ("@hourly", "2026-03-02 17:30", false),
        (" \t@hourly \t", "2026-03-02 17:00", true),
        ("\t0   9\t \t*  * fri  ", "2026-03-13 09:00", true),
    ] {
        let crontab: Crontab = expression.parse().unwrap();
        let minute = NaiveDateTime::parse_from_str(civil, "%Y-%m-%d %H:%M").unwrap();
        for second in [0, 59] {
            assert_eq!(crontab.matches(minute.with_second(second).unwrap()), due, "`{expression}` at {civil}");
        }
        let oracle = Oracle::read(expression).unwrap();
        assert_eq!(oracle.matches(minute), due, "the oracle on `{expression}` at {civil}");
    }
}

#[test]
fn the_normalised_spelling() {
    for (text, normalised) in [
        ("* * * * *", "* * * * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("05 09 * Jan,feb,MAR Sun", "5 9 * 1-3 0"),
        ("*/1 */24 */40 */1 */8", "* */24 */31 * */7"),
        ("0-59 0-23 1-31 1-12 0-7", "0-59 0-23 1-31 * 0-6"),
        ("*,5 * 5,* * *", "* * 1-31 * *"),
        ("*/20,5 * * * *", "*/20,5 * * * *"),
        ("3,1,2,10,12 6-7 * * fri-sun", "1-3,10,12 6,7 * * 0,5,6"),
        ("5-59/10 1-23/2 * */3 *", "5-55/10 1-23/2 * 1-10/3 *"),
        ("0,20,40 * * * *", "0,20,40 * * * *"),
        ("* * * * MON-SUN", "* * * * 0-6"),
        ("* * */2 * */3", "* * */2 * */3"),
        ("0 18 l * *", "0 18 L * *"),
        ("0 18 L,15,1-3,L * mon", "0 18 1-3,15,L * 1"),
        ("0 18 1-31,L * *", "0 18 1-31 * *"),
        ("0 18 *,L * *", "0 18 * * *"),
        ("0 18 L,* * *", "0 18 1-31 * *"),
        ("0 18 */2,L * *", "0 18 */2,L * *"),
    ] {
        let crontab: Crontab = text.parse().unwrap();
        assert_eq!(crontab.to_string(), normalised, "`{text}`");
        assert_eq!(normalised.parse(), Ok(crontab));
        assert_eq!(format!("{crontab:?}"), format!("Crontab({normalised})"));
    }
}

#[test]
fn what_is_wrong_is_said_and_pointed_at() {
    const FORMS: &str = "can't be read, an item is `*`, `*/2`, `3`, `3-9` or `3-9/2`";
    const FIELDS: &str = "instead of 5 (minute, hour, day of month, month, day of week)";
    for (text, message, part) in [
        // How many fields.
        ("", &*format!("``: 0 fields {FIELDS}"), ""),
        (" \t ", &format!("` \\t `: 0 fields {FIELDS}"), " \t "),
        ("*", &format!("`*`: 1 field {FIELDS}"), "*"),
        ("0 2 * *", &format!("`0 2 * *`: 4 fields {FIELDS}"), "0 2 * *"),
        ("99 2 * *", &format!("`99 2 * *`: 4 fields {FIELDS}"), "99 2 * *"),
        (
            "0 30 2 * * *",
            &format!(
                "`0 30 2 * * *`: 6 fields {FIELDS}, seconds are not part of a crontab: use `every_ten_seconds()` and the like"
            ),
            "0 30 2 * * *",
        ),
        ("0 0 2 * * mon 2026", &format!("`0 0 2 * * mon 2026`: 7 fields {FIELDS}"), "0 0 2 * * mon 2026"),
        // Numbers and names.
        ("61 * * * *", "`61 * * * *`: minute `61` is outside of 0-59 (column 1)", "61"),
        ("0 24 * * *", "`0 24 * * *`: hour `24` is outside of 0-23 (column 3)", "24"),
        ("0 0 0 * *", "`0 0 0 * *`: day of month `0` is outside of 1-31 (column 5)", "0"),
        ("0 0 1 1-13 *", "`0 0 1 1-13 *`: month `13` is outside of 1-12 (column 9)", "13"),
        ("0 0 * * 8", "`0 0 * * 8`: day of week `8` is outside of 0-7 (column 9)", "8"),
        (
            "99999999999999999999 * * * *",
            "`99999999999999999999 * * * *`: minute `99999999999999999999` is outside of 0-59 (column 1)",
            "99999999999999999999",
        ),
        ("4294967301 * * * *", "`4294967301 * * * *`: minute `4294967301` is outside of 0-59 (column 1)", "4294967301"),
        ("mon * * * *", "`mon * * * *`: minute `mon` is not a number from 0-59 (column 1)", "mon"),
        ("5x * * * *", "`5x * * * *`: minute `5x` is not a number from 0-59 (column 1)", "5x"),
        (
            "0 0 1 mon *",
            "`0 0 1 mon *`: month `mon` is neither a number from 1-12 nor a name from jan to dec (column 7)",
            "mon",
        ),
        (
            "0 0 * * monday",
            "`0 0 * * monday`: day of week `monday` is neither a number from 0-7 nor a name from sun to sat (column 9)",
            "monday",
        ),
        // Lists.
        ("1,,2 * * * *", "`1,,2 * * * *`: minute has an empty list item (column 3)", ""),
        (",1 * * * *", "`,1 * * * *`: minute has an empty list item (column 1)", ""),
        ("0 1, * * *", "`0 1, * * *`: hour has an empty list item (column 5)", ""),
        // Ranges.
        ("0 22-2 * * *", "`0 22-2 * * *`: hour `22-2` runs backwards, write `22-23,0-2` (column 3)", "22-2"),
        ("0 22-2/2 * * *", "`0 22-2/2 * * *`: hour `22-2/2` runs backwards (column 3)", "22-2/2"),
        ("5-0 * * * *", "`5-0 * * * *`: minute `5-0` runs backwards, write `5-59,0-0` (column 1)", "5-0"),
        (
            "0 0 * * fri-mon",
            "`0 0 * * fri-mon`: day of week `fri-mon` runs backwards, write `5-6,0-1` (column 9)",
            "fri-mon",
        ),
        ("0 0 * * 7-2", "`0 0 * * 7-2`: day of week `7-2` runs backwards, write `0-2` (column 9)", "7-2"),
        ("1- * * * *", &format!("`1- * * * *`: minute `1-` {FORMS} (column 1)"), "1-"),
        ("1-2-3 * * * *", &format!("`1-2-3 * * * *`: minute `1-2-3` {FORMS} (column 1)"), "1-2-3"),
        ("*-5 * * * *", &format!("`*-5 * * * *`: minute `*-5` {FORMS} (column 1)"), "*-5"),
        // Steps.
        ("5/10 * * * *", "`5/10 * * * *`: minute `5/10` has a step but no range, write `5-59/10` (column 1)", "5/10"),
        ("* * * * 7/2", "`* * * * 7/2`: day of week `7/2` has a step but no range, write `0-6/2` (column 9)", "7/2"),
        ("0,*/0 * * * *", "`0,*/0 * * * *`: minute `*/0` has a step of 0 (column 3)", "*/0"),
        ("*/ * * * *", &format!("`*/ * * * *`: minute `*/` {FORMS} (column 1)"), "*/"),
        ("*/2/3 * * * *", &format!("`*/2/3 * * * *`: minute `*/2/3` {FORMS} (column 1)"), "*/2/3"),
        ("0 0 * * */mon", &format!("`0 0 * * */mon`: day of week `*/mon` {FORMS} (column 9)"), "*/mon"),
        ("*5 * * * *", &format!("`*5 * * * *`: minute `*5` {FORMS} (column 1)"), "*5"),
        ("** * * * *", &format!("`** * * * *`: minute `**` {FORMS} (column 1)"), "**"),
        // Dates that never come.
        ("30 2 31 2 *", "`30 2 31 2 *`: day of month `31` never comes in month `2` (column 6)", "31"),
        ("0 0 30,31 feb *", "`0 0 30,31 feb *`: day of month `30,31` never comes in month `feb` (column 5)", "30,31"),
        ("0 0  31 4,6 */2", "`0 0  31 4,6 */2`: day of month `31` never comes in month `4,6` (column 6)", "31"),
        // Not only ASCII.
        ("é * * * *", &format!("`é * * * *`: minute `é` {FORMS} (column 1)"), "é"),
        ("5é,é * * * *", &format!("`5é,é * * * *`: minute `5é` {FORMS} (column 1)"), "5é"),
        ("* * * * *\n", &format!("`* * * * *\\n`: day of week `*\\n` {FORMS} (column 9)"), "*\n"),
        ("0 9\u{a0}* * * *", &format!("`0 9\\u{{a0}}* * * *`: hour `9\\u{{a0}}*` {FORMS} (column 3)"), "9\u{a0}*"),
    ] {
        is_refused_at(text, message, part);
    }
}

/// Tests syntax that other crons have and cronie has not, or that servers would disagree about.
#[test]
fn what_others_write_is_refused_with_what_to_write_instead() {
    const NICKNAMES: &str = "none of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly";
    for (text, message, part) in [
        (
            "0 0 ? * *",
            "`0 0 ? * *`: day of month `?` has a `?`, which is not crontab syntax: write `*` (column 5)",
            "?",
        ),
        (
            "* * * * 1,?",
            "`* * * * 1,?`: day of week `?` has a `?`, which is not crontab syntax: write `*` (column 11)",
            "?",
        ),
        (
            "TZ=UTC 0 * * * *",
            "`TZ=UTC 0 * * * *`: `TZ=UTC` is no field, leave it out and say `.timezone(\"UTC\")`",
            "TZ=UTC",
        ),
        (
            "\tCRON_TZ=Europe/Berlin @daily",
            "`\\tCRON_TZ=Europe/Berlin @daily`: `CRON_TZ=Europe/Berlin` is no field, leave it out and say \
             `.timezone(\"Europe/Berlin\")`",
            "CRON_TZ=Europe/Berlin",
        ),
        (
            "TZ=\u{1b} * * * *",
            "`TZ=\\u{1b} * * * *`: `TZ=\\u{1b}` is no field, leave it out and say `.timezone(\"\\u{1b}\")`",
            "TZ=\u{1b}",
        ),
        ("@YEARLY", "`@YEARLY`: nicknames are written in small letters, write `@yearly`", "@YEARLY"),
        (" @Midnight ", "` @Midnight `: nicknames are written in small letters, write `@midnight`", "@Midnight"),
        ("0 0 L-3 * *", "`0 0 L-3 * *`: day of month `L` is not a number from 1-31 (column 5)", "L"),
        ("0 0 LW * *", "`0 0 LW * *`: day of month `LW` is not a number from 1-31 (column 5)", "LW"),
        (
            "0 0 * L *",
            "`0 0 * L *`: month `L` is neither a number from 1-12 nor a name from jan to dec (column 7)",
            "L",
        ),
        (
            "0 0 * * 5L",
            "`0 0 * * 5L`: day of week `5L` is neither a number from 0-7 nor a name from sun to sat (column 9)",
            "5L",
        ),
        (
            "~ * * * *",
            "`~ * * * *`: minute `~` picks a time at random, another on each server: write a number (column 1)",
            "~",
        ),
        (
            "0 1~5 * * *",
            "`0 1~5 * * *`: hour `1~5` picks a time at random, another on each server: write a number (column 3)",
            "1~5",
        ),
        ("@reboot", "`@reboot`: it names no time: run that task when your program starts", "@reboot"),
        ("@dialy", &format!("`@dialy`: `@dialy` is {NICKNAMES}"), "@dialy"),
        ("@daily x", &format!("`@daily x`: `@daily x` is {NICKNAMES}"), "@daily x"),
    ] {
        is_refused_at(text, message, part);
    }
}

#[track_caller]
fn is_refused_at(text: &str, message: &str, part: &str) {
    let error = text.parse::<Crontab>().unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(&text[error.range()], part, "{error}");
}

#[test]
fn a_long_text_is_quoted_in_part() {
    let minutes = (0..59).map(|minute| minute.to_string()).collect::<Vec<_>>().join(",");
    let error = format!("{minutes},60 * * * *").parse::<Crontab>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,2…`: minute `60` is outside of 0-59 (column 168)"
    );
}

#[test]
fn the_longest_lists_are_within_the_limit_and_refusing_more_takes_no_time() {
    let list = |first: u32, last: u32| (first..=last).map(|n| format!("{n:02}")).collect::<Vec<_>>().join(",");
    let longest = [list(0, 59), list(0, 23), list(1, 31), list(1, 12), list(0, 7)].join(" ");
    assert_eq!(longest.parse::<Crontab>().unwrap().to_string(), "0-59 0-23 1-31 * 0-6");

    let long = format!("{}* * * * *", " ".repeat(991));
    assert_eq!(long.parse(), "* * * * *".parse::<Crontab>());
    let error = format!(" {long}").parse::<Crontab>().unwrap_err();
    assert_eq!(error.to_string(), format!("`{}…`: 1001 bytes, the limit is 1000", " ".repeat(60)));

    // Reading it a hundred times would take longer each time.
    let huge = "*,".repeat(1 << 19);
    let is_not_read = || {
        let started = Instant::now();
        for _ in 0..100 {
            let error = huge.parse::<Crontab>().unwrap_err();
            assert!(error.to_string().ends_with("…`: 1048576 bytes, the limit is 1000"));
        }
        started.elapsed() < Duration::from_millis(100)
    };
    assert!((0..10).any(|_| is_not_read()));
}
