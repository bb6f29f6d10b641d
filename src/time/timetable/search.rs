//! Searches civil times for the first minute from a given second on. The search goes day by day, for several civil
//! times together.
//!
//! Seconds are counted from 1970-01-01 00:00 as wall clocks show it. The years from 1970 to 2100 are searched.

use chrono::{Datelike, NaiveDate, NaiveTime};

use super::civil_times::{CivilMinute, CivilTimes, Years};
use crate::time::{crontab::Crontab, crontab::field_set::Field};

const DAY: i64 = 24 * 60;

/// Returns the start of the first minute that is in any of `times`, and begins at `second` or after.
pub(super) fn first_due(times: &[CivilTimes], second: i64) -> Option<i64> {
    let minute = (second.max(0) + 59) / 60;
    let mut date = NaiveDate::from_epoch_days(i32::try_from(minute / DAY).ok()?)?;
    let mut time = u32::try_from(minute % DAY).ok()?;
    let months = times.iter().fold(0, |months, times| months | times.crontab.get(Field::Month).bits);
    while Years::KNOWN.contains(&date.year()) {
        let day = CivilMinute::of(&date.and_time(NaiveTime::MIN));
        let on_this_day = times.iter().filter(|times| times.include_day_of(&day));
        if let Some(time) = on_this_day.filter_map(|times| time_of_day(&times.crontab, time)).min() {
            return Some((i64::from(date.to_epoch_days()) * DAY + i64::from(time)) * 60);
        }
        if !times.iter().any(|times| times.years.include(day.year)) {
            date = NaiveDate::from_ymd_opt(day.year, 12, 31)?;
        } else if months >> date.month() & 1 == 0 {
            date = date.with_day(date.num_days_in_month().into())?;
        }
        (date, time) = (date.succ_opt()?, 0);
    }
    None
}

/// Returns the first minute of a day, from the minute `time` on, at which the crontab is due.
fn time_of_day(crontab: &Crontab, time: u32) -> Option<u32> {
    let [hours, minutes] = [Field::Hour, Field::Minute].map(|field| crontab.get(field).bits);
    let (hour, minute) = (time / 60, time % 60);
    let in_this_hour = minutes >> minute << minute;
    if hours >> hour & 1 != 0 && in_this_hour != 0 {
        return Some(hour * 60 + in_this_hour.trailing_zeros());
    }
    let other_hours = hours >> (hour + 1) << (hour + 1);
    (other_hours != 0).then(|| other_hours.trailing_zeros() * 60 + minutes.trailing_zeros())
}
