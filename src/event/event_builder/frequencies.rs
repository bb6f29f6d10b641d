//! The builder's methods for frequencies, such as `daily_at`, `weekdays` and `every_five_minutes`.
//!
//! The page `docs/guide/timetables.md` lists all these methods. Most of the methods set some fields of a crontab line,
//! and do not change the other fields.

use std::time::Duration;

use chrono::{DateTime, Month, NaiveDate, Utc, Weekday};

use super::Event;
use crate::event::add_error::AddErrorKind;
use crate::event::filter::Filter;
use crate::time::crontab::field_set::{Field, FieldSet};
use crate::time::timetable::windows::Window;
use crate::time::timetable_spec::one_or_more::OneOrMore;

/// Defines the methods without arguments, in the sections of the page `timetables.md`. Each line has the method, its
/// expression, two lists of fields, and its meaning. The method sets the fields in the first list to their values in
/// the expression. A field in the second list gets its value from the expression only if no other method sets the
/// field.
macro_rules! words {
    (
        $several:literal { $($every:ident $n:literal $how_often:literal;)+ }
        $($section:literal { $($word:ident $expression:literal [$($set:ident)*] [$($default:ident)*] $meaning:literal;)+ })+
    ) => {
        /// Frequencies without arguments. [`add`](crate::Schedule::add) refuses two of `daily`, `weekly`, `monthly`,
        /// `quarterly` and `yearly` in one event, because both say how often the event is due.
        ///
        /// ```
        /// use soloist::Event;
        ///
        /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().weekdays();
        /// ```
        impl Event {
            $(
                #[doc = concat!("Makes the event due ", $how_often, ": see [`every`](Self::every).")]
                pub fn $every(self) -> Self {
                    self.every(Duration::from_secs($n))
                }
            )+
            $($(
                #[doc = concat!("Makes the event due ", $meaning, ": `", $expression, "`.")]
                pub fn $word(self) -> Self {
                    self.timed(|words| {
                        let method = concat!(stringify!($word), "()");
                        words.set_from(method, $expression, &[$(Field::$set),*], &[$(Field::$default),*])
                    })
                }
            )+)+
        }

        /// The name of each method without arguments, and the method itself, by section.
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
        every_odd_hour "0 1-23/2 * * *" [Hour] [Minute] "at 01:00, 03:00 … 23:00; if the clocks change, each of these times still comes once";
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

/// Methods that make the event due at an interval: of real time, of civil days, or of weeks. For any number of minutes,
/// such as seven, use [`every`](Self::every) with `Duration::from_secs(7 * 60)`.
impl Event {
    /// Makes the event due at this interval of real time, from one second to ten years, in whole seconds. Clock changes
    /// do not move the times. The intervals are counted from 1970-01-01 00:00 UTC, or from the instant of
    /// [`anchored_at`](Self::anchored_at). So the times are equal on all servers of a fleet, and a restart does not
    /// move them. The times do not depend on how long the task takes.
    ///
    /// If the interval is shorter than a minute, other methods can limit the event to certain minutes, hours or days.
    /// If the interval is shorter than an hour, they can limit the event to certain hours or days. If the interval is
    /// shorter than a day, they can limit the event to certain days. With `every_ten_seconds().hourly()`, the event is
    /// due every ten seconds in the first minute of each hour. With an interval of 90 minutes and `weekdays()`, the
    /// event is not due on the weekend of its zone. The rule for clock changes does not apply to such limits. If the
    /// clocks skip a time, the event is not due at that time. If the clocks show a time twice, the event is due twice.
    ///
    /// With one tick a minute, [`run_due`](crate::Schedule::run_due) runs every occurrence if the interval is in whole
    /// minutes. With another interval, such as 90 seconds, [`run_due`](crate::Schedule::run_due) runs only the latest
    /// occurrence in the minute before the tick. If a tick comes more than a minute after the tick before it, `run_due`
    /// can miss an occurrence between them. [`run_minute`](crate::Schedule::run_minute) and
    /// [`work`](crate::Schedule::work) tick at each occurrence. But if such a tick is late, and several occurrences of
    /// an event are due, the tick also runs only the latest.
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

    /// Counts the intervals of [`every`](Self::every) from `instant`, into the future and into the past. To set the
    /// first time of the event, use [`from`](Self::from). `instant` should be a constant, because an instant such as
    /// the start of the process would differ between servers. `add` refuses an instant that is not a whole second, or
    /// not a whole minute if the interval is in whole minutes.
    pub fn anchored_at(self, instant: DateTime<Utc>) -> Self {
        self.say("anchored_at", instant, |event| &mut event.due.anchor)
    }

    /// Makes the event due on every `n`th day, counted from `date` into the future and into the past. The time is
    /// midnight, unless another method sets the time. The days are civil days in the event's zone, and
    /// [`on_clock_change`](Self::on_clock_change) applies. If another method sets days, too, the event is due only on
    /// days that match both methods. `add` refuses this method together with [`every`](Self::every), because both say
    /// how often the event is due.
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

    /// Makes the event due in every `n`th week, counted from the week of `date` into the future and into the past. A
    /// week begins on Monday. The event is due on the weekday of `date` at midnight, unless other methods set the day
    /// or the time. `add` refuses this method together with days of the month, [`every`](Self::every),
    /// [`daily`](Self::daily), [`weekly`](Self::weekly), [`monthly`](Self::monthly), [`quarterly`](Self::quarterly) or
    /// [`yearly`](Self::yearly).
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

/// Methods that make the event due at certain minutes of an hour, or at certain hours of the day.
///
/// `minutes` is one minute or a list of minutes, from 0 to 59. [`add`](crate::Schedule::add) refuses other numbers, and
/// an empty list.
///
/// ```
/// use soloist::Event;
///
/// let event = Event::call("reports:generate", |_| {}).every_hours_at(8, [0, 30]);
/// let event = Event::call("db:backup", |_| {}).daily_at("02:30");
/// ```
impl Event {
    /// Makes the event due every `n` hours, on the hour, counted from midnight: `0 */n * * *`. `n` must divide 24,
    /// because otherwise the last interval of a day would be shorter. `add` refuses other numbers, and its message
    /// shows how to use [`every`](Self::every) instead.
    pub fn every_hours(self, n: u32) -> Self {
        self.timed(|words| words.default_to_zero("every_hours(..)", &[Field::Minute]).set_hours("every_hours(..)", n))
    }

    /// Makes the event due every `n` hours, counted from midnight, at these `minutes`: `15 */n * * *` for 15. `n` must
    /// divide 24, as for [`every_hours`](Self::every_hours).
    pub fn every_hours_at(self, n: u32, minutes: impl OneOrMore<u32>) -> Self {
        self.hours_at("every_hours_at(..)", n, minutes)
    }

    /// Makes the event due every hour at these `minutes`: `17 * * * *` for 17, `15,45 * * * *` for `[15, 45]`.
    pub fn hourly_at(self, minutes: impl OneOrMore<u32>) -> Self {
        self.hours_at("hourly_at(..)", 1, minutes)
    }

    /// Makes the event due every odd hour at these `minutes`: `15 1-23/2 * * *` for 15.
    pub fn every_odd_hour_at(self, minutes: impl OneOrMore<u32>) -> Self {
        let method = "every_odd_hour_at(..)";
        self.numbers(method, Field::Hour, (1..24).step_by(2)).numbers(method, Field::Minute, minutes.into_list())
    }

    /// Makes the event due every two hours, counted from midnight, at these `minutes`: `15 */2 * * *` for 15.
    pub fn every_two_hours_at(self, minutes: impl OneOrMore<u32>) -> Self {
        self.hours_at("every_two_hours_at(..)", 2, minutes)
    }

    /// Makes the event due every three hours, counted from midnight, at these `minutes`: `15 */3 * * *` for 15.
    pub fn every_three_hours_at(self, minutes: impl OneOrMore<u32>) -> Self {
        self.hours_at("every_three_hours_at(..)", 3, minutes)
    }

    /// Makes the event due every four hours, counted from midnight, at these `minutes`: `15 */4 * * *` for 15.
    pub fn every_four_hours_at(self, minutes: impl OneOrMore<u32>) -> Self {
        self.hours_at("every_four_hours_at(..)", 4, minutes)
    }

    /// Makes the event due every six hours, counted from midnight, at these `minutes`: `15 */6 * * *` for 15.
    pub fn every_six_hours_at(self, minutes: impl OneOrMore<u32>) -> Self {
        self.hours_at("every_six_hours_at(..)", 6, minutes)
    }

    /// Makes the event due every day at this time: `30 2 * * *` for `02:30`. `time` is written `hh:mm` or `h:mm`, from
    /// `00:00` to `23:59`, and is a local time of the event's zone. `add` refuses any other text.
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

/// Methods that make the event due on certain days of the week, of the month or of the year.
///
/// If an event has days of the month and days of the week, it is due on each day that matches *at least one* of the
/// two: see [`Crontab`](crate::time::Crontab). A `time` is written as for [`daily_at`](Self::daily_at). A `day` of the
/// month is from 1 to 31. In a month without this day, the event is not due: with day 31, it is due in seven months of
/// the year. [`add`](crate::Schedule::add) refuses other numbers, an empty list, and a date that never comes, such as
/// the 30th of February.
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

    /// Makes the event due on these `days` of the week at this time: `30 2 * * 1` for Monday and `02:30`.
    pub fn weekly_on(self, days: impl OneOrMore<Weekday>, time: &str) -> Self {
        let days = days.into_list().into_iter().map(|day| day.num_days_from_sunday());
        self.time_of_day("weekly_on(..)", time).numbers("weekly_on(..)", Field::DayOfWeek, days)
    }

    /// Makes the event due on this day of each month at this time: `30 2 15 * *` for 15 and `02:30`. For the last day
    /// of each month, use [`last_day_of_month`](Self::last_day_of_month).
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

    /// Makes the event due at this time on the last day of each month, the 28th, 29th, 30th or 31st: `30 2 L * *` for
    /// `02:30`.
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
    /// On the 29th of February, the event is due only in leap years.
    pub fn yearly_on(self, month: Month, day: u32, time: &str) -> Self {
        let yearly =
            self.time_of_day("yearly_on(..)", time).numbers("yearly_on(..)", Field::Month, [month.number_from_month()]);
        yearly.numbers("yearly_on(..)", Field::DayOfMonth, [day])
    }
}

/// Methods that limit the event to a first time and a last time, or make the event due once.
///
/// An event that is never due again stays in its schedule. [`status`](crate::Schedule::status) and the command `list`
/// show that it is over.
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
    /// Limits the event to occurrences at `instant` or later. Other methods must make the event due.
    /// [`add`](crate::Schedule::add) refuses an [`until`](Self::until) that is not later than `instant`, and an event
    /// that has no occurrence between `instant` and [`until`](Self::until).
    pub fn from(self, instant: DateTime<Utc>) -> Self {
        self.say("from", instant, |event| &mut event.due.from)
    }

    /// Limits the event to occurrences before `instant`. At `instant` itself, the event is no longer due. Other methods
    /// must make the event due.
    pub fn until(self, instant: DateTime<Utc>) -> Self {
        self.say("until", instant, |event| &mut event.due.until)
    }

    /// Makes the event due once, at `instant`. For a time of day, use [`daily_at`](Self::daily_at). With
    /// [`on_one_server`](Self::on_one_server), only one of the servers that share a store starts the event. With
    /// [`catch_up`](Self::catch_up), the occurrence is made up for if no server was up at `instant`, and if the store
    /// already knew the event. When [`work`](crate::Schedule::work) begins, it records the event in the store.
    /// [`add`](crate::Schedule::add) refuses an instant that is not a whole minute, because a tick at the start of a
    /// minute would not run the event at such an instant. [`add`](crate::Schedule::add) also refuses other methods that
    /// make the event due.
    pub fn at(self, instant: DateTime<Utc>) -> Self {
        self.say("at", instant, |event| &mut event.due.at)
    }
}

/// Windows limit an event to a part of the day. A window is a [filter](Self::when): outside of its window, an event
/// that is due or is run by hand is skipped as filtered out. [`upcoming`](Self::upcoming) leaves out occurrences
/// outside of the windows. An event with several windows runs only while all of them are open. `add` refuses an event
/// that is never due while all its windows are open.
impl Event {
    /// Runs the event only from `start` to `end`. Both minutes belong to the window: with `"08:00"` and `"17:00"`, an
    /// event that is due every minute runs for the last time at 17:00. If `start` is later than `end`, the window
    /// includes midnight: `"22:00"` to `"06:00"` is the night.
    ///
    /// The time of the tick, in the event's zone, must be in the window. If [`catch_up`](Self::catch_up) makes up for
    /// an occurrence, the time of the occurrence must be in the window, too. If the clocks skip the time of an
    /// occurrence, the event is [due after the change](crate::time::ClockChange), and that later time must be in the
    /// window.
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`; `add` refuses any other text. Another
    /// method must make the event due.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_minutes().between("08:00", "17:00");
    /// ```
    pub fn between(self, start: &str, end: &str) -> Self {
        self.in_window(Window::new("between(..)", start, end, false))
    }

    /// Skips the event from `start` to `end`, including both minutes. This is the opposite of
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

    fn numbers(self, method: &'static str, field: Field, numbers: impl IntoIterator<Item = u32>) -> Self {
        self.timed(|words| words.set_numbers(method, field, numbers))
    }

    fn hours_at(self, method: &'static str, n: u32, minutes: impl OneOrMore<u32>) -> Self {
        self.timed(|words| words.set_hours(method, n)).numbers(method, Field::Minute, minutes.into_list())
    }

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
