//! A crontab in a zone: which instants those are, forwards and backwards.
//!
//! An event is due at an instant when the clocks of its zone then show a time that its crontab names. Of a time that a
//! change of the clocks leaves out or repeats, its [`ClockChange`] says whether it comes.

use std::fmt;
use std::iter;
use std::slice;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::crontab::Crontab;
use super::zone::Zone;

pub(crate) mod clock_change;
pub(crate) mod occurrences;
mod search;
pub(crate) mod seconds;
pub(crate) mod windows;

use clock_change::ClockChange;
use occurrences::Occurrences;
use seconds::Seconds;
use windows::Windows;

/// The times of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timetable {
    pub(crate) crontab: Crontab,
    pub(crate) seconds: Seconds,
    pub(crate) zone: Zone,
    pub(crate) clock_change: ClockChange,
}

impl Timetable {
    /// Whether each of its times of the day comes once, whatever the clocks show.
    pub(crate) fn comes_once(&self) -> bool {
        let once = match self.clock_change {
            ClockChange::AsCron => self.crontab.is_at_fixed_times(),
            ClockChange::Once => true,
            ClockChange::AsShown => false,
        };
        once && self.zone.has_changes()
    }

    /// The shortest time between two of its occurrences, as clocks show them; an hour, if that is longer.
    pub(crate) fn period(&self) -> Duration {
        let seconds = match self.seconds.interval() {
            60 => self.crontab.shortest_interval() * 60,
            interval => interval,
        };
        Duration::from_secs(seconds.into())
    }

    /// The first occurrence after `after`, between the years 1970 and 2100.
    pub(crate) fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.occurrences().next(after)
    }

    /// The occurrences after `after` at which these windows are open, one by one, between the years 1970 and 2100.
    pub(crate) fn upcoming(
        self,
        after: DateTime<Utc>,
        windows: Windows,
    ) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        let mut last = after;
        iter::from_fn(move || {
            last = self.occurrences().next_in(&windows, last)?;
            Some(last)
        })
    }

    /// The last occurrence before `before`, between the years 1970 and 2100.
    pub(crate) fn previous(&self, before: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.occurrences().at_or_before(before.timestamp() - i64::from(before.timestamp_subsec_nanos() == 0))
    }

    /// The last occurrence at `now` or before, between the years 1970 and 2100.
    pub(crate) fn latest(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.occurrences().at_or_before(now.timestamp())
    }

    fn occurrences(&self) -> Occurrences<'_> {
        let Self { crontab, seconds, zone, .. } = self;
        Occurrences { crontabs: slice::from_ref(crontab), seconds: *seconds, zone, once: self.comes_once() }
    }
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crontab, seconds, zone, clock_change } = self;
        write!(f, "{crontab} {zone}")?;
        if *seconds != Seconds::FIRST {
            write!(f, " at {}", numbered(seconds.numbers()))?;
        }
        match clock_change {
            ClockChange::AsCron => Ok(()),
            ClockChange::Once => f.write_str(" once"),
            ClockChange::AsShown => f.write_str(" as shown"),
        }
    }
}

impl Crontab {
    /// The first instant after `after` at which this crontab is due in `zone`, with its clock changes as cronie takes
    /// them: [`ClockChange::AsCron`]. `None` if there is none between the years 1970 and 2100.
    ///
    /// ```
    /// use soloist::time::Crontab;
    /// use soloist::Zone;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let nightly: Crontab = "30 2 * * *".parse()?;
    /// let noon = "2026-03-01T12:00:00Z".parse()?;
    /// let next = nightly.next(noon, &"Europe/Berlin".parse()?).expect("there is a tomorrow");
    /// assert_eq!(next.to_string(), "2026-03-02 01:30:00 UTC");
    /// # Ok(())
    /// # }
    /// ```
    pub fn next(&self, after: DateTime<Utc>, zone: &Zone) -> Option<DateTime<Utc>> {
        self.at_the_minute(zone).next(after)
    }

    /// The last instant before `before` at which this crontab was due in `zone`, with its clock changes as cronie takes
    /// them: [`ClockChange::AsCron`]. `None` if there is none between the years 1970 and 2100.
    ///
    /// ```
    /// use soloist::time::Crontab;
    /// use soloist::Zone;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let nightly: Crontab = "30 2 * * *".parse()?;
    /// let noon = "2026-03-01T12:00:00Z".parse()?;
    /// let last = nightly.previous(noon, &Zone::UTC).expect("there was a night");
    /// assert_eq!(last.to_string(), "2026-03-01 02:30:00 UTC");
    /// # Ok(())
    /// # }
    /// ```
    pub fn previous(&self, before: DateTime<Utc>, zone: &Zone) -> Option<DateTime<Utc>> {
        self.at_the_minute(zone).previous(before)
    }

    fn at_the_minute(&self, zone: &Zone) -> Timetable {
        let (crontab, zone) = (*self, zone.clone());
        Timetable { crontab, seconds: Seconds::FIRST, zone, clock_change: ClockChange::default() }
    }
}

fn numbered(numbers: impl Iterator<Item = u32>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
