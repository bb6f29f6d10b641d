//! Civil periods: which one an instant lies in, what its permit is called, and when it is over.
//!
//! A permit is a claim that is called after an event and a period: the first process that asks has it, and it only expires.

use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, Utc};

use super::clock::instant_of;
use super::zone::Zone;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A civil period, read in the zone of the event. Each period has one permit to run: see
/// [`Event::once_per`](crate::Event::once_per).
///
/// Where clocks are set back or forward:
///
/// - An hour that a clock shows twice is two hours, as it is for timetables. An hour that is cut short is one hour.
/// - A day, a week or a month is one, however long it is, also where its midnight comes twice or not at all.
///
/// ```
/// use soloist::{Event, Period};
///
/// let invoices = Event::call("invoices", |_| {}).daily_at("04:00").once_per(Period::Month);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
}

impl Period {
    /// Returns the permit of the period that contains `instant`.
    pub(crate) fn at(self, instant: DateTime<Utc>, zone: &Zone) -> Permit {
        let at = instant.timestamp();
        let civil = at + zone.seconds_ahead_at(at);
        let (kind, instants) = match self {
            Self::Hour => ("hour", hour(zone, at)),
            Self::Day => ("day", instants_of(zone, day(civil, 0, 1), at)),
            Self::Week => ("week", instants_of(zone, day(civil, days_since_monday(civil), 7), at)),
            Self::Month => ("month", instants_of(zone, month(civil), at)),
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
    /// The name of the permit, beside its event: the kind of period, and its local start with its offset.
    pub(crate) period: Arc<str>,
    /// When the period is over, and the permit is not asked for any more.
    pub(crate) end: DateTime<Utc>,
}

/// Returns the hour around second `at`, cut off where the clocks are changed.
fn hour(zone: &Zone, at: i64) -> std::ops::Range<i64> {
    let offset = zone.seconds_ahead_at(at);
    let start = (at + offset).div_euclid(HOUR) * HOUR - offset;
    let end = start + HOUR;
    zone.nearest_change(at, start).unwrap_or(start)..zone.nearest_change(at, end).unwrap_or(end)
}

/// Returns the civil seconds of `days` days. The first of them is `back` days before the day of this civil second.
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

/// Returns the seconds from the first to the last at which the clocks of `zone` show one of these `civil` seconds, as they do
/// at second `at`.
fn instants_of(zone: &Zone, civil: std::ops::Range<i64>, at: i64) -> std::ops::Range<i64> {
    // No clock is a day ahead of UTC or behind it, so that the first second lies after this one, and the last before
    // the other. In between, each offset is tried as if it went on, until the clocks do not change before the result.
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
