//! When an event is due, in words: `daily_at`, `weekdays`, `every_five_minutes` and their like.
//!
//! The guide's page `frequencies` lists them all. Each sets some fields of a crontab line and leaves the others alone.

use chrono::{Month, Weekday};

use super::Event;
use crate::event::add_error::AddErrorKind;
use crate::event::filter::Filter;
use crate::time::crontab::field_set::{Field, FieldSet};
use crate::time::frequency::timetable_spec::Interval;
use crate::time::timetable::windows::Window;
use crate::time::{frequency::one_or_more::OneOrMore, frequency::time_of_day::window};

/// The words without arguments, by section of the guide's page: each with what it means and its expression. Of the
/// expression it sets the fields in the first list; those in the second hold unless another word sets them.
macro_rules! words {
    (
        $seconds:literal { $($every:ident $n:literal $how_often:literal;)+ }
        $($section:literal { $($word:ident $expression:literal [$($set:ident)*] [$($default:ident)*] $meaning:literal;)+ })+
    ) => {
        /// The words without arguments.
        ///
        /// ```
        /// use soloist::Event;
        ///
        /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().weekdays();
        /// ```
        impl Event {
            $(
                #[doc = concat!("Due ", $how_often, ": see [`every_seconds`](Self::every_seconds).")]
                pub fn $every(self) -> Self {
                    self.every_seconds($n)
                }
            )+
            $($(
                #[doc = concat!("Due ", $meaning, ": `", $expression, "`.")]
                pub fn $word(self) -> Self {
                    self.timed(|words| {
                        words.set_from($expression, &[$(Field::$set),*], &[$(Field::$default),*])
                    })
                }
            )+)+
        }

        /// By section, the name of each word, and what it does.
        #[cfg(test)]
        const WORDS: &[(&str, &[(&str, fn(Event) -> Event)])] = &[
            ($seconds, &[$((stringify!($every), Event::$every)),+]),
            $(($section, &[$((stringify!($word), Event::$word)),+])),+
        ];
    };
}

words! {
    "Several times a minute" {
        every_second 1 "every second";
        every_two_seconds 2 "every two seconds, counted from the full minute";
        every_five_seconds 5 "every five seconds, counted from the full minute";
        every_ten_seconds 10 "every ten seconds, counted from the full minute";
        every_fifteen_seconds 15 "every fifteen seconds, counted from the full minute";
        every_twenty_seconds 20 "every twenty seconds, counted from the full minute";
        every_thirty_seconds 30 "every thirty seconds, counted from the full minute";
    }
    "Several times an hour" {
        every_minute "* * * * *" [Minute] [] "every minute";
        every_two_minutes "*/2 * * * *" [Minute] [] "every two minutes, counted from the full hour";
        every_three_minutes "*/3 * * * *" [Minute] [] "every three minutes, counted from the full hour";
        every_four_minutes "*/4 * * * *" [Minute] [] "every four minutes, counted from the full hour";
        every_five_minutes "*/5 * * * *" [Minute] [] "every five minutes, counted from the full hour";
        every_ten_minutes "*/10 * * * *" [Minute] [] "every ten minutes, counted from the full hour";
        every_fifteen_minutes "*/15 * * * *" [Minute] [] "every fifteen minutes, counted from the full hour";
        every_thirty_minutes "*/30 * * * *" [Minute] [] "every thirty minutes, counted from the full hour";
    }
    "Several times a day" {
        hourly "0 * * * *" [Minute Hour] [] "every hour, on the hour";
        every_odd_hour "0 1-23/2 * * *" [Hour] [Minute] "at 01:00, 03:00 … 23:00, each once when clocks change";
        every_two_hours "0 */2 * * *" [Hour] [Minute] "every two hours, on the hour, counted from midnight";
        every_three_hours "0 */3 * * *" [Hour] [Minute] "every three hours, on the hour, counted from midnight";
        every_four_hours "0 */4 * * *" [Hour] [Minute] "every four hours, on the hour, counted from midnight";
        every_six_hours "0 */6 * * *" [Hour] [Minute] "every six hours, on the hour, counted from midnight";
    }
    "Once or twice a day" {
        daily "0 0 * * *" [Minute Hour] [] "every day at midnight";
    }
    "Days of the week" {
        weekly "0 0 * * 0" [] [Minute Hour DayOfWeek] "on Sundays at 00:00, in the night from Saturday to Sunday";
        weekdays "* * * * 1-5" [DayOfWeek] [] "from Monday to Friday, at the times that other words say";
        weekends "* * * * 0,6" [DayOfWeek] [] "on Saturday and Sunday, at the times that other words say";
        mondays "* * * * 1" [DayOfWeek] [] "on Mondays, at the times that other words say";
        tuesdays "* * * * 2" [DayOfWeek] [] "on Tuesdays, at the times that other words say";
        wednesdays "* * * * 3" [DayOfWeek] [] "on Wednesdays, at the times that other words say";
        thursdays "* * * * 4" [DayOfWeek] [] "on Thursdays, at the times that other words say";
        fridays "* * * * 5" [DayOfWeek] [] "on Fridays, at the times that other words say";
        saturdays "* * * * 6" [DayOfWeek] [] "on Saturdays, at the times that other words say";
        sundays "* * * * 0" [DayOfWeek] [] "on Sundays, at the times that other words say";
    }
    "Days of the month and of the year" {
        monthly "0 0 1 * *" [] [Minute Hour DayOfMonth] "on the first of each month at midnight";
        quarterly "0 0 1 1-10/3 *" [Month] [Minute Hour DayOfMonth] "on the first of each quarter at midnight";
        yearly "0 0 1 1 *" [Month] [Minute Hour DayOfMonth] "on the first of January at midnight";
    }
}

/// Intervals, minutes of hours, and hours of the day.
///
/// `minutes` are one or several, from 0 to 59. [`add`](crate::Schedule::add) refuses others, and an empty list.
///
/// ```
/// use soloist::Event;
///
/// let event = Event::call("reports:generate", |_| {}).every_hours_at(8, [0, 30]);
/// let event = Event::call("db:backup", |_| {}).daily_at("02:30");
/// ```
impl Event {
    /// Due every `n` seconds, counted from the full minute, so that it does not drift, however long its task takes.
    /// `n` must divide 60; `add` refuses other numbers.
    ///
    /// Other words say of which minutes: `every_ten_seconds().hourly()` is every ten seconds of the first minute of each
    /// hour. With [`cron`](Self::cron), `add` refuses it.
    ///
    /// [`run_due`](crate::Schedule::run_due) runs the occurrence that its tick falls into;
    /// [`run_minute`](crate::Schedule::run_minute) and [`work`](crate::Schedule::work) stay for all of them.
    pub fn every_seconds(self, n: u32) -> Self {
        self.timed(|words| words.set_interval(Interval::Seconds, n))
    }

    /// Due every `n` minutes, counted from the full hour: `*/n * * * *`. `n` must divide 60; `add` refuses other numbers,
    /// with which the last interval of an hour would be shorter, and says how to write them as a crontab.
    pub fn every_minutes(self, n: u32) -> Self {
        self.timed(|words| words.set_interval(Interval::Minutes, n))
    }

    /// Due every `n` hours, on the hour, counted from midnight: `0 */n * * *`. `n` must divide 24; `add` refuses other
    /// numbers, with which the last interval of a day would be shorter, and says how to write them as a crontab.
    pub fn every_hours(self, n: u32) -> Self {
        self.timed(|words| words.default_to_zero(&[Field::Minute]).set_interval(Interval::Hours, n))
    }

    /// Due every `n` hours, counted from midnight, at this minute or at these: `15 */n * * *` for 15. `n` is as for
    /// [`every_hours`](Self::every_hours).
    pub fn every_hours_at(self, n: u32, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.timed(|words| words.set_interval(Interval::Hours, n)).numbers(Field::Minute, minutes.into())
    }

    /// Due every hour at this minute or at these: `17 * * * *` for 17, `15,45 * * * *` for `[15, 45]`.
    pub fn hourly_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.timed(|words| words.set(Field::Hour, FieldSet::every(Field::Hour))).numbers(Field::Minute, minutes.into())
    }

    /// Due every odd hour at this minute or at these: `15 1-23/2 * * *` for 15.
    pub fn every_odd_hour_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.numbers(Field::Hour, (1..24).step_by(2)).numbers(Field::Minute, minutes.into())
    }

    /// Due every two hours, counted from midnight, at this minute or at these: `15 */2 * * *` for 15.
    pub fn every_two_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.every_hours_at(2, minutes)
    }

    /// Due every three hours, counted from midnight, at this minute or at these: `15 */3 * * *` for 15.
    pub fn every_three_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.every_hours_at(3, minutes)
    }

    /// Due every four hours, counted from midnight, at this minute or at these: `15 */4 * * *` for 15.
    pub fn every_four_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.every_hours_at(4, minutes)
    }

    /// Due every six hours, counted from midnight, at this minute or at these: `15 */6 * * *` for 15.
    pub fn every_six_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.every_hours_at(6, minutes)
    }

    /// Due every day at this time: `30 2 * * *` for `02:30`. A time of day is written `hh:mm` or `h:mm`, from `00:00` to
    /// `23:59`, on the clocks of the event's zone; `add` refuses any other text.
    pub fn daily_at(self, time: &str) -> Self {
        self.timed(|words| words.set_time(time))
    }

    /// Due every day at these two hours: `0 1,13 * * *` for 1 and 13. `add` refuses an hour that is not from 0 to 23.
    pub fn twice_daily(self, first: u32, second: u32) -> Self {
        self.timed(|words| words.default_to_zero(&[Field::Minute]).set_numbers(Field::Hour, [first, second]))
    }

    /// Due every day at this minute of these two hours: `15 1,13 * * *` for 1, 13 and 15. `add` refuses an hour that is not
    /// from 0 to 23.
    pub fn twice_daily_at(self, first: u32, second: u32, minute: u32) -> Self {
        self.numbers(Field::Hour, [first, second]).numbers(Field::Minute, [minute])
    }
}

/// Days of the week, of the month and of the year.
///
/// Where both a day of the month and a day of the week are said, a day is due when it is *either*: see
/// [`Crontab`](crate::time::Crontab). A `time` is written as for [`daily_at`](Self::daily_at). A `day` of the month is from 1 to
/// 31; in a month that has no such day the event is not due, so that 31 means seven times a year.
/// [`add`](crate::Schedule::add) refuses other days, an empty list, and a date that never comes.
///
/// ```
/// use chrono::{Month, Weekday};
/// use soloist::Event;
///
/// let event = Event::call("reports:send", |_| {}).weekly_on([Weekday::Tue, Weekday::Thu], "18:00");
/// let event = Event::call("invoices", |_| {}).monthly_on(15, "02:30");
/// let event = Event::call("balance", |_| {}).yearly_on(Month::December, 31, "23:30");
/// ```
impl Event {
    /// Due on these days of the week, at the times that other words say: `* * * * 1,3` for Monday and Wednesday.
    pub fn days(self, days: impl IntoIterator<Item = Weekday>) -> Self {
        self.numbers(Field::DayOfWeek, days.into_iter().map(|day| day.num_days_from_sunday()))
    }

    /// Due on this day of the week or on these, at this time: `30 2 * * 1` for Monday and `02:30`.
    pub fn weekly_on(self, days: impl Into<OneOrMore<Weekday>>, time: &str) -> Self {
        self.daily_at(time).days(days.into())
    }

    /// Due on this day of each month at this time: `30 2 15 * *` for 15 and `02:30`. For the end of each month there is
    /// [`last_day_of_month`](Self::last_day_of_month).
    pub fn monthly_on(self, day: u32, time: &str) -> Self {
        self.daily_at(time).numbers(Field::DayOfMonth, [day])
    }

    /// Due on these two days of each month at this time: `30 2 1,16 * *` for 1, 16 and `02:30`.
    pub fn twice_monthly(self, first: u32, second: u32, time: &str) -> Self {
        self.daily_at(time).numbers(Field::DayOfMonth, [first, second])
    }

    /// Due on these days of each month at midnight, unless another word says the time: `0 0 1,11,21 * *` for
    /// `[1, 11, 21]`.
    pub fn days_of_month(self, days: impl IntoIterator<Item = u32>) -> Self {
        self.timed(|words| words.default_to_zero(&[Field::Hour, Field::Minute]).set_numbers(Field::DayOfMonth, days))
    }

    /// Due on the last day of each month at this time, be it the 28th, 29th, 30th or 31st: `30 2 L * *` for `02:30`.
    pub fn last_day_of_month(self, time: &str) -> Self {
        self.daily_at(time).timed(|words| words.set(Field::DayOfMonth, FieldSet::LAST_DAY))
    }

    /// Due on this day of January, April, July and October at this time: `30 2 15 1-10/3 *` for 15 and `02:30`.
    pub fn quarterly_on(self, day: u32, time: &str) -> Self {
        self.daily_at(time).numbers(Field::Month, [1, 4, 7, 10]).numbers(Field::DayOfMonth, [day])
    }

    /// Due on this day of the year at this time: `30 2 24 12 *` for the 24th of December and `02:30`. The 29th of February
    /// comes in leap years.
    pub fn yearly_on(self, month: Month, day: u32, time: &str) -> Self {
        self.daily_at(time).numbers(Field::Month, [month.number_from_month()]).numbers(Field::DayOfMonth, [day])
    }
}

/// In which part of the day. These words are [filters](Self::when): an event that is due outside of its window is in
/// the report, as filtered out, and so is one that is run by hand there. Its [next times](Self::upcoming) are those in its
/// windows. An event that has several runs where all of them are open, and `add` refuses one that never would.
impl Event {
    /// Runs only from `start` to `end`, both of them included to the end of their minute: with `"08:00"` and `"17:00"`
    /// the last run of an event that is due every minute is that of 17:00. Where `start` is the later one, the window
    /// goes over midnight: `"22:00"` to `"06:00"` is the night.
    ///
    /// What counts is what the clocks of the event's zone show at the tick; of an occurrence that
    /// [`catch_up`](Self::catch_up) makes up for, both that and its own time have to lie in the window. So a time that
    /// a change of the clocks left out, and that [is made up for](crate::time::ClockChange) after it, has to lie in the
    /// window when it is made up for.
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`; `add` refuses any other text. When it is
    /// due has to be said besides.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().between("08:00", "17:00");
    /// ```
    pub fn between(self, start: &str, end: &str) -> Self {
        self.in_window(window(start, end, false))
    }

    /// Does not run from `start` to `end`, both of them included to the end of their minute: the opposite of
    /// [`between`](Self::between).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().unless_between("23:00", "04:00");
    /// ```
    pub fn unless_between(self, start: &str, end: &str) -> Self {
        self.in_window(window(start, end, true))
    }

    /// Sets this field to these numbers.
    fn numbers(self, field: Field, numbers: impl IntoIterator<Item = u32>) -> Self {
        self.timed(|words| words.set_numbers(field, numbers))
    }

    fn in_window(self, window: Result<Window, String>) -> Self {
        match window {
            Ok(window) => self.filtered(Filter::Window(window)),
            Err(error) => self.refused(AddErrorKind::Timetable.because(error)),
        }
    }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
