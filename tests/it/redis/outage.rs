//! A server that is unavailable, or partly so: no run without an admission, no hang, and nothing left behind.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::Child;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use soloist::store::{Admission, Admitted, LeaseRequest, StoreWarning};
use soloist::time::Clock;
use soloist::{Event, EventMutex, LeaseGuard, MutexName, RedisMutex, Schedule, SkipReason, Term};

use super::{
    assert_ran, assert_unavailable, carry_out, claim, entries, hasty_schedule, minute, patient, report, schedule,
    schedule_within, wait_until,
};
use crate::fleet::{Fleet, succeeded};
use crate::servers::proxy::{Fault, Proxy, REFUSING};
use crate::servers::redis::Redis;
use crate::servers::resp::Reply;
use crate::support::{Diary, in_time, noon, ran, skipped, until};
use crate::worker_log::read;

/// The limit for one timeout of two seconds with the delay of a busy machine, and less than two timeouts.
const IN_TIME: Duration = Duration::from_millis(3_900);

/// Asserts that the tick runs nothing because the store did not answer, and is over in time. Returns the reason.
#[track_caller]
fn assert_out(schedule: &Schedule, at: DateTime<Utc>, diary: &Diary) -> String {
    let (ran, mut said) = (diary.lines().len(), String::new());
    in_time(IN_TIME, || {
        let began = Instant::now();
        let report = schedule.run_due(at);
        let took = began.elapsed();
        let reason = skipped(&report, "report");
        assert!(matches!(reason, SkipReason::StoreUnavailable(_)), "{reason}");
        assert!(report.is_failure());
        assert_eq!(diary.lines().len(), ran, "a task ran");
        said = reason.to_string();
        took
    });
    said
}

#[test]
fn a_server_that_refuses_connections_is_out() {
    let diary = Diary::default();
    let said = assert_out(&hasty_schedule(REFUSING, &diary), noon(), &diary);
    let expected = "the store did not answer: could not admit lease/report in redis://127.0.0.1:1";
    assert!(said.starts_with(expected) && said.contains("refused"), "{said}");
}

/// The acquaintance of a schedule with a server that it has asked before, or not.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Acquainted {
    No,
    Yes,
}

/// The first request that the fault meets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Connecting,
    Admission,
}

/// Asserts that the fault costs its tick one timeout at most, runs nothing and leaves nothing behind: the
/// occurrence runs when the server is back.
#[track_caller]
fn a_tick_survives(fault: Fault, from: From, acquainted: Acquainted) {
    let server = Redis::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let store = RedisMutex::new(&proxy.url()).expect("a url");
    let schedule = Schedule::new(store.clone());
    schedule.add(report(&diary)).expect("an event");
    if acquainted == Acquainted::Yes {
        assert_ran(&schedule.run_due(noon()));
    }
    let before = (diary.lines().len(), entries(&server));
    match from {
        From::Connecting => proxy.fault_from_the_start(fault),
        From::Admission => proxy.fault(fault),
    }
    assert_out(&schedule, minute(1), &diary);
    proxy.mend();
    // A busy machine may be too late for the release in the first call.
    let lease = MutexName::lease("report").expect("a name");
    until(|| store.exists(&lease).is_ok_and(|is_held| !is_held)).expect("what was granted is given back");
    assert_ran(&schedule.run_due(minute(1)));
    assert_eq!(entries(&server).len(), before.1.len() + 1, "what was granted without an answer was given back");
    assert_eq!(diary.lines().len(), before.0 + 1, "{fault:?} {from:?} {acquainted:?}");
    assert_eq!(entries(&server).last(), Some(&claim(1)), "{fault:?} {from:?} {acquainted:?}");
}

/// Tries the cases at once, each on a server of its own: most of their time is waiting.
fn a_tick_survives_everywhere(fault: Fault) {
    thread::scope(|scope| {
        for from in [From::Connecting, From::Admission] {
            for acquainted in [Acquainted::No, Acquainted::Yes] {
                scope.spawn(move || a_tick_survives(fault, from, acquainted));
            }
        }
    });
}

#[test]
fn a_server_that_accepts_and_never_answers_costs_one_time_out() {
    a_tick_survives_everywhere(Fault::Silence);
}

#[test]
fn leases_that_are_to_be_held_longer_cost_one_time_out_together() {
    let release_takes = |background| {
        let server = Redis::start();
        let proxy = Arc::new(Proxy::of(&server));
        let schedule = Schedule::new(RedisMutex::new(&proxy.url()).unwrap());
        let began = Arc::new(Mutex::new(None));
        for number in 0..3 {
            let (proxy, began) = (Arc::clone(&proxy), Arc::clone(&began));
            let event = Event::call(format!("held {number}"), move |_| {
                proxy.fault(Fault::Silence);
                began.lock().unwrap().get_or_insert_with(Instant::now);
            });
            let event = event.hourly().without_overlapping().hold_at_least(Duration::from_secs(60 + number));
            schedule.add(if background { event.in_background() } else { event }).unwrap();
        }
        let report = schedule.run_due(noon());
        let took = began.lock().unwrap().expect("one has run").elapsed();
        assert!(report.is_failure(), "background: {background}, {took:?}: {report}");
        took
    };
    for background in [false, true] {
        in_time(IN_TIME, || release_takes(background));
    }
}

#[test]
fn a_server_that_closes_every_connection_is_out() {
    a_tick_survives_everywhere(Fault::Cut);
}

#[test]
fn a_server_that_acts_and_never_answers_keeps_nothing_of_ours() {
    a_tick_survives_everywhere(Fault::ReplyLost);
}

#[test]
fn a_server_that_acts_and_closes_the_connection_keeps_nothing_of_ours() {
    a_tick_survives_everywhere(Fault::ReplyCut);
}

#[test]
fn a_reply_that_comes_too_late_is_taken_for_no_other() {
    a_tick_survives_everywhere(Fault::ReplyHeld);
}

#[test]
fn half_a_reply_is_no_reply() {
    a_tick_survives_everywhere(Fault::HalfAReply);
    a_tick_survives_everywhere(Fault::ReplyCutInHalf);
}

#[test]
fn a_reply_that_dribbles_without_end_costs_one_time_out() {
    a_tick_survives_everywhere(Fault::Dribble);
}

#[test]
fn a_reply_without_end_costs_one_time_out() {
    a_tick_survives_everywhere(Fault::Endless);
}

#[test]
fn an_answer_that_makes_no_sense_is_no_answer() {
    let answers: [&[u8]; 8] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"+OK\r\n",
        b":1\r\n",
        b"$-1\r\n",
        b"*0\r\n",
        b"*2\r\n:1\r\n$4\r\nlast\r\n",
        b"*-7\r\n",
        b"\0\x16\x03\x01\xff\xfe\n\n",
    ];
    for answer in answers {
        for from in [From::Connecting, From::Admission] {
            a_tick_survives(Fault::Answer(answer), from, Acquainted::Yes);
        }
    }
}

#[test]
fn a_reply_that_is_lost_once_is_asked_for_again_and_the_event_runs_once() {
    for fault in [Fault::ReplyCut, Fault::ReplyCutInHalf, Fault::ReplyLost, Fault::Cut, Fault::Silence] {
        let server = Redis::start();
        let (proxy, diary) = (Proxy::of(&server), Diary::default());
        // The store asks again after half of that.
        let schedule = schedule_within(Duration::from_secs(12), &proxy.url(), &diary);
        assert_ran(&schedule.run_due(noon()));
        proxy.fault_once(fault);
        assert_ran(&schedule.run_due(minute(1)));
        assert_eq!(diary.lines().len(), 2, "{fault:?}");
        assert_eq!(entries(&server), [claim(0), claim(1)], "{fault:?}");
    }
}

#[test]
fn what_was_granted_without_an_answer_is_given_back_with_the_next_call_and_admits_nobody_meanwhile() {
    let server = Redis::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let ours = hasty_schedule(&proxy.url(), &diary);
    proxy.fault_once_after_then(Fault::ReplyLost, 0, Fault::Cut);
    assert_out(&ours, noon(), &diary);
    assert_eq!(entries(&server).len(), 2, "the server has granted what nobody knows of");
    let theirs = schedule(&server.url(), &diary);
    assert_eq!(skipped(&theirs.run_due(noon()), "report").keyword(), "ran_elsewhere");
    proxy.mend();
    // The unknown lease is released before the admission.
    assert_ran(&ours.run_due(noon()));
    assert_eq!(skipped(&theirs.run_due(noon()), "report").keyword(), "ran_elsewhere");
    assert_eq!(diary.lines().len(), 1);
}

#[test]
fn a_release_without_an_answer_is_made_up_for() {
    let tick_takes = |fault| {
        let server = Redis::start();
        let (proxy, diary) = (Arc::new(Proxy::of(&server)), Diary::default());
        let mutex = RedisMutex::new(&proxy.url()).unwrap();
        let schedule = Schedule::new(mutex.clone());
        // The hook comes before the release.
        schedule
            .add(report(&diary).then({
                let proxy = Arc::clone(&proxy);
                move |_, _| proxy.fault(fault)
            }))
            .unwrap();
        let began = Instant::now();
        let report = schedule.run_due(noon());
        let took = began.elapsed();
        let outcome = ran(&report, "report").to_string();
        assert!(outcome.contains("the lease was not released"), "{outcome}");
        proxy.mend();
        assert!(
            !mutex.exists(&MutexName::lease("report").unwrap()).unwrap(),
            "the lease is released before the name is read"
        );
        assert_eq!(entries(&server), [claim(0)]);
        took
    };
    for fault in [Fault::Silence, Fault::ReplyLost] {
        in_time(IN_TIME, || tick_takes(fault));
    }
}

#[test]
fn a_call_releases_two_hundred_of_the_names_that_may_be_ours() {
    let server = Redis::start();
    let (proxy, term) = (Proxy::of(&server), Term::MAX);
    // A quarter of the time is for these releases.
    let mutex = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(60)).build().unwrap();
    let name = |number: u32| MutexName::lease(format!("{number}")).unwrap();
    let requests = (0..450).map(|number| LeaseRequest::new(name(number), term, &Clock::system()));
    let admitted = carry_out(&mutex, Vec::new(), requests.map(Admission::lease_only).collect());
    let leases = admitted.admissions().iter().map(|slot| match slot.answer() {
        Some(Ok(Admitted::Granted(grant))) => grant.lease().expect("it was asked for").clone(),
        other => panic!("{other:?}"),
    });
    proxy.fault(Fault::Cut);
    let released = carry_out(&mutex, leases.collect(), Vec::new());
    assert!(released.releases().iter().all(|slot| slot.answer().is_some_and(Result::is_err)), "nothing is answered");
    proxy.mend();
    for left in [250, 50, 0, 0] {
        assert!(!mutex.exists(request("other").name()).expect("an answer"));
        assert_eq!(entries(&server).len(), left);
    }
}

fn request(name: &str) -> LeaseRequest {
    LeaseRequest::new(MutexName::lease(name).expect("a name"), Term::MAX, &Clock::system())
}

#[test]
fn a_lease_that_another_had_before_is_told_of_though_its_release_is_asked_for_twice() {
    let server = Redis::start();
    let (proxy, theirs) = (Proxy::of(&server), patient(&server.url()));
    let forgotten = |_: &MutexName| _ = server.ask(&["FLUSHALL"]);
    let broken = |name: &MutexName| assert!(theirs.break_lease(name).unwrap().is_some());
    let losses: [&dyn Fn(&MutexName); 2] = [&forgotten, &broken];
    for (number, lose) in losses.iter().enumerate() {
        let ours = RedisMutex::new(&proxy.url()).unwrap();
        let lease = ours.create(&request("report")).unwrap().expect("nobody holds it");
        lose(lease.name());
        let other = theirs.create(&request("report")).unwrap().expect("nobody holds it");
        thread::sleep(Duration::from_secs(2)); // longer than a reply is under way
        proxy.fault_once(Fault::Cut);
        assert!(!ours.forget(&lease).unwrap(), "loss {number}");
        assert!(theirs.forget(&other).unwrap(), "it was left alone");
    }
}

/// Ends a connection while it is idle, and cuts the request on the next connection.
#[test]
fn a_connection_that_ended_while_it_was_idle_costs_no_second_try() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let mutex = RedisMutex::new(&proxy.url()).unwrap();
    assert!(!mutex.exists(request("report").name()).unwrap());
    proxy.cut();
    thread::sleep(Duration::from_millis(100)); // the end of the connection arrives
    proxy.fault_once(Fault::Cut);
    assert!(mutex.create(&request("report")).unwrap().is_some());
    assert_eq!(proxy.met(), 1, "the request was cut");
}

#[test]
fn a_call_waits_for_a_server_that_is_restarted_also_where_it_was_interrupted() {
    let (server, diary) = (Redis::with("appendonly yes"), Diary::default());
    let mutex = RedisMutex::builder(&server.url()).timeout(Duration::from_secs(40)).build().unwrap();
    let schedule = Schedule::new(mutex);
    schedule.add(report(&diary)).unwrap();
    for (number, is_interrupted) in [(0, false), (1, true)] {
        if is_interrupted {
            server.pause();
        } else {
            server.kill();
        }
        thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(minute(number)));
            thread::sleep(Duration::from_millis(300)); // it was refused by then, or waits for an answer
            server.kill();
            thread::sleep(Duration::from_millis(300)); // and is refused meanwhile
            server.start_again();
            assert_ran(&tick.join().unwrap());
        });
    }
    assert_eq!(diary.lines().len(), 2);
}

#[test]
fn a_lease_that_another_took_after_its_release_was_ours_until_then() {
    let server = Redis::start();
    let (proxy, theirs) = (Proxy::of(&server), patient(&server.url()));
    // The store asks again after half of that.
    let ours = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(24)).build().unwrap();
    let lease = ours.create(&request("report")).unwrap().expect("nobody holds it");
    thread::sleep(Duration::from_secs(2)); // longer than a reply is under way
    assert!(ours.exists(lease.name()).unwrap(), "and a connection is at rest");
    proxy.fault_once(Fault::ReplyLost);
    let other = thread::scope(|scope| {
        let call = scope.spawn(|| ours.forget(&lease));
        proxy.wait_until_met();
        let other = theirs.create(&request("report")).unwrap().expect("it was given back");
        assert!(call.join().unwrap().unwrap(), "it went back at the first asking");
        other
    });
    assert!(theirs.forget(&other).unwrap(), "it was left alone");
}

#[test]
fn a_break_whose_answer_was_lost_has_broken_it() {
    let server = Redis::start();
    let (proxy, theirs) = (Proxy::of(&server), patient(&server.url()));
    let lease = theirs.create(&request("report")).unwrap().expect("nobody holds it");
    let operator = RedisMutex::new(&proxy.url()).unwrap();
    assert!(operator.exists(lease.name()).unwrap(), "and a connection is at rest");
    proxy.fault_once_after(Fault::ReplyCut, 1);
    assert!(operator.break_lease(lease.name()).unwrap().is_some(), "it was broken at the first asking");
    assert!(!theirs.forget(&lease).unwrap());
}

#[test]
fn a_server_that_dies_with_an_admission_in_hand_is_out_until_it_is_back() {
    let server = Redis::with("appendonly yes");
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let schedule = hasty_schedule(&proxy.url(), &diary);
    assert_ran(&schedule.run_due(noon()));

    proxy.fault(Fault::RequestHeld);
    thread::scope(|scope| {
        let tick = scope.spawn(|| assert_out(&schedule, minute(1), &diary));
        proxy.wait_until_met();
        server.pause();
        proxy.mend(); // The stopped server has the request, and cannot act on it.
        server.kill();
        tick.join().unwrap();
    });
    assert_out(&schedule, minute(1), &diary);
    server.start_again();
    assert_ran(&schedule.run_due(minute(1)));
    assert_eq!(entries(&server), [claim(0), claim(1)]);
}

#[test]
fn an_admission_that_a_stopped_server_finds_when_it_goes_on_grants_nothing() {
    let (server, diary) = (Redis::start(), Diary::default());
    let schedule = hasty_schedule(&server.url(), &diary);
    assert_ran(&schedule.run_due(noon()));
    server.pause();
    assert_out(&schedule, minute(1), &diary);
    server.resume();
    assert_eq!(entries(&server), [claim(0)], "nobody waits for the admission any more");
    assert_ran(&schedule.run_due(minute(1)));
    assert_eq!(entries(&server), [claim(0), claim(1)]);
}

/// Stops the server before the second tick of a worker, and continues it after the worker has gone.
#[test]
fn an_admission_of_a_process_that_is_gone_grants_nothing_when_a_stopped_server_goes_on() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let fleet = Fleet::on(proxy.url() + "?timeout=10s");
    proxy.fault(Fault::RequestHeld);
    let gone = worker(&fleet, "gone", &[]);
    proxy.wait_until_met();
    let replies = proxy.replies();
    server.pause();
    proxy.mend(); // The stopped server has the request, and cannot act on it.
    assert_eq!(gone.wait_with_output().expect("it ends").status.code(), Some(1));
    assert_eq!(reasons(&fleet, "gone"), ["store_unavailable"]);
    server.resume();
    proxy.wait_for_replies(replies + 1);
    assert_eq!(entries(&server), [""; 0], "nobody waits for the admission any more");

    succeeded(&worker(&fleet, "next", &[]).wait_with_output().expect("it ends"));
    assert_eq!(reasons(&fleet, "next"), [""; 0]);
}

#[test]
fn the_lease_of_a_process_that_died_before_it_heard_of_it_ends_with_its_term() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let fleet = Fleet::on(proxy.url() + "?timeout=20s");
    proxy.fault(Fault::ReplyLost);
    let mut gone = worker(&fleet, "gone", &["--without-overlapping=8"]);
    proxy.wait_until_met();
    gone.kill().expect("it waits for the answer");
    gone.wait().expect("it is ours");
    proxy.mend();
    assert_eq!(entries(&server), ["{soloist}:lease/report"]);

    let next = ["--without-overlapping=8", "--ticks", "40", "--every-ms", "250"];
    succeeded(&worker(&fleet, "next", &next).wait_with_output().expect("it ends"));
    let lines = read(&fleet.log("next"));
    let overlapping = lines.iter().take_while(|line| line.reason.as_deref() == Some("overlapping")).count();
    let ran = lines[overlapping..].iter().filter(|line| line.what == "start").count();
    assert!(overlapping > 0, "the lease was not there");
    assert_eq!(overlapping + ran, 40, "it was free from one tick on: {lines:?}");
    assert!(ran > 0, "the lease outlived its term");
}

#[track_caller]
fn worker(fleet: &Fleet, log: &str, options: &[&str]) -> Child {
    let lease = if options.is_empty() { &["--without-overlapping", "--on-one-server"][..] } else { options };
    let now = ["--now", "2026-03-01T12:00:00Z"];
    fleet.worker(log, &[&now[..], lease].concat()).spawn().expect("a worker starts")
}

/// Returns the reasons why ticks of the worker ran nothing.
fn reasons(fleet: &Fleet, log: &str) -> Vec<String> {
    read(&fleet.log(log)).into_iter().filter_map(|line| line.reason).collect()
}

#[test]
fn a_server_that_was_restarted_without_its_data_runs_the_next_tick_with_a_higher_token() {
    let (server, diary) = (Redis::start(), Diary::default());
    let schedule = schedule(&server.url(), &diary);
    let mut last = None;
    for number in 0..3 {
        let report = schedule.run_due(minute(number));
        assert_ran(&report);
        let token = ran(&report, "report").fencing_token();
        assert!(token > last, "{token:?} came after {last:?}");
        last = token;
        server.restart();
        assert_eq!(server.ask(&["DBSIZE"]).number(), 0);
    }
}

#[test]
fn a_server_that_lost_its_scripts_is_given_them_again() {
    let (server, diary) = (Redis::start(), Diary::default());
    let schedule = schedule(&server.url(), &diary);
    for number in 0..3 {
        assert_ran(&schedule.run_due(minute(number)));
        server.ask(&["SCRIPT", "FLUSH"]);
    }
}

#[test]
fn a_run_whose_lease_went_with_the_servers_data_ends_without_harm_to_the_next() {
    let server = Redis::start();
    let diary = Diary::default();
    let theirs = schedule(&server.url(), &diary);
    thread::scope(|scope| {
        let ours = Schedule::new(soloist::connect(&server.url()).unwrap());
        let (started, starts) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let ends = Mutex::new(ends);
        let task = move |_: &soloist::Run| {
            started.send(()).expect("the test listens");
            let _ = ends.lock().expect("one run at a time").recv();
        };
        ours.add(Event::call("report", task).every_minute().without_overlapping()).unwrap();
        let tick = scope.spawn(move || ours.run_due(noon()));
        starts.recv().expect("the task starts");
        server.restart();
        let mutex = RedisMutex::new(&server.url()).unwrap();
        let name = MutexName::lease("report").unwrap();
        let held = LeaseGuard::acquire(&mutex, name, Term::MAX).unwrap().expect("it is free");
        drop(end);
        let report = tick.join().unwrap();
        let outcome = ran(&report, "report").to_string();
        assert!(outcome.contains("not ours any more") || report.is_failure(), "{outcome}");
        assert_eq!(skipped(&theirs.run_due(noon()), "report").keyword(), "overlapping");
        assert!(held.release().unwrap(), "the next holder was left alone");
    });
}

/// Asserts that an error of the server leads to an unavailable store, and the occurrence runs when the server is
/// `back`.
#[track_caller]
fn an_error_is_no_answer(server: &Redis, error: &str, back: impl Fn()) {
    let diary = Diary::default();
    let schedule = hasty_schedule(&server.url(), &diary);
    for _ in 0..2 {
        let said = assert_out(&schedule, noon(), &diary);
        assert!(said.contains(error), "{said}");
    }
    back();
    assert_ran(&schedule.run_due(noon()));
    assert_eq!(entries(server), [claim(0)]);
}

#[test]
fn a_server_without_memory_is_out_until_it_has_some() {
    let server = Redis::start();
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    an_error_is_no_answer(&server, "OOM", || _ = server.ask(&["CONFIG", "SET", "maxmemory", "0"]));
}

#[test]
fn a_replica_is_out_until_it_is_the_primary() {
    let primary = Redis::start();
    let replica = Redis::replica_of(&primary);
    an_error_is_no_answer(&replica, "READONLY", || _ = replica.ask(&["REPLICAOF", "NO", "ONE"]));
}

#[test]
fn a_server_that_asks_for_a_password_is_out_without_it() {
    let server = Redis::with("requirepass secret");
    an_error_is_no_answer(&server, "NOAUTH", || _ = server.ask(&["CONFIG", "SET", "requirepass", ""]));
}

#[test]
fn a_server_that_loads_its_data_is_out_until_it_has() {
    let server = Redis::start();
    server.restart_loading();
    an_error_is_no_answer(&server, "LOADING", || server.finish_loading());
}

#[test]
fn a_server_that_is_busy_with_a_script_is_asked_again_until_that_ends() {
    let server = Redis::with("lua-time-limit 1");
    let proxy = Proxy::of(&server);
    let mutex = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(30)).build().unwrap();
    let request = LeaseRequest::new(MutexName::lease("report").unwrap(), Term::MAX, &Clock::system());
    thread::scope(|scope| {
        scope.spawn(|| server.try_ask(&["EVAL", "while true do end", "0"]));
        let is_busy = || matches!(server.try_ask(&["PING"]), Ok(Reply::Error(error)) if error.starts_with("BUSY"));
        wait_until("it is busy", is_busy);
        let call = scope.spawn(|| mutex.create(&request));
        proxy.wait_for_replies(1);
        server.ask(&["SCRIPT", "KILL"]);
        assert!(call.join().unwrap().unwrap().is_some(), "it is free");
    });
}

#[test]
fn a_server_that_came_to_its_limits_between_two_ticks_is_out_and_says_so() {
    let (server, diary) = (Redis::start(), Diary::default());
    let schedule = hasty_schedule(&server.url(), &diary);
    assert_ran(&schedule.run_due(noon()));
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(assert_out(&schedule, minute(1), &diary).contains("OOM"));
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(assert_out(&schedule, minute(1), &diary).contains("READONLY"));
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    assert_ran(&schedule.run_due(minute(1)));
}

#[test]
fn what_a_lost_answer_granted_is_given_back_also_when_it_is_refused_the_second_time() {
    let server = Redis::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let schedule = schedule_within(2 * BETWEEN_ATTEMPTS, &proxy.url(), &diary);
    assert_ran(&schedule.run_due(noon()));
    proxy.fault_once(Fault::ReplyLost);
    between_two_attempts(&server, &["ACL", "SETUSER", "default", "-evalsha"], || {
        let said = assert_unavailable(&schedule.run_due(minute(1)));
        assert!(said.contains("NOPERM"), "{said}");
    });
    assert_eq!(diary.lines().len(), 1, "a task ran");
    server.ask(&["ACL", "SETUSER", "default", "+evalsha"]);
    // The next call releases the unknown claim before it requests it again.
    assert_ran(&schedule.run_due(minute(1)));
}

/// How long a tick waits for the answer to its first attempt: half of its timeout.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(10);

/// Asks the server for this between the first attempt of a tick, which is carried out, and the second.
fn between_two_attempts(server: &Redis, asked: &[&str], tick: impl FnOnce()) {
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the lease was granted", || entries(server).len() == 3);
            server.ask(asked);
        });
        tick();
    });
}

#[test]
fn what_a_lost_answer_granted_is_run_although_the_memory_is_full_since() {
    let server = Redis::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let schedule = schedule_within(2 * BETWEEN_ATTEMPTS, &proxy.url(), &diary);
    assert_ran(&schedule.run_due(noon()));
    proxy.fault_once(Fault::ReplyLost);
    let fill = ["CONFIG", "SET", "maxmemory", "1"];
    // The release records its owner, and there is no memory for that; the lease is free nevertheless.
    between_two_attempts(&server, &fill, || assert_ran(&schedule.run_due(minute(1))));
    assert_eq!(entries(&server), [claim(0), claim(1)]);
}

#[test]
fn the_last_handle_gives_back_what_it_may_hold() {
    for calls_in_vain in [0, 1] {
        let server = Redis::start();
        let proxy = Proxy::of(&server);
        let mutex = RedisMutex::new(&proxy.url()).unwrap();
        let name = MutexName::lease("report").unwrap();
        proxy.fault_once_after_then(Fault::ReplyLost, 0, Fault::Cut);
        LeaseGuard::acquire(&mutex, name.clone(), Term::MAX).expect_err("the answer is lost");
        assert_eq!(entries(&server).len(), 1, "the server has granted what nobody knows of");
        for _ in 0..calls_in_vain {
            mutex.exists(&name).expect_err("there is no connection");
        }
        proxy.mend();
        drop(mutex);
        assert!(entries(&server).is_empty(), "after {calls_in_vain} calls in vain");
    }
}

#[test]
fn a_grant_whose_term_was_over_when_its_answer_came_is_not_run() {
    let server = Redis::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let mutex = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(30)).build().unwrap();
    let schedule = Schedule::new(mutex);
    let event = Event::call("report", diary.task("ran")).every_minute();
    schedule.add(event.on_one_server().without_overlapping_for(Duration::from_secs(14))).unwrap();
    assert_ran(&schedule.run_due(noon()));
    // The second request after fifteen seconds finds the lease as its own: but it ended fourteen seconds after the
    // first request.
    proxy.fault_once(Fault::ReplyLost);
    let report = schedule.run_due(minute(1));
    assert!(skipped(&report, "report").to_string().contains("after the term of the lease was over"), "{report}");
    assert_ran(&schedule.run_due(minute(1)));
    assert_eq!(entries(&server), [claim(0), claim(1)], "all was given back");
}

#[test]
fn an_answer_without_end_is_not_read_to_the_end_of_the_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("redis://{}", listener.local_addr().expect("it has an address"));
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("somebody connects");
            let zeros = [0; 8192];
            // Until the other end has had enough.
            let _ = connection.write_all(b"$1000000000\r\n");
            while connection.write_all(&zeros).is_ok() {}
        }
    });
    let mutex = RedisMutex::builder(&url).timeout(Duration::from_secs(60)).build().unwrap();
    let error = mutex.exists(&MutexName::lease("report").unwrap()).expect_err("no answer");
    assert!(format!("{error:?}").ends_with("the answer is longer than any reply to this store"), "{error:?}");
}

#[test]
fn a_token_that_is_none_is_an_error_that_names_its_key_and_stays() {
    let server = Redis::start();
    let diary = Diary::default();
    let schedule = hasty_schedule(&server.url(), &diary);
    for (damage, left) in [
        (["SET", "{soloist}:token", "99999999999999999999"], "99999999999999999999"),
        (["SET", "{soloist}:token", "a shopping list of us"], "a shopping list of us"),
        (["RPUSH", "{soloist}:token", "milk"], "milk"),
    ] {
        server.ask(&["DEL", "{soloist}:token"]);
        server.ask(&damage);
        let said = assert_out(&schedule, noon(), &diary);
        assert!(said.contains("at the key {soloist}:token is no token: delete that key"), "{said}");
        let kept = if damage[0] == "SET" {
            server.ask(&["GET", "{soloist}:token"])
        } else {
            server.ask(&["LPOP", "{soloist}:token"])
        };
        assert_eq!(kept.text(), left);
        assert!(entries(&server).is_empty(), "nothing was granted");
    }
    server.ask(&["DEL", "{soloist}:token"]);
    assert_ran(&schedule.run_due(noon()));
}

#[test]
fn a_look_at_a_server_warns_of_what_it_can_not_be_trusted_with() {
    const IS_REPLICA: &str = "the server is a replica and can't be written to: connect to its primary";
    let server = Redis::start();
    let check = |server: &Redis| RedisMutex::new(&server.url()).unwrap().check().expect("it answers");
    assert_eq!(check(&server), []);
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let evicts = "the server evicts keys when its memory is full (maxmemory-policy allkeys-lru), also those of live leases: set it to \
                  noeviction, or use a server of its own";
    assert_eq!(check(&server), [StoreWarning::new(evicts)]);
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    // Of another server, which saves for it and would do nothing else meanwhile.
    assert_eq!(check(&Redis::replica_of(&Redis::start())), [StoreWarning::new(IS_REPLICA)]);

    // The server cannot write its dump in the place of a directory.
    fs::create_dir_all(server.directory().join("dump.rdb/taken")).unwrap();
    server.ask(&["CONFIG", "SET", "save", "3600 1"]);
    server.ask(&["BGSAVE"]);
    wait_until("it can't save", || server.ask(&["INFO"]).text().contains("rdb_last_bgsave_status:err"));
    let [warning] = &check(&server)[..] else { panic!("{:?}", check(&server)) };
    let text = warning.to_string();
    let why =
        "the store refused a trial, so that protected events may not run as they should: the server answered MISCONF ";
    assert!(text.starts_with(why) && text.ends_with("until it can"), "{text}");
    server.ask(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    assert_eq!(check(&server), []);
}

#[test]
fn a_pause_that_extends_one_without_an_answer_lasts() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let shop = schedule_within(Duration::from_secs(2), &proxy.url(), &Diary::default()).named("shop").expect("a name");
    let end = Utc::now() + Duration::from_secs(600);
    proxy.fault(Fault::ReplyLost);
    assert!(shop.pause(end, "a test").is_err(), "the server has carried it out");
    proxy.fault(Fault::Silence);
    assert!(shop.paused().is_err(), "its release does not arrive, and is sent again after five seconds");
    proxy.mend();
    shop.pause(end, "a test").expect("it answers");
    thread::sleep(Duration::from_secs(6)); // the time of the release
    for _ in 0..2 {
        assert!(shop.paused().expect("it answers").is_some());
    }
}
