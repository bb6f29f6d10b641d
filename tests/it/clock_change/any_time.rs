//! Next and previous times from anywhere: from year 1 to 9999, in any zone, of any expression, and of the rarest dates.

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::{Europe::Berlin, TZ_VARIANTS};
use fastrand::Rng;
use soloist::time::Crontab;
use soloist::{Event, Schedule, Zone};

use super::RULES;
use crate::crontab::{Oracle, Writer};
use crate::support::at;

/// Returns all zones but the newest.
fn zones() -> Vec<Zone> {
    TZ_VARIANTS.iter().filter_map(|tz| tz.name().parse().ok()).collect()
}

/// Tries any expression that can be read, or nearly so, in any zone, at any possible time: there is an answer each
/// time.
#[test]
fn nothing_is_too_early_too_late_or_too_odd_to_be_asked() {
    let years = at("0001-01-01T00:00:00Z").timestamp()..at("9999-12-31T23:59:59Z").timestamp();
    let zones = zones();
    for seed in 0..300 {
        let mut random = Rng::with_seed(seed);
        let mut writer = Writer(random.fork());
        let text = if random.u32(0..4) == 0 { writer.garbage() } else { writer.expression() };
        let zone = &zones[random.usize(..zones.len())];
        let rule = RULES[random.usize(..RULES.len())];
        let event = || Event::call("event", |_| {}).cron(&text).timezone(zone.clone()).on_clock_change(rule);
        let schedule = Schedule::in_process();
        let is_in_order = schedule.add(event()).is_ok();
        let crontab: Option<Crontab> = text.parse().ok();
        let mut moments: Vec<DateTime<Utc>> = Vec::new();
        for _ in 0..7 {
            // Leap seconds, too.
            moments.extend(DateTime::from_timestamp(random.i64(years.clone()), random.u32(0..2_000_000_000)));
            moments.extend(DateTime::from_timestamp(random.i64(0..4_133_980_800), 0));
        }
        moments.extend([DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC, at("1969-12-31T23:59:59Z")]);
        for now in moments {
            let context = format!("seed {seed}: `{text}` {zone} {rule:?} at {now}");
            let due = schedule.due(now).count();
            assert_eq!(schedule.run_due(now).entries().len(), due, "{context}");
            let next = event().next(now);
            assert!(next.is_none_or(|next| next > now && schedule.due(next).count() == 1), "{next:?}, {context}");
            assert!(next.is_none() || is_in_order, "{context}");
            assert!(event().upcoming(now).take(2).is_sorted(), "{context}");
            if let Some(crontab) = crontab {
                let previous = crontab.previous(now, zone);
                assert!(previous.is_none_or(|previous| previous < now), "{previous:?}, {context}");
                assert!(crontab.next(now, zone).is_none_or(|next| next > now), "{context}");
            }
        }
    }
}

#[test]
fn in_every_zone_there_is_a_next_time_and_none_at_the_end_of_time() {
    let nightly: Crontab = "30 2 * * *".parse().unwrap();
    for zone in zones() {
        for now in
            ["1972-01-07T00:44:45Z", "1995-06-30T12:00:00Z", "2026-03-29T00:59:59Z", "2099-10-25T01:00:00Z"].map(at)
        {
            let next = nightly.next(now, &zone).unwrap_or_else(|| panic!("{zone} after {now}"));
            let previous = nightly.previous(now, &zone).unwrap_or_else(|| panic!("{zone} before {now}"));
            assert!(now < next && next < now + TimeDelta::hours(50), "{zone}: {next} after {now}");
            assert!(previous < now && now - TimeDelta::hours(50) < previous, "{zone}: {previous} before {now}");
        }
        assert_eq!(nightly.next(DateTime::<Utc>::MAX_UTC, &zone), None);
        assert_eq!(nightly.previous(DateTime::<Utc>::MIN_UTC, &zone), None);
        assert!(nightly.next(DateTime::<Utc>::MIN_UTC, &zone).is_some());
        assert!(nightly.previous(DateTime::<Utc>::MAX_UTC, &zone).is_some());
    }
}

/// Searches dates that come once in four, eight, twelve or twenty-eight years.
#[test]
fn the_rarest_dates_are_found_a_thousand_times_without_a_long_search() {
    let rare = ["0 0 29 2 *", "0 0 29 2 */7", "0 0 L 2 */5", "30 2 */28 2 sun", "0 0 */31,L 2 sat", "59 23 L,31 12 *"];
    let berlin: Zone = "Europe/Berlin".parse().unwrap();
    let mut found = 0;
    for (seed, text) in (0..).zip(rare) {
        let mut random = Rng::with_seed(seed);
        let crontab: Crontab = text.parse().unwrap();
        let oracle = Oracle::read(text).unwrap();
        for _ in 0..=1_000 / rare.len() {
            let now = DateTime::from_timestamp(random.i64(0..at("2060-01-01T00:00:00Z").timestamp()), 0).unwrap();
            let next = crontab.next(now, &berlin).unwrap_or_else(|| panic!("`{text}` after {now}"));
            let date = |instant: DateTime<Utc>| instant.with_timezone(&Berlin).date_naive();
            assert!(oracle.matches_date(date(next)), "`{text}` after {now} is {next}");
            let between = date(now).iter_days().skip(1).take_while(|day| *day < date(next));
            assert!(!between.into_iter().any(|day| oracle.matches_date(day)), "`{text}` after {now} is {next}");
            found += 1;
        }
    }
    assert!(found >= 1_000);
    let never_again: Crontab = "0 0 29 2 */7".parse().unwrap();
    assert_eq!(never_again.next(at("2099-01-01T00:00:00Z"), &berlin), None);
}
