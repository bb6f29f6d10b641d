//! A time of the day, such as `02:30`, and the window from one to another.

use chrono::NaiveTime;

use crate::base::escape::Quoted;
use crate::time::timetable::windows::{Window, minute_of};

/// `hh:mm`, or `h:mm`.
pub(crate) fn time_of_day(text: &str) -> Result<NaiveTime, String> {
    // Without what `chrono` lets pass besides: spaces, and minutes of one digit.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let two_digits = text.split_once(':').is_some_and(|(_, minute)| minute.len() == 2);
    NaiveTime::parse_from_str(text, "%H:%M").ok().filter(|_| plain && two_digits).ok_or_else(|| {
        let text = Quoted::new(text);
        format!("{text} is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`")
    })
}

/// Makes the window of the minutes of the day from `start` to `end`, or of all but these.
pub(crate) fn window(start: &str, end: &str, is_excluded: bool) -> Result<Window, String> {
    Ok(Window { first: minute_of(time_of_day(start)?), last: minute_of(time_of_day(end)?), is_excluded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_read_strictly() {
        for (text, hour, minute) in [("2:30", 2, 30), ("02:30", 2, 30), ("00:00", 0, 0), ("23:59", 23, 59)] {
            assert_eq!(time_of_day(text), Ok(NaiveTime::from_hms_opt(hour, minute, 0).unwrap()));
        }
        for text in [
            "24:00", "2:60", "2", "", ":", "2:", ":30", "2:5", "002:30", "02:030", "+2:30", "02:+5", "2:30:00",
            " 2:30", "2:30 ", "2.30", "-1:00", "٢:30", "12:é",
        ] {
            let error = time_of_day(text).unwrap_err();
            assert_eq!(
                error,
                format!("`{text}` is not a time of day from 00:00 to 23:59, written as hh:mm, such as `02:30`")
            );
        }
    }
}
