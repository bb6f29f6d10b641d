//! A crontab expression: five fields as bit masks, compared with a civil time by a few bit operations.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use chrono::NaiveDateTime;

pub(crate) mod civil;
pub(crate) mod error;
pub(crate) mod field_set;
mod parse;
pub(crate) mod search;

use civil::CivilFields;
use error::CrontabError;
use field_set::{Field, FieldSet, InField};
use search::DueMasks;
use search::SearchStart;

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
    /// Hours, months and days of the week, each from the bit at which [`CivilFields`] has them, and the stars.
    others: [u32; 2],
    day_of_month: u32,
}

const _: () = assert!(size_of::<Crontab>() == 20 && align_of::<Crontab>() == 4);

/// From which bit of `others` on it says which fields start with a star.
const STARS: u32 = 56;

impl Crontab {
    /// `* * * * *`
    pub(crate) const EVERY_MINUTE: Self = {
        let mut crontab = Self { minute: [0; 2], others: [0; 2], day_of_month: 0 };
        let mut at = 0;
        while at < Field::ALL.len() {
            crontab.set(Field::ALL[at], FieldSet::every(Field::ALL[at]));
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
        self.due(&CivilFields::of(&civil))
    }

    /// Whether it is due at this civil time.
    #[inline]
    pub(crate) fn due(&self, now: &CivilFields) -> bool {
        self.meets_time(now) && self.meets_day(now)
    }

    /// Whether minute, hour and month are met: two words and no branch, and the end of it for most rows of a table.
    #[inline]
    pub(crate) fn meets_time(&self, now: &CivilFields) -> bool {
        (now.minute & !word(self.minute)) | (now.hour_and_month & !word(self.others)) == 0
    }

    /// Whether the days are met.
    #[inline]
    pub(crate) fn meets_day(&self, now: &CivilFields) -> bool {
        let day_of_month = self.day_of_month & now.day_of_month != 0;
        let day_of_week = word(self.others) & now.day_of_week != 0;
        if self.days_must_both_match() { day_of_month && day_of_week } else { day_of_month || day_of_week }
    }

    /// The first minute at which it is due, from `start` on.
    pub(crate) fn first_from(&self, start: &SearchStart) -> Option<i64> {
        self.masks().search::<true>(start)
    }

    /// The last minute at which it is due, up to `start`.
    pub(crate) fn last_until(&self, start: &SearchStart) -> Option<i64> {
        self.masks().search::<false>(start)
    }

    fn masks(&self) -> DueMasks {
        let [minutes, hours, days_of_month, months, days_of_week] = Field::ALL.map(|field| self.get(field).bits);
        DueMasks { minutes, hours, days_of_month, months, days_of_week, both_days: self.days_must_both_match() }
    }

    /// Writes one field anew and leaves the others as they are.
    pub(crate) const fn set(&mut self, field: Field, set: FieldSet) {
        // How a month is spelt makes no difference to anything, and equal values should be equal.
        let star = set.star && !matches!(field, Field::Month);
        self.put(STARS + field as u32, 1, star as u64);
        match field {
            Field::Minute => self.minute = halves(set.bits),
            Field::Hour => self.put(0, 24, set.bits),
            Field::DayOfMonth => self.day_of_month = halves(set.bits)[0],
            Field::Month => self.put(CivilFields::MONTH, 13, set.bits),
            Field::DayOfWeek => self.put(CivilFields::DAY_OF_WEEK, 7, set.bits),
        }
    }

    pub(crate) const fn get(&self, field: Field) -> FieldSet {
        let others = word(self.others);
        let bits = match field {
            Field::Minute => word(self.minute),
            Field::Hour => others & width(24),
            Field::DayOfMonth => self.day_of_month as u64,
            Field::Month => others >> CivilFields::MONTH & width(13),
            Field::DayOfWeek => others >> CivilFields::DAY_OF_WEEK & width(7),
        };
        FieldSet { bits, star: others >> (STARS + field as u32) & 1 != 0 }
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
        self.get(Field::DayOfMonth).bits & FieldSet::range(0, longest).bits != 0
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

impl FromStr for Crontab {
    type Err = CrontabError;

    /// Reads five fields, or a nickname such as `@daily`. At most 1,000 bytes are looked at.
    fn from_str(text: &str) -> Result<Self, CrontabError> {
        let mut crontab = Self::EVERY_MINUTE;
        for (field, set) in Field::ALL.into_iter().zip(parse::fields(text)?) {
            crontab.set(field, set);
        }
        let comes = !crontab.days_must_both_match() || crontab.day_of_month_comes();
        if comes { Ok(crontab) } else { Err(parse::never_comes(text)) }
    }
}

impl fmt::Display for Crontab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for field in Field::ALL {
            if field != Field::Minute {
                f.write_char(' ')?;
            }
            write!(f, "{}", InField(field, self.get(field)))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Crontab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crontab({self})")
    }
}
