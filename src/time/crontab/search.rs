//! The first minute at which a crontab is due after a given one, and the last before it: found in its bit masks.
//!
//! Minutes are civil, and counted from 1970-01-01 00:00 as clocks on the wall show it. Years from 1970 to 2100 are searched.

use std::ops::RangeInclusive;

use chrono::{Datelike, NaiveDate};

const DAY: i64 = 24 * 60;

const YEARS: RangeInclusive<i32> = 1970..=2100;

/// The first minute of 1970, and the last of 2100.
const KNOWN: RangeInclusive<i64> = 0..=47_847 * DAY - 1;

/// A civil minute taken apart: where a search begins. One serves for many crontabs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchStart {
    month: CalendarMonth,
    day: u32,
    hour: u32,
    minute: u32,
}

impl SearchStart {
    /// At `minute`, or at the first minute of 1970 if that is later; `None` after 2100.
    pub(crate) fn forwards(minute: i64) -> Option<Self> {
        Self::at(minute.max(*KNOWN.start()))
    }

    /// At `minute`, or at the last minute of 2100 if that is earlier; `None` before 1970.
    pub(crate) fn backwards(minute: i64) -> Option<Self> {
        Self::at(minute.min(*KNOWN.end()))
    }

    fn at(minute: i64) -> Option<Self> {
        if !KNOWN.contains(&minute) {
            return None;
        }
        let (days, in_day) = (minute / DAY, minute % DAY);
        let date = NaiveDate::from_epoch_days(i32::try_from(days).ok()?)?;
        let month = CalendarMonth::new(date.year(), date.month())?;
        let [hour, minute] = [in_day / 60, in_day % 60].map(|number| u32::try_from(number).unwrap_or_default());
        Some(Self { month, day: date.day(), hour, minute })
    }
}

/// A month of a year: when it begins, how long it is, and which day of the week is its first.
#[derive(Clone, Copy, Debug)]
struct CalendarMonth {
    year: i32,
    month: u32,
    /// The minute at which its first day begins.
    start: i64,
    /// How many days it has.
    length: u32,
    /// The day of the week of its first day, counted from Sunday.
    first_weekday: u32,
}

impl CalendarMonth {
    fn new(year: i32, month: u32) -> Option<Self> {
        let first = NaiveDate::from_ymd_opt(year, month, 1).filter(|_| YEARS.contains(&year))?;
        Some(Self {
            year,
            month,
            start: i64::from(first.to_epoch_days()) * DAY,
            length: u32::from(first.num_days_in_month()),
            first_weekday: first.weekday().num_days_from_sunday(),
        })
    }

    /// The next of these `months` on the way, of which there is at least one.
    fn next_of<const FORWARDS: bool>(self, months: u64) -> Option<Self> {
        match months & beyond::<FORWARDS>(self.month) {
            0 => Self::new(if FORWARDS { self.year + 1 } else { self.year - 1 }, nearest::<FORWARDS>(months)),
            rest_of_the_year => Self::new(self.year, nearest::<FORWARDS>(rest_of_the_year)),
        }
    }

    fn minute(self, day: u32, hour: u32, minute: u32) -> i64 {
        self.start + i64::from(day - 1) * DAY + i64::from(hour * 60 + minute)
    }
}

/// What is searched: the bit masks of a crontab, of which that of the days of the month has a bit 0 for the last day.
#[derive(Clone, Copy)]
pub(super) struct DueMasks {
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) days_of_month: u64,
    pub(super) months: u64,
    pub(super) days_of_week: u64,
    /// Whether a day has to be in both masks of days, and not in either.
    pub(super) both_days: bool,
}

impl DueMasks {
    /// The first of its minutes from `start` on, or the last up to it. Looks in the start's hour, in the rest of its day, in the rest of its month, and then from month to month.
    pub(super) fn search<const FORWARDS: bool>(self, start: &SearchStart) -> Option<i64> {
        let nearest = nearest::<FORWARDS>;
        let beyond = beyond::<FORWARDS>;
        let Self { minutes, hours, months, .. } = self;
        let mut month = start.month;
        if months & bit(month.month) != 0 {
            let days = self.days_of(month);
            if days & bit(start.day) != 0 {
                let in_this_hour = minutes & (bit(start.minute) | beyond(start.minute));
                if hours & bit(start.hour) != 0 && in_this_hour != 0 {
                    return Some(month.minute(start.day, start.hour, nearest(in_this_hour)));
                }
                let other_hours = hours & beyond(start.hour);
                if other_hours != 0 {
                    return Some(month.minute(start.day, nearest(other_hours), nearest(minutes)));
                }
            }
            let other_days = days & beyond(start.day);
            if other_days != 0 {
                return Some(month.minute(nearest(other_days), nearest(hours), nearest(minutes)));
            }
        }
        loop {
            month = month.next_of::<FORWARDS>(months)?;
            let days = self.days_of(month);
            if days != 0 {
                return Some(month.minute(nearest(days), nearest(hours), nearest(minutes)));
            }
        }
    }

    /// The days of `month`, one of its months: bit n stands for the nth.
    fn days_of(self, month: CalendarMonth) -> u64 {
        /// Six weeks in a row, of seven bits each.
        const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | 1 << 35;

        let by_date = self.days_of_month | (self.days_of_month & 1) << month.length;
        let by_weekday = (self.days_of_week * WEEKS) >> ((month.first_weekday + 6) % 7);
        let days = if self.both_days { by_date & by_weekday } else { by_date | by_weekday };
        days & below(month.length + 1) & !1
    }
}

const fn bit(number: u32) -> u64 {
    1 << number
}

const fn below(number: u32) -> u64 {
    bit(number) - 1
}

/// The numbers that come after this one on the way.
const fn beyond<const FORWARDS: bool>(number: u32) -> u64 {
    if FORWARDS { !below(number) << 1 } else { below(number) }
}

/// The number that comes first on the way, of one at least.
const fn nearest<const FORWARDS: bool>(numbers: u64) -> u32 {
    if FORWARDS { numbers.trailing_zeros() } else { numbers.ilog2() }
}
