//! Five fields as bit sets: what an expression means, tested with a few bit operations.

pub(crate) mod error;
mod parse;
pub(crate) mod search;

use std::fmt::{self, Write as _};

use chrono::NaiveDateTime;

use super::tick::Fields;
use super::zone::Zone;

/// When an event is due: the five fields of a crontab line, read as cronie reads them.
///
/// `minute hour day-of-month month day-of-week`, separated by spaces or tabs. A field is a list of items, separated
/// by commas; an item is a number, a range such as `8-18`, `*` for the whole range, and either of the latter two with
/// a step, as in `*/5` or `8-18/2`. Steps count within their field and start anew with it. Months and days of the week
/// also go by the first three letters of their English names, in any case; Sunday is 0 and 7. Instead of the five
/// fields one may write `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight` or `@hourly`.
///
/// **The days.** Where day of month and day of week are both restricted, a day is due when *either* is met:
/// `0 9 13 * fri` is every Friday and every 13th. Where the text of one of them starts with `*`, as in `*/2`, a day is
/// due only when *both* are met.
///
/// **Clock changes.** It names times as clocks on the wall show them, in the zone of its event. What becomes of a time
/// that a change to daylight saving leaves out, or that the change back repeats, says [`ClockChange`](crate::ClockChange).
///
/// **Where cronie is not followed**, since it would do something that nobody means, or that differs between servers:
/// a range that runs backwards, which it reads as no time at all, or up to 7 when it ends with 0, is refused, except
/// that a range of days of the week may end with Sunday, also before a step, as in `fri-sun`; `~`, a time picked at
/// random, and `@reboot` are refused; a date that never comes (`0 0 30 2 *`) is refused; so is a text of more than
/// 1,000 bytes. And where it is gone beyond: `L` in the list of the days of the month is the last day of whichever month
/// it is, as in `0 18 15,L * *`. A step that is larger than its range is taken as cronie takes it, `*/61` for the first
/// number alone. What other schedulers write is in a table of the page [`frequencies`](crate::guide::frequencies).
///
/// `Display` gives the same value in a normalised spelling.
///
/// ```
/// use soloist::Crontab;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let crontab: Crontab = "*/15 8-17 * * Mon-Fri".parse()?;
/// assert_eq!(crontab.to_string(), "*/15 8-17 * * 1-5");
/// assert_eq!("@weekly".parse::<Crontab>()?.to_string(), "0 0 * * 0");
///
/// let error = "61 * * * *".parse::<Crontab>().unwrap_err();
/// assert_eq!(error.to_string(), "`61 * * * *`: minute `61` is outside of 0-59 (column 1)");
/// # Ok(())
/// # }
/// ```
// Words of eight bytes in halves of four, so that it takes 20 bytes and not 24: with a few bytes of its caller's, a row
// of a table takes 24.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Crontab {
    minute: [u32; 2],
    /// Hours, months and days of the week, each from the bit at which [`Fields`] has them, and the stars.
    others: [u32; 2],
    day_of_month: u32,
}

const _: () = assert!(size_of::<Crontab>() == 20 && align_of::<Crontab>() == 4);

/// From which bit of `others` on it says which fields start with a star.
const STARS: u32 = 56;

/// One of the five fields, and the numbers in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

/// The values of one field: bit n stands for the number n, in a week from Sunday 0 to Saturday 6. Of the days of the month,
/// bit 0 stands for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    bits: u64,
    /// Whether its text starts with `*`, which decides how the days combine, and what a clock change does.
    star: bool,
}

impl Crontab {
    /// `* * * * *`
    pub(crate) const EVERY_MINUTE: Self = {
        let mut crontab = Self { minute: [0; 2], others: [0; 2], day_of_month: 0 };
        let mut at = 0;
        while at < Field::ALL.len() {
            crontab.set(Field::ALL[at], Set::every(Field::ALL[at]));
            at += 1;
        }
        crontab
    };

    /// Whether it is due in the minute of `civil`, a time as a clock on the wall shows it.
    ///
    /// ```
    /// use chrono::NaiveDate;
    /// use soloist::Crontab;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let fridays_and_13ths: Crontab = "0 9 13 * fri".parse()?;
    /// let nine_on = |day| NaiveDate::from_ymd_opt(2026, 3, day).unwrap().and_hms_opt(9, 0, 0).unwrap();
    /// assert!(fridays_and_13ths.matches(nine_on(6)));
    /// assert!(fridays_and_13ths.matches(nine_on(13)));
    /// assert!(!fridays_and_13ths.matches(nine_on(14)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn matches(&self, civil: NaiveDateTime) -> bool {
        self.due(&Fields::of(civil.and_utc(), &Zone::UTC))
    }

    /// Whether it is due at the instant that was taken apart into `now`.
    #[inline]
    pub(crate) fn due(&self, now: &Fields) -> bool {
        self.meets_time(now) && self.meets_day(now)
    }

    /// Whether minute, hour and month are met: two words and no branch, and the end of it for most rows of a table.
    #[inline]
    pub(crate) fn meets_time(&self, now: &Fields) -> bool {
        (now.minute & !word(self.minute)) | (now.hour_and_month & !word(self.others)) == 0
    }

    /// Whether the days are met.
    #[inline]
    pub(crate) fn meets_day(&self, now: &Fields) -> bool {
        let day_of_month = self.day_of_month & now.day_of_month != 0;
        let day_of_week = word(self.others) & now.day_of_week != 0;
        if self.days_must_both_match() { day_of_month && day_of_week } else { day_of_month || day_of_week }
    }

    /// Writes one field anew and leaves the others as they are.
    pub(crate) const fn set(&mut self, field: Field, set: Set) {
        // How a month is spelt makes no difference to anything, and equal values should be equal.
        let star = set.star && !matches!(field, Field::Month);
        self.put(STARS + field as u32, 1, star as u64);
        match field {
            Field::Minute => self.minute = halves(set.bits),
            Field::Hour => self.put(0, 24, set.bits),
            Field::DayOfMonth => self.day_of_month = halves(set.bits)[0],
            Field::Month => self.put(Fields::MONTH, 13, set.bits),
            Field::DayOfWeek => self.put(Fields::DAY_OF_WEEK, 7, set.bits),
        }
    }

    pub(crate) const fn get(&self, field: Field) -> Set {
        let others = word(self.others);
        let bits = match field {
            Field::Minute => word(self.minute),
            Field::Hour => others & width(24),
            Field::DayOfMonth => self.day_of_month as u64,
            Field::Month => others >> Fields::MONTH & width(13),
            Field::DayOfWeek => others >> Fields::DAY_OF_WEEK & width(7),
        };
        Set { bits, star: others >> (STARS + field as u32) & 1 != 0 }
    }

    /// Whether there is a date on which it is due.
    pub(crate) fn comes(&self) -> bool {
        !self.days_must_both_match() || self.day_of_month_comes()
    }

    /// Whether any of its days of the month is one in any of its months.
    pub(crate) fn day_of_month_comes(&self) -> bool {
        const MONTHS_OF_30_DAYS: u64 = 1 << 4 | 1 << 6 | 1 << 9 | 1 << 11;
        const FEBRUARY: u64 = 1 << 2;

        let longest = match self.get(Field::Month).bits {
            months if months & !(MONTHS_OF_30_DAYS | FEBRUARY) != 0 => 31,
            months if months & MONTHS_OF_30_DAYS != 0 => 30,
            _ => 29,
        };
        // Each date, the 29th of February too, falls on each day of the week sooner or later, and so does the last.
        self.get(Field::DayOfMonth).bits & Set::range(0, longest).bits != 0
    }

    /// Whether it names times of the day, as `30 2 * * *` does, and not a stretch of real time, as `*/10 * * * *` and
    /// `0 * * * *` do: cronie's difference between jobs that a change of the clocks moves, and those it doesn't touch.
    pub(crate) const fn is_at_fixed_times(&self) -> bool {
        !self.get(Field::Minute).star && !self.get(Field::Hour).star
    }

    /// The shortest time between two of its times, in minutes; 60, if that is longer. The days are left out of account.
    pub(crate) fn shortest_interval(&self) -> u32 {
        let (minutes, hours) = (self.get(Field::Minute).bits, self.get(Field::Hour).bits);
        let has_hours_in_a_row = hours & (hours << 1 | hours >> 23) != 0;
        let next_hour = if has_hours_in_a_row { u128::from(minutes) << 60 } else { 0 };
        let minutes = u128::from(minutes) | next_hour;
        (1..60).find(|interval| minutes & minutes >> interval != 0).unwrap_or(60)
    }

    /// The rule of the days: both, where one of them starts with `*`; else either.
    #[inline]
    pub(crate) const fn days_must_both_match(&self) -> bool {
        const DAYS: u32 = 1 << Field::DayOfMonth as u32 | 1 << Field::DayOfWeek as u32;

        word(self.others) & (DAYS as u64) << STARS != 0
    }

    /// Puts `bits`, so many of them, into the other fields from bit `at` on.
    const fn put(&mut self, at: u32, count: u32, bits: u64) {
        self.others = halves(word(self.others) & !(width(count) << at) | bits << at);
    }
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

    pub(crate) const fn first(self) -> u32 {
        match self {
            Self::Minute | Self::Hour | Self::DayOfWeek => 0,
            Self::DayOfMonth | Self::Month => 1,
        }
    }

    /// The largest number, as it is written: 7 is Sunday again.
    pub(crate) const fn last(self) -> u32 {
        match self {
            Self::Minute => 59,
            Self::Hour => 23,
            Self::DayOfMonth => 31,
            Self::Month => 12,
            Self::DayOfWeek => 7,
        }
    }
}

impl Set {
    /// `*`
    pub(crate) const fn every(field: Field) -> Self {
        Self { bits: Self::every_nth(field, 1).bits, star: true }
    }

    /// `*/step`, for a step that is not zero.
    pub(crate) const fn every_nth(field: Field, step: u32) -> Self {
        Self { bits: Self::stepped(field.first(), field.last(), step).of(field).bits, star: true }
    }

    /// `low-high`, neither beyond 63.
    pub(crate) const fn range(low: u32, high: u32) -> Self {
        Self { bits: (u64::MAX >> (63 - (high - low))) << low, star: false }
    }

    /// A single number, not beyond 63.
    pub(crate) const fn only(number: u32) -> Self {
        Self::range(number, number)
    }

    /// `L`, the last day of whichever month it is.
    pub(crate) const LAST_DAY: Self = Self { bits: Fields::LAST_DAY as u64, star: false };

    pub(crate) const fn with(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits, star: self.star }
    }

    /// `low-high/step`
    const fn stepped(low: u32, high: u32, step: u32) -> Self {
        if step == 1 {
            return Self::range(low, high);
        }
        let mut bits = 1 << low;
        let mut at = low;
        // By what is left of the range, so that no step can be too large.
        while high - at >= step {
            at += step;
            bits |= 1 << at;
        }
        Self { bits, star: false }
    }

    /// The numbers as written in `field`, where Sunday may be a 7.
    const fn of(self, field: Field) -> Self {
        match field {
            Field::DayOfWeek => Self { bits: (self.bits | self.bits >> 7) & 0x7f, ..self },
            // Where every day is named, the last is, too.
            Field::DayOfMonth if self.bits == Self::range(0, 31).bits => Self { bits: Self::range(1, 31).bits, ..self },
            _ => self,
        }
    }

    /// In ascending order, without the `L` of a day of the month.
    pub(crate) fn numbers(self) -> impl Iterator<Item = u32> {
        let mut bits = self.bits;
        std::iter::from_fn(move || {
            let number = bits.trailing_zeros();
            bits &= bits.checked_sub(1)?;
            Some(number)
        })
    }

    pub(crate) const fn has_last_day(self) -> bool {
        self.bits & Self::LAST_DAY.bits != 0
    }

    pub(crate) const fn without_last_day(self) -> Self {
        Self { bits: self.bits & !Self::LAST_DAY.bits, ..self }
    }

    pub(crate) fn is_all_of(self, field: Field) -> bool {
        self.bits == Self::every(field).bits
    }

    /// What `field` is written as, so that it reads back as this set, star and all.
    fn write(self, field: Field, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all_of(field) && (self.star || field == Field::Month) {
            return f.write_char('*');
        }
        let mut items = Items { f, any: false };
        if field == Field::DayOfMonth && self.has_last_day() {
            self.without_last_day().write_numbers(field, &mut items)?;
            return items.item('L');
        }
        self.write_numbers(field, &mut items)
    }

    fn write_numbers(mut self, field: Field, items: &mut Items<'_, '_>) -> fmt::Result {
        if self.star {
            // It was read from an item that starts with `*`; the finest such item that fits stands for it.
            let fits = |step: &u32| Self::every_nth(field, *step).bits & !self.bits == 0;
            if let Some(step) = (2..=field.last() + 1).find(fits) {
                items.item(format_args!("*/{step}"))?;
                self.bits &= !Self::every_nth(field, step).bits;
            }
        }
        if let Some((first, last, step)) = self.progression() {
            return items.item(format_args!("{first}-{last}/{step}"));
        }
        while self.bits != 0 {
            let first = self.bits.trailing_zeros();
            let length = (self.bits >> first).trailing_ones();
            let last = first + length - 1;
            match length {
                1 => items.item(first)?,
                2 => items.item(format_args!("{first},{last}"))?,
                _ => items.item(format_args!("{first}-{last}"))?,
            }
            self.bits &= !Self::range(first, last).bits;
        }
        Ok(())
    }

    /// First, last and step, where there are enough numbers at one distance that this is easier to read than a list.
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

/// A set as an expression has it in its field.
pub(crate) struct InField(pub(crate) Field, pub(crate) Set);

impl fmt::Display for InField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.1.write(self.0, f)
    }
}

/// The lowest `count` bits.
const fn width(count: u32) -> u64 {
    (1 << count) - 1
}

const fn word([low, high]: [u32; 2]) -> u64 {
    low as u64 | (high as u64) << 32
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of a word, one by one")]
const fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// Writes a list.
struct Items<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    any: bool,
}

impl Items<'_, '_> {
    fn item(&mut self, item: impl fmt::Display) -> fmt::Result {
        if std::mem::replace(&mut self.any, true) {
            self.f.write_char(',')?;
        }
        write!(self.f, "{item}")
    }
}

impl fmt::Display for Crontab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for field in Field::ALL {
            if field != Field::Minute {
                f.write_char(' ')?;
            }
            self.get(field).write(field, f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Crontab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crontab({self})")
    }
}
