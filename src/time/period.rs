//! Civil periods: what the permit of the one that an instant lies in is called, and how long it is needed.
//!
//! A permit is a claim that is called after an event and a period: the first process that asks has it, and it only expires.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::zone::Zone;

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
    /// Returns the name of the permit of the period that contains `instant`, beside its event, and the longest time until the period is
    /// over. Where clocks are set back, a day is longer, by another day at most.
    pub(crate) fn permit(self, instant: DateTime<Utc>, zone: &Zone) -> (String, Duration) {
        let (name, hours) = match self {
            // The offset tells an hour from its repetition.
            Self::Hour => ("hour@%FT%H%:z", 1),
            Self::Day => ("day@%F", 2 * 24),
            Self::Week => ("week@%G-W%V", 8 * 24),
            Self::Month => ("month@%Y-%m", 32 * 24),
        };
        (zone.at(instant).format(name).to_string(), Duration::from_secs(hours * 60 * 60))
    }
}

#[cfg(test)]
mod tests;
