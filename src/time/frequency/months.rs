//! Days of the month, of the quarter and of the year.

use chrono::Month;

use crate::event::builder::Event;
use crate::time::crontab::field::{Field, FieldSet};

/// January, April, July and October.
const QUARTERS: FieldSet = FieldSet::only(1).with(FieldSet::only(4)).with(FieldSet::only(7)).with(FieldSet::only(10));

/// On which days of the month and in which months. Each of these words also says at what time, or takes midnight for
/// granted if it takes none; those for the quarter and the year say the months, and the others leave them to others.
impl Event {
    /// Due on the first of each month at midnight: `0 0 1 * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).monthly();
    /// ```
    pub fn monthly(self) -> Self {
        self.timed(|words| {
            words.usually_at_midnight();
            words.usually(Field::DayOfMonth, 1);
            Ok(())
        })
    }

    /// Due on this day of each month at this time: `30 2 15 * *` for 15 and `02:30`.
    ///
    /// In a month that has no such day it is not due: 31 means seven times a year, as it does in a crontab; for the end
    /// of each month there is [`last_day_of_month`](Self::last_day_of_month). Together with days of the week it is due
    /// on *either*, see [`Crontab`](crate::Crontab).
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add`
    /// refuses any other text, a day that is not from 1 to 31, and a day that comes in none of the event's months.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).monthly_on(15, "02:30");
    /// ```
    pub fn monthly_on(self, day: u32, time: &str) -> Self {
        self.timed(|words| {
            words.say_time(time.try_into()?)?;
            words.say_numbers(Field::DayOfMonth, [day])
        })
    }

    /// Due on these two days of each month at this time: `30 2 1,16 * *` for 1, 16 and `02:30`.
    ///
    /// What `add` refuses is as for [`monthly_on`](Self::monthly_on).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).twice_monthly(1, 16, "02:30");
    /// ```
    pub fn twice_monthly(self, first: u32, second: u32, time: &str) -> Self {
        self.timed(|words| {
            words.say_time(time.try_into()?)?;
            words.say_numbers(Field::DayOfMonth, [first, second])
        })
    }

    /// Due on these days of each month at midnight: `0 0 1,11,21 * *` for `[1, 11, 21]`.
    ///
    /// Another time of the day is said besides: `days_of_month([1, 15]).daily_at("02:30")`. What `add` refuses is as
    /// for [`monthly_on`](Self::monthly_on), and an empty list.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).days_of_month([1, 11, 21]);
    /// ```
    pub fn days_of_month(self, days: impl IntoIterator<Item = u32>) -> Self {
        self.timed(|words| {
            words.usually_at_midnight();
            words.say_numbers(Field::DayOfMonth, days)
        })
    }

    /// Due on the last day of each month at this time: `30 2 L * *` for `02:30`.
    ///
    /// It is the last of whichever month it is then, 28, 29, 30 or 31. Together with days of the week it is due on
    /// *either*, see [`Crontab`](crate::Crontab).
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add`
    /// refuses any other text.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).last_day_of_month("23:30");
    /// ```
    pub fn last_day_of_month(self, time: &str) -> Self {
        self.timed(|words| {
            words.say_time(time.try_into()?)?;
            words.say(Field::DayOfMonth, FieldSet::LAST_DAY)
        })
    }

    /// Due on the first of January, April, July and October at midnight: `0 0 1 1-10/3 *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).quarterly();
    /// ```
    pub fn quarterly(self) -> Self {
        self.timed(|words| {
            words.usually_at_midnight();
            words.say(Field::Month, QUARTERS)?;
            words.usually(Field::DayOfMonth, 1);
            Ok(())
        })
    }

    /// Due on this day of January, April, July and October at this time: `30 2 15 1-10/3 *` for 15 and `02:30`.
    ///
    /// In a month that has no such day it is not due: 31 leaves April out.
    ///
    /// What `add` refuses is as for [`monthly_on`](Self::monthly_on).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).quarterly_on(15, "02:30");
    /// ```
    pub fn quarterly_on(self, day: u32, time: &str) -> Self {
        self.timed(|words| {
            words.say_time(time.try_into()?)?;
            words.say(Field::Month, QUARTERS)?;
            words.say_numbers(Field::DayOfMonth, [day])
        })
    }

    /// Due on the first of January at midnight: `0 0 1 1 *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).yearly();
    /// ```
    pub fn yearly(self) -> Self {
        self.timed(|words| {
            words.usually_at_midnight();
            words.say(Field::Month, only(Month::January))?;
            words.usually(Field::DayOfMonth, 1);
            Ok(())
        })
    }

    /// Due on this day of the year at this time: `30 2 24 12 *` for the 24th of December and `02:30`.
    ///
    /// The 29th of February comes in leap years. Together with days of the week it is due on *either*, see
    /// [`Crontab`](crate::Crontab).
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add`
    /// refuses any other text, and a date that never comes, such as the 30th of February.
    ///
    /// ```
    /// use chrono::Month;
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).yearly_on(Month::December, 24, "02:30");
    /// ```
    pub fn yearly_on(self, month: Month, day: u32, time: &str) -> Self {
        self.timed(|words| {
            words.say_time(time.try_into()?)?;
            words.say(Field::Month, only(month))?;
            words.say_numbers(Field::DayOfMonth, [day])
        })
    }
}

fn only(month: Month) -> FieldSet {
    FieldSet::only(month.number_from_month())
}
