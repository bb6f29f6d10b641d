//! A crontab expression: five fields as bit masks, so that a few bit operations compare a crontab with a civil time.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use chrono::NaiveDateTime;

pub(crate) mod civil_minute;
pub(crate) mod civil_times;
pub(crate) mod error;
pub(crate) mod field_set;
mod parse;
mod words;

use civil_minute::CivilMinute;
use error::CrontabError;
use field_set::{Field, FieldSet, InField};

/// The times at which an event is due: the five fields of a crontab line, with the meaning that they have in cronie.
///
/// The fields are `minute hour day-of-month month day-of-week`, separated by spaces or tabs. A field is a list of
/// items, separated by commas. An item is a number, a range such as `8-18`, or `*` for the whole range of the field. A
/// range and `*` can have a step, as in `8-18/2` or `*/5`. A step counts from the start of its range: `*/25` in the
/// minutes means :00, :25 and :50 of each hour.
///
/// Months and days of the week can also be English names, or the first three letters of these names, in upper or lower
/// case. Sunday is 0 or 7. Instead of the five fields, `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`,
/// `@midnight` or `@hourly` is allowed.
///
/// **Days of the calendar.** These items mean days whose date differs from month to month. They are allowed in a list,
/// but not in a range. cronie does not have these items.
///
/// | item | field | days |
/// | --- | --- | --- |
/// | `L` | day of month | the last day of the month |
/// | `L-2` | day of month | two days before the last day of the month; the number is from 1 to 30 |
/// | `15W` | day of month | the day from Monday to Friday that is nearest to the 15th, within the month: if the 1st is a Saturday, `1W` is Monday the 3rd. `31W` means no day in a month without a 31st |
/// | `LW` | day of month | the last weekday of the month |
/// | `5#3`, `fri#3` | day of week | the third Friday of the month; the number after `#` is from 1 to 5. **In Quartz, Sunday is 1**, so its `6#3` is `5#3` here |
/// | `5L`, `friL` | day of week | the last Friday of the month; in Quartz `6L` |
/// | `?` | both day fields, not in a list | any day, as `*` |
///
/// **Both day fields.** If neither day of month nor day of week starts with `*`, a day is due if *either* field
/// matches: `0 9 13 * fri` is every Friday and every 13th, and `0 9 1 * fri#3` is the 1st and the third Friday. If one
/// of the two fields starts with `*`, as in `*/2`, a day is due only if *both* fields match.
///
/// **Clock changes.** A crontab names times as wall clocks show them in the zone of its event. When these clocks are
/// set forward or back, they skip or repeat some times. [`ClockChange`](crate::time::ClockChange) has the rules for
/// such times.
///
/// **Differences from cronie.** Some texts are refused, because cronie does something that users do not mean, or that
/// differs between servers:
///
/// - A range that runs backwards. In cronie, such a range has no numbers, or, if it ends with 0, it goes up to 7. Only
///   a range of days of the week that ends with Sunday, such as `fri-sun`, is allowed, with or without a step.
/// - `~`, a random time, and `@reboot`.
/// - A date that never comes, as in `0 0 30 2 *`.
/// - A text of more than 1,000 bytes.
/// - A step that is larger than its range, as in `*/90`, because cronie uses only the first number of the range. For an
///   interval, use [`every`](crate::Event::every).
///
/// The page [`frequencies`](https://docs.rs/crate/soloist/latest/source/docs/guide/frequencies.md) has a table of the
/// notations of other schedulers.
///
/// `Display` writes the crontab in a normal form, which can be parsed again.
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
pub struct Crontab(
    /// The set of each field, in the order of [`Field::ALL`].
    [FieldSet; 5],
);

impl Crontab {
    /// `* * * * *`
    pub(crate) const EVERY_MINUTE: Self = Self([
        FieldSet::every(Field::Minute),
        FieldSet::every(Field::Hour),
        FieldSet::every(Field::DayOfMonth),
        FieldSet::range(1, 12),
        FieldSet::every(Field::DayOfWeek),
    ]);

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
        self.is_due_in(&CivilMinute::of(&civil))
    }

    /// Replaces one field, and keeps the others.
    pub(crate) fn set(&mut self, field: Field, set: FieldSet) {
        // A star in the month field has no meaning. It is dropped, so that crontabs with equal months are equal.
        self.0[field as usize] = FieldSet { star: set.star && field != Field::Month, ..set };
    }

    pub(crate) fn get(&self, field: Field) -> FieldSet {
        self.0[field as usize]
    }

    /// Returns whether one of the crontab's days of the month exists in one of the crontab's months. A 31st of February
    /// does not exist. The days of the week do not count.
    pub(crate) fn day_of_month_comes(&self) -> bool {
        let mut on_any = *self;
        on_any.set(Field::DayOfWeek, FieldSet::every(Field::DayOfWeek));
        on_any.comes()
    }

    /// Returns whether the crontab has fixed times of the day, as `30 2 * * *` has. As in cronie, fixed times come
    /// once, even if the clocks skip or repeat them. Other crontabs, such as `*/10 * * * *` and `0 * * * *`, follow
    /// real time.
    pub(crate) fn is_at_fixed_times(&self) -> bool {
        !self.get(Field::Minute).star && !self.get(Field::Hour).star
    }

    /// Returns the smallest number of minutes between two times of the crontab, or 60 if all times are farther apart.
    /// Only the fields of the minute and the hour count.
    pub(crate) fn shortest_interval(&self) -> u32 {
        let (minutes, hours) = (self.get(Field::Minute).bits, self.get(Field::Hour).bits);
        let has_hours_in_a_row = hours & (hours << 1 | hours >> 23) != 0;
        let next_hour = if has_hours_in_a_row { minutes << 60 } else { 0 };
        let minutes = minutes | next_hour;
        (1..60).find(|interval| minutes & minutes >> interval != 0).unwrap_or(60)
    }
}

impl FromStr for Crontab {
    type Err = CrontabError;

    /// Parses five fields, or a nickname such as `@daily`. Refuses a text of more than 1,000 bytes.
    fn from_str(text: &str) -> Result<Self, CrontabError> {
        let sets = parse::fields(text)?;
        let mut crontab = Self::EVERY_MINUTE;
        for (field, set) in Field::ALL.into_iter().zip(sets) {
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
