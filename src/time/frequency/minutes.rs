//! Several times an hour.

use super::error::Whole;
use super::every_nth;
use crate::event::builder::Event;
use crate::time::crontab::field::Field;

/// How often in an hour. These words say the minutes, and leave the hours and the days to others.
impl Event {
    /// Due every minute: `* * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_minute();
    /// ```
    pub fn every_minute(self) -> Self {
        self.every_minutes(1)
    }

    /// Due every two minutes, counted from the full hour: `*/2 * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_two_minutes();
    /// ```
    pub fn every_two_minutes(self) -> Self {
        self.every_minutes(2)
    }

    /// Due every three minutes, counted from the full hour: `*/3 * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_three_minutes();
    /// ```
    pub fn every_three_minutes(self) -> Self {
        self.every_minutes(3)
    }

    /// Due every four minutes, counted from the full hour: `*/4 * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_four_minutes();
    /// ```
    pub fn every_four_minutes(self) -> Self {
        self.every_minutes(4)
    }

    /// Due every five minutes, counted from the full hour: `*/5 * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_minutes();
    /// ```
    pub fn every_five_minutes(self) -> Self {
        self.every_minutes(5)
    }

    /// Due every ten minutes, counted from the full hour: `*/10 * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_ten_minutes();
    /// ```
    pub fn every_ten_minutes(self) -> Self {
        self.every_minutes(10)
    }

    /// Due every fifteen minutes, counted from the full hour: `*/15 * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_fifteen_minutes();
    /// ```
    pub fn every_fifteen_minutes(self) -> Self {
        self.every_minutes(15)
    }

    /// Due every thirty minutes, counted from the full hour: `*/30 * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_thirty_minutes();
    /// ```
    pub fn every_thirty_minutes(self) -> Self {
        self.every_minutes(30)
    }

    /// Due every `n` minutes, counted from the full hour: `*/n * * * *`.
    ///
    /// `n` must divide 60, or the hour would end with an interval that is shorter than the others; `add` refuses other
    /// numbers and says how to write them as a crontab.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_minutes(20);
    /// ```
    pub fn every_minutes(self, n: u32) -> Self {
        self.timed(|words| words.say(Field::Minute, every_nth(Field::Minute, Whole::Hour, n)?))
    }
}
