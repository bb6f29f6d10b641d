//! The first minute of civil times from a given one on, and the last up to it: day by day, for all at once.
//!
//! Minutes are civil, and counted from 1970-01-01 00:00 as clocks on the wall show it. Years from 1970 to 2100 are searched.

use chrono::{Datelike, NaiveDate, NaiveTime};

use super::civil_times::{CivilMinute, CivilTimes, Years};
use crate::time::{crontab::Crontab, crontab::field_set::Field};

const DAY: u32 = 24 * 60;

/// How many days these years have.
const DAYS: i64 = 47_847;

/// Returns the first minute from `minute` on that is one of `times`; or, backwards, the last up to it.
pub(super) fn nearest_due<const FORWARDS: bool>(times: &[CivilTimes], minute: i64) -> Option<i64> {
    let day_length = i64::from(DAY);
    let minute = if FORWARDS { minute.max(0) } else { minute.min(DAYS * day_length - 1) };
    let mut date = NaiveDate::from_epoch_days(i32::try_from(minute.div_euclid(day_length)).ok()?)?;
    let mut time = u32::try_from(minute.rem_euclid(day_length)).ok()?;
    let months = times.iter().fold(0, |months, times| months | times.crontab.get(Field::Month).bits);
    while Years::KNOWN.contains(&date.year()) {
        let day = CivilMinute::of(&date.and_time(NaiveTime::MIN));
        let on_this_day = times.iter().filter(|times| times.include_day_of(&day));
        let found = on_this_day.filter_map(|times| time_of_day::<FORWARDS>(&times.crontab, time));
        if let Some(time) = if FORWARDS { found.min() } else { found.max() } {
            return Some(i64::from(date.to_epoch_days()) * day_length + i64::from(time));
        }
        if !times.iter().any(|times| times.years.include(day.year)) {
            date = if FORWARDS {
                NaiveDate::from_ymd_opt(day.year, 12, 31)
            } else {
                NaiveDate::from_ymd_opt(day.year, 1, 1)
            }?;
        } else if months & u128::from(bit(date.month())) == 0 {
            date = date.with_day(if FORWARDS { date.num_days_in_month().into() } else { 1 })?;
        }
        (date, time) = if FORWARDS { (date.succ_opt()?, 0) } else { (date.pred_opt()?, DAY - 1) };
    }
    None
}

/// Returns the first of its minutes of a day from `time` on, or the last up to it.
fn time_of_day<const FORWARDS: bool>(crontab: &Crontab, time: u32) -> Option<u32> {
    #[expect(clippy::cast_possible_truncation, reason = "no hour and no minute has a bit beyond that")]
    let [hours, minutes] = [Field::Hour, Field::Minute].map(|field| crontab.get(field).bits as u64);
    let (hour, minute) = (time / 60, time % 60);
    let in_this_hour = minutes & (bit(minute) | beyond::<FORWARDS>(minute));
    if hours & bit(hour) != 0 && in_this_hour != 0 {
        return Some(hour * 60 + nearest::<FORWARDS>(in_this_hour));
    }
    let other_hours = hours & beyond::<FORWARDS>(hour);
    (other_hours != 0).then(|| nearest::<FORWARDS>(other_hours) * 60 + nearest::<FORWARDS>(minutes))
}

const fn bit(number: u32) -> u64 {
    1 << number
}

/// Returns the numbers after this one, in the direction of the search.
const fn beyond<const FORWARDS: bool>(number: u32) -> u64 {
    let below = bit(number) - 1;
    if FORWARDS { !below << 1 } else { below }
}

/// Returns the first number in the direction of the search, of one at least.
const fn nearest<const FORWARDS: bool>(numbers: u64) -> u32 {
    if FORWARDS { numbers.trailing_zeros() } else { numbers.ilog2() }
}
