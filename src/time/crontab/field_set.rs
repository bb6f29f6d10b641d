//! A field of a crontab line, and the set of its numbers and its calendar days, such as `15W` and `5#3`.

use std::fmt;

use super::civil_minute::CalendarDay;

/// A field of a crontab line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

impl Field {
    pub(crate) const ALL: [Self; 5] = [Self::Minute, Self::Hour, Self::DayOfMonth, Self::Month, Self::DayOfWeek];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        }
    }

    /// Returns the first number and the last number of the field. The last day of the week is 7, which is Sunday, too.
    pub(crate) const fn ends(self) -> (u32, u32) {
        match self {
            Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 7),
        }
    }
}

/// The numbers of one field. Bit n stands for the number n. A week is from Sunday 0 to Saturday 6. Higher bits stand
/// for a [`CalendarDay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FieldSet {
    pub(crate) bits: u128,
    /// Whether the text of the field starts with `*`. The star decides how the two day fields combine, and which rule
    /// applies when clocks change.
    pub(crate) star: bool,
}

impl FieldSet {
    /// `L`, the last day of the month.
    pub(crate) const LAST_DAY: Self = Self::calendar_day(CalendarDay::BeforeLast(0));

    /// Returns `*`, all numbers of the field.
    pub(crate) const fn every(field: Field) -> Self {
        Self::every_nth(field, 1)
    }

    /// Returns `*/step`. `step` must not be zero.
    pub(crate) const fn every_nth(field: Field, step: u32) -> Self {
        Self { star: true, ..Self::stepped(field.ends().0, field.ends().1, step).of(field) }
    }

    /// Returns `low-high`.
    pub(crate) const fn range(low: u32, high: u32) -> Self {
        Self { bits: (u128::MAX >> (127 - (high - low))) << low, star: false }
    }

    /// Returns the set of a single number.
    pub(crate) const fn only(number: u32) -> Self {
        Self::range(number, number)
    }

    /// Returns the set that has only the item `day`.
    pub(super) const fn calendar_day(day: CalendarDay) -> Self {
        Self { bits: day.bits(), star: false }
    }

    /// Returns each [`CalendarDay`] in this set, in the order of their bits. `field` is the field of this set.
    pub(super) fn calendar_days(self, field: Field) -> impl Iterator<Item = CalendarDay> {
        let of_month = (field == Field::DayOfMonth).then(CalendarDay::of_month).into_iter().flatten();
        let of_week = (field == Field::DayOfWeek).then(CalendarDay::of_week).into_iter().flatten();
        of_month.chain(of_week).filter(move |day| self.bits & day.bits() != 0)
    }

    /// Returns this set without items such as `L` and `15W`, so that only plain numbers are left. `field` is the field
    /// of this set.
    pub(super) fn without_calendar_days(self, field: Field) -> Self {
        self.calendar_days(field).fold(self, |rest, day| rest.without(Self::calendar_day(day)))
    }

    /// Returns `low-high/step`.
    pub(super) const fn stepped(low: u32, high: u32, step: u32) -> Self {
        if step == 1 {
            return Self::range(low, high);
        }
        let mut bits = 1 << low;
        let mut at = low;
        // Compares the step with the rest of the range, so that `at + step` can't overflow.
        while high - at >= step {
            at += step;
            bits |= 1 << at;
        }
        Self { bits, star: false }
    }

    /// Returns the set in the normal form of `field`: Sunday as 7 becomes Sunday as 0. A set that has all the days of
    /// the field loses items such as `L` and `15W`, because they add no day.
    pub(super) const fn of(self, field: Field) -> Self {
        match field {
            Field::DayOfWeek => {
                const SUNDAY_AS_7: u128 = 1 << 7;
                let sunday = (self.bits & SUNDAY_AS_7) >> 7;
                Self { bits: self.bits & !SUNDAY_AS_7 | sunday, ..self }.without_included_days(Self::range(0, 6))
            }
            Field::DayOfMonth => self.without_included_days(Self::range(1, 31)),
            _ => self,
        }
    }

    /// Removes items such as `L` and `15W` from a set that has all the numbers `all` of its field. These numbers
    /// already include every day.
    const fn without_included_days(self, all: Self) -> Self {
        Self { bits: if self.bits & all.bits == all.bits { all.bits } else { self.bits }, ..self }
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits, star: self.star }
    }

    const fn without(self, other: Self) -> Self {
        Self { bits: self.bits & !other.bits, star: self.star }
    }

    /// Returns this set as the items of a list. If this list is parsed as the text of `field`, the result is this set
    /// again, with its star.
    fn items(self, field: Field) -> Vec<String> {
        if self.bits == Self::every(field).bits && (self.star || field == Field::Month) {
            return vec!["*".into()];
        }
        let mut items = Vec::new();
        let mut rest = self.without_calendar_days(field);
        if self.star {
            // The set has a star, so the first item must start with `*`. Its step is the smallest step whose numbers
            // are all in the set.
            let fits = |step: &u32| Self::every_nth(field, *step).without(rest).bits == 0;
            if let Some(step) = (2..=field.ends().1 + 1).find(fits) {
                items.push(format!("*/{step}"));
                rest = rest.without(Self::every_nth(field, step));
            }
        }
        if let Some((first, last, step)) = rest.progression() {
            items.push(format!("{first}-{last}/{step}"));
            rest.bits = 0;
        }
        while rest.bits != 0 {
            let first = rest.bits.trailing_zeros();
            let last = first + (rest.bits >> first).trailing_ones() - 1;
            items.push(match last - first {
                0 => first.to_string(),
                1 => format!("{first},{last}"),
                _ => format!("{first}-{last}"),
            });
            rest = rest.without(Self::range(first, last));
        }
        items.extend(self.calendar_days(field).map(|day| day.to_string()));
        items
    }

    /// Returns the first number, the last number and the step, if the set has at least four numbers at equal distances.
    /// Such a set is easier to read as a range with a step.
    fn progression(self) -> Option<(u32, u32, u32)> {
        const ENOUGH: u32 = 4;

        if self.bits.count_ones() < ENOUGH {
            return None;
        }
        let first = self.bits.trailing_zeros();
        let last = self.bits.ilog2();
        let step = (self.bits & (self.bits - 1)).trailing_zeros() - first;
        (step > 1 && Self::stepped(first, last, step).bits == self.bits).then_some((first, last, step))
    }
}

/// A field and its set of values. Displays the set as a crontab writes it.
pub(crate) struct InField(pub(crate) Field, pub(crate) FieldSet);

impl fmt::Display for InField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1.items(self.0).join(","))
    }
}
