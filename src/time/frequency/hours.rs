//! Several times a day, by the hour.

use super::error::FrequencyError;
use super::error::Whole;
use super::one_or_more::OneOrMore;
use super::{every_nth, listed};
use crate::event::builder::Event;
use crate::time::crontab::field::{Field, FieldSet};

/// How often in a day. These words say the hours, and leave the days to others.
///
/// Each takes the full hour for granted, and has a twin that ends with `_at` and takes the minutes of its hours. A word
/// for the minutes beside it does as well: `every_two_hours().every_fifteen_minutes()` is `*/15 */2 * * *`.
impl Event {
    /// Due every hour, on the hour: `0 * * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).hourly();
    /// ```
    pub fn hourly(self) -> Self {
        self.hourly_at(0)
    }

    /// Due every hour at this minute, or at these: `17 * * * *` for 17, `15,45 * * * *` for `[15, 45]`.
    ///
    /// Takes one minute or several, from 0 to 59; `add` refuses others, and an empty list.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).hourly_at(17);
    /// let event = Event::call("reports:send", |_| {}).hourly_at([15, 45]);
    /// ```
    pub fn hourly_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.at_minutes_of(minutes, Ok(FieldSet::every(Field::Hour)))
    }

    /// Due every odd hour, on the hour: `0 1-23/2 * * *`, that is at 01:00, 03:00 … 23:00.
    ///
    /// It names its hours, so that each of them comes once when clocks change, where what begins with a `*` follows
    /// real time: see [`ClockChange`](crate::ClockChange).
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_odd_hour();
    /// ```
    pub fn every_odd_hour(self) -> Self {
        self.on_the_hour(odd_hours())
    }

    /// Due every odd hour at this minute, or at these: `15 1-23/2 * * *` for 15.
    ///
    /// Takes one minute or several, from 0 to 59; `add` refuses others, and an empty list.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_odd_hour_at(15);
    /// ```
    pub fn every_odd_hour_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.at_minutes_of(minutes, odd_hours())
    }

    /// Due every two hours, on the hour, counted from midnight: `0 */2 * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_two_hours();
    /// ```
    pub fn every_two_hours(self) -> Self {
        self.every_hours(2)
    }

    /// Due every two hours, counted from midnight, at this minute, or at these: `15 */2 * * *` for 15.
    ///
    /// Takes one minute or several, from 0 to 59; `add` refuses others, and an empty list.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_two_hours_at(15);
    /// ```
    pub fn every_two_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.every_hours_at(2, minutes)
    }

    /// Due every three hours, on the hour, counted from midnight: `0 */3 * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_three_hours();
    /// ```
    pub fn every_three_hours(self) -> Self {
        self.every_hours(3)
    }

    /// Due every three hours, counted from midnight, at this minute, or at these: `15 */3 * * *` for 15.
    ///
    /// Takes one minute or several, from 0 to 59; `add` refuses others, and an empty list.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_three_hours_at(15);
    /// ```
    pub fn every_three_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.every_hours_at(3, minutes)
    }

    /// Due every four hours, on the hour, counted from midnight: `0 */4 * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_four_hours();
    /// ```
    pub fn every_four_hours(self) -> Self {
        self.every_hours(4)
    }

    /// Due every four hours, counted from midnight, at this minute, or at these: `15 */4 * * *` for 15.
    ///
    /// Takes one minute or several, from 0 to 59; `add` refuses others, and an empty list.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_four_hours_at(15);
    /// ```
    pub fn every_four_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.every_hours_at(4, minutes)
    }

    /// Due every six hours, on the hour, counted from midnight: `0 */6 * * *`.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_six_hours();
    /// ```
    pub fn every_six_hours(self) -> Self {
        self.every_hours(6)
    }

    /// Due every six hours, counted from midnight, at this minute, or at these: `15 */6 * * *` for 15.
    ///
    /// Takes one minute or several, from 0 to 59; `add` refuses others, and an empty list.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_six_hours_at(15);
    /// ```
    pub fn every_six_hours_at(self, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.every_hours_at(6, minutes)
    }

    /// Due every `n` hours, on the hour, counted from midnight: `0 */n * * *`.
    ///
    /// `n` must divide 24, or the day would end with an interval that is shorter than the others; `add` refuses other
    /// numbers and says how to write them as a crontab.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_hours(8);
    /// ```
    pub fn every_hours(self, n: u32) -> Self {
        self.on_the_hour(every_nth(Field::Hour, Whole::Day, n))
    }

    /// Due every `n` hours, counted from midnight, at this minute, or at these: `15 */n * * *` for 15.
    ///
    /// `n` must divide 24, as in [`every_hours`](Self::every_hours). Takes one minute or several, from 0 to 59; `add`
    /// refuses others, and an empty list.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_hours_at(8, 15);
    /// ```
    pub fn every_hours_at(self, n: u32, minutes: impl Into<OneOrMore<u32>>) -> Self {
        self.at_minutes_of(minutes, every_nth(Field::Hour, Whole::Day, n))
    }

    fn on_the_hour(self, hours: Result<FieldSet, FrequencyError>) -> Self {
        self.timed(|words| {
            words.usually(Field::Minute, 0);
            words.say(Field::Hour, hours?)
        })
    }

    fn at_minutes_of(self, minutes: impl Into<OneOrMore<u32>>, hours: Result<FieldSet, FrequencyError>) -> Self {
        self.timed(|words| {
            words.say(Field::Hour, hours?)?;
            words.say_numbers(Field::Minute, minutes.into())
        })
    }
}

fn odd_hours() -> Result<FieldSet, FrequencyError> {
    listed(Field::Hour, (1..24).step_by(2))
}
