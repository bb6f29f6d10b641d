//! The description of a crontab in plain English.

use std::fmt::Write as _;

use chrono::Month;

use super::Crontab;
use super::civil_minute::CalendarDay;
use super::field_set::{Field, FieldSet, InField};
use crate::base::similar::list;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The length of the longest list of times of day, such as `08:00, 12:00 and 18:00`. If there are more times, the
/// minutes and the hours are described separately.
const MOST_TIMES: usize = 6;

const WEEKDAYS: u128 = 0b011_1110;
const WEEKENDS: u128 = 0b100_0001;

impl Crontab {
    /// Returns the times in words: `every 5 minutes`, `daily at 02:30`, `at 08:00 and 18:00, on weekdays, in March`.
    ///
    /// `every` is an interval within the minutes of the crontab, such as `every 10 seconds`. `cycle` is a cycle of days
    /// that limits the days of the crontab, or an empty text.
    pub(crate) fn in_words(&self, every: Option<String>, cycle: &str) -> String {
        let mut words = match (every, self.minutes_and_hours()) {
            (None, minutes) => minutes,
            (Some(every), minutes) if minutes == "every minute" => every,
            (Some(every), minutes) => format!("{every}, {minutes}"),
        };
        let days = self.days();
        let is_each_day = days.is_empty() && cycle.is_empty() && self.is_full(Field::Month);
        if is_each_day && words.starts_with("at ") && !words.contains("hour") {
            words.insert_str(0, "daily ");
        }
        for more in [&days, cycle, &self.months()] {
            if !more.is_empty() {
                let _ = write!(words, ", {more}");
            }
        }
        words
    }

    fn minutes_and_hours(&self) -> String {
        let (minutes, hours) = (self.get(Field::Minute), self.get(Field::Hour));
        let of_minutes = match (even_step(minutes, Field::Minute), only(minutes)) {
            (Some(1), _) => "every minute".into(),
            (Some(step), _) => format!("every {step} minutes"),
            (None, Some(minute)) => format!("at :{minute:02}"),
            (None, None) => format!("at the minutes {}", InField(Field::Minute, minutes)),
        };
        match (even_step(hours, Field::Hour), only(minutes)) {
            (Some(1), Some(0)) => "hourly".into(),
            (Some(1), Some(_)) => format!("hourly {of_minutes}"),
            (Some(1), None) if even_step(minutes, Field::Minute).is_none() => format!("{of_minutes} of each hour"),
            (Some(1), None) => of_minutes,
            (Some(step), Some(0)) => format!("every {step} hours"),
            (Some(step), Some(_)) => format!("every {step} hours {of_minutes}"),
            _ if numbers(minutes).count() * numbers(hours).count() <= MOST_TIMES => {
                let times = numbers(hours)
                    .flat_map(|hour| numbers(minutes).map(move |minute| format!("{hour:02}:{minute:02}")));
                format!("at {}", list(times, "and"))
            }
            _ => format!("{of_minutes} of the hours {}", InField(Field::Hour, hours)),
        }
    }

    /// Returns the days in words, or an empty text for every day.
    fn days(&self) -> String {
        let (of_month, of_week) = (self.get(Field::DayOfMonth), self.get(Field::DayOfWeek));
        // Without a star, a day is due if one of the two fields has the day. So a field with all days means every day.
        if !self.days_must_both_match() && (self.is_full(Field::DayOfMonth) || self.is_full(Field::DayOfWeek)) {
            return String::new();
        }
        match (self.is_full(Field::DayOfMonth), self.is_full(Field::DayOfWeek)) {
            (true, true) => String::new(),
            (true, false) => format!("on {}", week(of_week)),
            (false, true) => format!("on {}", month_days(of_month)),
            (false, false) if self.days_must_both_match() => {
                format!("on {}, but only on {}", month_days(of_month), week(of_week))
            }
            (false, false) => format!("on {} and on {}", month_days(of_month), week(of_week)),
        }
    }

    /// Returns the months in words, or an empty text for all months.
    fn months(&self) -> String {
        if self.is_full(Field::Month) {
            return String::new();
        }
        let months =
            numbers(self.get(Field::Month)).filter_map(|month| Month::try_from(u8::try_from(month).ok()?).ok());
        format!("in {}", list(months.map(|month| month.name().to_owned()), "and"))
    }

    fn is_full(&self, field: Field) -> bool {
        even_step(self.get(field), field) == Some(1)
    }
}

/// Returns the step of a set that is `*/step`, if the step divides the range of the field evenly.
fn even_step(set: FieldSet, field: Field) -> Option<u32> {
    let first = field.ends().0;
    let last = if field == Field::DayOfWeek { 6 } else { field.ends().1 };
    let length = last - first + 1;
    let is_it = |step: &u32| length.is_multiple_of(*step) && set.bits == FieldSet::every_nth(field, *step).bits;
    (1..length).find(is_it)
}

/// Returns the number of a set that has only one number.
fn only(set: FieldSet) -> Option<u32> {
    set.bits.is_power_of_two().then(|| set.bits.trailing_zeros())
}

fn numbers(set: FieldSet) -> impl Iterator<Item = u32> + Clone {
    (0..128).filter(move |number| set.bits >> number & 1 != 0)
}

fn week(set: FieldSet) -> String {
    let (plain, calendar_days) = apart(Field::DayOfWeek, set);
    let plain = match plain.bits {
        WEEKDAYS => vec!["weekdays".into()],
        WEEKENDS => vec!["weekends".into()],
        _ => numbers(plain).map(|day| format!("{}s", DAYS[day as usize])).collect(),
    };
    list(plain.into_iter().chain(calendar_days), "and")
}

fn month_days(set: FieldSet) -> String {
    let (plain, calendar_days) = apart(Field::DayOfMonth, set);
    let in_field = InField(Field::DayOfMonth, plain);
    let plain = match plain.bits.count_ones() {
        0 => None,
        1 => Some(format!("day {in_field} of the month")),
        _ => Some(format!("the days {in_field} of the month")),
    };
    list(plain.into_iter().chain(calendar_days), "and")
}

/// Returns the plain numbers of a set. Also returns its items of the kind [`CalendarDay`], such as `L`, in words.
fn apart(field: Field, set: FieldSet) -> (FieldSet, impl Iterator<Item = String>) {
    (set.without_calendar_days(field), set.calendar_days(field).map(calendar_day))
}

fn calendar_day(day: CalendarDay) -> String {
    const NTH: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

    let name = |day: u32| DAYS[day as usize];
    match day {
        CalendarDay::BeforeLast(0) => "the last day of the month".into(),
        CalendarDay::BeforeLast(1) => "the day before the last of the month".into(),
        CalendarDay::BeforeLast(days) => format!("the day {days} days before the last of the month"),
        CalendarDay::WeekdayNearest(day) => format!("the weekday nearest to day {day} of the month"),
        CalendarDay::LastWeekday => "the last weekday of the month".into(),
        CalendarDay::NthOfMonth { day_of_week, nth } => {
            format!("the {} {} of the month", NTH[nth as usize - 1], name(day_of_week))
        }
        CalendarDay::LastOfMonth { day_of_week } => format!("the last {} of the month", name(day_of_week)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crontab_reads_as_a_person_says_it() {
        let cases = [
            ("* * * * *", 60, "every minute"),
            ("* * * * *", 10, "every 10 seconds"),
            ("*/5 * * * *", 60, "every 5 minutes"),
            ("0 * * * *", 60, "hourly"),
            ("15 * * * *", 60, "hourly at :15"),
            ("0,15,40 * * * *", 60, "at the minutes 0,15,40 of each hour"),
            ("*/7 * * * *", 60, "at the minutes */7 of each hour"),
            ("0 */6 * * *", 60, "every 6 hours"),
            ("30 */2 * * *", 60, "every 2 hours at :30"),
            ("30 2 * * *", 60, "daily at 02:30"),
            ("0 8,12,18 * * *", 60, "daily at 08:00, 12:00 and 18:00"),
            ("0,30 8 * * 1-5", 60, "at 08:00 and 08:30, on weekdays"),
            ("*/10 8-18 * * MON-FRI", 60, "every 10 minutes of the hours 8-18, on weekdays"),
            ("5 8-18 * * sat,sun", 60, "at :05 of the hours 8-18, on weekends"),
            ("15 3 * * mon,fri", 60, "at 03:15, on Mondays and Fridays"),
            ("0 0 1 * *", 60, "at 00:00, on day 1 of the month"),
            ("0 18 15,L * *", 60, "at 18:00, on day 15 of the month and the last day of the month"),
            (
                "0 18 L-1,L-3 * *",
                60,
                "at 18:00, on the day before the last of the month and the day 3 days before the last of the month",
            ),
            (
                "0 9 1,15W,LW * *",
                60,
                "at 09:00, on day 1 of the month, the weekday nearest to day 15 of the month and the last weekday of the month",
            ),
            ("0 9 * * fri#3", 60, "at 09:00, on the third Friday of the month"),
            (
                "0 9 * * mon,5#1,5L",
                60,
                "at 09:00, on Mondays, the first Friday of the month and the last Friday of the month",
            ),
            ("0 0 1-31 * 4", 60, "daily at 00:00"),
            ("0 0 13 * 0-6", 60, "daily at 00:00"),
            ("0 9-17 1-31 2 1", 60, "at :00 of the hours 9-17, in February"),
            ("0 0 */1 * 4", 60, "at 00:00, on Thursdays"),
            ("0 0 1-31 * *", 60, "daily at 00:00"),
            ("0 9 13 * fri", 60, "at 09:00, on day 13 of the month and on Fridays"),
            ("0 9 */2 * fri", 60, "at 09:00, on the days */2 of the month, but only on Fridays"),
            ("0 0 1 1,7 *", 60, "at 00:00, on day 1 of the month, in January and July"),
            ("0 0 * 3 *", 30, "every 30 seconds, at 00:00, in March"),
        ];
        let nightly: Crontab = "30 2 * 3 *".parse().unwrap();
        assert_eq!(nightly.in_words(None, "every 3 days"), "at 02:30, every 3 days, in March");
        for (crontab, seconds, words) in cases {
            let every = (seconds != 60).then(|| format!("every {seconds} seconds"));
            assert_eq!(crontab.parse::<Crontab>().unwrap().in_words(every, ""), words, "{crontab}");
        }
    }
}
