//! The minutes of a crontab on wall clocks, on all days or on the days of a cycle, and in all years or in some years.
//! A minute is compared with them, or the next of their minutes is searched.

use std::fmt;
use std::ops::RangeInclusive;

use chrono::{Datelike, NaiveDate, NaiveTime};

use super::civil_minute::CivilMinute;
use super::{Crontab, field_set::Field};

/// The minutes of a crontab on the days of a cycle in some years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CivilTimes {
    pub(crate) crontab: Crontab,
    pub(crate) cycle: Cycle,
    pub(crate) years: Years,
}

impl CivilTimes {
    /// Returns the minutes of a crontab on all days, in all years.
    pub(crate) const fn of(crontab: Crontab) -> Self {
        Self { crontab, cycle: Cycle::EVERY_DAY, years: Years::ALL }
    }

    pub(crate) fn include(&self, minute: &CivilMinute) -> bool {
        self.crontab.is_due_in(minute) && self.cycle.includes(minute.day) && self.years.include(minute.year)
    }

    /// Returns whether the day of `minute` has any of the times.
    fn include_day_of(&self, minute: &CivilMinute) -> bool {
        self.crontab.has_date_of(minute) && self.cycle.includes(minute.day) && self.years.include(minute.year)
    }

    /// Returns the start of the first minute that is in any of `times`, and begins at `second` or after. Seconds are
    /// counted from 1970-01-01 00:00 as wall clocks show it. The search goes day by day, up to the year 2100.
    pub(crate) fn first_of(times: &[Self], second: i64) -> Option<i64> {
        const DAY: i64 = 24 * 60;

        let minute = (second.max(0) + 59) / 60;
        let mut date = NaiveDate::from_epoch_days(i32::try_from(minute / DAY).ok()?)?;
        let mut time = u32::try_from(minute % DAY).ok()?;
        let months = times.iter().fold(0, |months, times| months | times.crontab.get(Field::Month).bits);
        while Years::KNOWN.contains(&date.year()) {
            let day = CivilMinute::of(&date.and_time(NaiveTime::MIN));
            let on_this_day = times.iter().filter(|times| times.include_day_of(&day));
            if let Some(time) = on_this_day.filter_map(|times| times.crontab.time_of_day(time)).min() {
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
}

impl Crontab {
    /// Returns whether the crontab is due in `minute`.
    pub(crate) fn is_due_in(&self, minute: &CivilMinute) -> bool {
        self.meets(Field::Minute, minute) && self.meets(Field::Hour, minute) && self.has_date_of(minute)
    }

    /// Returns whether the crontab is due on at least one date.
    pub(crate) fn comes(&self) -> bool {
        CivilTimes::first_of(&[CivilTimes::of(*self)], 0).is_some()
    }

    /// Returns whether the month and the day fields match the date of `minute`.
    fn has_date_of(&self, minute: &CivilMinute) -> bool {
        let [of_month, of_week] = [Field::DayOfMonth, Field::DayOfWeek].map(|field| self.meets(field, minute));
        let day = if self.days_must_both_match() { of_month && of_week } else { of_month || of_week };
        day && self.meets(Field::Month, minute)
    }

    /// Returns whether a date must match both day fields, because one of these fields starts with `*`. `false`: it is
    /// enough that a date matches one field.
    pub(crate) fn days_must_both_match(&self) -> bool {
        self.get(Field::DayOfMonth).star || self.get(Field::DayOfWeek).star
    }

    fn meets(&self, field: Field, minute: &CivilMinute) -> bool {
        self.get(field).bits & minute.bits[field as usize] != 0
    }

    /// Returns the first minute of a day, from the minute `time` on, at which the crontab is due.
    pub(crate) fn time_of_day(&self, time: u32) -> Option<u32> {
        let [hours, minutes] = [Field::Hour, Field::Minute].map(|field| self.get(field).bits);
        let (hour, minute) = (time / 60, time % 60);
        let in_this_hour = minutes >> minute << minute;
        if hours >> hour & 1 != 0 && in_this_hour != 0 {
            return Some(hour * 60 + in_this_hour.trailing_zeros());
        }
        let other_hours = hours >> (hour + 1) << (hour + 1);
        (other_hours != 0).then(|| other_hours.trailing_zeros() * 60 + minutes.trailing_zeros())
    }
}

/// The first `length` days of each period of `period` days. Periods are counted forwards and backwards from the day
/// `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// The first day of a period, as `num_days_from_ce` of `chrono` counts it.
    first: i32,
    length: i32,
    period: i32,
}

impl Cycle {
    pub(crate) const EVERY_DAY: Self = Self { first: 0, length: 1, period: 1 };

    /// Makes the cycle of each `n`th day, counted from `date`.
    pub(crate) fn of_days(n: u16, date: NaiveDate) -> Self {
        Self { first: date.num_days_from_ce(), length: 1, period: n.into() }
    }

    /// Makes the cycle of each `n`th week, counted from the week of `date`. Weeks begin on Monday.
    pub(crate) fn of_weeks(n: u16, date: NaiveDate) -> Self {
        let monday = date.num_days_from_ce() - date.weekday().num_days_from_monday().cast_signed();
        Self { first: monday, length: 7, period: 7 * i32::from(n) }
    }

    pub(crate) fn is_of_weeks(self) -> bool {
        self.length > 1
    }

    fn includes(self, day: i32) -> bool {
        self.period == self.length || (day - self.first).rem_euclid(self.period) < self.length
    }
}

/// Writes `every 3 days from 2026-01-05`, or nothing for each day.
impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, length, period } = *self;
        if period == length {
            return Ok(());
        }
        let unit = if self.is_of_weeks() { "weeks" } else { "days" };
        let first = NaiveDate::from_num_days_from_ce_opt(first).unwrap_or_default();
        write!(f, "every {} {unit} from {first}", period / length)
    }
}

/// A set of years from 1970 on, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Years([u64; 3]);

impl Years {
    /// The years in which occurrences are searched.
    const KNOWN: RangeInclusive<i32> = 1970..=2100;

    pub(crate) const ALL: Self = Self([u64::MAX; 3]);

    fn include(self, year: i32) -> bool {
        self == Self::ALL
            || usize::try_from(year - 1970).is_ok_and(|at| at < 192 && self.0[at / 64] >> (at % 64) & 1 != 0)
    }
}

/// Makes the set of these years. A set of all years that are searched becomes [`Years::ALL`].
impl FromIterator<u32> for Years {
    fn from_iter<I: IntoIterator<Item = u32>>(years: I) -> Self {
        let mut bits = [0; 3];
        for at in years.into_iter().filter_map(|year| year.checked_sub(1970)) {
            bits[at as usize / 64] |= 1 << (at % 64);
        }
        let mut known = Self::KNOWN;
        if known.all(|year| Self(bits).include(year)) { Self::ALL } else { Self(bits) }
    }
}

/// Writes `in 2026, 2028`, or nothing for all years.
impl fmt::Display for Years {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return Ok(());
        }
        let years: Vec<String> = Self::KNOWN.filter(|year| self.include(*year)).map(|year| year.to_string()).collect();
        write!(f, "in {}", years.join(", "))
    }
}
