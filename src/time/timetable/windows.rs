//! Times of the day, as methods of an event take them, and the windows in which an event may run.

use std::fmt;

use chrono::{NaiveTime, Timelike};

use crate::base::escape::Quoted;

const MINUTES_OF_A_DAY: u32 = 24 * 60;

/// The minutes of the day from `first` to `last`, including both, or all other minutes if `is_excluded`. If `last` is
/// earlier than `first`, the window goes over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) is_excluded: bool,
}

impl Window {
    /// Makes the window from `start` to `end`, or, if `is_excluded`, all other minutes. Error messages quote `method`.
    pub(crate) fn new(method: &str, start: &str, end: &str, is_excluded: bool) -> Result<Self, String> {
        let [first, last] = [time_of_day(method, start)?, time_of_day(method, end)?].map(minute_of);
        Ok(Self { first, last, is_excluded })
    }

    pub(crate) fn is_open_at(self, time: NaiveTime) -> bool {
        self.is_open_in(minute_of(time))
    }

    fn is_open_in(self, minute: u32) -> bool {
        let (begun, not_over) = (self.first <= minute, minute <= self.last);
        let contained = if self.first <= self.last { begun && not_over } else { begun || not_over };
        contained != self.is_excluded
    }
}

/// Shows the window as `between 08:00 and 18:00` or `unless_between 08:00 and 18:00`.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, is_excluded } = self;
        let method = if *is_excluded { "unless_between" } else { "between" };
        write!(f, "{method} {:02}:{:02} and {:02}:{:02}", first / 60, first % 60, last / 60, last % 60)
    }
}

/// The windows of an event. The event may run while all its windows are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windows(pub(crate) Vec<Window>);

impl Windows {
    /// Returns the number of minutes from `time` until all windows are open. Zero: all windows are open at `time`. A
    /// day: the windows are never open together.
    pub(super) fn closed_for(&self, time: NaiveTime) -> u32 {
        let is_open = |after: &u32| self.are_open_in((minute_of(time) + after) % MINUTES_OF_A_DAY);
        (0..MINUTES_OF_A_DAY).find(is_open).unwrap_or(MINUTES_OF_A_DAY)
    }

    /// Returns whether all windows are open at `time`.
    pub(crate) fn are_open_at(&self, time: NaiveTime) -> bool {
        self.are_open_in(minute_of(time))
    }

    /// Returns whether all windows are open in this minute of the day.
    pub(super) fn are_open_in(&self, minute: u32) -> bool {
        self.0.iter().all(|window| window.is_open_in(minute))
    }
}

fn minute_of(time: NaiveTime) -> u32 {
    time.hour() * 60 + time.minute()
}

/// Parses a time of the day: `hh:mm`, or `h:mm`. Error messages quote `method`.
pub(crate) fn time_of_day(method: &str, text: &str) -> Result<NaiveTime, String> {
    // `chrono` would also accept spaces, and minutes of one digit.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let two_digits = text.split_once(':').is_some_and(|(_, minute)| minute.len() == 2);
    NaiveTime::parse_from_str(text, "%H:%M").ok().filter(|_| plain && two_digits).ok_or_else(|| {
        let text = Quoted::new(text);
        format!("`{method}`: {text} is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_read_strictly() {
        for (text, hour, minute) in [("2:30", 2, 30), ("02:30", 2, 30), ("00:00", 0, 0), ("23:59", 23, 59)] {
            assert_eq!(time_of_day("daily_at(..)", text), Ok(NaiveTime::from_hms_opt(hour, minute, 0).unwrap()));
        }
        for text in [
            "2:60", "2", "", ":", "2:", ":30", "2:5", "002:30", "02:030", "+2:30", "02:+5", "2:30:00", " 2:30",
            "2:30 ", "2.30", "-1:00", "٢:30", "12:é",
        ] {
            let error = time_of_day("daily_at(..)", text).unwrap_err();
            assert_eq!(
                error,
                format!(
                    "`daily_at(..)`: `{text}` is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`"
                )
            );
        }
    }
}
