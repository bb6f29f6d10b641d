//! Tests: the page `docs/guide/timetables.md` has a row for each method, with the times that the method really has.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use chrono::{DateTime, Datelike, Month, NaiveDate, NaiveTime, TimeDelta, Timelike, Utc, Weekday};

use super::WORDS;
use crate::event::event_builder::Event;

const PAGE: &str = "docs/guide/timetables.md";
const WRITTEN: &str = include_str!("../../../../docs/guide/timetables.md");

/// The rows show times after this instant: a Friday evening at the end of February, in the middle of a minute.
const AFTER: &str = "2026-02-27T22:58:45Z";

/// A row of the table: the method calls as source text, and the event that they build.
type Row = (String, Event);

fn event() -> Event {
    Event::call("x", |_| {})
}

fn midnight() -> DateTime<Utc> {
    date().and_time(NaiveTime::MIN).and_utc()
}

/// Returns the second Monday of a month.
fn date() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 3, 9).expect("there is such a day")
}

macro_rules! row {
    ($($word:tt)+) => {
        // Some versions of the compiler write spaces before `(` and `.` in `stringify!`. These spaces are removed.
        (stringify!($($word)+).replace(" (", "(").replace(" .", "."), event().$($word)+)
    };
}

/// Returns the rows by section. In each section, methods without arguments come first.
fn sections() -> Vec<(&'static str, Vec<Row>)> {
    let mut sections: Vec<_> =
        WORDS.iter().map(|(title, words)| (*title, words.iter().map(row_of).collect())).collect();
    sections.push(("Methods together", Vec::new()));
    for ((_, rows), more) in sections.iter_mut().zip(with_arguments()) {
        rows.extend(more);
    }
    sections
}

fn row_of((name, word): &(&str, fn(Event) -> Event)) -> Row {
    let has_a_time = word(event()).next(DateTime::UNIX_EPOCH).is_some();
    if has_a_time {
        (format!("{name}()"), word(event()))
    } else {
        (format!("daily_at(\"10:00\").{name}()"), word(event().daily_at("10:00")))
    }
}

fn with_arguments() -> [Vec<Row>; 7] {
    [
        vec![row!(every(Duration::from_secs(12)))],
        vec![row!(every(Duration::from_secs(20 * 60)))],
        vec![
            row!(hourly_at(17)),
            row!(hourly_at([15, 45])),
            row!(every_odd_hour_at(15)),
            row!(every_two_hours_at(15)),
            row!(every_three_hours_at(15)),
            row!(every_four_hours_at(15)),
            row!(every_six_hours_at([0, 30])),
            row!(every(Duration::from_secs(90 * 60))),
            row!(every(Duration::from_secs(90 * 60)).anchored_at(midnight())),
            row!(every_hours(8)),
            row!(every_hours_at(8, 15)),
        ],
        vec![
            row!(daily_at("02:30")),
            row!(twice_daily(1, 13)),
            row!(twice_daily_at(1, 13, 15)),
            row!(every_days(3, date()).daily_at("02:30")),
        ],
        vec![
            row!(daily_at("10:00").days([Weekday::Mon, Weekday::Wed])),
            row!(weekly_on(Weekday::Mon, "02:30")),
            row!(weekly_on([Weekday::Tue, Weekday::Thu], "18:00")),
            row!(every_weeks(2, date()).daily_at("09:00")),
            row!(every_weeks(2, date()).weekly_on([Weekday::Mon, Weekday::Thu], "09:00")),
        ],
        vec![
            row!(monthly_on(15, "02:30")),
            row!(monthly_on(31, "02:30")),
            row!(twice_monthly(1, 16, "02:30")),
            row!(days_of_month([1, 11, 21])),
            row!(last_day_of_month("23:30")),
            row!(quarterly_on(15, "02:30")),
            row!(yearly_on(Month::December, 24, "02:30")),
            row!(yearly_on(Month::February, 29, "02:30")),
        ],
        vec![
            row!(weekdays().hourly()),
            row!(hourly().weekdays()),
            row!(weekly().mondays().daily_at("13:00")),
            row!(every_ten_seconds().hourly()),
            row!(every_two_hours().every_fifteen_minutes()),
            row!(daily_at("02:30").days_of_month([1, 15])),
            row!(quarterly().last_day_of_month("18:00")),
            row!(monthly_on(10, "09:00").fridays()),
            row!(hourly().between("08:00", "10:00")),
            row!(hourly().between("23:00", "01:00")),
            row!(hourly().unless_between("23:00", "04:00")),
            row!(every(Duration::from_secs(90 * 60)).weekdays()),
            row!(hourly().from(midnight())),
            row!(daily().from(midnight()).until(midnight() + TimeDelta::days(30))),
            row!(at(midnight())),
        ],
    ]
}

#[test]
fn the_table_in_the_documentation_is_what_the_words_do() {
    let made = table();
    if env::var_os("SOLOIST_WRITE_TABLE").is_some() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE), &made).expect("it is ours");
        return;
    }
    for (made, written) in made.lines().zip(WRITTEN.lines()) {
        assert_eq!(made, written, "SOLOIST_WRITE_TABLE=1 writes {PAGE} anew");
    }
    assert_eq!(made.lines().count(), WRITTEN.lines().count(), "SOLOIST_WRITE_TABLE=1 writes it anew");
}

#[test]
fn every_word_is_in_the_table() {
    let words = words();
    assert!(words.len() > 50 && words.contains("every_second") && words.contains("unless_between"), "{words:?}");
    let rows: Vec<String> = sections().into_iter().flat_map(|(_, rows)| rows).map(|(text, _)| text).collect();
    let has_row = |word: &&String| rows.iter().any(|text| format!(".{text}").contains(&format!(".{word}(")));
    let missing: Vec<&String> = words.iter().filter(|word| !has_row(word)).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
}

/// Returns the names of the public methods in frequencies.rs, including the methods that its macro defines.
fn words() -> BTreeSet<String> {
    let source = include_str!("../frequencies.rs");
    let written = source.lines().filter_map(|line| line.trim_start().strip_prefix("pub fn "));
    let written = written.filter_map(|rest| rest.split(['(', '<']).next()).filter(|name| !name.starts_with('$'));
    let in_table = WORDS.iter().flat_map(|(_, words)| words.iter().map(|(name, _)| *name));
    written.chain(in_table).map(str::to_owned).collect()
}

fn table() -> String {
    let after: DateTime<Utc> = AFTER.parse().expect("an instant");
    let now = after.format("%a %-d %b %Y, %T UTC");
    let mut table = format!(
        "# Every timetable, with its next five times\n\nEach row has the next five times after {now}. `date()` is {}, a Monday. `midnight()` is the beginning of that day in UTC.\n",
        date()
    );
    for (title, rows) in sections() {
        write!(table, "\n## {title}\n\n| method | expression | next five times |\n| --- | --- | --- |\n")
            .expect("text");
        for (text, event) in rows {
            let last = text.rsplit(").").next().unwrap_or(&text);
            let name = last.split('(').next().unwrap_or(last);
            let (expression, times) = (expression(&event), times(&event, after));
            writeln!(table, "| [`{text}`](https://docs.rs/soloist/latest/soloist/struct.Event.html#method.{name}) | {expression} | {times} |").expect("text");
        }
    }
    table
}

fn expression(event: &Event) -> String {
    let (crontab, every) = event.due.spelt_out();
    match every {
        None if event.due.is_once() => "once".to_owned(),
        None if event.due.cycle_in_words().is_empty() => format!("`{crontab}`"),
        None => format!("`{crontab}`, {}", event.due.cycle_in_words()),
        Some(every) if every.as_secs() == 1 => format!("`{crontab}`, every second"),
        Some(every) => format!("`{crontab}`, every {} s", every.as_secs()),
    }
}

/// Returns the next times as text. A date is written only if it differs from the previous date, and a year only if it
/// differs from the year of `after`.
fn times(event: &Event, after: DateTime<Utc>) -> String {
    let mut last = None;
    let mut written = Vec::new();
    let seconds = event.due.spelt_out().1.is_some_and(|every| every.as_secs() % 60 != 0);
    for time in event.upcoming(after).take(5) {
        let pattern = match (last.replace(time.date_naive()), time.year()) {
            (Some(date), _) if date == time.date_naive() => "",
            (_, year) if year == after.year() => "%a %-d %b ",
            _ => "%a %-d %b %Y ",
        };
        let clock = if seconds { "%T" } else { "%R" };
        assert!(seconds || time.second() == 0);
        written.push(time.format(&format!("{pattern}{clock}")).to_string());
    }
    let is_once = event.due.is_once();
    assert_eq!(written.len(), if is_once { 1 } else { 5 });
    written.join(", ")
}
