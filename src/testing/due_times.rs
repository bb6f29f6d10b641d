//! Assertions on the times when events are due on a wall clock, for tests of a schedule.

use std::fmt::Write;
use std::ops::Range;

use chrono::{NaiveDate, NaiveDateTime, TimeDelta};

use crate::schedule::schedule::Schedule;
use crate::time::zone::Zone;

/// The largest difference between a wall clock and UTC, with a margin.
const MOST_AHEAD: TimeDelta = TimeDelta::hours(26);

/// A time on the wall clock of a zone, as a test writes it: `2026-03-01 02:30`, `2026-03-01 02:30:15`, or `2026-03-01`,
/// which means the first minute of that day. The time is in the event's zone, unless the text ends with a zone, as in
/// `2026-03-01 02:30 Europe/Berlin`.
struct WallTime {
    time: NaiveDateTime,
    zone: Option<Zone>,
}

impl WallTime {
    #[track_caller]
    fn read(text: &str) -> Self {
        let is_half = |zone: &str| ["AM", "PM"].iter().any(|half| zone.eq_ignore_ascii_case(half));
        let (time, zone) = match text.rsplit_once(' ') {
            Some((time, zone)) if !zone.starts_with(|first: char| first.is_ascii_digit()) && !is_half(zone) => {
                (time, Some(zone))
            }
            _ => (text, None),
        };
        // A closure must not panic here: `#[track_caller]` has no effect on closures, so the panic would name this file
        // and not the test.
        let zone = match zone.map(str::parse).transpose() {
            Ok(zone) => zone,
            Err(error) => panic!("{text:?}: {error}"),
        };
        let in_form = |form| NaiveDateTime::parse_from_str(time, form).ok();
        let midnight = || NaiveDate::parse_from_str(time, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
        let time = in_form("%Y-%m-%d %H:%M").or_else(|| in_form("%Y-%m-%d %H:%M:%S")).or_else(midnight);
        let Some(time) = time else {
            panic!("{text:?} is no time: write 2026-03-01, 2026-03-01 14:30 or 2026-03-01 14:30 Europe/Berlin")
        };
        Self { time, zone }
    }

    /// Reads a time for an assertion. A day is refused, because a test of a day would pass if the event is due at any
    /// other time than midnight.
    #[track_caller]
    fn of_a_minute(text: &str) -> Self {
        let read = Self::read(text);
        let has_time = text.contains(':');
        assert!(
            has_time,
            "{text:?} is a day: write its time, such as 2026-03-01 02:30; `due_times` has all times of a day"
        );
        read
    }
}

/// The times at which an event is due, on the wall clock of a zone.
struct WallTimes<'a> {
    schedule: &'a Schedule,
    event: &'a str,
    zone: Zone,
}

impl<'a> WallTimes<'a> {
    #[track_caller]
    fn of(schedule: &'a Schedule, event: &'a str, zone: Option<Zone>) -> Self {
        let definition = match schedule.event(event) {
            Ok(definition) => definition,
            Err(error) => panic!("{error}"),
        };
        Self { schedule, event, zone: zone.unwrap_or_else(|| definition.timetable.zone.clone()) }
    }

    /// Returns the zone of these times, and the zone of the event if it is another.
    fn zones(&self) -> String {
        match self.schedule.event(self.event) {
            Ok(event) if event.timetable.zone != self.zone => {
                format!("{}; the zone of the event is {}", self.zone, event.timetable.zone)
            }
            _ => self.zone.to_string(),
        }
    }

    /// Returns the due times from `start` on, in ascending order.
    fn from(&self, start: NaiveDateTime) -> impl Iterator<Item = NaiveDateTime> {
        let early = start.checked_sub_signed(MOST_AHEAD).unwrap_or(start).and_utc();
        let times = self.schedule.upcoming(self.event, early).into_iter().flatten();
        times.map(|at| self.zone.at(at).naive_local()).filter(move |at| start <= *at)
    }

    fn is_due(&self, time: NaiveDateTime) -> bool {
        let late = time.checked_add_signed(MOST_AHEAD).unwrap_or(time);
        self.from(time).take_while(|at| *at < late).any(|at| at == time)
    }

    /// Returns the end of a message: the due times before and after `time`.
    fn around(&self, time: NaiveDateTime) -> String {
        let start = time.checked_sub_signed(TimeDelta::days(366)).unwrap_or(time);
        let (before, after) =
            (self.from(start).take_while(|at| *at < time).last(), self.from(time).find(|at| *at > time));
        let mut around = String::new();
        for (at, which) in [(before, "before that"), (after, "after that")] {
            let at = at.map_or_else(|| "it is not".to_owned(), |at| format!("it is at {}", written(at)));
            let _ = write!(around, "; {which} {at}");
        }
        around
    }
}

fn written(time: NaiveDateTime) -> String {
    let seconds = if time.and_utc().timestamp() % 60 == 0 { "" } else { ":%S" };
    time.format(&format!("%Y-%m-%d %H:%M{seconds}")).to_string()
}

/// Returns the times in the range `time` at which the event is due, on the wall clock of the event's zone. The end of
/// the range is excluded. A date alone, such as `2026-03-01`, means the first minute of that day. If both times name a
/// zone, as in `2026-03-01 02:30 Asia/Tokyo`, all times are in that zone. If a clock change repeats an hour, a time in
/// that hour may appear twice.
///
/// # Panics
///
/// If the event or a zone does not exist, or if a text is no time. Also if the two times have different zones, or if
/// the first time is not before the second time.
///
/// ```
/// use soloist::testing::due_times;
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
/// schedule.add(Event::call("invoices", |_| {}).daily_at("02:30").weekdays().timezone("+02:00"))?;
/// assert_eq!(due_times(&schedule, "invoices", "2026-03-06".."2026-03-10"), ["2026-03-06 02:30", "2026-03-09 02:30"]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn due_times(schedule: &Schedule, event: &str, time: Range<&str>) -> Vec<String> {
    let (start, end) = (WallTime::read(time.start), WallTime::read(time.end));
    let names = [&start, &end].map(|time| time.zone.as_ref().map(ToString::to_string));
    assert!(names[0] == names[1], "{time:?} are times of two zones: name the zone in both, or in none");
    let is_in_order = start.time < end.time;
    let advice = if start.time == end.time {
        "the end is excluded: for one day, write the next day as the end"
    } else {
        "write the earlier time first"
    };
    assert!(is_in_order, "{:?} is not before {:?}: {advice}", time.start, time.end);
    let times = WallTimes::of(schedule, event, start.zone);
    times
        .from(start.time)
        .take_while(|at| *at < end.time + MOST_AHEAD)
        .filter(|at| *at < end.time)
        .map(written)
        .collect()
}

/// Fails the test unless the event is due at this time, on the wall clock of the event's zone: `2026-03-01 02:30`. For
/// another zone, write `2026-03-01 02:30 Asia/Tokyo`. The message names the due times before and after this time.
///
/// # Panics
///
/// If the event is not due at `time`, if the event or the zone does not exist, or if `time` is no time, or a day without
/// a time.
///
/// ```
/// use soloist::testing::{assert_due, assert_not_due};
/// use soloist::{Event, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::in_process();
/// schedule.add(Event::call("invoices", |_| {}).daily_at("02:30").timezone("+01:00"))?;
/// assert_due(&schedule, "invoices", "2026-03-01 02:30");
/// assert_due(&schedule, "invoices", "2026-03-01 01:30 UTC");
/// assert_not_due(&schedule, "invoices", "2026-03-01 02:31");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn assert_due(schedule: &Schedule, event: &str, time: &str) {
    let WallTime { time: at, zone } = WallTime::of_a_minute(time);
    let times = WallTimes::of(schedule, event, zone);
    assert!(times.is_due(at), "{event:?} is not due at {time} ({}){}", times.zones(), times.around(at));
}

/// Fails the test if the event is due at this time; see [`assert_due`].
///
/// # Panics
///
/// If the event is due at `time`, if the event or the zone does not exist, or if `time` is no time, or a day without a
/// time.
///
/// ```should_panic
/// use soloist::testing::assert_not_due;
/// use soloist::{Event, Schedule};
///
/// let schedule = Schedule::in_process();
/// schedule.add(Event::call("invoices", |_| {}).daily_at("02:30")).expect("it is valid");
/// assert_not_due(&schedule, "invoices", "2026-03-01 02:30");
/// ```
#[track_caller]
pub fn assert_not_due(schedule: &Schedule, event: &str, time: &str) {
    let WallTime { time: at, zone } = WallTime::of_a_minute(time);
    let times = WallTimes::of(schedule, event, zone);
    assert!(!times.is_due(at), "{event:?} is due at {time} ({})", times.zone);
}
