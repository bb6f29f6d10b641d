//! A crontab in a zone: which instants those are, forwards and backwards.
//!
//! An event is due at an instant when the clocks of its zone then show a time that its crontab names. So a time that a
//! clock change leaves out does not come, and a time that it repeats comes twice.

use chrono::{DateTime, Utc};
use cron::Schedule;

use crate::crontab::{Crontab, Field, Set};
use crate::zone::Zone;

/// No two offsets that one zone has had, or that tables foresee, are further apart: a day, when it moved to the other
/// side of the date line, and an hour or two of daylight saving.
const REACH: i64 = 26 * 3600;

/// The first civil second that the `cron` crate knows, 1970-01-01 00:00, and the first that it does not, 2101-01-01.
const KNOWN: std::ops::Range<i64> = 0..4_133_980_800;

/// The times of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timetable {
    pub(crate) crontab: Crontab,
    pub(crate) zone: Zone,
}

impl Timetable {
    /// The first occurrence after `after`, between the years 1970 and 2100.
    pub(crate) fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let civil = CivilTimes::of(&self.crontab);
        // Occurrences are whole seconds; from here on, the first one at `from` or later is looked for.
        let mut from = after.timestamp() + 1;
        loop {
            let offset = self.zone.seconds_ahead_at(from);
            let found = civil.at_or_after(from + offset)? - offset;
            // Between two instants at which the offset is the same it may have been another one for a while. That
            // matters only within reach of `from`, where a time before it may come again, and of `found`, where its
            // own time may have come already.
            let near = found - from <= 2 * REACH;
            if let Some(change) = self.zone.first_change(from, if near { found } else { from + REACH }) {
                from = change;
            } else if near {
                return DateTime::from_timestamp(found, 0);
            } else {
                from = found - REACH;
            }
        }
    }

    /// The last occurrence before `before`, between the years 1970 and 2100.
    pub(crate) fn previous(&self, before: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let civil = CivilTimes::of(&self.crontab);
        // The mirror image of `next`: the last occurrence at `until` or earlier is looked for.
        let mut until = before.timestamp() - i64::from(before.timestamp_subsec_nanos() == 0);
        loop {
            let offset = self.zone.seconds_ahead_at(until);
            let found = civil.at_or_before(until + offset)? - offset;
            let near = until - found <= 2 * REACH;
            if let Some(change) = self.zone.last_change(if near { found } else { until - REACH }, until) {
                until = change - 1;
            } else if near {
                return DateTime::from_timestamp(found, 0);
            } else {
                until = found + REACH;
            }
        }
    }
}

impl Crontab {
    /// The first instant after `after` at which the clocks of `zone` show a time of this crontab; `None` if there is
    /// none between the years 1970 and 2100.
    ///
    /// ```
    /// use soloist::{Crontab, Zone};
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
        Timetable { crontab: *self, zone: zone.clone() }.next(after)
    }

    /// The last instant before `before` at which the clocks of `zone` showed a time of this crontab; `None` if there
    /// is none between the years 1970 and 2100.
    ///
    /// ```
    /// use soloist::{Crontab, Zone};
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
        Timetable { crontab: *self, zone: zone.clone() }.previous(before)
    }
}

/// The times of a crontab in a place where clocks never change, as the `cron` crate finds them: in civil seconds, that
/// is as if they were UTC, since the crate loses its way where clocks do change.
struct CivilTimes {
    first: Schedule,
    /// The crate knows only days of which both fields say yes. Where either may, there are two lists of times.
    second: Option<Schedule>,
}

impl CivilTimes {
    fn of(crontab: &Crontab) -> Self {
        let day_of_month = crontab.get(Field::DayOfMonth);
        let day_of_week = crontab.get(Field::DayOfWeek);
        if crontab.days_must_both_match() {
            return Self { first: schedule(crontab, day_of_month, day_of_week), second: None };
        }
        Self {
            first: schedule(crontab, day_of_month, Set::every(Field::DayOfWeek)),
            second: Some(schedule(crontab, Set::every(Field::DayOfMonth), day_of_week)),
        }
    }

    fn at_or_after(&self, second: i64) -> Option<i64> {
        // At the ends of the years that it knows the crate starts from a year that it does not know, or panics.
        let after = civil(second.max(KNOWN.start) - 1).filter(|_| second < KNOWN.end)?;
        let next = |schedule: &Schedule| schedule.after(&after).next();
        let times = [next(&self.first), self.second.as_ref().and_then(next)];
        times.into_iter().flatten().min().map(|time| time.timestamp())
    }

    fn at_or_before(&self, second: i64) -> Option<i64> {
        let before = civil(second.min(KNOWN.end - 1) + 1).filter(|_| second >= KNOWN.start)?;
        let previous = |schedule: &Schedule| schedule.after(&before).next_back();
        let times = [previous(&self.first), self.second.as_ref().and_then(previous)];
        times.into_iter().flatten().max().map(|time| time.timestamp())
    }
}

fn civil(second: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(second, 0)
}

/// The crate's six fields, with seconds, and days of the week from 1.
fn schedule(crontab: &Crontab, day_of_month: Set, day_of_week: Set) -> Schedule {
    let list = |set: Set, field: Field, shift: u32| -> String {
        if set.is_all_of(field) {
            return "*".into();
        }
        let numbers: Vec<String> = set.numbers().map(|number| (number + shift).to_string()).collect();
        numbers.join(",")
    };
    let text = format!(
        "0 {} {} {} {} {}",
        list(crontab.get(Field::Minute), Field::Minute, 0),
        list(crontab.get(Field::Hour), Field::Hour, 0),
        list(day_of_month, Field::DayOfMonth, 0),
        list(crontab.get(Field::Month), Field::Month, 0),
        list(day_of_week, Field::DayOfWeek, 1),
    );
    text.parse().expect("lists of numbers within their ranges are what the crate reads")
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "chrono-tz")]
    use crate::tick::Fields;
    #[cfg(feature = "chrono-tz")]
    use chrono::TimeDelta;

    fn timetable(crontab: &str, zone: &str) -> Timetable {
        Timetable { crontab: crontab.parse().unwrap(), zone: zone.parse().unwrap() }
    }

    fn instant(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[track_caller]
    fn assert_around(crontab: &str, zone: &str, previous: &str, at: &str, next: &str) {
        let timetable = timetable(crontab, zone);
        assert_eq!(timetable.next(instant(at)), Some(instant(next)), "next of {timetable:?} after {at}");
        assert_eq!(timetable.previous(instant(at)), Some(instant(previous)), "previous of {timetable:?} before {at}");
    }

    /// The due minutes of a span, by asking each of them.
    #[cfg(feature = "chrono-tz")]
    fn brute_force(timetable: &Timetable, from: DateTime<Utc>, minutes: i64) -> Vec<DateTime<Utc>> {
        (0..minutes)
            .map(|minute| from + TimeDelta::minutes(minute))
            .filter(|at| timetable.crontab.due(&Fields::of(*at, &timetable.zone)))
            .collect()
    }

    #[test]
    fn an_occurrence_itself_is_neither_the_next_nor_the_previous() {
        assert_around("*/5 * * * *", "UTC", "2026-03-01T11:55:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:05:00Z");
        assert_around(
            "*/5 * * * *",
            "UTC",
            "2026-03-01T12:00:00Z",
            "2026-03-01T12:00:00.000000001Z",
            "2026-03-01T12:05:00Z",
        );
        assert_around("0 0 29 2 *", "UTC", "2024-02-29T00:00:00Z", "2026-03-01T12:00:00Z", "2028-02-29T00:00:00Z");
        assert_around("0 9 13 * fri", "UTC", "2026-02-27T09:00:00Z", "2026-03-01T12:00:00Z", "2026-03-06T09:00:00Z");
        assert_around("0 9 */13 * fri", "UTC", "2026-02-27T09:00:00Z", "2026-02-28T00:00:00Z", "2026-03-27T09:00:00Z");
    }

    #[test]
    #[cfg(feature = "chrono-tz")]
    fn a_time_that_comes_twice_is_found_twice_from_far_away_too() {
        let berlin = "Europe/Berlin";
        assert_around("30 2 25 10 *", berlin, "2025-10-25T00:30:00Z", "2026-01-01T00:00:00Z", "2026-10-25T00:30:00Z");
        assert_around("30 2 25 10 *", berlin, "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z");
        assert_around("30 2 25 10 *", berlin, "2026-10-25T01:30:00Z", "2027-01-01T00:00:00Z", "2027-10-25T00:30:00Z");
        // And one that a change leaves out is not found at all.
        assert_around("30 2 29 3 *", berlin, "2025-03-29T01:30:00Z", "2026-03-29T01:00:00Z", "2027-03-29T00:30:00Z");
    }

    #[test]
    #[cfg(feature = "chrono-tz")]
    fn next_and_previous_agree_with_asking_each_minute_around_every_kind_of_change() {
        const DAYS: i64 = 4;
        let expressions = [
            "* * * * *",
            "*/7 * * * *",
            "0 * * * *",
            "30 2 * * *",
            "0 0 * * *",
            "59 23 * * *",
            "15 1-3 * * *",
            "*/20 2,3 * * *",
            "0 12 */2 * *",
            "30 1 1,15 * sun",
            "45 0 * * mon-fri",
            "0 0 30 12 *",
            "10 3 31 3,10 fri",
        ];
        for (zone, change) in [
            ("Europe/Berlin", "2026-03-29T01:00:00Z"),
            ("Europe/Berlin", "2026-10-25T01:00:00Z"),
            ("America/New_York", "2026-03-08T07:00:00Z"),
            ("America/New_York", "2026-11-01T06:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
            ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
            ("Africa/Casablanca", "2026-02-15T02:00:00Z"),
            ("Africa/Casablanca", "2026-03-22T02:00:00Z"),
            // Across the date line: there was no 30th of December.
            ("Pacific/Apia", "2011-12-30T10:00:00Z"),
            ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
            ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
            ("Asia/Kathmandu", "1985-12-31T18:30:00Z"),
            ("Asia/Kathmandu", "2026-06-01T00:00:00Z"),
            ("-00:44:30", "2026-06-01T00:00:30Z"),
            ("UTC", "2026-02-28T12:00:00Z"),
        ] {
            let change = instant(change);
            let start = change - TimeDelta::days(DAYS / 2);
            for expression in expressions {
                let timetable = timetable(expression, zone);
                let due = brute_force(&timetable, start, DAYS * 24 * 60);
                // From minutes near to the change, and from anywhere; from within minutes as well.
                let near = (-200..200).step_by(11).map(|minute| change + TimeDelta::minutes(minute));
                let all = (0..DAYS * 24 * 60).step_by(397).map(|minute| start + TimeDelta::minutes(minute));
                for at in near.flat_map(|at| [at, at + TimeDelta::milliseconds(29_500)]).chain(all) {
                    let next = timetable.next(at).unwrap();
                    let previous = timetable.previous(at).unwrap();
                    let context = format!("{timetable:?} at {at}");
                    match due.iter().find(|due| **due > at) {
                        Some(due) => assert_eq!(next, *due, "next of {context}"),
                        None => assert!(next >= start + TimeDelta::days(DAYS), "next of {context} is {next}"),
                    }
                    match due.iter().rfind(|due| **due < at) {
                        Some(due) => assert_eq!(previous, *due, "previous of {context}"),
                        None => assert!(previous < start, "previous of {context} is {previous}"),
                    }
                }
            }
        }
    }

    #[test]
    #[cfg(feature = "chrono-tz")]
    fn a_long_walk_meets_every_due_minute_and_back() {
        const DAYS: i64 = 700;
        let start = instant("2025-12-31T00:00:00Z");
        let mut random = fastrand::Rng::with_seed(7);
        for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"] {
            let tables: [Timetable; 6] = std::array::from_fn(|_| {
                let [hour, minute, day, weekday] =
                    [random.u32(0..4), random.u32(0..60), random.u32(1..32), random.u32(0..8)];
                timetable(&format!("{minute},30 {hour} {day} * {weekday}"), zone)
            });
            let mut due = [const { Vec::new() }; 6];
            for at in (0..DAYS * 24 * 60).map(|minute| start + TimeDelta::minutes(minute)) {
                let now = Fields::of(at, &tables[0].zone);
                for (timetable, due) in tables.iter().zip(&mut due) {
                    due.extend(timetable.crontab.due(&now).then_some(at));
                }
            }
            for (timetable, due) in tables.iter().zip(due) {
                let first = timetable.next(start - TimeDelta::seconds(1));
                let onward = std::iter::successors(first, |at| timetable.next(*at)).take(due.len());
                assert!(onward.eq(due.iter().copied()), "{timetable:?}");
                let last = timetable.previous(start + TimeDelta::days(DAYS));
                let back = std::iter::successors(last, |at| timetable.previous(*at)).take(due.len());
                assert!(back.eq(due.into_iter().rev()), "{timetable:?}");
            }
        }
    }

    #[test]
    fn before_1970_and_after_2100_nothing_is_known() {
        for zone in ["UTC", "+14:00", "-12:00", "local"] {
            let every_minute = timetable("* * * * *", zone);
            assert!(every_minute.next(DateTime::<Utc>::MIN_UTC).is_some());
            assert_eq!(every_minute.next(DateTime::<Utc>::MAX_UTC), None);
            assert_eq!(every_minute.previous(DateTime::<Utc>::MIN_UTC), None);
            assert!(every_minute.previous(DateTime::<Utc>::MAX_UTC).is_some());
        }
        let new_year = timetable("0 0 1 1 *", "UTC");
        assert_eq!(new_year.next(instant("1066-10-14T09:00:00Z")), Some(DateTime::UNIX_EPOCH));
        assert_eq!(new_year.previous(instant("1970-01-01T00:00:00Z")), None);
        assert_eq!(new_year.previous(instant("1970-01-01T00:00:01Z")), Some(DateTime::UNIX_EPOCH));
        assert_eq!(new_year.next(instant("2100-01-01T00:00:00Z")), None);
        assert_eq!(new_year.previous(instant("4000-02-01T00:00:00Z")), Some(instant("2100-01-01T00:00:00Z")));
        let last = timetable("59 23 31 12 *", "UTC");
        assert_eq!(last.next(instant("2100-12-31T23:58:59Z")), Some(instant("2100-12-31T23:59:00Z")));
        assert_eq!(last.previous(instant("4000-02-01T00:00:00Z")), Some(instant("2100-12-31T23:59:00Z")));
    }
}
