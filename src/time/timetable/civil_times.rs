//! The minutes of a crontab on wall clocks, on all days or on the days of a cycle, and in all years or in some years.

use std::fmt;
use std::ops::RangeInclusive;

use chrono::{Datelike, NaiveDate, Timelike};

use crate::time::crontab::{Crontab, field_set::Field};

/// The minutes of a crontab on the days of a cycle in some years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CivilTimes {
    pub(crate) crontab: Crontab,
    pub(crate) cycle: Cycle,
    pub(crate) years: Years,
}

/// A minute on a wall clock, in a form that is fast to compare with [`CivilTimes`].
pub(crate) struct CivilMinute {
    fields: Crontab,
    pub(crate) week_time: WeekTimes,
    day: i32,
    pub(super) year: i32,
}

impl CivilMinute {
    pub(crate) fn of(civil: &(impl Datelike + Timelike)) -> Self {
        let weekday = civil.weekday().num_days_from_sunday();
        let week_time = WeekTimes { minutes: 1 << civil.minute(), hours: 1 << civil.hour(), weekdays: 1 << weekday };
        Self { fields: Crontab::naming(civil), week_time, day: civil.num_days_from_ce(), year: civil.year() }
    }
}

/// Minutes of the hour, hours of the day, and days of the week, each as bits. Bit 0 of the days is Sunday.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeekTimes {
    minutes: u64,
    hours: u32,
    weekdays: u8,
}

impl WeekTimes {
    /// Returns the times of the week at which a crontab can be due.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an hour has 60 minutes, a day has 24 hours, and a week 7 days"
    )]
    pub(crate) fn of(crontab: &Crontab) -> Self {
        const ALL_DAYS: u128 = 0b111_1111;

        let [minutes, hours, weekdays] =
            [Field::Minute, Field::Hour, Field::DayOfWeek].map(|field| crontab.get(field).bits);
        // A day of the month, or an item such as `5L`, can be any day of the week.
        let is_plain = crontab.days_must_both_match() && weekdays <= ALL_DAYS;
        let weekdays = if is_plain { weekdays } else { ALL_DAYS };
        Self { minutes: minutes as u64, hours: hours as u32, weekdays: weekdays as u8 }
    }

    /// Returns whether these times and `other` have a minute, an hour and a day of the week in common.
    pub(crate) fn meet(self, other: Self) -> bool {
        self.minutes & other.minutes != 0 && self.hours & other.hours != 0 && self.weekdays & other.weekdays != 0
    }
}

impl CivilTimes {
    /// Returns the minutes of a crontab on all days, in all years.
    pub(crate) const fn of(crontab: Crontab) -> Self {
        Self { crontab, cycle: Cycle::EVERY_DAY, years: Years::ALL }
    }

    pub(crate) fn include(&self, minute: &CivilMinute) -> bool {
        self.crontab.due(&minute.fields) && self.cycle.includes(minute.day) && self.years.include(minute.year)
    }

    /// Returns whether the day of `minute` has any of the times.
    pub(crate) fn include_day_of(&self, minute: &CivilMinute) -> bool {
        self.crontab.meets_date(&minute.fields) && self.cycle.includes(minute.day) && self.years.include(minute.year)
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

    /// Returns the first day, if all days of the cycle fall on one day of the week.
    pub(crate) fn first_of_one_weekday(self) -> Option<NaiveDate> {
        NaiveDate::from_num_days_from_ce_opt(self.first).filter(|_| self.length == 1 && self.period % 7 == 0)
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
    pub(super) const KNOWN: RangeInclusive<i32> = 1970..=2100;

    pub(crate) const ALL: Self = Self([u64::MAX; 3]);

    pub(super) fn include(self, year: i32) -> bool {
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
