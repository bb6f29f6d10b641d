//! The rules for an event when the clocks of its zone change.

/// The rule for an event's times when the clocks of its zone are set forward or back; see
/// [`Event::on_clock_change`](crate::Event::on_clock_change).
///
/// The default does as cronie does: times of the day are kept, and what names no time of the day follows real time. In
/// Berlin clocks went from 02:00 CET to 03:00 CEST on 2026-03-29, and from 03:00 CEST back to 02:00 CET on 2026-10-25. From
/// one o'clock until four these were due:
///
/// | | 2026-03-29 | 2026-10-25 |
/// | --- | --- | --- |
/// | `30 2 * * *` | 03:00 CEST | 02:30 CEST |
/// | `*/30 2 * * *` | none | 02:00 CEST, 02:30 CEST, 02:00 CET, 02:30 CET |
/// | `0 * * * *` | 01:00 CET, 03:00 CEST | 01:00 CEST, 02:00 CEST, 02:00 CET, 03:00 CET |
/// | `0 3 * * *` | 03:00 CEST | 03:00 CET |
///
/// The first names a time of the day: when there was none, it ran right after the change, and when there were two, at the
/// first. The second begins with `*`, and so follows the clocks, as they show the hour or not. The third is due each hour of
/// real time, and the last is not touched.
///
/// Under every rule, an occurrence is an instant, equal on all servers, however often clocks show it.
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
    /// As cronie (`cron(8)`, "Daylight Saving Time and other time changes"): a crontab whose minutes and hours both do not
    /// start with `*` names times of the day, and is treated as [`Once`](Self::Once) says; any other one follows real
    /// time, as [`AsShown`](Self::AsShown) says.
    #[default]
    AsCron,
    /// Each time of the day once: the event runs right after a change that left out times of it, once however many
    /// these are. Times that the clocks show again do not run again.
    ///
    /// That holds for changes of up to three hours. A zone that skips more, as Samoa did with the whole 30th of
    /// December 2011 when it crossed the date line, has not lost those hours: nothing is made up for. A zone that goes
    /// back by more begins anew.
    Once,
    /// Whenever the clocks show a time of the event: a time that the clocks leave out does not come, a time that they
    /// show twice comes twice.
    AsShown,
}
