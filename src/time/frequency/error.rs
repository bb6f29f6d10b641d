//! What no clock or calendar shows.

use std::fmt;

use crate::base::error::debug_as_display;
use crate::base::escape::Quoted;
use crate::time::crontab::{Crontab, Field, InField, Set};
use crate::time::timetable::seconds::Seconds;

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
#[derive(Clone, PartialEq, Eq)]
pub struct FrequencyError(Problem);

debug_as_display!(FrequencyError);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    TimeOfDay { text: Quoted },
    Number { field: Field, number: u32 },
    Empty { field: Field },
    Interval { n: u32, whole: Whole },
    NeverComes { crontab: Crontab },
    NoTime { crontab: Crontab },
    SaidTwice { field: Field, before: Set, after: Set },
    SecondsTwice(Seconds, Seconds),
    TwoExpressions(Crontab, Crontab),
    ExpressionAndWords(Crontab),
}

/// What an interval has to divide, so that none is shorter than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    Minute,
    Hour,
    Day,
}

impl Whole {
    pub(super) fn has_room_for(self, n: u32) -> bool {
        self.length().is_multiple_of(n)
    }

    fn length(self) -> u32 {
        match self {
            Self::Minute | Self::Hour => 60,
            Self::Day => 24,
        }
    }

    fn longer(self) -> &'static str {
        match self {
            Self::Minute => "minutes",
            Self::Hour => "hours",
            Self::Day => "days",
        }
    }

    fn parts(self) -> &'static str {
        match self {
            Self::Minute => "seconds",
            Self::Hour => "minutes",
            Self::Day => "hours",
        }
    }
}

impl fmt::Display for FrequencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Problem::TimeOfDay { text } => {
                write!(f, "{text} is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`")
            }
            Problem::Number { field, number } => {
                write!(f, "{} {number} is outside of {}-{}", field.name(), field.first(), field.last())
            }
            Problem::Empty { field } => write!(f, "the list has no {}, so that it would never be due", field.name()),
            Problem::Interval { n, whole } if !(1..whole.length()).contains(n) => {
                write!(f, "an interval of {n} {} is outside of 1-{}", whole.parts(), whole.length())?;
                if *n == 0 { Ok(()) } else { write!(f, ", longer ones are counted in {}", whole.longer()) }
            }
            Problem::Interval { n, whole: Whole::Minute } => {
                write!(f, "{n} seconds do not divide a minute, write one of 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60")
            }
            Problem::Interval { n, whole: Whole::Hour } => write!(
                f,
                "{n} minutes do not divide an hour; if its last interval may be shorter, say so in a crontab, as in cron(\"*/{n} * * * *\")"
            ),
            Problem::Interval { n, whole: Whole::Day } => write!(
                f,
                "{n} hours do not divide a day; if its last interval may be shorter, say so in a crontab, as in cron(\"0 */{n} * * *\")"
            ),
            Problem::NeverComes { crontab } => write!(f, "`{crontab}` names a day of the month that never comes"),
            Problem::NoTime { crontab } => write!(
                f,
                "it says on which days it is due, but not at what time: add `daily_at(\"02:30\")` or `hourly()`; for every \
                 minute of these days (`{crontab}`), add `every_minute()`"
            ),
            Problem::SaidTwice { field, before, after } => {
                let [before, after] = [before, after].map(|set| InField(*field, *set));
                let name = field.name();
                write!(f, "its {name} is set twice, as `{before}` and as `{after}`: leave one of them out, or ")?;
                match field {
                    Field::DayOfWeek => f.write_str("name all days in one `days([..])`"),
                    Field::DayOfMonth => f.write_str("name all days in one `days_of_month([..])`"),
                    _ => f.write_str("say all of it in one `cron(..)`"),
                }
            }
            Problem::SecondsTwice(before, after) => {
                let (before, after) = (before.interval(), after.interval());
                write!(f, "it is due every {before} s and every {after} s: leave one of them out")
            }
            Problem::TwoExpressions(before, after) => {
                write!(f, "two crontabs say when it is due, `{before}` and `{after}`: leave one of them out")
            }
            Problem::ExpressionAndWords(crontab) => write!(
                f,
                "both the crontab `{crontab}` and words say when it is due: say all of it in one of the two ways"
            ),
        }
    }
}

impl std::error::Error for FrequencyError {}

impl From<Problem> for FrequencyError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}
