//! Permits on a server that a fleet shares.

use chrono::{DateTime, TimeDelta, Utc};
use soloist::{Event, MutexName, Period, Schedule, SkipReason};

use super::contract::key;
use super::fleet::patient_fleet;
use super::patient;
use crate::period::two_workers_share_the_hours;
use crate::servers::redis::Redis;
use crate::support::{Diary, at, ran, skipped};

fn hourly(name: &str, diary: &Diary) -> Schedule {
    let schedule = Schedule::new(patient(&Redis::shared().url()));
    let event = Event::call(name, diary.task("ran")).every_minute().timezone("Europe/Berlin");
    schedule.add(event.once_per(Period::Hour).without_overlapping()).expect("an event");
    schedule
}

/// Returns how long the server keeps the permit of this hour; `None`: there is none.
fn rest(name: &str, start: &str) -> Option<TimeDelta> {
    let permit = MutexName::lease(name).expect("a name").permit(name, format!("hour@{start}"));
    let rest = Redis::shared().ask(&["PTTL", &key(&permit)]).number();
    (rest > 0).then(|| TimeDelta::milliseconds(rest))
}

#[test]
fn two_servers_have_one_permit_an_hour_and_it_outlives_the_hour() {
    let name = "permits: an hour";
    let diary = Diary::default();
    let (here, there) = (hourly(name, &diary), hourly(name, &diary));
    let now = at("2026-03-01T15:01:30Z");
    ran(&here.run_due(now), name);
    for (server, tick) in [(&there, "2026-03-01T15:02:00Z"), (&here, "2026-03-01T15:59:59Z")] {
        let report = server.run_due(at(tick));
        assert!(matches!(skipped(&report, name), SkipReason::RanElsewhere(Some(_))), "{report}");
    }
    ran(&there.run_due(at("2026-03-01T16:00:00Z")), name);
    assert_eq!(diary.lines().len(), 2);

    let whole = TimeDelta::minutes(60 + 15);
    let rest = rest(name, "2026-03-01T16+01:00").expect("it is called so");
    assert!(rest <= whole && rest > whole - TimeDelta::minutes(2), "{rest} of {whole}");
}

#[test]
fn an_hour_that_comes_twice_has_two_permits_on_a_server_too() {
    let name = "permits: an hour twice";
    let diary = Diary::default();
    let schedule = hourly(name, &diary);
    let first: DateTime<Utc> = at("2026-10-25T00:30:00Z");
    for (tick, runs) in [(first, 1), (first + TimeDelta::minutes(29), 1), (first + TimeDelta::hours(1), 2)] {
        let _ = schedule.run_due(tick);
        assert_eq!(diary.lines().len(), runs, "{tick}");
    }
    for start in ["2026-10-25T02+02:00", "2026-10-25T02+01:00"] {
        assert!(rest(name, start).is_some(), "{start}");
    }
}

#[test]
fn two_processes_have_one_permit_an_hour_on_a_server_too() {
    two_workers_share_the_hours(&patient_fleet(Redis::shared()), "permits: processes");
}
