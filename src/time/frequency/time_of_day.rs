//! A time of the day, such as `02:30`, and the window from one to another.

use super::error::FrequencyError;
use crate::base::escape::Quoted;
use crate::time::timetable::windows::Window;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeOfDay {
    pub(crate) hour: u32,
    pub(crate) minute: u32,
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
        read().ok_or_else(|| {
            let text = Quoted::new(text);
            format!("{text} is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`").into()
        })
    }
}

/// The minutes of the day from `start` to `end`, or all but these.
pub(crate) fn window(start: &str, end: &str, is_excluded: bool) -> Result<Window, FrequencyError> {
    let minute = |time: TimeOfDay| time.hour * 60 + time.minute;
    Ok(Window { first: minute(start.try_into()?), last: minute(end.try_into()?), is_excluded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_read_strictly() {
        for (text, hour, minute) in [("2:30", 2, 30), ("02:30", 2, 30), ("00:00", 0, 0), ("23:59", 23, 59)] {
            assert_eq!(TimeOfDay::try_from(text), Ok(TimeOfDay { hour, minute }));
        }
        for text in [
            "24:00", "2:60", "2", "", ":", "2:", ":30", "2:5", "002:30", "02:030", "+2:30", "02:+5", "2:30:00",
            " 2:30", "2:30 ", "2.30", "-1:00", "٢:30", "12:é",
        ] {
            let error = TimeOfDay::try_from(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`{text}` is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`")
            );
        }
    }
}
