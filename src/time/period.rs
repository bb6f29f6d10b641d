//! Civil periods, such as a day or a month: the names of their permits, and how long each permit is needed.
//!
//! A permit is a claim whose name has the event and the period. The first process that requests a permit gets it. A
//! permit is never released, but expires.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::zone::Zone;

/// A civil period in the zone of the event. An event with [`Event::once_per`](crate::Event::once_per) runs at most once
/// in each period.
///
/// When clocks are set back or forward:
///
/// - An hour that clocks show twice counts as two hours, as in timetables. A shortened hour counts as one hour.
/// - A day, a week or a month always counts as one, even if its midnight comes twice or not at all.
///
/// ```
/// use soloist::{Event, Period};
///
/// let invoices = Event::call("invoices", |_| {}).daily_at("04:00").once_per(Period::Month);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Period {
    /// From `:00` to the next `:00`.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday 00:00 to the next Monday, as in ISO 8601. A week can begin in one year and end in the next.
    Week,
    /// From the first day of a month, 00:00, to the first day of the next month.
    Month,
}

impl Period {
    /// Returns the part of the permit's name that stands for the period of `instant`. Also returns how long
    /// a period of this kind lasts at most. For a day, this is two days: a day on which clocks are set back is longer
    /// than 24 hours, but shorter than two days.
    pub(crate) fn permit(self, instant: DateTime<Utc>, zone: &Zone) -> (String, Duration) {
        let (name, hours) = match self {
            // The offset distinguishes an hour from its repetition, after the clocks were set back.
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
