//! A tick: one instant, and the time that the clocks in an event's zone show at this instant.

use std::time::Duration;

use chrono::{DateTime, FixedOffset, Utc};

use super::clock::{instant_of, wall_plus};
use super::zone::Zone;

/// The time of a tick, for the filters of an event.
///
/// ```
/// use chrono::{TimeZone, Utc};
/// use soloist::time::Tick;
/// use soloist::Zone;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let zone: Zone = "+01:00".parse()?;
/// let tick = Tick::at(Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 7).unwrap(), &zone);
/// assert_eq!(tick.now().to_string(), "2026-03-01 12:00:07 UTC");
/// assert_eq!(tick.local().to_string(), "2026-03-01 13:00:07 +01:00");
/// assert_eq!(tick.occurrence().to_string(), "2026-03-01 12:00:00 UTC");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    local: DateTime<FixedOffset>,
    scheduled: DateTime<FixedOffset>,
}

impl Tick {
    /// Makes the tick at `now` for an event with a timetable in `zone`. A schedule makes its own ticks. Use this
    /// function in tests of filters.
    ///
    /// ```
    /// use chrono::{DateTime, Timelike};
    /// use soloist::time::Tick;
    /// use soloist::Zone;
    ///
    /// let at_night = |tick: &Tick| tick.local().hour() < 6;
    /// assert!(at_night(&Tick::at(DateTime::UNIX_EPOCH, &Zone::UTC)));
    /// ```
    pub fn at(now: DateTime<Utc>, zone: &Zone) -> Self {
        let local = zone.at(now);
        Self { local, scheduled: start_of_minute(local) }
    }

    /// Returns the instant of the tick. All events without a [jitter](crate::Event::jitter) get an equal instant. For
    /// an event with a jitter, the delay of the occurrence is subtracted, so that a filter decides as it would without
    /// the jitter.
    ///
    /// ```
    /// # use soloist::time::Tick;
    /// # use soloist::Zone;
    /// # use chrono::DateTime;
    /// let tick = Tick::at(DateTime::UNIX_EPOCH, &Zone::UTC);
    /// assert_eq!(tick.now(), DateTime::UNIX_EPOCH);
    /// ```
    pub fn now(&self) -> DateTime<Utc> {
        self.local.to_utc()
    }

    /// Returns the time that the clocks in the event's zone show at the instant [`now`](Self::now).
    ///
    /// ```
    /// # use soloist::time::Tick;
    /// # use soloist::Zone;
    /// # use chrono::{DateTime, Timelike};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tick = Tick::at(DateTime::UNIX_EPOCH, &"-03:30".parse()?);
    /// assert_eq!((tick.local().hour(), tick.local().minute()), (20, 30));
    /// # Ok(())
    /// # }
    /// ```
    pub fn local(&self) -> DateTime<FixedOffset> {
        self.local
    }

    /// Returns the instant for which the event was scheduled: the start of the tick's minute, an instant of the event's
    /// [interval](crate::Event::every), or a missed occurrence.
    ///
    /// The servers of a fleet get the same occurrence, even if their ticks come some seconds apart.
    ///
    /// ```
    /// # use soloist::time::Tick;
    /// # use soloist::Zone;
    /// # use chrono::{DateTime, TimeDelta};
    /// let tick = Tick::at(DateTime::UNIX_EPOCH + TimeDelta::seconds(59), &Zone::UTC);
    /// assert_eq!(tick.occurrence(), DateTime::UNIX_EPOCH);
    /// ```
    pub fn occurrence(&self) -> DateTime<Utc> {
        self.scheduled.to_utc()
    }

    /// Returns the time that the clocks in the event's zone showed at the occurrence. If the occurrence was missed, and
    /// this tick [catches up](crate::Event::catch_up), the result is earlier than [`local`](Self::local).
    ///
    /// ```
    /// # use soloist::time::Tick;
    /// # use chrono::{DateTime, TimeDelta, Timelike};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tick = Tick::at(DateTime::UNIX_EPOCH + TimeDelta::seconds(59), &"+01:00".parse()?);
    /// assert_eq!((tick.scheduled().hour(), tick.scheduled().second()), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn scheduled(&self) -> DateTime<FixedOffset> {
        self.scheduled
    }

    /// Returns this tick with another `occurrence`: an instant of an interval, or a missed occurrence.
    pub(crate) fn with_occurrence(self, occurrence: DateTime<Utc>, zone: &Zone) -> Self {
        Self { scheduled: zone.at(occurrence), ..self }
    }

    /// Returns the time from the occurrence to the tick, or zero if the occurrence comes later.
    pub(crate) fn lateness(&self) -> Duration {
        (self.local - self.scheduled).to_std().unwrap_or_default()
    }

    /// Returns the instant one minute after the occurrence.
    pub(crate) fn next_minute(&self) -> DateTime<Utc> {
        wall_plus(self.occurrence(), Duration::from_secs(60))
    }
}

/// Returns the start of the minute. If an offset has seconds, a minute does not start at a full minute of UTC. The function
/// computes with seconds since 1970, because the civil times of `chrono` overflow near the ends of their range.
fn start_of_minute(local: DateTime<FixedOffset>) -> DateTime<FixedOffset> {
    let into_minute = (local.timestamp() + i64::from(local.offset().local_minus_utc())).rem_euclid(60);
    instant_of(local.timestamp() - into_minute).with_timezone(local.offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_occurrence_is_the_start_of_the_civil_minute() {
        for (now, zone, occurrence) in [
            ("2026-03-01T12:34:56.789Z", "UTC", "2026-03-01T12:34:00Z"),
            ("2026-03-01T12:34:56.789Z", "+05:45", "2026-03-01T12:34:00Z"),
            // At this instant, a clock that is 44 minutes and 30 seconds behind UTC shows 11:50:26.
            ("2026-03-01T12:34:56.789Z", "-00:44:30", "2026-03-01T12:34:30Z"),
            ("2026-03-01T12:34:10Z", "-00:44:30", "2026-03-01T12:33:30Z"),
            ("1969-12-31T23:59:59.5Z", "UTC", "1969-12-31T23:59:00Z"),
            ("2016-12-31T23:59:60.5Z", "UTC", "2016-12-31T23:59:00Z"),
        ] {
            let tick = Tick::at(now.parse().unwrap(), &zone.parse().unwrap());
            assert_eq!(tick.occurrence(), occurrence.parse::<DateTime<Utc>>().unwrap(), "{now} {zone}");
        }
    }

    #[test]
    fn no_instant_is_too_early_or_too_late() {
        for now in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
            for zone in ["UTC", "local", "+23:59:59", "-23:59:59", "+00:00:30", "-00:00:30"] {
                assert!(Tick::at(now, &zone.parse().unwrap()).occurrence() <= now);
            }
        }
    }
}
