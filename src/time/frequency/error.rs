//! Why what was said about when an event is due makes no timetable.

use crate::base::error::debug_as_display;

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
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FrequencyError(Box<str>);

debug_as_display!(FrequencyError);

impl From<String> for FrequencyError {
    fn from(message: String) -> Self {
        Self(message.into())
    }
}
