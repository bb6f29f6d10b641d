//! Lines of a crontab that start long after their time, or twice on one clock.

use super::*;

const NOT_DUE: &str = "was not due in the last 5 minutes: ";

#[track_caller]
fn daily(place: &Place, every: &str, zone: &str, now: &str, options: &str) -> Answer {
    let mut command = place.soloist(&format!("run --name j -E {CONFLICT} {options}"));
    command.args(["--every", every, "--timezone", zone, "--", "echo", "ran"]).env("SOLOIST_TEST_NOW", now);
    answer(&mut command)
}

#[track_caller]
fn at_noon(place: &Place, now: &str, options: &str) -> Answer {
    daily(place, "0 12 * * *", "UTC", &format!("2026-03-01T{now}Z"), options)
}

#[test]
fn a_start_that_is_more_than_five_minutes_late_runs_if_nobody_has_the_time_and_says_how_late() {
    for (now, late) in [("12:05:00", "5 min 0 s"), ("12:07:00", "7 min 0 s"), ("12:59:59", "59 min 59 s")] {
        let place = Place::new();
        let ran = at_noon(&place, now, "--on-one-server").exits_with(0);
        assert_eq!(ran.printed, "ran\n", "{now}");
        assert!(ran.errors.starts_with(&format!("soloist: j: {late} late: succeeded in ")), "{ran:?}");
        let again = at_noon(&place, now, "--on-one-server").exits_with(64);
        assert_eq!(again.printed, "", "{now}");
        again.says(NOT_DUE);
    }
}

#[test]
fn a_start_less_than_five_minutes_late_is_silent() {
    let place = Place::new();
    let ran = at_noon(&place, "12:04:59", "--on-one-server").exits_with(0);
    assert_eq!((&*ran.printed, &*ran.errors), ("ran\n", ""));
    at_noon(&place, "12:04:59", "--on-one-server").exits_with(0).is_silent();
    at_noon(&place, "12:05:00", "--on-one-server").exits_with(64).says(NOT_DUE);
}

// The claim of a server that ran may have expired; or there is none.
#[test]
fn a_start_is_refused_that_is_late_for_longer_than_claims_are_kept_or_that_makes_none() {
    for (every, now, options) in [
        ("0 12 * * *", "13:00:00", "--on-one-server"),
        ("0 12 * * *", "12:05:00", ""),
        // Each minute of an hour, with a window of ten.
        ("* 12 * * *", "13:09:00", "--on-one-server"),
    ] {
        let refused = daily(&Place::new(), every, "UTC", &format!("2026-03-01T{now}Z"), options).exits_with(64);
        assert_eq!(refused.printed, "", "{every} {now}");
        refused.says(NOT_DUE);
    }
}

#[test]
fn a_late_start_is_paused_like_any_other() {
    let place = Place::new().used();
    succeeds(&mut place.soloist("pause j"));
    at_noon(&place, "12:07:00", "--on-one-server").exits_with(CONFLICT).is_silent();
    succeeds(&mut place.soloist("resume j"));
    at_noon(&place, "12:07:00", "--on-one-server").exits_with(0).says("ran\n");
}

// By a scheduler that is not cron, and follows the clock.
#[test]
fn a_time_that_the_clock_shows_twice_runs_once_and_the_second_start_is_silent() {
    for (every, zone, first, second) in [
        ("0 2 * * *", "Europe/Berlin", "2026-10-25T00:00:20Z", "2026-10-25T01:00:20Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:20Z", "2026-10-25T01:30:20Z"),
        // Set back by half an hour.
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:45:20Z", "2026-04-04T15:15:20Z"),
    ] {
        let place = Place::new();
        assert_eq!(daily(&place, every, zone, first, "--on-one-server").exits_with(0).printed, "ran\n", "{first}");
        daily(&place, every, zone, second, "--on-one-server").exits_with(0).is_silent();
        // The clock shows another time.
        let later = second.replace("T01:", "T03:").replace("T15:", "T16:");
        daily(&place, every, zone, &later, "--on-one-server").exits_with(64).says(NOT_DUE);
    }
    // No server ran it at the first time.
    let second = "2026-04-04T15:15:20Z";
    let ran = daily(&Place::new(), "45 1 * * *", "Australia/Lord_Howe", second, "--on-one-server").exits_with(0);
    ran.says("ran\n").says("soloist: j: 30 min 20 s late: ");
    daily(&Place::new(), "0 2 * * *", "Europe/Berlin", "2026-10-25T01:00:20Z", "--on-one-server")
        .exits_with(64)
        .says(NOT_DUE);
}
