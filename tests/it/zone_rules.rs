//! The rules of the named zones: compared with another build of the database, and with well-known cases.

use chrono::{DateTime, Offset, TimeZone, Utc};
use chrono_tz::{OffsetName, TZ_VARIANTS, Tz};
use soloist::Zone;

use crate::support::at;

/// The distance of the comparisons. No zone has kept an offset for less than six days, and none does for less than a
/// month where the database has rules instead of known changes.
const STRIDE: i64 = 5 * 86_400;
const STRIDE_BY_RULES: i64 = 25 * 86_400;
const KNOWN_CHANGES_END: &str = "2040-01-01T00:00:00Z";

fn instant(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).expect("it is in our time")
}

/// Returns the first second found, from 1970 to 2099, the last year of `chrono-tz`, at which the clocks of the zones
/// differ: on a walk in strides, and right before and after each change. Abbreviations are compared at the changes only.
fn difference(zone: &Zone, tz: Tz) -> Option<i64> {
    let theirs = |second: i64| tz.offset_from_utc_datetime(&instant(second).naive_utc());
    let shows_another_offset = |second: &i64| zone.offset_at(instant(*second)) != theirs(*second).fix();
    let shows_another_time = |second: &i64| {
        let theirs = theirs(*second);
        let word = theirs.abbreviation().filter(|word| word.starts_with(char::is_alphabetic));
        let word = word.map_or_else(|| theirs.fix().to_string(), Into::into);
        shows_another_offset(second) || zone.abbreviation_at(instant(*second)) != word
    };
    let [by_rules, end] = [KNOWN_CHANGES_END, "2099-12-31T00:00:00Z"].map(|text| at(text).timestamp());
    let (mut second, mut offset) = (0, theirs(0));
    while second < end {
        let next = end.min(second + if second < by_rules { STRIDE } else { STRIDE_BY_RULES });
        if theirs(next) != offset {
            let (mut old, mut new) = (second, next);
            while new - old > 1 {
                let middle = i64::midpoint(old, new);
                *(if theirs(middle) == offset { &mut old } else { &mut new }) = middle;
            }
            offset = theirs(next);
            if let Some(different) = [old, new].into_iter().find(shows_another_time) {
                return Some(different);
            }
        }
        if shows_another_offset(&next) {
            return Some(next);
        }
        second = next;
    }
    [0, end].into_iter().find(shows_another_time)
}

/// Compares two builds of the database. Builds of one release have equal rules. Of two releases some rules differ:
/// these are shown, and must be few.
#[test]
fn every_zone_has_the_rules_that_chrono_tz_has() {
    let (release, other) = (Zone::TZDATA_VERSION.unwrap(), chrono_tz::IANA_TZDB_VERSION);
    let is_different = |tz: &&Tz| {
        let zone: Option<Zone> = tz.name().parse().ok();
        zone.is_none_or(|zone| difference(&zone, **tz).inspect(|at| println!("{tz} at {}", instant(*at))).is_some())
    };
    let different: Vec<&Tz> = TZ_VARIANTS.iter().filter(is_different).collect();
    println!("{} of {} differ between {release} and {other}: {different:?}", different.len(), TZ_VARIANTS.len());
    let below = if release == other { 1 } else { TZ_VARIANTS.len() / 10 };
    assert!(different.len() < below, "{different:?}");
}

#[test]
fn what_a_zone_does_every_year_it_does_in_each_to_come() {
    for (zone, instant, shown) in [
        ("Europe/Berlin", "1979-07-01T00:00:00Z", "+01:00 CET"),
        ("Europe/Berlin", "1980-07-01T00:00:00Z", "+02:00 CEST"),
        ("Europe/Berlin", "2026-03-29T00:59:59Z", "+01:00 CET"),
        ("Europe/Berlin", "2026-03-29T01:00:00Z", "+02:00 CEST"),
        ("Europe/Berlin", "2100-10-31T00:59:59Z", "+02:00 CEST"),
        ("Europe/Berlin", "2100-10-31T01:00:00Z", "+01:00 CET"),
        ("Europe/Berlin", "2101-03-27T01:00:00Z", "+02:00 CEST"),
        ("Europe/Berlin", "9999-07-01T00:00:00Z", "+02:00 CEST"),
        ("Europe/Berlin", "+250000-07-01T00:00:00Z", "+02:00 CEST"),
        // The southern summer includes both ends of a year.
        ("Australia/Sydney", "2101-01-01T00:00:00Z", "+11:00 AEDT"),
        ("Australia/Sydney", "9999-07-01T00:00:00Z", "+10:00 AEST"),
        ("Australia/Lord_Howe", "9999-01-01T00:00:00Z", "+11:00 +11:00"),
        ("Australia/Lord_Howe", "9999-07-01T00:00:00Z", "+10:30 +10:30"),
        // Here winter is the saved time.
        ("Europe/Dublin", "9999-07-01T00:00:00Z", "+01:00 IST"),
        ("Europe/Dublin", "9999-01-01T00:00:00Z", "+00:00 GMT"),
        ("Antarctica/Troll", "9999-07-01T00:00:00Z", "+02:00 +02:00"),
        ("Pacific/Apia", "2011-12-30T09:59:59Z", "-10:00 -10:00"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z", "+14:00 +14:00"),
        // Local mean time, before there were zones.
        ("Europe/Berlin", "1893-03-31T23:06:31Z", "+00:53:28 LMT"),
        ("Europe/Berlin", "-250000-07-01T00:00:00Z", "+00:53:28 LMT"),
    ] {
        let zone: Zone = zone.parse().unwrap();
        let at = at(instant);
        assert_eq!(format!("{} {}", zone.offset_at(at), zone.abbreviation_at(at)), shown, "{zone} at {instant}");
    }
}
