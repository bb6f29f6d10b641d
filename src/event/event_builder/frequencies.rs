//! When an event is due, in words: `daily_at`, `weekdays`, `every_five_minutes` and their like.
//!
//! The page `docs/guide/timetables.md` lists them all. Each sets some fields of a crontab line and leaves the others alone.

use std::time::Duration;

use chrono::{DateTime, Month, NaiveDate, Utc, Weekday};

use super::Event;
use crate::event::add_error::AddErrorKind;
use crate::event::filter::Filter;
use crate::time::crontab::field_set::{Field, FieldSet};
use crate::time::frequency::one_or_more::OneOrMore;
use crate::time::timetable::windows::Window;

/// Defines the methods without arguments, by section of that page: each method with its meaning and its expression. A
/// method sets the fields in the first list to those of the expression. The fields in the second list are defaults,
/// which apply unless another method sets them.
macro_rules! words {
    (
        $several:literal { $($every:ident $n:literal $how_often:literal;)+ }
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
                #[doc = concat!("Due ", $how_often, ": see [`every`](Self::every).")]
                pub fn $every(self) -> Self {
                    self.every(Duration::from_secs($n))
                }
            )+
            $($(
                #[doc = concat!("Due ", $meaning, ": `", $expression, "`.")]
                pub fn $word(self) -> Self {
                    self.timed(|words| {
                        let method = concat!(stringify!($word), "()");
                        words.set_from(method, $expression, &[$(Field::$set),*], &[$(Field::$default),*])
                    })
                }
            )+)+
        }

        /// The name and the method of each word, by section.
        #[cfg(test)]
        const WORDS: &[(&str, &[(&str, fn(Event) -> Event)])] = &[
            ($several, &[$((stringify!($every), Event::$every)),+]),
            $(($section, &[$((stringify!($word), Event::$word)),+])),+
        ];
    };
}

words! {
    "Several times a minute" {
        every_second 1 "every second";
        every_two_seconds 2 "every two seconds, counted from 1970";
        every_five_seconds 5 "every five seconds, counted from 1970";
        every_ten_seconds 10 "every ten seconds, counted from 1970";
        every_fifteen_seconds 15 "every fifteen seconds, counted from 1970";
        every_twenty_seconds 20 "every twenty seconds, counted from 1970";
        every_thirty_seconds 30 "every thirty seconds, counted from 1970";
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
        weekdays "* * * * 1-5" [DayOfWeek] [] "from Monday to Friday, at the times that other methods set";
        weekends "* * * * 0,6" [DayOfWeek] [] "on Saturday and Sunday, at the times that other methods set";
        mondays "* * * * 1" [DayOfWeek] [] "on Mondays, at the times that other methods set";
        tuesdays "* * * * 2" [DayOfWeek] [] "on Tuesdays, at the times that other methods set";
        wednesdays "* * * * 3" [DayOfWeek] [] "on Wednesdays, at the times that other methods set";
        thursdays "* * * * 4" [DayOfWeek] [] "on Thursdays, at the times that other methods set";
        fridays "* * * * 5" [DayOfWeek] [] "on Fridays, at the times that other methods set";
        saturdays "* * * * 6" [DayOfWeek] [] "on Saturdays, at the times that other methods set";
        sundays "* * * * 0" [DayOfWeek] [] "on Sundays, at the times that other methods set";
    }
    "Days of the month and of the year" {
        monthly "0 0 1 * *" [] [Minute Hour DayOfMonth] "on the first of each month at midnight";
        quarterly "0 0 1 1-10/3 *" [Month] [Minute Hour DayOfMonth] "on the first of each quarter at midnight";
        yearly "0 0 1 1 *" [Month] [Minute Hour DayOfMonth] "on the first of January at midnight";
    }
}

/// Intervals of real time, and of civil days and weeks.
impl Event {
    /// Makes the event due at this interval of real time, which clock changes do not move: from one second to ten
    /// years, in whole seconds. Intervals are counted from 1970-01-01 00:00 UTC, or from
    /// [`anchored_at`](Self::anchored_at), so that all servers of a fleet agree, and no restart moves them. An interval
    /// does not drift, however long its task takes.
    ///
    /// Other methods may limit the event to certain minutes, hours or days, if these are longer than the interval.
    /// `every_ten_seconds().hourly()` is every ten seconds of the first minute of each hour. An interval of 90 minutes
    /// with `weekdays()` skips the weekend of the event's zone. The rule for clock changes does not apply to such
    /// limits: a time that the clocks skip does not come, and a time that the clocks show twice comes twice.
    ///
    /// Ticks that come once a minute find each occurrence of an interval of whole minutes. For another interval, such
    /// as 90 seconds, [`run_due`](crate::Schedule::run_due) runs the latest occurrence in the minute before the tick,
    /// if there is one. [`run_minute`](crate::Schedule::run_minute) and [`work`](crate::Schedule::work) run all
    /// occurrences.
    ///
    /// ```
    /// use std::time::Duration;
    /// use chrono::{DateTime, Utc};
    /// use soloist::Event;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let midnight: DateTime<Utc> = "2026-03-01T00:00:00Z".parse()?;
    /// let event = Event::call("sync", |_| {}).every(Duration::from_secs(90 * 60)).anchored_at(midnight);
    /// let times: Vec<String> = event.upcoming(midnight).take(3).map(|time| time.format("%R").to_string()).collect();
    /// assert_eq!(times, ["01:30", "03:00", "04:30"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn every(self, interval: Duration) -> Self {
        self.say("every", interval, |event| &mut event.due.every)
    }

    /// Counts the intervals of [`every`](Self::every) from this instant, forwards and backwards. Use
    /// [`from`](Self::from) to set a first time. Write a constant: an anchor such as the start of the process would
    /// differ between servers. `add` refuses an instant within a second, and within a minute if the interval has whole
    /// minutes.
    pub fn anchored_at(self, instant: DateTime<Utc>) -> Self {
        self.say("anchored_at", instant, |event| &mut event.due.anchor)
    }

    /// Makes the event due on every `n`th day, counted from this date forwards and backwards, at midnight unless
    /// another method sets the time. The days are civil days in the event's zone;
    /// [`on_clock_change`](Self::on_clock_change) applies. Other methods for days limit the event to their days. `add`
    /// refuses this method together with [`every`](Self::every), because both say how often the event is due.
    ///
    /// ```
    /// use chrono::NaiveDate;
    /// use soloist::Event;
    ///
    /// let monday = NaiveDate::from_ymd_opt(2026, 1, 5).expect("a date");
    /// let event = Event::call("backup", |_| {}).every_days(3, monday).daily_at("02:30").timezone("Europe/Berlin");
    /// ```
    pub fn every_days(self, n: u16, date: NaiveDate) -> Self {
        self.timed(|words| words.set_days_from(n, date))
    }

    /// Makes the event due in every `n`th week, counted from the week of this date forwards and backwards. Unless other
    /// methods set them, the day is the weekday of the date, and the time is midnight. A week begins on Monday. `add`
    /// refuses this method together with days of the month or [`every`](Self::every).
    ///
    /// ```
    /// use chrono::{NaiveDate, Weekday};
    /// use soloist::Event;
    ///
    /// let monday = NaiveDate::from_ymd_opt(2026, 1, 5).expect("a date");
    /// let payroll = Event::call("payroll", |_| {}).every_weeks(2, monday).daily_at("09:00");
    /// let both = Event::call("report", |_| {}).every_weeks(2, monday).weekly_on([Weekday::Mon, Weekday::Thu], "09:00");
    /// ```
    pub fn every_weeks(self, n: u16, date: NaiveDate) -> Self {
        self.timed(|words| words.set_weeks_from(n, date))
    }
}

/// Minutes of hours, and hours of the day.
///
/// `minutes` is one minute or several, from 0 to 59. [`add`](crate::Schedule::add) refuses others, and an empty list.
///
/// ```
/// use soloist::Event;
///
/// let event = Event::call("reports:generate", |_| {}).every_hours_at(8, [0, 30]);
/// let event = Event::call("db:backup", |_| {}).daily_at("02:30");
/// ```
impl Event {
    /// Makes the event due every `n` hours, on the hour, counted from midnight: `0 */n * * *`. `n` must divide 24;
    /// `add` refuses other numbers, because the last interval of a day would be shorter, and shows
    /// [`every`](Self::every).
    pub fn every_hours(self, n: u32) -> Self {
        self.timed(|words| words.default_to_zero("every_hours(..)", &[Field::Minute]).set_hours("every_hours(..)", n))
    }

    /// Makes the event due every `n` hours, counted from midnight, at this minute or at these: `15 */n * * *` for 15.
    /// `n` is as for [`every_hours`](Self::every_hours).
    pub fn every_hours_at(self, n: u32, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.hours_at("every_hours_at(..)", n, minutes.into())
    }

    /// Makes the event due every hour at this minute or at these: `17 * * * *` for 17, `15,45 * * * *` for `[15, 45]`.
    pub fn hourly_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.hours_at("hourly_at(..)", 1, minutes.into())
    }

    /// Makes the event due every odd hour at this minute or at these: `15 1-23/2 * * *` for 15.
    pub fn every_odd_hour_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        let method = "every_odd_hour_at(..)";
        self.numbers(method, Field::Hour, (1..24).step_by(2)).numbers(method, Field::Minute, minutes.into())
    }

    /// Makes the event due every two hours, counted from midnight, at this minute or at these: `15 */2 * * *` for 15.
    pub fn every_two_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.hours_at("every_two_hours_at(..)", 2, minutes.into())
    }

    /// Makes the event due every three hours, counted from midnight, at this minute or at these: `15 */3 * * *` for 15.
    pub fn every_three_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.hours_at("every_three_hours_at(..)", 3, minutes.into())
    }

    /// Makes the event due every four hours, counted from midnight, at this minute or at these: `15 */4 * * *` for 15.
    pub fn every_four_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.hours_at("every_four_hours_at(..)", 4, minutes.into())
    }

    /// Makes the event due every six hours, counted from midnight, at this minute or at these: `15 */6 * * *` for 15.
    pub fn every_six_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.hours_at("every_six_hours_at(..)", 6, minutes.into())
    }

    /// Makes the event due every day at this time: `30 2 * * *` for `02:30`. A time of day is written `hh:mm` or
    /// `h:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add` refuses any other text.
    pub fn daily_at(self, time: &str) -> Self {
        self.time_of_day("daily_at(..)", time)
    }

    /// Makes the event due every day at these two hours: `0 1,13 * * *` for 1 and 13. `add` refuses an hour that is not
    /// from 0 to 23.
    pub fn twice_daily(self, first: u32, second: u32) -> Self {
        self.timed(|words| {
            words.default_to_zero("twice_daily(..)", &[Field::Minute]).set_numbers(
                "twice_daily(..)",
                Field::Hour,
                [first, second],
            )
        })
    }

    /// Makes the event due every day at this minute of these two hours: `15 1,13 * * *` for 1, 13 and 15. `add` refuses
    /// an hour that is not from 0 to 23.
    pub fn twice_daily_at(self, first: u32, second: u32, minute: u32) -> Self {
        self.numbers("twice_daily_at(..)", Field::Hour, [first, second]).numbers(
            "twice_daily_at(..)",
            Field::Minute,
            [minute],
        )
    }
}

/// Days of the week, of the month and of the year.
///
/// If an event has both a day of the month and a day of the week, it is due on a day that is *either* of them: see
/// [`Crontab`](crate::time::Crontab). A `time` is written as for [`daily_at`](Self::daily_at). A `day` of the month is
/// from 1 to 31. In a month that has no such day the event is not due: 31 means seven times a year.
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
    /// Makes the event due on these days of the week, at the times that other methods set: `* * * * 1,3` for Monday and
    /// Wednesday.
    pub fn days(self, days: impl IntoIterator<Item = Weekday>) -> Self {
        self.numbers("days(..)", Field::DayOfWeek, days.into_iter().map(|day| day.num_days_from_sunday()))
    }

    /// Makes the event due on this day of the week or on these, at this time: `30 2 * * 1` for Monday and `02:30`.
    pub fn weekly_on(self, days: impl Into<OneOrMore<Weekday>>, time: &str) -> Self {
        let days = days.into().into_iter().map(|day| day.num_days_from_sunday());
        self.time_of_day("weekly_on(..)", time).numbers("weekly_on(..)", Field::DayOfWeek, days)
    }

    /// Makes the event due on this day of each month at this time: `30 2 15 * *` for 15 and `02:30`. For the end of
    /// each month there is [`last_day_of_month`](Self::last_day_of_month).
    pub fn monthly_on(self, day: u32, time: &str) -> Self {
        self.time_of_day("monthly_on(..)", time).numbers("monthly_on(..)", Field::DayOfMonth, [day])
    }

    /// Makes the event due on these two days of each month at this time: `30 2 1,16 * *` for 1, 16 and `02:30`.
    pub fn twice_monthly(self, first: u32, second: u32, time: &str) -> Self {
        self.time_of_day("twice_monthly(..)", time).numbers("twice_monthly(..)", Field::DayOfMonth, [first, second])
    }

    /// Makes the event due on these days of each month at midnight, unless another method sets the time: `0 0 1,11,21 *
    /// *` for `[1, 11, 21]`.
    pub fn days_of_month(self, days: impl IntoIterator<Item = u32>) -> Self {
        self.timed(|words| {
            words.default_to_zero("days_of_month(..)", &[Field::Hour, Field::Minute]).set_numbers(
                "days_of_month(..)",
                Field::DayOfMonth,
                days,
            )
        })
    }

    /// Makes the event due on the last day of each month at this time, be it the 28th, 29th, 30th or 31st: `30 2 L * *`
    /// for `02:30`.
    pub fn last_day_of_month(self, time: &str) -> Self {
        self.time_of_day("last_day_of_month(..)", time)
            .timed(|words| words.set("last_day_of_month(..)", Field::DayOfMonth, FieldSet::LAST_DAY))
    }

    /// Makes the event due on this day of January, April, July and October at this time: `30 2 15 1-10/3 *` for 15 and
    /// `02:30`.
    pub fn quarterly_on(self, day: u32, time: &str) -> Self {
        let quarterly =
            self.time_of_day("quarterly_on(..)", time).numbers("quarterly_on(..)", Field::Month, [1, 4, 7, 10]);
        quarterly.numbers("quarterly_on(..)", Field::DayOfMonth, [day])
    }

    /// Makes the event due on this day of the year at this time: `30 2 24 12 *` for the 24th of December and `02:30`.
    /// The 29th of February comes in leap years.
    pub fn yearly_on(self, month: Month, day: u32, time: &str) -> Self {
        let yearly =
            self.time_of_day("yearly_on(..)", time).numbers("yearly_on(..)", Field::Month, [month.number_from_month()]);
        yearly.numbers("yearly_on(..)", Field::DayOfMonth, [day])
    }
}

/// The first time, the last time, and a single time.
///
/// An event that never comes again stays in its schedule: [`status`](crate::Schedule::status) and the command `list` say so.
///
/// ```
/// use chrono::{DateTime, Utc};
/// use soloist::Event;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let december: DateTime<Utc> = "2026-12-01T00:00:00Z".parse()?;
/// let january: DateTime<Utc> = "2027-01-01T00:00:00Z".parse()?;
/// let sale = Event::call("sale:prices", |_| {}).hourly().from(december).until(january);
/// assert_eq!(sale.next(DateTime::UNIX_EPOCH), Some(december));
/// let launch = Event::call("launch", |_| {}).at(december);
/// assert_eq!(launch.upcoming(DateTime::UNIX_EPOCH).collect::<Vec<_>>(), [december]);
/// # Ok(())
/// # }
/// ```
impl Event {
    /// Limits the event to this instant and the time after it. Other methods say when the event is due.
    /// [`add`](crate::Schedule::add) refuses an event whose [`until`](Self::until) is not later, and an event without
    /// an occurrence in between.
    pub fn from(self, instant: DateTime<Utc>) -> Self {
        self.say("from", instant, |event| &mut event.due.from)
    }

    /// Limits the event to the time before this instant: at the instant itself, the event is no longer due. Other
    /// methods say when the event is due.
    pub fn until(self, instant: DateTime<Utc>) -> Self {
        self.say("until", instant, |event| &mut event.due.until)
    }

    /// Makes the event due at this instant, and never again. Servers that share a store start it on one of them with
    /// [`on_one_server`](Self::on_one_server); [`catch_up`](Self::catch_up) makes up for the occurrence if no server
    /// was up then, and if the store already knew the event. When [`work`](crate::Schedule::work) begins, it makes sure
    /// that the store knows the event. [`add`](crate::Schedule::add) refuses an instant within a minute, because ticks
    /// at the start of minutes would miss it. It also refuses other methods for the due times of the event.
    pub fn at(self, instant: DateTime<Utc>) -> Self {
        self.say("at", instant, |event| &mut event.due.at)
    }
}

/// Windows limit an event to a part of the day. These methods are [filters](Self::when): if an event is due outside of
/// its window, the report has it as filtered out. A run by hand outside of the window is filtered out, too. The [next
/// times](Self::upcoming) of an event are those in its windows. An event with several windows runs only while all of
/// them are open. `add` refuses an event whose windows are never open together.
impl Event {
    /// Runs the event only from `start` to `end`, each including its whole minute. With `"08:00"` and `"17:00"`, an
    /// event that is due every minute runs at 17:00 for the last time. If `start` is later than `end`, the window goes
    /// over midnight: `"22:00"` to `"06:00"` is the night.
    ///
    /// The time of the tick, on the clocks of the event's zone, must be in the window. If [`catch_up`](Self::catch_up)
    /// makes up for an occurrence, the time of the occurrence must be in the window, too. A time that a clock change
    /// skipped [is made up for](crate::time::ClockChange) after the change: that later time must be in the window.
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`; `add` refuses any other text. Another
    /// method must say when the event is due.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().between("08:00", "17:00");
    /// ```
    pub fn between(self, start: &str, end: &str) -> Self {
        self.in_window(Window::new("between(..)", start, end, false))
    }

    /// Skips the event from `start` to `end`, each including its whole minute: the opposite of
    /// [`between`](Self::between).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().unless_between("23:00", "04:00");
    /// ```
    pub fn unless_between(self, start: &str, end: &str) -> Self {
        self.in_window(Window::new("unless_between(..)", start, end, true))
    }

    /// Sets this field to these numbers.
    fn numbers(self, method: &'static str, field: Field, numbers: impl IntoIterator<Item = u32>) -> Self {
        self.timed(|words| words.set_numbers(method, field, numbers))
    }

    fn hours_at(self, method: &'static str, n: u32, minutes: OneOrMore<u32>) -> Self {
        self.timed(|words| words.set_hours(method, n)).numbers(method, Field::Minute, minutes)
    }

    /// Refuses two numbers that are one.
    fn in_window(self, window: Result<Window, String>) -> Self {
        match window {
            Ok(window) => self.filtered(Filter::Window(window)),
            Err(error) => self.refused(AddErrorKind::Timetable.because(error)),
        }
    }

    fn time_of_day(self, method: &'static str, time: &str) -> Self {
        self.timed(|words| words.set_time(method, time))
    }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
