//! Civil periods: which one an instant lies in, what its permit is called, and when it is over.
//!
//! A permit is a claim that is called after an event and a period: whoever asks first has it, and it only expires.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, Utc};

use super::clock::{instant_of, wall_plus};
use super::zone::Zone;
use crate::base::escape::Quoted;

pub(crate) mod error;

use error::InvalidPeriod;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How long the periods of a pattern may be: not shorter than what timetables tell apart, and with room for a margin
/// within the longest term of a claim.
const LENGTHS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(9 * 365 * 24 * 60 * 60);

/// The longest text of a pattern, in characters.
const LONGEST_TEXT: usize = 100;

/// A civil period, read in the zone of the event, of which each has one permit to run: see
/// [`Event::once_per`](crate::Event::once_per).
///
/// Where clocks are set back or forward:
///
/// - An hour that a clock shows twice is two hours, as it is for timetables. One that is cut short is one hour.
/// - A day, a week or a month is one, however long it is, also where its midnight comes twice or not at all.
///
/// ```
/// use std::time::Duration;
/// use soloist::{Event, Period};
///
/// let invoices = Event::call("invoices", |_| {}).daily_at("04:00").once_per(Period::Month);
/// let twice_a_day = Period::pattern("%Y-%m-%d %p", Duration::from_secs(13 * 60 * 60));
/// let digest = Event::call("digest", |_| {}).every_five_minutes().once_per(twice_a_day);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Period {
    /// From :00 to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday 00:00 to the next, as ISO 8601 has it, also over the end of a year.
    Week,
    /// From the first, 00:00, to the next.
    Month,
    /// One of one's own, made with [`pattern`](Self::pattern).
    #[non_exhaustive]
    Pattern {
        /// How `chrono` writes the local time of an occurrence as the text that its period has in common.
        format: Arc<str>,
        /// How long such a period lasts at most.
        at_most: Duration,
    },
}

impl Period {
    /// Occurrences belong to one period if `format` writes the local times of both as the same text; see
    /// [`chrono::format::strftime`] for what it is made of. `at_most` is how long such a period lasts at the longest,
    /// from a minute to nine years: so long the permit is kept, counted from the run, and an hour more.
    ///
    /// Let the text be another one for each period, that is, say the date: `%p` alone is the same `AM` every day. It
    /// has no offset unless `%z` is in it: an hour that comes twice, as `%Y-%m-%d %H` writes it, is one period. A wrong
    /// pattern is refused by [`Schedule::add`](crate::Schedule::add).
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Event, Period, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    /// let mut schedule = Schedule::in_process();
    /// schedule.add(Event::call("accounts", |_| {}).daily().once_per(Period::pattern("%Y-Q%q", 93 * DAY)))?;
    /// let wrong = Event::call("e", |_| {}).daily().once_per(Period::pattern("%Y-%!", 366 * DAY));
    /// assert!(schedule.add(wrong).unwrap_err().to_string().starts_with("event `e`: `%Y-%!` is not a pattern"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pattern(format: impl Into<Arc<str>>, at_most: Duration) -> Self {
        Self::Pattern { format: format.into(), at_most }
    }

    /// Whether it can be told at any instant.
    pub(crate) fn check(&self) -> Result<(), InvalidPeriod> {
        let Self::Pattern { format, at_most } = self else { return Ok(()) };
        let quoted = Quoted::new(format);
        let refuse = |what: fmt::Arguments<'_>| Err(InvalidPeriod::from(what.to_string()));
        let no_pattern = |why| refuse(format_args!("{quoted} is not a pattern of periods: {why}"));
        if StrftimeItems::new(format).any(|item| matches!(item, Item::Error)) {
            return no_pattern("it has a `%` that `chrono` does not know, write one such as `%Y-%m-%d %p`");
        }
        if !StrftimeItems::new(format).any(|item| matches!(item, Item::Numeric(..) | Item::Fixed(_))) {
            return no_pattern("it has no part of the time in it, write one such as `%Y-%m-%d %p`");
        }
        // A Wednesday in September, which have the longest names.
        let long = NaiveDate::from_ymd_opt(2026, 9, 30).unwrap_or_default().and_time(NaiveTime::MIN).and_utc();
        match text(long, &Zone::UTC, format).chars().count() {
            1..=LONGEST_TEXT if LENGTHS.contains(at_most) => Ok(()),
            1..=LONGEST_TEXT => refuse(format_args!(
                "periods of {quoted} that last {at_most:?} at most are outside of a minute to nine years"
            )),
            chars => no_pattern(&format!("its text has {chars} characters, and 1 to {LONGEST_TEXT} are allowed")),
        }
    }

    /// The one that `instant` lies in.
    pub(crate) fn at(&self, instant: DateTime<Utc>, zone: &Zone) -> Permit {
        let at = instant.timestamp();
        let civil = at + zone.seconds_ahead_at(at);
        let (kind, instants) = match self {
            Self::Hour => ("hour", hour(zone, at)),
            Self::Day => ("day", instants_of(zone, day(civil, 0, 1), at)),
            Self::Week => ("week", instants_of(zone, day(civil, days_since_monday(civil), 7), at)),
            Self::Month => ("month", instants_of(zone, month(civil), at)),
            Self::Pattern { format, at_most } => {
                let period = format!("pattern@{}", text(instant, zone, format));
                return Permit { period: period.into(), end: wall_plus(instant, *at_most) };
            }
        };
        let start = zone.at(instant_of(instants.start));
        // An offset is written with its seconds, where it has any.
        let period = format!("{kind}@{}{}", start.format("%Y-%m-%dT%H:%M:%S"), start.offset());
        Permit { period: period.into(), end: instant_of(instants.end) }
    }
}

/// The permit of one period.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    /// What it is called, beside its event: the kind of period, and its local start with its offset.
    pub(crate) period: Arc<str>,
    /// When the period is over, and nobody asks for it any more.
    pub(crate) end: DateTime<Utc>,
}

/// What `format` makes of the local time of `instant`.
fn text(instant: DateTime<Utc>, zone: &Zone, format: &str) -> String {
    let mut text = String::new();
    // A well-formed pattern says nothing that an instant with an offset does not have.
    let _ = write!(text, "{}", zone.at(instant).format(format));
    text
}

/// The hour around second `at` in which the clocks are not changed.
fn hour(zone: &Zone, at: i64) -> std::ops::Range<i64> {
    let offset = zone.seconds_ahead_at(at);
    let start = (at + offset).div_euclid(HOUR) * HOUR - offset;
    let end = start + HOUR;
    zone.nearest_change(at, start).unwrap_or(start)..zone.nearest_change(at, end).unwrap_or(end)
}

/// The civil day of a civil second and those after it, `days` in all, from `back` days before it on.
fn day(civil: i64, back: i64, days: i64) -> std::ops::Range<i64> {
    let start = (civil.div_euclid(DAY) - back) * DAY;
    start..start + days * DAY
}

fn days_since_monday(civil: i64) -> i64 {
    // 1970 began on a Thursday.
    (civil.div_euclid(DAY) + 3).rem_euclid(7)
}

fn month(civil: i64) -> std::ops::Range<i64> {
    let date = instant_of(civil).date_naive();
    let first_of = |year, month| {
        let first = NaiveDate::from_ymd_opt(year, month, 1).map(|date| date.and_time(NaiveTime::MIN).and_utc());
        first.map(|first| first.timestamp())
    };
    let (year, month) = (date.year(), date.month());
    let next = if month == 12 { first_of(year + 1, 1) } else { first_of(year, month + 1) };
    // The first and the last month that can be written down are not whole.
    let [first, last] = [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC].map(|end| end.timestamp());
    first_of(year, month).unwrap_or(first)..next.unwrap_or(last + 1)
}

/// From the first second to the last at which the clocks of `zone` show one of these `civil` seconds, as they do at
/// second `at`.
fn instants_of(zone: &Zone, civil: std::ops::Range<i64>, at: i64) -> std::ops::Range<i64> {
    // No clock is a day ahead of UTC or behind it, so that the first second lies after this one, and the last before
    // the other. In between, each offset is tried as if it went on, up to the one with which that comes true.
    let mut from = civil.start - DAY;
    let start = loop {
        let first = from.max(civil.start - zone.seconds_ahead_at(from)).min(at);
        match zone.nearest_change(from, first) {
            Some(change) => from = change,
            None => break first,
        }
    };
    let mut until = civil.end + DAY;
    let end = loop {
        let last = until.min(civil.end - 1 - zone.seconds_ahead_at(until)).max(at);
        match zone.nearest_change(until, last) {
            Some(change) => until = change - 1,
            None => break last + 1,
        }
    };
    start..end
}

#[cfg(test)]
mod tests;
