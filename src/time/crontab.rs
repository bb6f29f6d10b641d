//! A crontab expression: five fields as bit masks, so that a few bit operations compare it with a civil time.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use chrono::{Datelike, NaiveDateTime, Timelike};

mod calendar_day;
pub(crate) mod error;
pub(crate) mod field_set;
mod parse;
mod words;

use calendar_day::Date;
use error::CrontabError;
use field_set::{Field, FieldSet, InField};

/// The times at which an event is due: the five fields of a crontab line, read as cronie reads them.
///
/// `minute hour day-of-month month day-of-week`, separated by spaces or tabs. A field is a list of items, separated
/// by commas; an item is a number, a range such as `8-18`, `*` for the whole range, and either of the latter two with
/// a step, as in `*/5` or `8-18/2`. Steps count within their field and start anew with it. Months and days of the week
/// also go by their English names or the first three letters of these, in any case; Sunday is 0 and 7. Instead of the five
/// fields one may write `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight` or `@hourly`.
///
/// **Days of the calendar.** cronie does not have these items; they stand in lists, and not in ranges:
///
/// | item | field | days |
/// | --- | --- | --- |
/// | `L`, `L-2` | day of month | the last day of the month, the day two days before it; up to `L-30` |
/// | `15W` | day of month | the weekday, Monday to Friday, that is nearest to the 15th and in its month: `1W` on a Saturday is Monday the 3rd. A month without that day has none |
/// | `LW` | day of month | the last weekday of the month |
/// | `5#3`, `fri#3` | day of week | the third Friday of the month, from `#1` to `#5`. **Quartz counts from Sunday 1**: its `6#3` is `5#3` here |
/// | `5L`, `friL` | day of week | the last Friday of the month; in Quartz `6L` |
/// | `?` | both, alone | any day, as `*` |
///
/// **The days.** Where day of month and day of week are both restricted, a day is due when *either* is met:
/// `0 9 13 * fri` is every Friday and every 13th, and `0 9 1 * fri#3` the 1st and the third Friday. Where the text of one of
/// them starts with `*`, as in `*/2`, a day is due only when *both* are met.
///
/// **Clock changes.** It names times as clocks on the wall show them, in the zone of its event.
/// [`ClockChange`](crate::time::ClockChange) has the rules for a time that a change to daylight saving leaves out, or
/// that the change back repeats.
///
/// **Where cronie is not followed**, since it would do something that users do not mean, or that differs between
/// servers: a range that runs backwards, which it reads as no time at all, or up to 7 when it ends with 0, is refused,
/// except that a range of days of the week may end with Sunday, also before a step, as in `fri-sun`; `~`, a time picked
/// at random, and `@reboot` are refused; a date that never comes (`0 0 30 2 *`) is refused; so is a text of more than
/// 1,000 bytes. A step that is larger than its range, as in `*/90`, is refused, because cronie takes it for the first
/// number alone. For an interval there is [`every`](crate::Event::every). What other schedulers write is in a table of
/// the page [`frequencies`](https://docs.rs/crate/soloist/latest/source/docs/guide/frequencies.md).
///
/// `Display` gives the same value in a normalised spelling.
///
/// ```
/// use soloist::time::Crontab;
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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Crontab {
    /// The numbers of each field, in the order of [`Field::ALL`].
    bits: [u128; Field::ALL.len()],
    /// Which fields start with a star.
    stars: u8,
}

impl Crontab {
    /// `* * * * *`
    pub(crate) const EVERY_MINUTE: Self = Self {
        bits: [
            FieldSet::range(0, 59).bits,
            FieldSet::range(0, 23).bits,
            FieldSet::range(1, 31).bits,
            FieldSet::range(1, 12).bits,
            FieldSet::range(0, 6).bits,
        ],
        stars: 0b1_0111,
    };

    /// Returns the minute, hour, day and month of a civil time, one number in each field. They are computed once for
    /// each zone and tick, and compared with every crontab of that zone.
    pub(crate) fn naming(civil: &(impl Datelike + Timelike)) -> Self {
        let date = Date {
            day: civil.day(),
            last: civil.num_days_in_month().into(),
            day_of_week: civil.weekday().num_days_from_sunday(),
        };
        Self::naming_minute(1 << civil.minute(), 1 << civil.hour(), 1 << civil.month(), date)
    }

    const fn naming_minute(minute: u128, hour: u128, month: u128, date: Date) -> Self {
        Self { bits: [minute, hour, date.days_of_month(), month, date.days_of_week()], stars: 0 }
    }

    /// Returns whether the crontab is due in the minute of `civil`, the time on a wall clock.
    ///
    /// ```
    /// use chrono::NaiveDate;
    /// use soloist::time::Crontab;
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
        self.due(&Self::naming(&civil))
    }

    /// Returns whether the crontab is due at the civil time `now`.
    #[inline]
    pub(crate) fn due(&self, now: &Self) -> bool {
        self.meets(Field::Minute, now) && self.meets(Field::Hour, now) && self.meets_date(now)
    }

    /// Returns the minutes of the hour as bits. For most events of a tick, these alone show that the event is not due.
    #[expect(clippy::cast_possible_truncation, reason = "an hour has 60 minutes")]
    #[inline]
    pub(crate) fn minute(&self) -> u64 {
        self.bits[Field::Minute as usize] as u64
    }

    #[inline]
    fn meets(&self, field: Field, now: &Self) -> bool {
        self.bits[field as usize] & now.bits[field as usize] != 0
    }

    /// Returns whether month and days match.
    #[inline]
    pub(crate) fn meets_date(&self, now: &Self) -> bool {
        let [of_month, of_week] = [Field::DayOfMonth, Field::DayOfWeek].map(|field| self.meets(field, now));
        let day = if self.days_must_both_match() { of_month && of_week } else { of_month || of_week };
        day && self.meets(Field::Month, now)
    }

    /// Replaces one field, and keeps the others.
    pub(crate) fn set(&mut self, field: Field, set: FieldSet) {
        // The spelling of the months makes no difference, so it must not make equal values different.
        let star = set.star && field != Field::Month;
        self.stars = self.stars & !(1 << field as u8) | u8::from(star) << field as u8;
        self.bits[field as usize] = set.bits;
    }

    pub(crate) fn get(&self, field: Field) -> FieldSet {
        FieldSet { bits: self.bits[field as usize], star: self.stars >> field as u8 & 1 != 0 }
    }

    /// Returns whether any date matches. Each date, even the 29th of February, falls on each day of the week in some
    /// year.
    pub(crate) fn comes(&self) -> bool {
        const MONTHS_OF_31_DAYS: u128 = 0b1_0101_1010_1010;
        const MONTHS_OF_30_DAYS: u128 = 0b1010_0101_0000;
        const FEBRUARY: u128 = 0b100;

        let months = [(31, MONTHS_OF_31_DAYS), (30, MONTHS_OF_30_DAYS), (29, FEBRUARY), (28, FEBRUARY)];
        let months = months.into_iter().filter(|(_, months)| self.get(Field::Month).bits & months != 0);
        let mut dates = months.flat_map(|(last, months)| {
            let days = (1..=last).flat_map(|day| (0..7).map(move |day_of_week| (day, day_of_week)));
            days.map(move |(day, day_of_week)| Self::naming_minute(1, 1, months, Date { day, last, day_of_week }))
        });
        dates.any(|date| self.meets_date(&date))
    }

    /// Returns whether any of the days of the month exists in any of the months, on any day of the week.
    pub(crate) fn day_of_month_comes(&self) -> bool {
        let mut on_any = *self;
        on_any.set(Field::DayOfWeek, FieldSet::every(Field::DayOfWeek));
        on_any.comes()
    }

    /// Returns whether the crontab has fixed times of the day, like `30 2 * * *`, and does not follow real time, like
    /// `*/10 * * * *` and `0 * * * *`. cronie makes this difference: a clock change moves only jobs with fixed times.
    pub(crate) fn is_at_fixed_times(&self) -> bool {
        !self.get(Field::Minute).star && !self.get(Field::Hour).star
    }

    /// Returns the shortest time between two of its times in minutes, at most 60. Days do not count.
    pub(crate) fn shortest_interval(&self) -> u32 {
        let (minutes, hours) = (self.get(Field::Minute).bits, self.get(Field::Hour).bits);
        let has_hours_in_a_row = hours & (hours << 1 | hours >> 23) != 0;
        let next_hour = if has_hours_in_a_row { minutes << 60 } else { 0 };
        let minutes = minutes | next_hour;
        (1..60).find(|interval| minutes & minutes >> interval != 0).unwrap_or(60)
    }

    /// Returns the rule for the two day fields. `true`: both must match, because one of them starts with `*`.
    #[inline]
    pub(crate) fn days_must_both_match(&self) -> bool {
        self.stars >> Field::DayOfMonth as u8 & 0b101 != 0
    }
}

impl FromStr for Crontab {
    type Err = CrontabError;

    /// Parses five fields, or a nickname such as `@daily`. At most 1,000 bytes are read.
    fn from_str(text: &str) -> Result<Self, CrontabError> {
        let mut crontab = Self::EVERY_MINUTE;
        for (field, set) in Field::ALL.into_iter().zip(parse::fields(text)?) {
            crontab.set(field, set);
        }
        if crontab.comes() { Ok(crontab) } else { Err(parse::never_comes(text, crontab.day_of_month_comes())) }
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
