//! Crontab means crontab: compared with an oracle that reads the text in its own, slow way, with cases worked out by
//! hand, and with the messages that wrong expressions get.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use fastrand::Rng;
use soloist::time::Crontab;

/// A text as cronie's manual page reads it, field by field: sets of numbers, and the day rule by the text.
pub(crate) struct Oracle {
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    days: BTreeSet<u32>,
    months: BTreeSet<u32>,
    weekdays: BTreeSet<u32>,
    /// `L` and its kin, which are ours and not cronie's, in small letters.
    calendar_days: Vec<String>,
    restricted_days: bool,
    restricted_weekdays: bool,
    /// Whether neither minute nor hour begins with a star.
    pub(crate) is_at_fixed_times: bool,
}

impl Oracle {
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
        let day = if day == "?" { "*" } else { day };
        let weekday = if weekday == "?" { "*" } else { weekday };
        let [restricted_days, restricted_weekdays] = [day, weekday].map(|list| !list.starts_with('*'));
        let week: Vec<&str> = "sunday monday tuesday wednesday thursday friday saturday".split(' ').collect();
        let (days_of_month, day) = calendar_days(day, |item| {
            let far = item.strip_prefix("l-").and_then(|days| one(days, 30)).map(|days| format!("l-{days}"));
            let near = item.strip_suffix('w').and_then(|day| one(day, 31)).map(|day| format!("{day}w"));
            far.or(near).or_else(|| (item == "l" || item == "lw").then(|| item.to_owned()))
        });
        let (days_of_week, weekday) = calendar_days(weekday, |item| {
            let (day, kind) = match item.split_once('#') {
                Some((day, nth)) => (day, format!("#{}", one(nth, 5)?)),
                None => (item.strip_suffix('l')?, "last".to_owned()),
            };
            let plain = !day.contains(['-', ',', '*', '/']);
            let day = numbers(day, 0, 7, &week).filter(|_| plain)?;
            day.first().map(|day| format!("{}{kind}", day % 7))
        });
        let oracle = Self {
            minutes: numbers(minute, 0, 59, &[])?,
            hours: numbers(hour, 0, 23, &[])?,
            days: numbers(&day, 1, 31, &[])?,
            months: numbers(
                month,
                1,
                12,
                &"january february march april may june july august september october november december"
                    .split(' ')
                    .collect::<Vec<_>>(),
            )?,
            weekdays: numbers(&weekday, 0, 7, &week)?,
            restricted_days,
            restricted_weekdays,
            calendar_days: [days_of_month, days_of_week].concat(),
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
        if !self.months.contains(&date.month()) {
            return false;
        }
        let on_calendar = |weekday: bool| {
            let of_field = self.calendar_days.iter().filter(|day| day.contains(['#', 's']) == weekday);
            of_field.map(|day| calendar_date(day, date)).any(|found| found == Some(date))
        };
        let weekday = date.weekday().num_days_from_sunday();
        let day = self.days.contains(&date.day()) || on_calendar(false);
        // Both 0 and 7 are Sunday.
        let weekday =
            self.weekdays.contains(&weekday) || (weekday == 0 && self.weekdays.contains(&7)) || on_calendar(true);
        let either = self.restricted_days && self.restricted_weekdays;
        if either { day || weekday } else { day && weekday }
    }

    /// Returns whether any date of 28 years is due: in them, each date falls on each day of the week.
    fn ever_due(&self) -> bool {
        let first = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap();
        first.iter_days().take(28 * 366).any(|date| self.matches_date(date))
    }
}

/// Reads a number from 1 on.
fn one(text: &str, last: u32) -> Option<u32> {
    let is_number = text.chars().all(|char| char.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && (1..=last).contains(number))
}

/// Returns the items of a list that `read` knows, as it writes them, and the list of the others.
fn calendar_days(list: &str, read: impl Fn(&str) -> Option<String>) -> (Vec<String>, String) {
    let (mut known, mut others) = (Vec::new(), Vec::new());
    for item in list.split(',') {
        match read(&item.to_lowercase()) {
            Some(day) => known.push(day),
            None => others.push(item),
        }
    }
    // No number, instead of an item that is empty.
    (known, if others.is_empty() { "none".into() } else { others.join(",") })
}

/// Returns the date in the month of `date` that `L-2`, `lw`, `15w`, `5#3` or `5last` names, found by walking through that month.
fn calendar_date(day: &str, date: NaiveDate) -> Option<NaiveDate> {
    let month: Vec<NaiveDate> =
        date.with_day(1).unwrap().iter_days().take_while(|day| day.month() == date.month()).collect();
    let is_weekday = |date: &&NaiveDate| !matches!(date.weekday(), chrono::Weekday::Sat | chrono::Weekday::Sun);
    let on = |day: &str| {
        let day: u32 = day.parse().unwrap();
        month.iter().filter(move |date| date.weekday().num_days_from_sunday() == day)
    };
    let found = if day == "l" {
        month.last()
    } else if day == "lw" {
        month.iter().rfind(is_weekday)
    } else if let Some(days) = day.strip_prefix("l-") {
        month.iter().rev().nth(days.parse().unwrap())
    } else if let Some(nearest_to) = day.strip_suffix('w') {
        let to = month.get(nearest_to.parse::<usize>().unwrap() - 1)?;
        month.iter().filter(is_weekday).min_by_key(|date| (**date - *to).num_days().abs())
    } else if let Some((day, nth)) = day.split_once('#') {
        on(day).nth(nth.parse::<usize>().unwrap() - 1)
    } else {
        on(day.strip_suffix("last").unwrap()).next_back()
    };
    found.copied()
}

/// Writes out the list of a field.
fn numbers(field: &str, first: u32, last: u32, names: &[&str]) -> Option<BTreeSet<u32>> {
    let number = |text: &str| -> Option<u32> {
        let text_in_small = text.to_lowercase();
        if let Some(at) = names.iter().position(|name| *name == text_in_small || name[..3] == text_in_small) {
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
    for item in field.split(',').filter(|_| field != "none") {
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
        let is_in_range = |step: u32| (1..=high.saturating_sub(low) + 1).contains(&step);
        if low < first || high > last || low > high || !step.is_none_or(is_in_range) {
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

/// Expressions as people write them, and some that no person writes.
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
            self.field(1, 12, &["jan", "Feb", "MAR", "april", "May", "jun", "JULY", "aug", "sEp", "oct", "nov", "dec"]),
            self.field(0, 7, &["sun", "Mon", "TUE", "wednesday", "Thu", "fri", "SATURDAY"]),
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
            let is_of_days = matches!(last, 31 | 7);
            return if is_of_days && self.0.u32(0..8) == 0 { "?" } else { "*" }.into();
        }
        let items = [1, 1, 1, 1, 2, 2, 3, 5][self.0.usize(..8)];
        (0..items).map(|_| self.item(first, last, names)).collect::<Vec<_>>().join(",")
    }

    fn item(&mut self, first: u32, last: u32, names: &[&str]) -> String {
        if last == 31 && self.0.u32(0..10) == 0 {
            return match self.0.u32(0..6) {
                0 => "LW".into(),
                1 | 2 => format!("L-{}", self.0.u32(1..=30)),
                3 | 4 => format!("{}{}", self.0.u32(1..=31), ["W", "w"][self.0.usize(..2)]),
                _ => ["L", "l"][self.0.usize(..2)].into(),
            };
        }
        if last == 7 && self.0.u32(0..10) == 0 {
            let day = self.0.u32(0..7);
            let day = self.number(day, first, names);
            return if self.0.bool() { format!("{day}#{}", self.0.u32(1..=5)) } else { format!("{day}L") };
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
            0 if self.0.u32(0..20) == 0 => format!("{range}/{}", self.0.u32(1..=last + 3)),
            0 => format!("{range}/{}", self.0.u32(1..=if range == "*" { last - first + 1 } else { high - low + 1 })),
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

/// Returns the number of random expressions: 5,000, or as many as `SOLOIST_EXPRESSIONS` says.
fn expressions() -> usize {
    std::env::var("SOLOIST_EXPRESSIONS")
        .map_or(5_000, |number| number.parse().expect("SOLOIST_EXPRESSIONS is a number"))
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
        // Walking through months takes its time.
        for _ in 0..if oracle.calendar_days.is_empty() { 30 } else { 12 } {
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
    assert!(read > expressions() * 9 / 10 && due > read * 5 && not_due > read * 5, "{read} {due} {not_due}");
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
        ("10-20/11 * * * *", "2026-03-01 09:10", true),
        ("10-20/11 * * * *", "2026-03-01 09:20", false),
        ("*/60 * * * *", "2026-03-01 09:00", true),
        ("*/60 * * * *", "2026-03-01 09:05", false),
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
        ("0 18 L-2 * *", "2026-02-26 18:00", true),
        ("0 18 L-2 * *", "2026-03-29 18:00", true),
        ("0 18 L-2 * *", "2026-03-30 18:00", false),
        // The weekday that is nearest, within its month: the 15th of March and the 1st are Sundays, the 1st of August a
        // Saturday, and the 31st of May a Sunday.
        ("0 9 15W * *", "2026-03-16 09:00", true),
        ("0 9 15W * *", "2026-03-15 09:00", false),
        ("0 9 15w * *", "2026-04-15 09:00", true),
        ("0 9 14W * *", "2026-03-13 09:00", true),
        ("0 9 1W * *", "2026-03-02 09:00", true),
        ("0 9 1W * *", "2026-08-03 09:00", true),
        ("0 9 1W * *", "2026-07-31 09:00", false),
        ("0 9 31W * *", "2026-05-29 09:00", true),
        ("0 9 31W * *", "2026-04-30 09:00", false),
        ("0 9 LW * *", "2026-05-29 09:00", true),
        ("0 9 LW * *", "2026-04-30 09:00", true),
        // The third Friday, and the last: counted from Sunday 0.
        ("0 9 * * 5#3", "2026-03-20 09:00", true),
        ("0 9 * * 5#3", "2026-03-13 09:00", false),
        ("0 9 * * friday#3", "2026-03-20 09:00", true),
        ("0 9 * * 7#1", "2026-03-01 09:00", true),
        ("0 9 * * 0#5", "2026-03-29 09:00", true),
        ("0 9 * * 1#5", "2026-03-30 09:00", true),
        ("0 9 * * 3#5", "2026-03-25 09:00", false),
        ("0 9 * * 5L", "2026-03-27 09:00", true),
        ("0 9 * * FriL", "2026-03-20 09:00", false),
        // These restrict the days as numbers do: either, unless one begins with a star.
        ("0 9 1 * 5#3", "2026-03-01 09:00", true),
        ("0 9 1 * 5#3", "2026-03-20 09:00", true),
        ("0 9 15W * 5L", "2026-03-16 09:00", true),
        ("0 9 15W * 5L", "2026-03-27 09:00", true),
        ("0 9 */2 * 5#3", "2026-03-20 09:00", false),
        ("0 9 */2 * 5#3", "2026-04-17 09:00", true),
        ("0 9 15,LW 3 mon#1,wed", "2026-03-02 09:00", true),
        // Any day.
        ("0 9 ? * 5", "2026-03-20 09:00", true),
        ("0 9 ? * 5", "2026-03-21 09:00", false),
        ("0 9 13 * ?", "2026-03-13 09:00", true),
        ("0 9 13 * ?", "2026-03-20 09:00", false),
        ("0 9 13 january,March friDAY", "2026-03-20 09:00", true),
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

/// Computes days from the first day of a month and of the next, without walking: for each item alone, forwards and backwards.
#[test]
fn days_of_the_calendar_are_right_for_28_years() {
    type Find = Box<dyn Fn(NaiveDate, NaiveDate) -> Option<NaiveDate>>;
    let days = chrono::TimeDelta::days;
    let within = |date: NaiveDate, first: NaiveDate, next: NaiveDate| (first <= date && date < next).then_some(date);
    let nearest = move |day: NaiveDate, first: NaiveDate, next: NaiveDate| match day.weekday() {
        chrono::Weekday::Sat if day == first => day + days(2),
        chrono::Weekday::Sat => day - days(1),
        chrono::Weekday::Sun if day + days(1) == next => day - days(2),
        chrono::Weekday::Sun => day + days(1),
        _ => day,
    };
    let mut items: Vec<(String, Find)> = vec![
        ("L * *".into(), Box::new(move |_, next| Some(next - days(1)))),
        ("LW * *".into(), Box::new(move |first, next| Some(nearest(next - days(1), first, next)))),
    ];
    for n in 1..=30 {
        items.push((format!("L-{n} * *"), Box::new(move |first, next| within(next - days(1 + n), first, next))));
    }
    for n in 1..=31 {
        let day = move |first, next| within(first + days(n - 1), first, next).map(|day| nearest(day, first, next));
        items.push((format!("{n}W * *"), Box::new(day)));
    }
    for weekday in 0..7 {
        let first_one = move |first: NaiveDate| {
            first + days((weekday - i64::from(first.weekday().num_days_from_sunday())).rem_euclid(7))
        };
        for nth in 1..=5 {
            let day = move |first, next| within(first_one(first) + days(7 * (nth - 1)), first, next);
            items.push((format!("* * {weekday}#{nth}"), Box::new(day)));
        }
        items.push((format!("* * {weekday}L"), Box::new(move |_, next| Some(first_one(next) - days(7)))));
    }
    assert_eq!(items.len(), 2 + 30 + 31 + 7 * 6);
    let first_of = |year: i32, month: u32| NaiveDate::from_ymd_opt(year, month, 1).unwrap();
    let [start, leap_year, after, end] =
        [2000, 2024, 2025, 2028].map(|year| first_of(year, 1).and_time(NaiveTime::MIN).and_utc());
    for (item, find) in items {
        let months = (2000..2028).flat_map(|year| (1..=12).map(move |month| (year, month)));
        let next_of = |year, month| if month == 12 { first_of(year + 1, 1) } else { first_of(year, month + 1) };
        let expected: Vec<NaiveDate> =
            months.filter_map(|(year, month)| find(first_of(year, month), next_of(year, month))).collect();
        let crontab: Crontab = format!("0 0 {item}").parse().unwrap();
        let utc = soloist::Zone::UTC;
        let before = start - chrono::TimeDelta::seconds(1);
        let onward = std::iter::successors(crontab.next(before, &utc), |at| crontab.next(*at, &utc));
        let onward: Vec<_> = onward.take_while(|at| *at < end).map(|at| at.date_naive()).collect();
        let wrong = onward.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!((wrong, onward.len()), (None, expected.len()), "`{item}`");
        // The search backwards finds days by that forwards, so that a leap year is enough.
        let back = std::iter::successors(crontab.previous(after, &utc), |at| crontab.previous(*at, &utc));
        let back: Vec<_> = back.take_while(|at| *at >= leap_year).map(|at| at.date_naive()).collect();
        let expected = expected.iter().filter(|date| (leap_year.date_naive()..after.date_naive()).contains(*date));
        assert!(back.iter().rev().eq(expected), "`{item}` backwards");
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
        ("*/1 */24 */31 */1 */8", "* */24 */31 * */7"),
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
        ("0 18 lw,15w,L-2,l,3 * ?", "0 18 3,L,L-2,15W,LW * *"),
        ("0 18 ? * Friday#3,5L,0#1,7L,mon", "0 18 * * 1,0#1,5#3,0L,5L"),
        ("0 18 1-31,15W * 0-6,5#3", "0 18 1-31 * 0-6"),
        ("0 18 * september *", "0 18 * 9 *"),
    ] {
        let crontab: Crontab = text.parse().unwrap();
        assert_eq!(crontab.to_string(), normalised, "`{text}`");
        assert_eq!(normalised.parse(), Ok(crontab));
        assert_eq!(format!("{crontab:?}"), format!("Crontab({normalised})"));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_is_wrong_is_said_and_pointed_at() {
    const FORMS: &str = "can't be read: an item is `*`, `*/2`, `3`, `3-9` or `3-9/2`";
    const FORMS_OF_MONTH_DAY: &str = "can't be read: an item is `*`, `*/2`, `3`, `3-9`, `3-9/2`, `L` (the last day), `L-2` \
                                      (two days before it; up to `L-30`), `LW` (the last weekday) or `15W`";
    const FORMS_OF_MONTH: &str = "can't be read: an item is `*`, `*/2`, `3`, `3-9`, `3-9/2` or `mar-sep`";
    const FORMS_OF_WEEK: &str = "can't be read: an item is `*`, `*/2`, `3`, `1-5`, `mon-fri`, `1-5/2`, `5#3` (the third Friday) or \
                                 `5L` (the last Friday)";
    const FEW: &str =
        "instead of 5 (minute, hour, day of month, month, day of week): write five, such as `*/5 * * * *`";
    const MANY: &str = "instead of 5 (minute, hour, day of month, month, day of week): leave out seconds, a year, a zone, a command, \
                        and spaces in lists; with seconds or a year, use `on(..)`";
    const BACKWARDS: &str = "runs backwards: write two ranges";
    const STEP: &str = "has a step that is zero or larger than its range; an interval is `every(Duration::from_secs(5400))` or \
                        `--every 90m`";
    const NO_RANGE: &str = "has a step but no range: write a range or `*` before the step, as in `3-9/2`";
    let escaped = |text: &str| text.replace('\n', "\\n").replace('\t', "\\t").replace('\u{a0}', "\\u{a0}");
    // How many fields.
    for (text, count) in [("", 0), (" \t ", 0), ("*", 1), ("0 2 * *", 4), ("99 2 * *", 4)] {
        let fields = if count == 1 { "field" } else { "fields" };
        is_refused_at(text, &format!("`{}`: {count} {fields} {FEW}", escaped(text)), text);
    }
    for (text, count) in [
        ("0 30 2 * * *", 6),
        ("30 2 * * fri 2027", 6),
        ("0 0 2 * * mon 2026", 7),
        ("TZ=UTC 0 * * * *", 6),
        ("0 9 * * 1-5 +02:00", 6),
        ("0 9 * * mon - fri", 7),
        ("0 9 1, 15 * *", 6),
        ("cron(0 9 * * ? *)", 6),
        ("* * * * * # nightly", 7),
        ("0 9 * * *\n0 18 * * *", 9),
    ] {
        is_refused_at(text, &format!("`{}`: {count} fields {MANY}", escaped(text)), text);
    }
    // The part of a field that is wrong.
    for (text, field, part, what) in [
        // Numbers and names.
        ("61 * * * *", "minute", "61", "is outside of 0-59"),
        ("0 24 * * *", "hour", "24", "is outside of 0-23"),
        ("0 0 00 * *", "day of month", "00", "is outside of 1-31"),
        ("0 0 1 1-13 *", "month", "13", "is outside of 1-12"),
        ("0 0 * * 8", "day of week", "8", "is outside of 0-7"),
        ("99999999999999999999 * * * *", "minute", "99999999999999999999", "is outside of 0-59"),
        ("4294967301 * * * *", "minute", "4294967301", "is outside of 0-59"),
        ("mon * * * *", "minute", "mon", FORMS),
        ("5x * * * *", "minute", "5x", FORMS),
        ("H * * * *", "minute", "H", FORMS),
        ("~ * * * *", "minute", "~", FORMS),
        ("0 1~5 * * *", "hour", "1~5", FORMS),
        ("0 ? * * *", "hour", "?", FORMS),
        ("0 0 1 mon *", "month", "mon", FORMS_OF_MONTH),
        ("0 0 * L *", "month", "L", FORMS_OF_MONTH),
        ("0 0 * * mond", "day of week", "mond", FORMS_OF_WEEK),
        ("* * * * 1,?", "day of week", "?", FORMS_OF_WEEK),
        // Ranges.
        ("0 22-2 * * *", "hour", "22-2", BACKWARDS),
        ("0 22-2/2 * * *", "hour", "22-2/2", BACKWARDS),
        ("5-0 * * * *", "minute", "5-0", BACKWARDS),
        ("0 0 * * fri-mon", "day of week", "fri-mon", BACKWARDS),
        ("0 0 * * 7-2", "day of week", "7-2", BACKWARDS),
        ("1-2-3 * * * *", "minute", "1-2-3", FORMS),
        ("0 9 * * mon-wed-fri", "day of week", "mon-wed-fri", FORMS_OF_WEEK),
        ("0 9 last * *", "day of month", "last", FORMS_OF_MONTH_DAY),
        ("0 8-17:30 * * *", "hour", "8-17:30", FORMS),
        ("*-5 * * * *", "minute", "*-5", FORMS),
        ("0 9 * * 1\u{2013}5", "day of week", "1\u{2013}5", FORMS_OF_WEEK),
        // Steps.
        ("5/10 * * * *", "minute", "5/10", NO_RANGE),
        ("* * * * 7/2", "day of week", "7/2", NO_RANGE),
        ("0,*/0 * * * *", "minute", "*/0", STEP),
        ("*/90 * * * *", "minute", "*/90", STEP),
        ("0 */36 * * *", "hour", "*/36", STEP),
        ("0 0 3-9/8 * *", "day of month", "3-9/8", STEP),
        ("*/99999999999999999999 * * * *", "minute", "*/99999999999999999999", STEP),
        ("*/ * * * *", "minute", "*/", FORMS),
        ("*/2/3 * * * *", "minute", "*/2/3", FORMS),
        ("0 0 * * */mon", "day of week", "*/mon", FORMS_OF_WEEK),
        ("*5 * * * *", "minute", "*5", FORMS),
        ("** * * * *", "minute", "**", FORMS),
        // Days of the calendar.
        ("0 0 L-31 * *", "day of month", "L-31", FORMS_OF_MONTH_DAY),
        ("0 0 1,L-3W * *", "day of month", "L-3W", FORMS_OF_MONTH_DAY),
        ("0 0 32W * *", "day of month", "32W", FORMS_OF_MONTH_DAY),
        ("0 0 W15 * *", "day of month", "W15", FORMS_OF_MONTH_DAY),
        ("0 0 1-15W * *", "day of month", "1-15W", FORMS_OF_MONTH_DAY),
        ("0 0 * * 6#6", "day of week", "6#6", FORMS_OF_WEEK),
        ("0 0 * * 8L", "day of week", "8L", FORMS_OF_WEEK),
        ("0 0 * * L", "day of week", "L", FORMS_OF_WEEK),
        // Characters that are not ASCII, and other blanks than spaces and tabs.
        ("é * * * *", "minute", "é", FORMS),
        ("5é,é * * * *", "minute", "5é", FORMS),
        ("* * * * *\n", "day of week", "*\n", FORMS_OF_WEEK),
        ("0 9 *\u{a0} * *", "day of month", "*\u{a0}", FORMS_OF_MONTH_DAY),
        ("\"0 9 * * *\"", "minute", "\"0", FORMS),
    ] {
        let column = text.find(part).unwrap() + 1;
        let message = format!("`{}`: {field} `{}` {what} (column {column})", escaped(text), escaped(part));
        is_refused_at(text, &message, part);
    }
    for (text, message, part) in [
        // Lists.
        ("1,,2 * * * *", "`1,,2 * * * *`: minute has an empty list item: remove a comma (column 3)", ""),
        (",1 * * * *", "`,1 * * * *`: minute has an empty list item: remove a comma (column 1)", ""),
        ("0 1, * * *", "`0 1, * * *`: hour has an empty list item: remove a comma (column 5)", ""),
        // Dates that never come.
        (
            "30 2 31 2 *",
            "`30 2 31 2 *`: day of month `31` never comes in month `2`: the last day of a month is `L` (column 6)",
            "31",
        ),
        (
            "0 0 30,31 feb *",
            "`0 0 30,31 feb *`: day of month `30,31` never comes in month `feb`: the last day of a month is `L` (column 5)",
            "30,31",
        ),
        ("0 9 15W * */7", "`0 9 15W * */7`: day of month `15W` never comes on day of week `*/7` (column 5)", "15W"),
        (
            "0 9 L-30 2 *",
            "`0 9 L-30 2 *`: day of month `L-30` never comes in month `2`: the last day of a month is `L` (column 5)",
            "L-30",
        ),
        (
            "0 0  31 4,6 */2",
            "`0 0  31 4,6 */2`: day of month `31` never comes in month `4,6`: the last day of a month is `L` (column 6)",
            "31",
        ),
        // Nicknames.
        ("@midnite", "`@midnite`: no such nickname: did you mean `@midnight`?", "@midnite"),
        ("@YEARLY", "`@YEARLY`: no such nickname: did you mean `@yearly`?", "@YEARLY"),
        (" @Midnight ", "` @Midnight `: no such nickname: did you mean `@midnight`?", "@Midnight"),
        (
            "@every 5m",
            "`@every 5m`: no such nickname: there are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly; `@reboot` \
             is no time; an interval is `every(..)` or `--every 5m`",
            "@every 5m",
        ),
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
    assert_eq!(error.to_string(), format!("`{}…`: 1001 bytes: the limit is 1000", " ".repeat(60)));

    // Reading it a hundred times would take longer each time.
    let huge = "*,".repeat(1 << 19);
    let is_not_read = || {
        let started = Instant::now();
        for _ in 0..100 {
            let error = huge.parse::<Crontab>().unwrap_err();
            assert!(error.to_string().ends_with("…`: 1048576 bytes: the limit is 1000"));
        }
        started.elapsed() < Duration::from_millis(100)
    };
    assert!((0..10).any(|_| is_not_read()));
}
