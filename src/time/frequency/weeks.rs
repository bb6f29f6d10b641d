//! Days of the week.

use chrono::Weekday;

use super::error::FrequencyError;
use super::one_or_more::OneOrMore;
use super::words::Words;
use crate::event::builder::Event;
use crate::time::crontab::field::Field;

/// On which days of the week. [`weekly`](Self::weekly) and [`weekly_on`](Self::weekly_on) also say at what time; the
/// other words say nothing but the days, and `add` refuses them where no other word says at what time: `every_minute()`
/// is one, where that is meant.
impl Event {
    /// Due on Sundays at midnight: `0 0 * * 0`.
    ///
    /// Midnight is where the day begins: it is the night from Saturday to Sunday. Day and time are what it takes for
    /// granted: `weekly().mondays().daily_at("13:00")` is Mondays at 13:00.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).weekly();
    /// ```
    pub fn weekly(self) -> Self {
        self.timed(|words| {
            words.usually_at_midnight();
            words.usually(Field::DayOfWeek, Weekday::Sun.num_days_from_sunday());
            Ok(())
        })
    }

    /// Due on this day of the week, or on these, at this time: `30 2 * * 1` for Monday and `02:30`.
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add`
    /// refuses any other text, and an empty list of days.
    ///
    /// ```
    /// use chrono::Weekday;
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).weekly_on(Weekday::Mon, "02:30");
    /// let event = Event::call("reports:send", |_| {}).weekly_on([Weekday::Tue, Weekday::Thu], "18:00");
    /// ```
    pub fn weekly_on(self, days: impl Into<OneOrMore<Weekday>>, time: &str) -> Self {
        self.timed(|words| {
            words.say_time(time.try_into()?)?;
            say_days(words, days.into())
        })
    }

    /// Due from Monday to Friday, at the times that other words say: `* * * * 1-5`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).weekdays().hourly();
    /// ```
    pub fn weekdays(self) -> Self {
        self.days([Weekday::Mon, Weekday::Tue, Weekday::Wed, Weekday::Thu, Weekday::Fri])
    }

    /// Due on Saturday and Sunday, at the times that other words say: `* * * * 0,6`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).weekends().daily_at("10:00");
    /// ```
    pub fn weekends(self) -> Self {
        self.days([Weekday::Sat, Weekday::Sun])
    }

    /// Due on Mondays, at the times that other words say: `* * * * 1`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).mondays().daily_at("10:00");
    /// ```
    pub fn mondays(self) -> Self {
        self.days([Weekday::Mon])
    }

    /// Due on Tuesdays, at the times that other words say: `* * * * 2`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).tuesdays().daily_at("10:00");
    /// ```
    pub fn tuesdays(self) -> Self {
        self.days([Weekday::Tue])
    }

    /// Due on Wednesdays, at the times that other words say: `* * * * 3`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).wednesdays().daily_at("10:00");
    /// ```
    pub fn wednesdays(self) -> Self {
        self.days([Weekday::Wed])
    }

    /// Due on Thursdays, at the times that other words say: `* * * * 4`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).thursdays().daily_at("10:00");
    /// ```
    pub fn thursdays(self) -> Self {
        self.days([Weekday::Thu])
    }

    /// Due on Fridays, at the times that other words say: `* * * * 5`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).fridays().daily_at("10:00");
    /// ```
    pub fn fridays(self) -> Self {
        self.days([Weekday::Fri])
    }

    /// Due on Saturdays, at the times that other words say: `* * * * 6`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).saturdays().daily_at("10:00");
    /// ```
    pub fn saturdays(self) -> Self {
        self.days([Weekday::Sat])
    }

    /// Due on Sundays, at the times that other words say: `* * * * 0`.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).sundays().daily_at("10:00");
    /// ```
    pub fn sundays(self) -> Self {
        self.days([Weekday::Sun])
    }

    /// Due on these days of the week, at the times that other words say: `* * * * 1,3` for Monday and Wednesday.
    ///
    /// Together with a day of the month it is due on *either*, see [`Crontab`](crate::Crontab). `add` refuses an
    /// empty list.
    ///
    /// ```
    /// use chrono::Weekday;
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).days([Weekday::Mon, Weekday::Wed]).hourly();
    /// ```
    pub fn days(self, days: impl IntoIterator<Item = Weekday>) -> Self {
        self.timed(|words| say_days(words, days))
    }
}

fn say_days(words: &mut Words, days: impl IntoIterator<Item = Weekday>) -> Result<(), FrequencyError> {
    words.say_numbers(Field::DayOfWeek, days.into_iter().map(|day| day.num_days_from_sunday()))
}
