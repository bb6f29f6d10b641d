//! Why what was said about when an event is due makes no timetable.

use crate::base::error::message_error;

message_error! {
    /// A time or a day that does not exist, a list that names none, an interval that does not come out even, or words that
    /// say too little or contradict one another.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// let mut schedule = Schedule::in_process();
    /// let error = schedule.add(Event::call("db:backup", |_| {}).daily_at("24:00")).unwrap_err();
    /// assert!(error.to_string().contains("`24:00` is not a time of day from 00:00 to 23:59, written as hh:mm"));
    /// ```
    pub struct FrequencyError;
}
