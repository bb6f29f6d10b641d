//! Once or twice a day.

use crate::event::builder::Event;
use crate::time::crontab::field::Field;

/// When in a day. These words say the minutes and the hours, and leave the days to others.
impl Event {
    /// Due every day at midnight: `0 0 * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).daily();
    /// ```
    pub fn daily(self) -> Self {
        self.daily_at("00:00")
    }

    /// Due every day at this time: `30 2 * * *` for `02:30`.
    ///
    /// A time of day is written `hh:mm` or `h:mm`, from `00:00` to `23:59`, on the clocks of the event's zone; `add`
    /// refuses any other text.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).daily_at("02:30");
    /// ```
    pub fn daily_at(self, time: &str) -> Self {
        self.timed(|words| words.say_time(time.try_into()?))
    }

    /// Due every day at these two hours: `0 1,13 * * *` for 1 and 13.
    ///
    /// `add` refuses an hour that is not from 0 to 23.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).twice_daily(1, 13);
    /// ```
    pub fn twice_daily(self, first: u32, second: u32) -> Self {
        self.timed(|words| {
            words.usually(Field::Minute, 0);
            words.say_numbers(Field::Hour, [first, second])
        })
    }

    /// Due every day at this minute of these two hours: `15 1,13 * * *` for 1, 13 and 15.
    ///
    /// `add` refuses an hour that is not from 0 to 23, and a minute that is not from 0 to 59.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).twice_daily_at(1, 13, 15);
    /// ```
    pub fn twice_daily_at(self, first: u32, second: u32, minute: u32) -> Self {
        self.timed(|words| {
            words.say_numbers(Field::Hour, [first, second])?;
            words.say_numbers(Field::Minute, [minute])
        })
    }
}
