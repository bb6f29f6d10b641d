//! The days that only a calendar can tell, such as `15W` and `5#3`: bits of their field beside its numbers.

use std::fmt;

use super::field_set::{Field, FieldSet};

/// A day of the month or of the week that is another number in each month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalendarDay {
    /// `L` for 0, `L-n`: so many days before the last one of the month.
    BeforeLast(u32),
    /// `nW`: the weekday of the month that is nearest to this day.
    WeekdayNearest(u32),
    /// `LW`: the last weekday of the month.
    LastWeekday,
    /// `n#k`: the `nth` of these days of the week in the month.
    NthOfMonth { day_of_week: u32, nth: u32 },
    /// `nL`: the last of these days of the week in the month.
    LastOfMonth { day_of_week: u32 },
}

impl CalendarDay {
    /// The set that has this day alone.
    pub(super) const fn set(self) -> FieldSet {
        FieldSet { bits: 1 << self.bit(), star: false }
    }

    const fn bit(self) -> u32 {
        match self {
            Self::BeforeLast(days) => 32 + days,
            Self::WeekdayNearest(day) => 64 + day,
            Self::LastWeekday => 96,
            Self::NthOfMonth { day_of_week, nth } => 8 * nth + day_of_week,
            Self::LastOfMonth { day_of_week } => 48 + day_of_week,
        }
    }

    /// The days of a set in their field, in the order of their bits.
    pub(super) fn of(field: Field, set: FieldSet) -> impl Iterator<Item = Self> {
        let in_month = || {
            let counted = (0..=30).map(Self::BeforeLast).chain((1..=31).map(Self::WeekdayNearest));
            counted.chain([Self::LastWeekday])
        };
        let in_week = || {
            let nth = |nth| (0..7).map(move |day_of_week| Self::NthOfMonth { day_of_week, nth });
            (1..=5).flat_map(nth).chain((0..7).map(|day_of_week| Self::LastOfMonth { day_of_week }))
        };
        let of_month = (field == Field::DayOfMonth).then(in_month).into_iter().flatten();
        let of_week = (field == Field::DayOfWeek).then(in_week).into_iter().flatten();
        of_month.chain(of_week).filter(move |day| set.bits & day.set().bits != 0)
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

/// A date as the fields of a crontab see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Date {
    pub(super) day: u32,
    /// How many days its month has.
    pub(super) last: u32,
    /// From Sunday 0 to Saturday 6.
    pub(super) day_of_week: u32,
}

impl Date {
    /// All that the day of the month is called.
    pub(super) const fn days_of_month(self) -> u128 {
        1 << self.day | CalendarDay::BeforeLast(self.last - self.day).set().bits | self.nearest_weekdays()
    }

    /// Each `nW` that is this date, and `LW`.
    const fn nearest_weekdays(self) -> u128 {
        const MONDAY: u32 = 1;
        const FRIDAY: u32 = 5;

        let Self { day, last, day_of_week } = self;
        if day_of_week < MONDAY || day_of_week > FRIDAY {
            return 0;
        }
        // On a Monday, from the Sunday before it, or the Saturday with which the month begins; on a Friday, to the Saturday
        // after it, or the Sunday with which the month ends.
        let first = match (day_of_week, day) {
            (MONDAY, 2 | 3) => 1,
            (MONDAY, 4..) => day - 1,
            _ => day,
        };
        let end = match (day_of_week, last - day) {
            (FRIDAY, 1 | 2) => last,
            (FRIDAY, 3..) => day + 1,
            _ => day,
        };
        let nearest = FieldSet::range(64 + first, 64 + end).bits;
        let is_last = CalendarDay::WeekdayNearest(last).set().bits & nearest != 0;
        nearest | if is_last { CalendarDay::LastWeekday.set().bits } else { 0 }
    }

    /// All that the day of the week is called.
    pub(super) const fn days_of_week(self) -> u128 {
        let Self { day, last, day_of_week } = self;
        let nth = CalendarDay::NthOfMonth { day_of_week, nth: (day - 1) / 7 + 1 };
        let is_last = last - day < 7;
        let last = if is_last { CalendarDay::LastOfMonth { day_of_week }.set().bits } else { 0 };
        1 << day_of_week | nth.set().bits | last
    }
}
