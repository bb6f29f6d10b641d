//! What no clock or calendar shows.

use std::fmt;

use crate::crontab::{Crontab, Field};
use crate::error::{Quoted, debug_as_display};

/// A time or a day that does not exist, or an interval that no hour has room for.
///
/// ```
/// use soloist::{Event, Schedule};
///
/// let mut schedule = Schedule::in_process();
/// let error = schedule.add(Event::call("db:backup", |_| {}).daily_at("24:00")).unwrap_err();
/// assert!(error.to_string().contains("`24:00` is not a time of day from 00:00 to 23:59, write it as `02:30`"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct FrequencyError(Problem);

debug_as_display!(FrequencyError);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    TimeOfDay { text: Quoted },
    Number { field: Field, number: u32 },
    Interval { n: u32 },
    NeverComes { crontab: Crontab },
}

impl fmt::Display for FrequencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Problem::TimeOfDay { text } => {
                write!(f, "{text} is not a time of day from 00:00 to 23:59, write it as `02:30`")
            }
            Problem::Number { field, number } => {
                write!(f, "{} {number} is outside of {}-{}", field.name(), field.first(), field.last())
            }
            Problem::Interval { n: n @ 1..60 } => write!(
                f,
                "{n} minutes do not divide an hour; if its last interval may be shorter, write cron(\"*/{n} * * * *\")"
            ),
            Problem::Interval { n } => write!(f, "an interval of {n} minutes is outside of 1-60"),
            Problem::NeverComes { crontab } => write!(f, "`{crontab}` is due on a date that never comes"),
        }
    }
}

impl std::error::Error for FrequencyError {}

impl From<Problem> for FrequencyError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}
