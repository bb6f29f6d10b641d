//! How much a run asks of the server.

use std::time::Duration;

use soloist::{Admission, Admitted, Clock, Event, LeaseGuard, LeaseRequest, MutexName, RedisMutex, Slot, Term};

use super::{carry_out, minute, schedule};
use crate::servers::proxy::Proxy;
use crate::servers::redis::{Monitor, Redis};
use crate::support::{Diary, noon, ran, skipped};

#[track_caller]
fn assert_count(monitor: &mut Monitor<'_>, count: usize) {
    let commands = monitor.commands();
    assert_eq!(commands.len(), count, "{commands:#?}");
}

#[test]
fn a_protected_run_costs_two_commands_and_a_loser_one() {
    let (server, diary) = (Redis::start(), Diary::default());
    let schedule = schedule(&server.url(), &diary);
    let mut monitor = server.monitor();
    for number in 0..3 {
        ran(&schedule.run_due(minute(number)), "report");
        assert_count(&mut monitor, 2);
        assert_eq!(skipped(&schedule.run_due(minute(number)), "report").keyword(), "ran_elsewhere");
        assert_count(&mut monitor, 1);
    }
    let mutex = RedisMutex::new(&server.url()).unwrap();
    let name = MutexName::lease("report").unwrap();
    let _held = LeaseGuard::acquire(&mutex, name, Term::MAX).unwrap().expect("it is free");
    assert_count(&mut monitor, 1);
    assert_eq!(skipped(&schedule.run_due(minute(3)), "report").keyword(), "overlapping");
    assert_count(&mut monitor, 1);
}

#[test]
fn one_protection_alone_costs_no_more() {
    let server = Redis::start();
    let mut monitor = server.monitor();
    let mut schedule = soloist::Schedule::new(RedisMutex::new(&server.url()).unwrap());
    schedule.add(Event::call("lease", |_| {}).every_minute().without_overlapping()).unwrap();
    ran(&schedule.run_due(noon()), "lease");
    assert_count(&mut monitor, 2);
    schedule.remove("lease");
    schedule.add(Event::call("claim", |_| {}).every_minute().on_one_server()).unwrap();
    ran(&schedule.run_due(noon()), "claim");
    assert_count(&mut monitor, 1);
}

#[test]
fn a_tick_in_which_nothing_is_due_opens_no_connection() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let mut schedule = soloist::Schedule::new(soloist::connect(&proxy.url()).unwrap());
    let protected = |event: Event| event.on_one_server().without_overlapping();
    schedule.add(protected(Event::call("yearly", |_| {}).cron("0 0 1 1 *"))).unwrap();
    schedule.add(protected(Event::call("filtered", |_| {}).every_minute().skip(|_| true))).unwrap();
    schedule.add(Event::call("unprotected", |_| {}).every_minute()).unwrap();
    for number in 0..3 {
        ran(&schedule.run_due(minute(number)), "unprotected");
    }
    assert_eq!(proxy.connections(), 0);

    ran(&schedule.run_due("2026-01-01T00:00:00Z".parse().unwrap()), "yearly");
    assert_eq!(proxy.connections(), 1);
    ran(&schedule.run_due("2027-01-01T00:00:00Z".parse().unwrap()), "yearly");
    assert_eq!(proxy.connections(), 1, "the connection is used again");
}

#[test]
fn a_thousand_admissions_and_their_releases_cost_twenty_commands() {
    let server = Redis::start();
    let mutex = RedisMutex::new(&server.url()).unwrap();
    let term = Term::new(Duration::from_secs(600)).unwrap();
    let admission = |number: usize| {
        let name = MutexName::lease(format!("event {number}")).unwrap();
        let lease = LeaseRequest::new(name.clone(), term, &Clock::system());
        Admission::both(lease.clone(), lease.with(name.claim("event", noon()), term))
    };
    let admissions: Vec<Admission> = (0..1000).map(admission).collect();
    let mut monitor = server.monitor();
    let admitted = carry_out(&mutex, vec![], admissions);
    assert_count(&mut monitor, 10);
    let lease = |slot: &Slot<Admission, Admitted>| match slot.answer() {
        Some(Ok(Admitted::Granted(grant))) => grant.lease().expect("a lease was asked for").clone(),
        other => panic!("{other:?}"),
    };
    let leases: Vec<_> = admitted.admissions().iter().map(lease).collect();
    let released = carry_out(&mutex, leases, vec![]);
    assert!(released.releases().iter().all(|slot| matches!(slot.answer(), Some(Ok(true)))));
    assert_count(&mut monitor, 10);
}
