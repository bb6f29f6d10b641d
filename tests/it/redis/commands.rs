//! How much a run asks of the server.

use std::time::Duration;

use soloist::store::{Admission, Admitted, LeaseRequest, Slot};
use soloist::time::Clock;
use soloist::{Event, EventMutex as _, LeaseGuard, MutexName, RedisMutex, Term};

use super::{carry_out, minute, patient, schedule};
use crate::servers::proxy::{Fault, Proxy};
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
    let mutex = patient(&server.url());
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
    let schedule = soloist::Schedule::new(patient(&server.url()));
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
    let schedule = soloist::Schedule::new(patient(&proxy.url()));
    let protected = |event: Event| event.on_one_server().without_overlapping();
    schedule.add(protected(Event::call("yearly", |_| {}).cron("0 0 1 1 *"))).unwrap();
    schedule.add(protected(Event::call("filtered", |_| {}).every_minute().skip(|_| true))).unwrap();
    schedule.add(Event::call("unprotected", |_| {}).every_minute()).unwrap();
    for number in 0..3 {
        ran(&schedule.run_due(minute(number)), "unprotected");
    }
    assert_eq!(proxy.connections(), 0);

    // A busy machine may take so long for two ticks that the idle connection is closed between them.
    let uses_one_connection = |first: i32| {
        let before = proxy.connections();
        for year in [first, first + 1] {
            ran(&schedule.run_due(format!("{year}-01-01T00:00:00Z").parse().unwrap()), "yearly");
        }
        proxy.connections() <= before + 1
    };
    assert!((2026..2036).step_by(2).any(uses_one_connection), "the connection is used again");
}

#[test]
fn a_thousand_admissions_and_their_releases_cost_twenty_commands() {
    let server = Redis::start();
    // The monitor makes the server slow.
    let mutex = RedisMutex::builder(&server.url()).timeout(Duration::from_secs(20)).build().unwrap();
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

/// Returns a figure of `INFO`, or zero.
fn figure(server: &Redis, section: &str, name: &str) -> u64 {
    let info = server.ask(&["INFO", section]);
    let line = info.text().lines().find_map(|line| line.strip_prefix(name));
    let digits = |line: &str| line.chars().take_while(char::is_ascii_digit).collect::<String>();
    line.map_or(0, |line| digits(line).parse().expect("it is a number"))
}

/// Returns how often the server was given a script.
fn loads(server: &Redis) -> u64 {
    figure(server, "commandstats", "cmdstat_script|load:calls=").max(figure(
        server,
        "commandstats",
        "cmdstat_script:calls=",
    ))
}

#[test]
fn a_server_that_loses_its_scripts_between_two_calls_releases_each_lease_once() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let mutex = patient(&proxy.url());
    let admission = |number: usize| {
        let name = MutexName::lease(number.to_string()).unwrap();
        Admission::lease_only(LeaseRequest::new(name, Term::DEFAULT, &Clock::system()))
    };
    let granted = carry_out(&mutex, vec![], (0..150).map(admission).collect());
    let lease = |slot: &Slot<Admission, Admitted>| match slot.answer() {
        Some(Ok(Admitted::Granted(grant))) => grant.lease().unwrap().clone(),
        answer => panic!("{answer:?}"),
    };
    let leases = granted.admissions().iter().map(lease).collect();
    // One request has two calls of the script. The server carries out the first.
    proxy.fault_once_after(Fault::Answer(b"-NOSCRIPT No matching script.\r\n"), 1);
    let released = carry_out(&mutex, leases, vec![]);
    assert_eq!(proxy.met(), 1);
    let answers: Vec<_> = released.releases().iter().filter_map(|slot| slot.answer()?.as_ref().ok()).collect();
    assert_eq!(answers, [&true; 150]);
}

#[test]
fn a_server_is_given_the_scripts_once_and_when_it_lacks_them() {
    let server = Redis::start();
    let name = MutexName::lease("report").unwrap();
    for flushed in [false, true] {
        if flushed {
            server.ask(&["SCRIPT", "FLUSH"]);
        }
        let before = loads(&server);
        for _ in 0..3 {
            // Each has a connection of its own.
            let mutex = patient(&server.url());
            let held = LeaseGuard::acquire(&mutex, name.clone(), Term::MAX).unwrap().expect("it is free");
            assert!(held.release().unwrap());
            assert!(!mutex.exists(&name).unwrap());
        }
        assert_eq!(loads(&server) - before, 5, "each of them once");
    }
}

#[test]
fn a_connection_is_made_in_one_round_trip() {
    let server = Redis::with("requirepass secret");
    let url = format!("redis://default:secret@127.0.0.1:{}/7", server.port());
    let name = MutexName::lease("report").unwrap();
    let reads = || figure(&server, "stats", "total_reads_processed:");
    let [first, second] = [(); 2].map(|()| patient(&url));
    assert!(!first.exists(&name).unwrap(), "and the server has the script");
    let (before, own) = (reads(), reads());
    assert!(!second.exists(&name).unwrap());
    assert_eq!(reads() - own - (own - before), 2, "the login, and the read of the name");
}

/// Returns how many keys the server has changed.
fn changes(server: &Redis) -> u64 {
    figure(server, "persistence", "rdb_changes_since_last_save:")
}

#[test]
fn an_admission_that_is_refused_writes_nothing() {
    let server = Redis::start();
    let mutex = patient(&server.url());
    let name = |text: &str| MutexName::lease(text).unwrap();
    let request = |name: MutexName| LeaseRequest::new(name, Term::DEFAULT, &Clock::system());
    let both = |lease: MutexName, number| {
        let (lease, claim) = (request(lease), name("report").claim("report", minute(number)));
        Admission::both(lease.clone(), lease.with(claim, Term::DEFAULT))
    };
    let (report, other) = (name("report"), name("other"));
    let before = changes(&server);
    let granted = both(report.clone(), 0).ask(&mutex).unwrap();
    assert!(matches!(granted, Admitted::Granted(_)), "{granted:?}");
    assert_eq!(changes(&server) - before, 3, "the token, the claim and the lease");

    let before = changes(&server);
    let refused = [
        both(report.clone(), 0),
        both(report.clone(), 1),
        both(report.mark("report", "a free place"), 0),
        Admission::lease_only(request(report.clone())),
        Admission::lease_only(request(other.clone())).unless(report.clone()),
    ];
    let alone: Vec<Admitted> = refused.iter().map(|admission| admission.ask(&mutex).unwrap()).collect();
    let batch = carry_out(&mutex, vec![], refused.to_vec());
    let together = batch.admissions().iter().map(|slot| slot.answer().unwrap().clone().unwrap()).collect::<Vec<_>>();
    for answers in [alone, together] {
        let [
            Admitted::ClaimTaken(_),
            Admitted::LeaseTaken(_),
            Admitted::ClaimTaken(_),
            Admitted::LeaseTaken(_),
            Admitted::Excluded(_),
        ] = &answers[..]
        else {
            panic!("{answers:?}");
        };
    }
    assert_eq!(changes(&server), before);
}

/// Returns the cost of an event, by the server's own count: the cost of a tick with two hundred events, less that
/// of one with a hundred, for each event.
fn each_costs(figure_name: &str, attributes: fn(Event) -> Event) -> f64 {
    let server = Redis::start();
    let of_a_tick = |events: u32| {
        let schedule = soloist::Schedule::new(RedisMutex::new(&server.url()).unwrap());
        for number in 0..events {
            let event = Event::call(format!("event-{number:03}"), |_| {}).every_minute();
            schedule.add(event.without_overlapping().on_one_server().apply(attributes)).unwrap();
        }
        let before = figure(&server, "stats", figure_name);
        assert!(!schedule.run_due(minute(events.into())).is_failure());
        figure(&server, "stats", figure_name) - before
    };
    let (few, many) = (of_a_tick(100), of_a_tick(200));
    f64::from(u32::try_from(many - few).expect("it is a small number")) / 100.0
}

#[test]
fn a_run_in_order_costs_one_round_trip_and_few_bytes() {
    let at_most = |limit: f64, figure: &str| {
        let each = each_costs(figure, |event| event);
        assert!(each <= limit, "{each} of {figure} each, where {limit} were enough");
    };
    at_most(1.05, "total_reads_processed:");
    // 34 of them are the timetable, which other servers compare with theirs.
    at_most(600.0, "total_net_input_bytes:");
    // Each request has a reply: the release of 4 bytes, and the token.
    at_most(56.0, "total_net_output_bytes:");
}

#[test]
fn a_run_in_the_background_costs_a_tenth_of_a_round_trip_and_few_bytes() {
    let at_most = |limit: f64, figure: &str| {
        let each = each_costs(figure, Event::in_background);
        assert!(each <= limit, "{each} of {figure} each, where {limit} were enough");
    };
    at_most(0.1, "total_reads_processed:");
    // Each admission says all that it asks for, also if that is as in the admission before.
    at_most(410.0, "total_net_input_bytes:");
    at_most(29.0, "total_net_output_bytes:");
}
