//! Timetables in words: sugar over the crontab.
//!
//! Each word says some of its fields. No field is said twice, so that the order of words makes no difference.

use super::crontab::{Field, Set};
use crate::base::escape::Quoted;

pub(crate) mod words;
mod seconds;
mod minutes;
mod hours;
mod days;
mod weeks;
mod months;
mod window;
pub(crate) mod one_or_more;
pub(crate) mod error;

use error::FrequencyError;
use error::{Problem, Whole};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimeOfDay {
    hour: u32,
    minute: u32,
}

impl TryFrom<&str> for TimeOfDay {
    type Error = FrequencyError;

    /// `hh:mm`, or `h:mm`.
    fn try_from(text: &str) -> Result<Self, FrequencyError> {
        let number = |digits: &str, max: u32| {
            let number = digits.parse().ok().filter(|number| *number <= max)?;
            // `parse` also takes a sign.
            digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
        };
        let read = || {
            let (hour, minute) = text.split_once(':')?;
            let lengths_fit = hour.len() <= 2 && minute.len() == 2;
            lengths_fit.then_some(Self { hour: number(hour, 23)?, minute: number(minute, 59)? })
        };
        read().ok_or_else(|| Problem::TimeOfDay { text: Quoted::new(text) }.into())
    }
}

fn listed(field: Field, numbers: impl IntoIterator<Item = u32>) -> Result<Set, FrequencyError> {
    let mut set: Option<Set> = None;
    for number in numbers {
        if !(field.first()..=field.last()).contains(&number) {
            return Err(Problem::Number { field, number }.into());
        }
        let one = Set::only(number);
        set = Some(set.map_or(one, |set| set.with(one)));
    }
    set.ok_or_else(|| Problem::Empty { field }.into())
}

fn every_nth(field: Field, whole: Whole, n: u32) -> Result<Set, FrequencyError> {
    if whole.has_room_for(n) { Ok(Set::every_nth(field, n)) } else { Err(Problem::Interval { n, whole }.into()) }
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
