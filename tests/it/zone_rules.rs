//! The rules of the named zones: compared with another build of the database, and with well-known cases.

use std::thread;

use chrono::{DateTime, Offset, TimeZone, Utc};
use chrono_tz::{OffsetName, TZ_VARIANTS, Tz};
use soloist::Zone;

use crate::support::at;

const STRIDE: i64 = 5 * 86_400;

/// The clocks of a zone from a second on: how far ahead of UTC they are, and the abbreviation.
type Shown = (i32, String);

/// Finds every change from 1970 to 2099, the last year of `chrono-tz`.
fn changes(shown: impl Fn(i64) -> Shown) -> Vec<(i64, Shown)> {
    let end = at("2099-12-31T00:00:00Z").timestamp();
    let mut changes = vec![(0, shown(0))];
    for second in (STRIDE..end).step_by(usize::try_from(STRIDE).unwrap()) {
        let now = shown(second);
        if now != changes.last().expect("there is the first").1 {
            let (mut old, mut new) = (second - STRIDE, second);
            while new - old > 1 {
                let middle = i64::midpoint(old, new);
                *(if shown(middle) == now { &mut new } else { &mut old }) = middle;
            }
            changes.push((new, now));
        }
    }
    changes
}

fn instant(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).expect("it is in our time")
}

fn ours(zone: &Zone, second: i64) -> Shown {
    let instant = instant(second);
    (zone.offset_at(instant).local_minus_utc(), zone.abbreviation_at(instant))
}

fn theirs(tz: Tz, second: i64) -> Shown {
    let offset = tz.offset_from_utc_datetime(&instant(second).naive_utc());
    let word = offset.abbreviation().filter(|word| word.starts_with(char::is_alphabetic));
    (offset.fix().local_minus_utc(), word.map_or_else(|| offset.fix().to_string(), Into::into))
}

/// Compares two builds of the database. Builds of one release have equal rules. Of two releases some rules differ:
/// these are shown, and must be few.
#[test]
fn every_zone_has_the_rules_that_chrono_tz_has() {
    let (release, other) = (Zone::TZDATA_VERSION.unwrap(), chrono_tz::IANA_TZDB_VERSION);
    let difference = |tz: &Tz| {
        let zone: Option<Zone> = tz.name().parse().ok();
        let ours = zone.map(|zone| changes(|second| ours(&zone, second)));
        let theirs = changes(|second| theirs(*tz, second));
        let first = ours.iter().flatten().zip(&theirs).find(|(ours, theirs)| ours != theirs);
        (ours.as_ref() != Some(&theirs)).then(|| format!("{tz}: {first:?}"))
    };
    let different: Vec<String> = thread::scope(|scope| {
        let halves = TZ_VARIANTS.chunks(TZ_VARIANTS.len().div_ceil(2));
        let look = |zones: &'static [Tz]| scope.spawn(move || zones.iter().filter_map(difference).collect::<Vec<_>>());
        let looks: Vec<_> = halves.map(look).collect();
        looks.into_iter().flat_map(|look| look.join().expect("no panic")).collect()
    });
    println!("{} of {} differ between {release} and {other}: {different:#?}", different.len(), TZ_VARIANTS.len());
    let below = if release == other { 1 } else { TZ_VARIANTS.len() / 10 };
    assert!(different.len() < below, "{different:#?}");
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
