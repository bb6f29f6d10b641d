//! Several times a minute.

use super::error::{Problem, Whole};
use crate::event::builder::Event;
use crate::time::timetable::seconds::Seconds;

/// How often in a minute. These words say the seconds, of every minute unless another word says which.
impl Event {
    /// Due every second: `* * * * *`, and at each second of these minutes.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_second();
    /// ```
    pub fn every_second(self) -> Self {
        self.every_seconds(1)
    }

    /// Due every two seconds, counted from the full minute: `* * * * *`, and every 2 seconds of these minutes.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_two_seconds();
    /// ```
    pub fn every_two_seconds(self) -> Self {
        self.every_seconds(2)
    }

    /// Due every five seconds, counted from the full minute: `* * * * *`, and every 5 seconds of these minutes.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_five_seconds();
    /// ```
    pub fn every_five_seconds(self) -> Self {
        self.every_seconds(5)
    }

    /// Due every ten seconds, counted from the full minute: `* * * * *`, and every 10 seconds of these minutes.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_ten_seconds();
    /// ```
    pub fn every_ten_seconds(self) -> Self {
        self.every_seconds(10)
    }

    /// Due every fifteen seconds, counted from the full minute: `* * * * *`, and every 15 seconds of these minutes.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_fifteen_seconds();
    /// ```
    pub fn every_fifteen_seconds(self) -> Self {
        self.every_seconds(15)
    }

    /// Due every twenty seconds, counted from the full minute: `* * * * *`, and every 20 seconds of these minutes.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_twenty_seconds();
    /// ```
    pub fn every_twenty_seconds(self) -> Self {
        self.every_seconds(20)
    }

    /// Due every thirty seconds, counted from the full minute: `* * * * *`, and every 30 seconds of these minutes.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_thirty_seconds();
    /// ```
    pub fn every_thirty_seconds(self) -> Self {
        self.every_seconds(30)
    }

    /// Due every `n` seconds, counted from the full minute: `* * * * *`, and every `n` seconds of these minutes.
    ///
    /// Its occurrences begin with the full minute, so that it does not drift, however long its task takes.
    /// [`run_due`](crate::Schedule::run_due) runs the one that its tick falls into;
    /// [`run_minute`](crate::Schedule::run_minute) and [`work`](crate::Schedule::work) stay for all of them.
    ///
    /// Other words say of which minutes: `every_ten_seconds().weekdays().hourly()` is every ten seconds of the first
    /// minute of each hour, from Monday to Friday. With [`cron`](Self::cron) `add` refuses it: that has no seconds.
    ///
    /// `n` must divide 60, or the minute would end with an interval that is shorter than the others; `add` refuses
    /// other numbers.
    ///
    /// ```
    /// use soloist::Event;
    ///
    /// let event = Event::call("reports:generate", |_| {}).every_seconds(12);
    /// ```
    pub fn every_seconds(self, n: u32) -> Self {
        self.timed(|words| {
            words.say_seconds(Seconds::every_nth(n).ok_or(Problem::Interval { n, whole: Whole::Minute })?)
        })
    }
}
