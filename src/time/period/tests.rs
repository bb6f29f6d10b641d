//! Tests of the names of permits, against a table, and of the ends of periods, against the clocks of many zones.

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
fn assert_permit(period: Period, in_zone: &str, at: &str, name: &str) {
    assert_eq!(period.permit(instant(at), &zone(in_zone)).0, name, "{period:?} in {in_zone} at {at}");
}

#[test]
fn a_permit_is_called_after_its_civil_period() {
    use Period::{Day, Hour, Month, Week};
    for (period, zone, at, name) in [
        (Hour, "UTC", "2026-03-01T15:00:00Z", "hour@2026-03-01T15+00:00"),
        (Hour, "UTC", "2026-03-01T15:59:59.999Z", "hour@2026-03-01T15+00:00"),
        (Hour, "UTC", "2026-03-01T16:00:00Z", "hour@2026-03-01T16+00:00"),
        (Hour, "+05:45", "2026-03-01T15:14:00Z", "hour@2026-03-01T20+05:45"),
        (Day, "UTC", "1969-12-31T23:59:59Z", "day@1969-12-31"),
        (Day, "-03:30", "2026-03-01T03:29:00Z", "day@2026-02-28"),
        (Day, "+14:00", "2026-12-31T10:00:00Z", "day@2027-01-01"),
        // A week begins on Monday. The 1st of January 2027 is a Friday, so it belongs to the last week of 2026.
        (Week, "UTC", "2026-03-02T00:00:00Z", "week@2026-W10"),
        (Week, "UTC", "2026-03-08T23:59:00Z", "week@2026-W10"),
        (Week, "+01:00", "2027-01-01T00:00:00Z", "week@2026-W53"),
        (Week, "UTC", "1970-01-01T00:00:00Z", "week@1970-W01"),
        (Month, "UTC", "2024-02-29T23:59:00Z", "month@2024-02"),
        (Month, "UTC", "2026-02-28T23:59:00Z", "month@2026-02"),
        (Month, "-01:00", "2027-01-01T00:30:00Z", "month@2026-12"),
    ] {
        assert_permit(period, zone, at, name);
    }
}

#[test]
#[cfg(feature = "tzdata")]
fn clocks_that_are_set_make_two_hours_of_one_and_leave_days_whole() {
    use Period::{Day, Hour};
    for (period, zone, at, name) in [
        // The hour from 02:00 to 03:00 comes twice, and counts as two hours.
        (Hour, "Europe/Berlin", "2026-10-25T00:30:00Z", "hour@2026-10-25T02+02:00"),
        (Hour, "Europe/Berlin", "2026-10-25T01:30:00Z", "hour@2026-10-25T02+01:00"),
        // At 02:00, the clocks go back by half an hour, so the half hour from 01:30 comes again.
        (Hour, "Australia/Lord_Howe", "2026-04-04T14:59:00Z", "hour@2026-04-05T01+11:00"),
        (Hour, "Australia/Lord_Howe", "2026-04-04T15:00:00Z", "hour@2026-04-05T01+10:30"),
        // In Havana, the clocks go back to midnight. In Sao Paulo, they go back at midnight, to 23:00.
        (Day, "America/Havana", "2024-11-03T05:30:00Z", "day@2024-11-03"),
        (Day, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "day@2018-02-17"),
        // In St. John's, the clocks go back from 00:01 to 23:01, so the day before goes on for 59 minutes.
        (Day, "America/St_Johns", "2010-11-07T02:29:00Z", "day@2010-11-06"),
        (Day, "America/St_Johns", "2010-11-07T02:30:59Z", "day@2010-11-07"),
        (Day, "America/St_Johns", "2010-11-07T02:31:00Z", "day@2010-11-06"),
    ] {
        assert_permit(period, zone, at, name);
    }
}

/// Reads the clock in each minute, and checks that the permit of each period is kept until the period is over.
#[test]
#[cfg(feature = "tzdata")]
fn a_period_is_over_in_time() {
    for (in_zone, change) in [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("America/Havana", "2024-11-03T05:00:00Z"),
        ("America/St_Johns", "2010-11-07T02:31:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
        ("Pacific/Kwajalein", "1969-10-01T12:00:00Z"),
        ("-00:44:30", "2026-06-01T00:00:30Z"),
    ] {
        let zone = zone(in_zone);
        for (period, days) in [(Period::Hour, 3), (Period::Day, 5), (Period::Week, 20), (Period::Month, 70)] {
            let start = instant(change) - TimeDelta::days(days);
            let mut permits: Vec<(String, DateTime<Utc>)> = Vec::new();
            for at in (0..2 * days * 24 * 60).map(|minute| start + TimeDelta::minutes(minute)) {
                let (name, longest) = period.permit(at, &zone);
                let asked = permits.iter().find(|(known, _)| *known == name).map(|(_, asked)| *asked);
                let kept_until = asked.unwrap_or(at) + longest;
                assert!(
                    at < kept_until,
                    "the permit {name} in {zone} was kept until {kept_until}, but its period is not over at {at}"
                );
                if asked.is_none() {
                    permits.push((name, at));
                }
            }
        }
    }
}

#[test]
fn no_instant_is_too_early_or_too_late() {
    for instant in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
        for zone in ["UTC", "local", "+23:59:59", "-23:59:59", "+00:00:30"].map(zone) {
            for period in [Period::Hour, Period::Day, Period::Week, Period::Month] {
                let (name, _) = period.permit(instant, &zone);
                assert!(name.len() > "hour@".len() && name.chars().count() <= 128, "{name}");
            }
        }
    }
}
