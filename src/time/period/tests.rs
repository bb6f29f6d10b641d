//! Periods beside tables of what people call them, and beside the clocks that they are read from.

#[cfg(feature = "tzdata")]
use std::collections::HashMap;

#[cfg(feature = "tzdata")]
use chrono::TimeDelta;

use super::*;

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant as RFC 3339 writes it")
}

fn zone(text: &str) -> Zone {
    text.parse().expect("a zone")
}

#[track_caller]
fn assert_permit(period: Period, in_zone: &str, at: &str, start: &str, end: &str) {
    let expected = Permit { period: start.into(), end: instant(end) };
    assert_eq!(period.at(instant(at), &zone(in_zone)), expected, "{period:?} in {in_zone} at {at}");
}

#[test]
fn a_permit_is_called_after_the_local_start_of_its_period_with_its_offset() {
    use Period::{Day, Hour, Month, Week};
    for (period, zone, at, start, end) in [
        (Hour, "UTC", "2026-03-01T15:00:00Z", "hour@2026-03-01T15:00:00+00:00", "2026-03-01T16:00:00Z"),
        (Hour, "UTC", "2026-03-01T15:59:59.999Z", "hour@2026-03-01T15:00:00+00:00", "2026-03-01T16:00:00Z"),
        (Hour, "UTC", "2026-03-01T16:00:00Z", "hour@2026-03-01T16:00:00+00:00", "2026-03-01T17:00:00Z"),
        (Hour, "+05:45", "2026-03-01T15:14:00Z", "hour@2026-03-01T20:00:00+05:45", "2026-03-01T15:15:00Z"),
        (Hour, "-00:44:30", "2026-03-01T00:44:00Z", "hour@2026-02-28T23:00:00-00:44:30", "2026-03-01T00:44:30Z"),
        (Day, "UTC", "1969-12-31T23:59:59Z", "day@1969-12-31T00:00:00+00:00", "1970-01-01T00:00:00Z"),
        (Day, "-03:30", "2026-03-01T03:29:00Z", "day@2026-02-28T00:00:00-03:30", "2026-03-01T03:30:00Z"),
        (Day, "+14:00", "2026-12-31T10:00:00Z", "day@2027-01-01T00:00:00+14:00", "2027-01-01T10:00:00Z"),
        // A Monday begins a week, and a Sunday ends it; the 1st of January 2027 is a Friday.
        (Week, "UTC", "2026-03-02T00:00:00Z", "week@2026-03-02T00:00:00+00:00", "2026-03-09T00:00:00Z"),
        (Week, "UTC", "2026-03-08T23:59:00Z", "week@2026-03-02T00:00:00+00:00", "2026-03-09T00:00:00Z"),
        (Week, "+01:00", "2027-01-01T00:00:00Z", "week@2026-12-28T00:00:00+01:00", "2027-01-03T23:00:00Z"),
        (Week, "UTC", "1970-01-01T00:00:00Z", "week@1969-12-29T00:00:00+00:00", "1970-01-05T00:00:00Z"),
        (Month, "UTC", "2024-02-29T23:59:00Z", "month@2024-02-01T00:00:00+00:00", "2024-03-01T00:00:00Z"),
        (Month, "UTC", "2026-02-28T23:59:00Z", "month@2026-02-01T00:00:00+00:00", "2026-03-01T00:00:00Z"),
        (Month, "-01:00", "2027-01-01T00:30:00Z", "month@2026-12-01T00:00:00-01:00", "2027-01-01T01:00:00Z"),
    ] {
        assert_permit(period, zone, at, start, end);
    }
}

#[test]
#[cfg(feature = "tzdata")]
fn clocks_that_are_set_make_two_hours_of_one_and_leave_days_weeks_and_months_whole() {
    use Period::{Day, Hour, Month, Week};
    for (period, zone, at, start, end) in [
        // 02:00 to 03:00 comes twice, and is two hours; its day has 25.
        (Hour, "Europe/Berlin", "2026-10-25T00:30:00Z", "hour@2026-10-25T02:00:00+02:00", "2026-10-25T01:00:00Z"),
        (Hour, "Europe/Berlin", "2026-10-25T01:30:00Z", "hour@2026-10-25T02:00:00+01:00", "2026-10-25T02:00:00Z"),
        (Day, "Europe/Berlin", "2026-10-25T22:59:00Z", "day@2026-10-25T00:00:00+02:00", "2026-10-25T23:00:00Z"),
        (Month, "Europe/Berlin", "2026-10-31T12:00:00Z", "month@2026-10-01T00:00:00+02:00", "2026-10-31T23:00:00Z"),
        // 02:00 to 03:00 does not come; its day has 23.
        (Hour, "Europe/Berlin", "2026-03-29T01:00:00Z", "hour@2026-03-29T03:00:00+02:00", "2026-03-29T02:00:00Z"),
        (Day, "Europe/Berlin", "2026-03-29T21:59:00Z", "day@2026-03-29T00:00:00+01:00", "2026-03-29T22:00:00Z"),
        (Week, "Europe/Berlin", "2026-03-29T21:59:00Z", "week@2026-03-23T00:00:00+01:00", "2026-03-29T22:00:00Z"),
        // Half an hour back at 02:00: the second half of 01:00 comes again.
        (Hour, "Australia/Lord_Howe", "2026-04-04T14:59:00Z", "hour@2026-04-05T01:00:00+11:00", "2026-04-04T15:00:00Z"),
        (Hour, "Australia/Lord_Howe", "2026-04-04T15:00:00Z", "hour@2026-04-05T01:30:00+10:30", "2026-04-04T15:30:00Z"),
        (Hour, "Australia/Lord_Howe", "2026-04-04T15:30:00Z", "hour@2026-04-05T02:00:00+10:30", "2026-04-04T16:30:00Z"),
        // And forward at 02:00: that hour has its second half alone.
        (Hour, "Australia/Lord_Howe", "2026-10-03T15:45:00Z", "hour@2026-10-04T02:30:00+11:00", "2026-10-03T16:00:00Z"),
        // A midnight that does not come.
        (Day, "America/Sao_Paulo", "2018-11-04T03:00:00Z", "day@2018-11-04T01:00:00-02:00", "2018-11-05T02:00:00Z"),
        (Day, "America/Sao_Paulo", "2018-11-04T23:00:00Z", "day@2018-11-04T01:00:00-02:00", "2018-11-05T02:00:00Z"),
        (Day, "America/Sao_Paulo", "2018-11-04T02:59:00Z", "day@2018-11-03T00:00:00-03:00", "2018-11-04T03:00:00Z"),
        // A midnight that comes twice: of its day, and at the end of the day before.
        (Day, "America/Havana", "2024-11-03T05:30:00Z", "day@2024-11-03T00:00:00-04:00", "2024-11-04T05:00:00Z"),
        (Day, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "day@2018-02-17T00:00:00-02:00", "2018-02-18T03:00:00Z"),
        (Hour, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "hour@2018-02-17T23:00:00-03:00", "2018-02-18T03:00:00Z"),
        // A day whose last hour came again, after a minute of the next day: each is one all the same.
        (Day, "America/St_Johns", "2010-11-07T02:29:00Z", "day@2010-11-06T00:00:00-02:30", "2010-11-07T03:30:00Z"),
        (Day, "America/St_Johns", "2010-11-07T02:31:00Z", "day@2010-11-06T00:00:00-02:30", "2010-11-07T03:30:00Z"),
        (Day, "America/St_Johns", "2010-11-07T02:30:59Z", "day@2010-11-07T00:00:00-02:30", "2010-11-08T03:30:00Z"),
        (Day, "America/St_Johns", "2010-11-07T12:00:00Z", "day@2010-11-07T00:00:00-02:30", "2010-11-08T03:30:00Z"),
        // No 30th of December.
        (Day, "Pacific/Apia", "2011-12-30T09:59:00Z", "day@2011-12-29T00:00:00-10:00", "2011-12-30T10:00:00Z"),
        (Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "day@2011-12-31T00:00:00+14:00", "2011-12-31T10:00:00Z"),
        (Week, "Pacific/Apia", "2011-12-31T00:00:00Z", "week@2011-12-26T00:00:00-10:00", "2012-01-01T10:00:00Z"),
        (Month, "Pacific/Apia", "2011-12-31T00:00:00Z", "month@2011-12-01T00:00:00-10:00", "2011-12-31T10:00:00Z"),
    ] {
        assert_permit(period, zone, at, start, end);
    }
}

/// Does as a person would: writes down the local time of each minute, and finds the minutes of one hour or date.
#[test]
#[cfg(feature = "tzdata")]
fn instants_share_a_permit_exactly_if_they_show_the_same_civil_period() {
    const DAYS: i64 = 6;
    for (in_zone, change) in [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("America/Havana", "2024-11-03T05:00:00Z"),
        ("America/St_Johns", "2010-11-07T02:31:00Z"),
        ("America/Sao_Paulo", "2018-02-18T02:00:00Z"),
        ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30:00Z"),
        ("Africa/Casablanca", "2026-02-15T02:00:00Z"),
        ("Asia/Kathmandu", "1985-12-31T18:30:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
        ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
        ("-00:44:30", "2026-06-01T00:00:30Z"),
    ] {
        let zone = zone(in_zone);
        let start = instant(change) - TimeDelta::days(DAYS / 2);
        let minutes = (0..DAYS * 24 * 60).map(|minute| start + TimeDelta::minutes(minute));
        for (period, same) in
            [(Period::Hour, "%F %H%::z"), (Period::Day, "%F"), (Period::Week, "%G-%V"), (Period::Month, "%Y-%m")]
        {
            let mut permits = HashMap::new();
            let mut periods = HashMap::new();
            for at in minutes.clone() {
                let shown = zone.at(at).format(same).to_string();
                let permit = period.at(at, &zone);
                assert!(permit.end > at, "{period:?} in {zone} ends at {}, before {at}", permit.end);
                let text = permit.period.to_string();
                let first = permits.entry(shown.clone()).or_insert_with(|| (text.clone(), permit.end));
                assert_eq!((&text, permit.end), (&first.0, first.1), "{period:?} in {zone} at {at}");
                let first = periods.entry(text).or_insert_with(|| shown.clone());
                assert_eq!(*first, shown, "{period:?} in {zone} at {at}");
            }
        }
    }
}

#[test]
fn no_instant_is_too_early_or_too_late() {
    for instant in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
        for zone in ["UTC", "local", "+23:59:59", "-23:59:59", "+00:00:30"].map(zone) {
            for period in [Period::Hour, Period::Day, Period::Week, Period::Month] {
                let permit = period.at(instant, &zone);
                assert!(permit.end.timestamp() >= instant.timestamp(), "{permit:?}");
                assert!(permit.period.len() > "hour@".len() && permit.period.chars().count() <= 128, "{permit:?}");
            }
        }
    }
}
