//! A minute on a wall clock, as the bits of each field of a crontab. A date also has the bits of its calendar days, such
//! as `15W` and `5#3`.

use std::fmt;

use chrono::{Datelike, Timelike, Weekday};

/// A minute on a wall clock. A crontab is due in this minute if its bits match these bits. A minute is made once for each
/// zone and tick, and compared with every crontab of that zone.
pub(crate) struct CivilMinute {
    /// The bits of the minute in each field of a crontab.
    pub(crate) bits: [u128; 5],
    /// The day, as `num_days_from_ce` of `chrono` counts it.
    pub(super) day: i32,
    pub(super) year: i32,
}

impl CivilMinute {
    pub(crate) fn of(civil: &(impl Datelike + Timelike)) -> Self {
        let minute = 1 << civil.minute();
        let hour = 1 << civil.hour();
        let month = 1 << civil.month();
        let bits = [minute, hour, bits_of_month_day(civil), month, bits_of_weekday(civil)];
        Self { bits, day: civil.num_days_from_ce(), year: civil.year() }
    }
}

/// Returns the bits of the field day of month for this date: the bit of its number, and the bit of each [`CalendarDay`]
/// that falls on this date.
fn bits_of_month_day(date: &impl Datelike) -> u128 {
    let (day, last) = (date.day(), last_day(date));
    1 << day | CalendarDay::BeforeLast(last - day).bits() | nearest_weekdays(day, last, date.weekday())
}

/// Returns the bit of each `nW` that falls on this date. Adds the bit of `LW` if `LW` falls on this date.
fn nearest_weekdays(day: u32, last: u32, day_of_week: Weekday) -> u128 {
    // A Monday is the nearest weekday to the Sunday before it. It is also the nearest weekday to the Saturday before it
    // if this Saturday is the 1st, because then the Friday is in another month. A Friday is the nearest weekday to the
    // Saturday after it, and also to the Sunday after it if this Sunday is the last day of the month.
    let (first, end) = match day_of_week {
        Weekday::Sat | Weekday::Sun => return 0,
        Weekday::Mon if day <= 3 => (1, day),
        Weekday::Mon => (day - 1, day),
        Weekday::Fri if last - day <= 2 => (day, last),
        Weekday::Fri => (day, day + 1),
        _ => (day, day),
    };
    let first = CalendarDay::WeekdayNearest(first).bits();
    let end = CalendarDay::WeekdayNearest(end).bits();
    let nearest = (end << 1) - first;
    let is_last = CalendarDay::WeekdayNearest(last).bits() & nearest != 0;
    nearest | if is_last { CalendarDay::LastWeekday.bits() } else { 0 }
}

/// Returns the bits of the field day of week for this date: the bit of its day of the week, and the bit of each
/// [`CalendarDay`] that falls on this date.
fn bits_of_weekday(date: &impl Datelike) -> u128 {
    let (day, day_of_week) = (date.day(), date.weekday().num_days_from_sunday());
    let nth = CalendarDay::NthOfMonth { day_of_week, nth: (day - 1) / 7 + 1 };
    let is_last = last_day(date) - day < 7;
    let last = if is_last { CalendarDay::LastOfMonth { day_of_week }.bits() } else { 0 };
    1 << day_of_week | nth.bits() | last
}

/// Returns the number of the last day of the month.
fn last_day(date: &impl Datelike) -> u32 {
    date.num_days_in_month().into()
}

/// An item of a day field whose date differs from month to month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalendarDay {
    /// `L` or `L-n`: the day that is `n` days before the last day of the month. `L` means `L-0`, the last day.
    BeforeLast(u32),
    /// `nW`: the weekday of the month that is nearest to the day `n`.
    WeekdayNearest(u32),
    /// `LW`: the last weekday of the month.
    LastWeekday,
    /// `n#nth`: the day of the week `n`, for the `nth` time in the month.
    NthOfMonth { day_of_week: u32, nth: u32 },
    /// `nL`: the day of the week `n`, for the last time in the month.
    LastOfMonth { day_of_week: u32 },
}

impl CalendarDay {
    /// Returns this day as a bit of its field.
    pub(super) const fn bits(self) -> u128 {
        1_u128
            << match self {
                Self::BeforeLast(days) => 32 + days,
                Self::WeekdayNearest(day) => 64 + day,
                Self::LastWeekday => 96,
                Self::NthOfMonth { day_of_week, nth } => 8 * nth + day_of_week,
                Self::LastOfMonth { day_of_week } => 48 + day_of_week,
            }
    }

    /// Returns all items for the field day of month, in the order of their bits.
    pub(super) fn of_month() -> impl Iterator<Item = Self> {
        let counted = (0..=30).map(Self::BeforeLast).chain((1..=31).map(Self::WeekdayNearest));
        counted.chain([Self::LastWeekday])
    }

    /// Returns all items for the field day of week, in the order of their bits.
    pub(super) fn of_week() -> impl Iterator<Item = Self> {
        let nth = |nth| (0..7).map(move |day_of_week| Self::NthOfMonth { day_of_week, nth });
        (1..=5).flat_map(nth).chain((0..7).map(|day_of_week| Self::LastOfMonth { day_of_week }))
    }
}

impl fmt::Display for CalendarDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeLast(0) => f.write_str("L"),
            Self::BeforeLast(days) => write!(f, "L-{days}"),
            Self::WeekdayNearest(day) => write!(f, "{day}W"),
            Self::LastWeekday => f.write_str("LW"),
            Self::NthOfMonth { day_of_week, nth } => write!(f, "{day_of_week}#{nth}"),
            Self::LastOfMonth { day_of_week } => write!(f, "{day_of_week}L"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::crontab::field_set::{Field, FieldSet, InField};
    use crate::time::tick::Tick;

    #[test]
    fn the_fields_are_those_of_the_zones_clock() {
        // At this instant, it is Saturday in London, but already Sunday in Kathmandu.
        let now = "2026-02-28T18:20:30Z".parse().unwrap();
        let minute = CivilMinute::of(&Tick::at(now, &"+05:45".parse().unwrap()).local());
        let fields =
            Field::ALL.map(|field| InField(field, FieldSet { bits: minute.bits[field as usize], star: false }));
        assert_eq!(fields.map(|field| field.to_string()), ["5", "0", "1,L-30", "3", "0,0#1"]);
    }
}
