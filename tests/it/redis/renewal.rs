//! Leases that are renewed on a server which stops, goes on, forgets, and answers late.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use soloist::{
    CancelReason, Clock, Event, EventMutex, LeaseRequest, Moment, MutexName, RedisMutex, Report, Run, Schedule,
    SkipReason, Term,
};

use super::{entries, minute};
use crate::servers::proxy::{Fault, Proxy};
use crate::servers::redis::Redis;
use crate::support::{noon, ran, skipped};

const TERM: Duration = Duration::from_secs(3);
const LEASE: &str = "soloist:lease:{report}";

fn now() -> Moment {
    Clock::system().moment()
}

fn store(url: &str) -> RedisMutex {
    RedisMutex::builder(url).timeout(Duration::from_millis(500)).build().expect("a url")
}

/// A run of `report` that goes on until it is told to end, also when it is cancelled.
struct AtWork {
    schedule: Arc<Schedule>,
    run: Run,
    end: mpsc::Sender<()>,
    tick: JoinHandle<Report>,
}

/// How a run went on from here.
#[derive(Debug)]
struct Cancelled {
    reason: CancelReason,
    at: Moment,
    /// The last that the run knew of its deadline.
    deadline: Moment,
}

impl AtWork {
    #[track_caller]
    fn on(store: RedisMutex) -> Self {
        let (started, starts) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let ends = Mutex::new(ends);
        let task = move |run: &Run| {
            started.send(run.clone()).expect("the test listens");
            let _ = ends.lock().expect("one run at a time").recv();
        };
        let mut schedule = Schedule::new(store);
        schedule.add(Event::call("report", task).every_minute().without_overlapping().lease_term(TERM)).unwrap();
        let schedule = Arc::new(schedule);
        let tick = thread::spawn({
            let schedule = Arc::clone(&schedule);
            move || schedule.run_due(noon())
        });
        Self { schedule, run: starts.recv().expect("the task starts"), end, tick }
    }

    /// Until when the run may rely on its lease, as things are; never told too early.
    fn deadline(&self) -> Moment {
        let left = self.run.remaining().expect("it has a lease");
        now().plus(left)
    }

    /// Waits until the lease was renewed.
    #[track_caller]
    fn wait_for_a_renewal(&self) {
        let before = self.deadline();
        while self.deadline() < before.plus(TERM / 6) {
            assert_eq!(self.run.cancel_reason(), None, "it was to be renewed");
            thread::sleep(Duration::from_millis(1)); // between two looks at another thread
        }
    }

    /// Waits until the run is cancelled; fails if it is uncancelled past a deadline.
    #[track_caller]
    fn wait_until_cancelled(&self) -> Cancelled {
        let mut deadline = self.deadline();
        loop {
            let before = now();
            match self.run.cancel_reason() {
                Some(reason) => return Cancelled { reason, at: before, deadline },
                None => assert!(before < deadline, "it goes on past its deadline"),
            }
            deadline = deadline.max(self.deadline());
            thread::sleep(Duration::from_millis(1)); // between two looks at another thread
        }
    }

    #[track_caller]
    fn end(self) -> Report {
        drop(self.end);
        self.tick.join().expect("a tick does not panic")
    }
}

#[track_caller]
fn assert_nothing_was_lost(at_work: AtWork) {
    let report = at_work.end();
    assert!(!report.is_failure(), "{report}");
    assert_eq!(ran(&report, "report").lease_lost_at(), None);
}

#[track_caller]
fn assert_lost(report: &Report) {
    let outcome = ran(report, "report");
    assert!(report.is_failure() && outcome.is_success());
    assert!(outcome.lease_lost_at().is_some());
    let text = outcome.to_string();
    assert!(text.starts_with("succeeded in ") && text.contains(", but the lease was lost at 20"), "{text}");
}

/// Until when the server itself holds the lease: not later than this, which is a millisecond more than it says.
#[track_caller]
fn held_by_the_server_until(server: &Redis) -> Moment {
    let left = server.ask(&["PTTL", LEASE]).number();
    now().plus(Duration::from_millis(u64::try_from(left).expect("it is held") + 1))
}

#[test]
fn a_server_that_stops_for_less_than_what_is_left_of_the_term_loses_nothing() {
    let server = Redis::start();
    let at_work = AtWork::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    let token = at_work.run.fencing_token();
    server.pause();
    // Over the next renewal, which gets no answer.
    thread::sleep(TERM / 2);
    assert_eq!(at_work.run.cancel_reason(), None);
    server.resume();
    at_work.wait_for_a_renewal();
    at_work.wait_for_a_renewal();
    assert_eq!(at_work.run.fencing_token(), token);
    assert_nothing_was_lost(at_work);
    assert!(entries(&server).is_empty());
}

#[test]
fn a_server_that_is_restarted_with_its_data_loses_nothing() {
    let server = Redis::with("appendonly yes");
    let at_work = AtWork::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    server.restart();
    at_work.wait_for_a_renewal();
    assert_nothing_was_lost(at_work);
}

#[test]
fn a_server_that_stops_for_longer_lets_the_run_be_cancelled_before_the_lease_is_anybody_elses() {
    let server = Redis::start();
    let at_work = AtWork::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    let free = held_by_the_server_until(&server);
    server.pause();
    let cancelled = at_work.wait_until_cancelled();
    assert_eq!(cancelled.reason, CancelReason::LeaseLost);
    assert!(cancelled.deadline <= free, "{cancelled:?}, and the server gives the name away at {free:?}");
    server.resume();
    assert_lost(&at_work.end());
}

#[test]
fn a_server_that_is_gone_lets_the_run_be_cancelled_at_its_deadline() {
    let server = Redis::start();
    let at_work = AtWork::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    server.kill();
    // Tried again and again, and not given up before the deadline.
    let cancelled = at_work.wait_until_cancelled();
    assert!(cancelled.deadline <= cancelled.at.plus(Duration::from_millis(1)), "{cancelled:?}");
    let report = at_work.end();
    assert_lost(&report);
    assert!(ran(&report, "report").to_string().contains("the lease was not given back"), "{report}");
}

#[test]
fn a_renewal_that_is_answered_late_does_not_stretch_the_deadline() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let patient = RedisMutex::builder(&proxy.url()).timeout(TERM * 4).build().expect("a url");
    let at_work = AtWork::on(patient);
    at_work.wait_for_a_renewal();
    let before = held_by_the_server_until(&server);
    proxy.fault(Fault::ReplyHeld);
    proxy.wait_until_met();
    assert!(held_by_the_server_until(&server) > before, "the server has renewed it");
    let cancelled = at_work.wait_until_cancelled();
    assert!(cancelled.at < before.plus(TERM / 12), "{cancelled:?} was not at the deadline that was known");
    proxy.mend();
    let late = now().plus(Duration::from_millis(300));
    while now() < late {
        assert!(at_work.run.is_cancelled(), "what is lost stays so");
        thread::sleep(Duration::from_millis(1)); // while the answer arrives
    }
    assert_lost(&at_work.end());
    assert!(entries(&server).is_empty(), "what the late renewal held was given back");
}

#[test]
fn the_deadline_counts_from_before_a_renewal_was_sent() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let at_work = AtWork::on(RedisMutex::new(&proxy.url()).expect("a url"));
    at_work.wait_for_a_renewal();
    let before = at_work.deadline();
    proxy.fault(Fault::ReplyHeld);
    proxy.wait_until_met();
    let held = held_by_the_server_until(&server);
    thread::sleep(TERM / 6); // the answer is on its way for so long
    proxy.mend();
    while at_work.deadline() < before.plus(TERM / 6) {
        thread::sleep(Duration::from_millis(1)); // between two looks at another thread
    }
    assert!(at_work.deadline() <= held.plus(TERM / 12), "the answer's time was added to the term");
    assert_nothing_was_lost(at_work);
}

#[test]
fn a_renewal_that_fails_ten_times_and_then_succeeds_keeps_the_lease() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let at_work = AtWork::on(store(&proxy.url()));
    at_work.wait_for_a_renewal();
    // The server is there, and says each time that it can't; nothing is tried a second time within one renewal.
    proxy.fault(Fault::Answer(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"));
    proxy.wait_until_met_often(20);
    proxy.mend();
    at_work.wait_for_a_renewal();
    assert_nothing_was_lost(at_work);
}

#[test]
fn a_server_that_restarted_empty_is_noticed_and_this_process_starts_no_second_run_meanwhile() {
    let server = Redis::start();
    let at_work = AtWork::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    let (deadline, pid) = (at_work.deadline(), std::process::id());
    server.restart();
    assert_eq!(server.ask(&["EXISTS", LEASE]).number(), 0, "the server has forgotten it");
    let second = at_work.schedule.run_due(minute(1));
    match skipped(&second, "report") {
        SkipReason::Overlapping(Some(holder)) => assert_eq!(holder.pid(), pid),
        reason => panic!("{reason}"),
    }
    assert!(entries(&server).is_empty(), "what was granted was given back");
    let cancelled = at_work.wait_until_cancelled();
    assert_eq!(cancelled.reason, CancelReason::LeaseLost);
    assert!(cancelled.at < deadline, "{cancelled:?} was not noticed before the deadline, {deadline:?}");
    assert_lost(&at_work.end());
}

#[test]
fn an_extension_that_nobody_waits_for_any_more_does_nothing() {
    let server = Redis::start();
    let mutex = store(&server.url());
    let term = Term::new(TERM * 10).unwrap();
    let request = LeaseRequest::new(MutexName::lease("report").unwrap(), term, &Clock::system());
    let lease = mutex.create(&request).unwrap().expect("it is free");
    server.pause();
    let hours = Term::new(Duration::from_secs(7200)).unwrap();
    let answer = mutex.extend(std::slice::from_ref(&lease), hours).remove(0);
    assert!(answer.unwrap_err().is_unavailable());
    server.resume();
    // Heard after the extension, which came on an earlier connection.
    let left = server.ask(&["PTTL", LEASE]).number();
    assert!(Duration::from_millis(left.unsigned_abs()) <= term.get(), "{left} ms are left");
    assert!(mutex.extend(&[lease], hours).remove(0).unwrap(), "an extension in time does it");
    assert!(server.ask(&["PTTL", LEASE]).number() > left);
}

#[test]
fn a_lease_that_could_not_be_shortened_is_held_as_long_as_it_was_asked_for_and_given_back_then() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let mut schedule = Schedule::new(store(&proxy.url()));
    let proxy = Arc::new(proxy);
    let silence = Arc::clone(&proxy);
    let task = move |_: &Run| silence.fault(Fault::Silence);
    let event = Event::call("report", task).every_minute().without_overlapping();
    schedule.add(event.hold_at_least(TERM)).unwrap();
    let began = now();
    let report = schedule.run_due(noon());
    assert!(ran(&report, "report").to_string().contains("the lease was not given back"), "{report}");
    proxy.mend();
    while server.ask(&["EXISTS", LEASE]).number() == 1 {
        assert!(now() < began.plus(TERM * 8), "it was not given back, although the server answers again");
        thread::sleep(Duration::from_millis(5)); // between two looks at a server
    }
    assert!(now() >= began.plus(TERM), "it was given back before its time");
}

#[test]
fn two_hundred_leases_in_hand_cost_two_commands_a_third_of_their_term() {
    let server = Redis::start();
    let mut schedule = Schedule::new(RedisMutex::new(&server.url()).unwrap());
    let (started, starts) = mpsc::channel();
    for number in 0..200 {
        let started = started.clone();
        let task = move |run: &Run| {
            started.send(()).expect("the test listens");
            run.cancelled(TERM + TERM / 6);
        };
        let event = Event::call(format!("event {number}"), task).every_minute().in_background();
        schedule.add(event.without_overlapping().lease_term(TERM)).unwrap();
    }
    let tick = thread::spawn(move || schedule.run_due(noon()));
    (0..200).for_each(|_| starts.recv().expect("all of them start"));
    let mut monitor = server.monitor();
    thread::sleep(TERM); // three thirds, at the edge of which one renewal more or less may lie
    let renewals = monitor.commands().len();
    assert!((4..=8).contains(&renewals), "{renewals} commands");
    assert!(!tick.join().unwrap().is_failure());
    monitor.commands();
    thread::sleep(TERM / 2);
    assert!(monitor.commands().is_empty(), "nothing is in hand any more");
}

#[test]
fn a_server_that_restarted_empty_is_noticed_at_the_next_renewal() {
    let server = Redis::start();
    let at_work = AtWork::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    let deadline = at_work.deadline();
    server.restart();
    let cancelled = at_work.wait_until_cancelled();
    assert!(cancelled.at < deadline, "{cancelled:?} was not noticed before the deadline, {deadline:?}");
    assert_lost(&at_work.end());
}
