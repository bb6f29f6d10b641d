//! Civil periods: the name of the permit for the period of an instant, and how long this permit is needed.
//!
//! A permit is a claim that is named after an event and a period. The first process that requests it gets it, and it is
//! never released: it expires.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::zone::Zone;

/// A civil period, read in the zone of the event. Each period has one permit to run: see
/// [`Event::once_per`](crate::Event::once_per).
///
/// When clocks are set back or forward:
///
/// - An hour that a clock shows twice counts as two hours, as for timetables. A shortened hour counts as one hour.
/// - A day, a week or a month counts as one, even if its midnight comes twice or not at all.
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
    /// From Monday 00:00 to the next Monday, as in ISO 8601, also over the end of a year.
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
