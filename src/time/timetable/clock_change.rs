//! The rules for an event when the clocks of its zone change.

use std::ops::Range;

use super::occurrences::Occurrences;
use crate::time::crontab::{Crontab, civil_times::CivilTimes};
use crate::time::zone::{Zone, changes::Change};

/// The largest difference between two offsets of a zone, in seconds. A zone that crossed the date line moved by a day.
/// Daylight saving adds two hours at most.
const REACH: i64 = 26 * 3600;

/// The largest clock change after which skipped times are made up for, and repeated times do not run again, as in
/// cronie. After a larger change, skipped times are lost, and repeated times run again.
const LARGEST: i64 = 3 * 3600;

/// The rule for an event's times when the clocks of its zone are set forward or back; see
/// [`Event::on_clock_change`](crate::Event::on_clock_change).
///
/// The default is the rule of cronie: fixed times of the day come once, and all other timetables follow real time. In
/// Berlin, clocks went from 02:00 CET to 03:00 CEST on 2026-03-29, and from 03:00 CEST back to 02:00 CET on 2026-10-25.
/// From 01:00 to 04:00, crontabs had these occurrences:
///
/// | | 2026-03-29 | 2026-10-25 |
/// | --- | --- | --- |
/// | `30 2 * * *` | 03:00 CEST | 02:30 CEST |
/// | `*/30 2 * * *` | none | 02:00 CEST, 02:30 CEST, 02:00 CET, 02:30 CET |
/// | `0 * * * *` | 01:00 CET, 03:00 CEST | 01:00 CEST, 02:00 CEST, 02:00 CET, 03:00 CET |
/// | `0 3 * * *` | 03:00 CEST | 03:00 CET |
///
/// - `30 2 * * *` has a fixed time of the day. When the clocks skipped that time, the event was due right after the
///   change. When the clocks showed that time twice, the event was due the first time.
/// - `*/30 2 * * *` begins with `*`, so the event is due whenever the clocks show one of its times.
/// - `0 * * * *` is due in each hour of real time.
/// - `0 3 * * *` is not affected, because the clocks showed 03:00 once on both days.
///
/// Under every rule, an occurrence is an instant, and all servers agree on it.
///
/// ```
/// use chrono::{DateTime, Utc};
/// use soloist::time::ClockChange;
/// use soloist::Event;
///
/// # #[cfg(feature = "tzdata")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let event = || Event::call("backup", |_| {}).daily_at("02:30").timezone("Europe/Berlin");
/// let evening: DateTime<Utc> = "2026-03-28T20:00:00Z".parse()?;
/// assert_eq!(event().next(evening), Some("2026-03-29T01:00:00Z".parse()?)); // 03:00 on the clocks
/// let as_shown = event().on_clock_change(ClockChange::AsShown);
/// assert_eq!(as_shown.next(evening), Some("2026-03-30T00:30:00Z".parse()?)); // 02:30 a day later
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "tzdata"))]
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockChange {
    /// The rule of cronie (`cron(8)`, "Daylight Saving Time and other time changes"). If neither the minutes nor the
    /// hours of a crontab start with `*`, the crontab has fixed times of the day, and the rule is [`Once`](Self::Once).
    /// Any other crontab follows real time, and the rule is [`AsShown`](Self::AsShown).
    #[default]
    AsCron,
    /// Each time of the day comes once. If a clock change skips times of the event, the event runs once, right after
    /// the change. Times that the clocks show again do not come again.
    ///
    /// This rule is for changes of up to three hours. If a zone skips more than three hours, the event does not run for
    /// the skipped times. For example, Samoa skipped the whole 30th of December 2011, when it crossed the date line. If
    /// a zone goes back by more than three hours, all repeated times come again.
    Once,
    /// The event is due whenever the clocks show one of its times. A time that the clocks skip does not come. A time
    /// that the clocks show twice comes twice.
    AsShown,
}

impl ClockChange {
    /// Returns whether each time of `crontab` comes exactly once, even if the clocks skip or repeat that time.
    pub(super) fn is_once(self, crontab: &Crontab) -> bool {
        match self {
            Self::AsCron => crontab.is_at_fixed_times(),
            Self::Once => true,
            Self::AsShown => false,
        }
    }
}

impl Zone {
    /// Returns the last clock change up to `second` if it has moved the clocks by at most three hours, and still
    /// matters at `second` for events whose times come once. `None`: there is no such change.
    pub(crate) fn small_change(&self, second: i64) -> Option<Change> {
        // After such a change, the clocks show at most three hours again. So the change matters for three hours, and
        // then until the next minute begins. In this time, a zone has at most one change.
        let from = second - LARGEST - 60;
        if !self.has_changes() || self.seconds_ahead_at(from) == self.seconds_ahead_at(second) {
            return None;
        }
        let change = self.change_between(from, second);
        ((change.after - change.before).abs() <= LARGEST).then_some(change)
    }
}

impl Occurrences<'_> {
    /// Returns the first due minute that begins at second `from` or after.
    ///
    /// If times come once, minutes that the clocks repeat are not due. Times that a change has skipped are due after
    /// the change, in the first minute that the clocks have not shown before.
    pub(super) fn minute_at_or_after(self, mut from: i64) -> Option<i64> {
        loop {
            if self.once
                && let Some(change) = self.zone.small_change(from)
            {
                let resumed = change.first_new_minute();
                if from <= resumed && self.has_skipped_time(change) {
                    return Some(resumed);
                }
                from = from.max(resumed);
            }
            let offset = self.zone.seconds_ahead_at(from);
            let found = CivilTimes::first_of(self.times, from + offset)? - offset;
            // `found` is computed with the offset at `from`, so a clock change before `found` can make it wrong. If the
            // offset at `found` is equal, the clocks may still have changed, twice. But only two changes matter. After
            // a change near `from`, the clocks can show a due time earlier than `found`. After a change near `found`,
            // the clocks show the time of `found` at another instant.
            let near = found - from <= 2 * REACH;
            if let Some(change) = self.zone.nearest_change(from, if near { found } else { from + REACH }) {
                from = change;
            } else if near {
                return Some(found);
            } else {
                from = found - REACH;
            }
        }
    }

    /// Returns whether the change has skipped any of the `times`. If so, an event is due right after the change.
    fn has_skipped_time(self, change: Change) -> bool {
        let has_time_in =
            |times: Range<i64>| CivilTimes::first_of(self.times, times.start).is_some_and(|time| time < times.end);
        change.skipped().is_some_and(has_time_in)
    }
}
