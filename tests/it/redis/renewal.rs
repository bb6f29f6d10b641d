//! Leases that are renewed on a server which stops, goes on, forgets, and answers late.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use soloist::observe::{Notice, Step};
use soloist::store::LeaseRequest;
use soloist::time::{Clock, Moment};
use soloist::{CancelReason, Event, EventMutex, MutexName, RedisMutex, Report, Run, Schedule, SkipReason, Term};

use super::{entries, extend, minute};
use crate::servers::proxy::{Fault, Proxy};
use crate::servers::redis::Redis;
use crate::support::{PATIENCE, noon, ran, skipped, until};

/// Two thirds of it are longer than any thread stalls on a machine that has more to do than this.
pub(super) const TERM: Duration = Duration::from_secs(8);
/// The timeout of a call. An admission is not requested twice.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The time-out of a store whose calls are to be answered, however late.
const LONG: Duration = Duration::from_secs(20);
pub(super) const LEASE: &str = "{soloist}:lease/report";

fn now() -> Moment {
    Clock::system().moment()
}

pub(super) fn store(url: &str) -> RedisMutex {
    store_with(url, TIMEOUT)
}

pub(super) fn store_with(url: &str, timeout: Duration) -> RedisMutex {
    RedisMutex::builder(url).timeout(timeout).build().expect("a url")
}

/// A run of `report` that goes on until the test ends it, also when it is cancelled.
pub(super) struct LongRun {
    schedule: Arc<Schedule>,
    term: Duration,
    pub(super) run: Run,
    failed_renewals: Arc<AtomicUsize>,
    end: mpsc::Sender<()>,
    tick: JoinHandle<Report>,
}

/// The later course of a run.
#[derive(Debug)]
pub(super) struct Cancelled {
    pub(super) reason: CancelReason,
    /// When that was noticed here, which may be a while after it was so.
    at: Moment,
    /// The last that the run knew of its deadline.
    deadline: Option<Moment>,
}

impl LongRun {
    #[track_caller]
    pub(super) fn on(store: RedisMutex) -> Self {
        Self::with(store, TERM)
    }

    /// Starts the run under a lease of this term.
    #[track_caller]
    pub(super) fn with(store: RedisMutex, term: Duration) -> Self {
        let (started, starts) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let ends = Mutex::new(ends);
        let task = move |run: &Run| {
            started.send(run.clone()).expect("the test listens");
            let _ = ends.lock().expect("one run at a time").recv();
        };
        let failed_renewals = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&failed_renewals);
        let schedule = Schedule::new(store).observe(move |notice: &Notice<'_>| {
            if matches!(notice.step(), Step::NotRenewed { .. }) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        schedule.add(Event::call("report", task).every_minute().without_overlapping().lease_term(term)).unwrap();
        let schedule = Arc::new(schedule);
        let tick = thread::spawn({
            let schedule = Arc::clone(&schedule);
            move || schedule.run_due(noon())
        });
        // The schedule has the task, and with that the other end for as long as it lives.
        let run = starts.recv_timeout(PATIENCE).expect("the task starts");
        Self { schedule, term, run, failed_renewals, end, tick }
    }

    /// Returns the time until which the run may rely on its lease, or nothing if the lease is lost. The time is
    /// never too early, and too late by a tenth of a millisecond at most.
    fn known_deadline(&self) -> Option<Moment> {
        loop {
            let before = now();
            let left = self.run.remaining().expect("it has a lease");
            let after = now();
            if after.since(before) < Duration::from_micros(100) {
                return (!left.is_zero()).then(|| after.plus(left));
            }
        }
    }

    /// Returns the deadline of a lease that is not lost.
    #[track_caller]
    fn deadline(&self) -> Moment {
        self.known_deadline().expect("the lease is not lost")
    }

    /// Waits until the lease was renewed.
    #[track_caller]
    pub(super) fn wait_for_a_renewal(&self) {
        let before = self.deadline();
        while self.deadline() < before.plus(self.term / 6) {
            assert_eq!(self.run.cancel_reason(), None, "it was to be renewed");
            thread::sleep(Duration::from_millis(1)); // between two checks of another thread
        }
    }

    /// Waits until the server has renewed the lease and the proxy holds the answer. Returns the deadline that the run knows.
    #[track_caller]
    fn hold_the_answer_to_a_renewal(&self, proxy: &Proxy, server: &Redis) -> Moment {
        loop {
            self.wait_for_a_renewal();
            proxy.fault(Fault::ReplyHeld);
            let known = self.deadline();
            proxy.wait_until_met();
            if held_by_the_server_until(server) > known.plus(TERM / 6) {
                return known;
            }
            proxy.mend(); // the held request reads the cancellations, after each renewal
        }
    }

    /// Waits until the run is cancelled; fails if it is uncancelled past a deadline, or goes on for long.
    #[track_caller]
    pub(super) fn wait_until_cancelled(&self) -> Cancelled {
        let (mut deadline, patience) = (None, now().plus(PATIENCE));
        loop {
            assert!(now() < patience, "it is not cancelled");
            let known = self.known_deadline();
            deadline = deadline.max(known);
            match self.run.cancel_reason() {
                Some(reason) => return Cancelled { reason, at: now(), deadline },
                None => assert!(known.is_some(), "it goes on past its deadline"),
            }
            thread::sleep(Duration::from_millis(1)); // between two checks of another thread
        }
    }

    #[track_caller]
    pub(super) fn end(self) -> Report {
        drop(self.end);
        self.tick.join().expect("a tick does not panic")
    }
}

#[track_caller]
pub(super) fn assert_nothing_was_lost(at_work: LongRun) {
    let report = at_work.end();
    assert!(!report.is_failure(), "{report}");
    assert_eq!(ran(&report, "report").lease_lost_at(), None);
}

#[track_caller]
pub(super) fn assert_lost(report: &Report) {
    let outcome = ran(report, "report");
    assert!(report.is_failure() && outcome.is_success());
    assert!(outcome.lease_lost_at().is_some());
    let text = outcome.to_string();
    assert!(text.starts_with("succeeded in ") && text.contains(", but the lease was lost at 20"), "{text}");
}

/// Returns the end of the lease at the server: not later than this, which is a millisecond more than the server's
/// value.
#[track_caller]
fn held_by_the_server_until(server: &Redis) -> Moment {
    let left = server.ask(&["PTTL", LEASE]).number();
    now().plus(Duration::from_millis(u64::try_from(left).expect("it is held") + 1))
}

#[test]
fn a_server_that_stops_for_less_than_what_is_left_of_the_term_loses_nothing() {
    let server = Redis::start();
    let term = TIMEOUT * 5;
    let at_work = LongRun::with(store(&server.url()), term);
    at_work.wait_for_a_renewal();
    let token = at_work.run.fencing_token();
    server.pause();
    // Over the next renewal, which gets no answer.
    thread::sleep(term / 3 + TIMEOUT + TIMEOUT / 8);
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
    let at_work = LongRun::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    server.restart();
    at_work.wait_for_a_renewal();
    assert_nothing_was_lost(at_work);
}

#[test]
fn a_server_that_stops_for_longer_lets_the_run_be_cancelled_before_the_lease_is_anybody_elses() {
    let server = Redis::start();
    let at_work = LongRun::on(store(&server.url()));
    let free = loop {
        at_work.wait_for_a_renewal();
        let deadline = at_work.deadline();
        let free = held_by_the_server_until(&server);
        server.pause();
        // So soon that the next renewal, which would move both, was not yet due.
        if now().plus(TERM * 2 / 3) < deadline {
            break free;
        }
        server.resume();
    };
    let cancelled = at_work.wait_until_cancelled();
    assert_eq!(cancelled.reason, CancelReason::LeaseLost);
    let deadline = cancelled.deadline.expect("it was watched before it was lost");
    assert!(deadline <= free, "{cancelled:?}, and the server gives the name away at {free:?}");
    server.resume();
    assert_lost(&at_work.end());
}

#[test]
fn a_server_that_is_gone_lets_the_run_be_cancelled_at_its_deadline() {
    let server = Redis::start();
    let at_work = LongRun::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    server.kill();
    // Tried again and again, and not given up before the deadline.
    let cancelled = at_work.wait_until_cancelled();
    let deadline = cancelled.deadline.expect("it was watched before it was lost");
    assert!(deadline <= cancelled.at.plus(Duration::from_millis(1)), "{cancelled:?}");
    let report = at_work.end();
    assert_lost(&report);
    assert!(ran(&report, "report").to_string().contains("the lease was not released"), "{report}");
}

#[test]
fn a_renewal_that_is_answered_late_does_not_stretch_the_deadline() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let at_work = LongRun::on(store_with(&proxy.url(), LONG));
    let known = at_work.hold_the_answer_to_a_renewal(&proxy, &server);
    let cancelled = at_work.wait_until_cancelled();
    let deadline = cancelled.deadline.expect("it was watched before it was lost");
    assert!(deadline < known.plus(Duration::from_millis(1)), "{cancelled:?} was not at {known:?}, as was known");
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
    let at_work = LongRun::on(store_with(&proxy.url(), LONG));
    let before = at_work.hold_the_answer_to_a_renewal(&proxy, &server);
    let held = held_by_the_server_until(&server);
    thread::sleep(TERM / 6); // the delay of the reply
    // The renewal arrives, and the next one is held until this is checked.
    proxy.fault(Fault::RequestHeld);
    while at_work.deadline() < before.plus(TERM / 6) {
        thread::sleep(Duration::from_millis(1)); // between two checks of another thread
    }
    assert!(at_work.deadline() <= held.plus(TERM / 12), "the answer's time was added to the term");
    proxy.mend();
    assert_nothing_was_lost(at_work);
}

#[test]
fn a_renewal_that_fails_ten_times_and_then_succeeds_keeps_the_lease() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    // Long enough for twenty pauses between attempts, so that ten attempts can be slow.
    let at_work = LongRun::with(store(&proxy.url()), 3 * TERM);
    at_work.wait_for_a_renewal();
    proxy.fault(Fault::Answer(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"));
    until(|| at_work.failed_renewals.load(Ordering::Relaxed) >= 10).unwrap();
    proxy.mend();
    at_work.wait_for_a_renewal();
    assert_nothing_was_lost(at_work);
}

#[test]
fn a_server_that_restarted_empty_is_noticed_and_this_process_starts_no_second_run_meanwhile() {
    let server = Redis::start();
    // No renewal is due meanwhile that would notice it.
    let at_work = LongRun::with(store(&server.url()), Duration::from_secs(60));
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
    let [patient, hasty] = [LONG, Duration::from_millis(500)].map(|timeout| store_with(&server.url(), timeout));
    let term = Term::new(Duration::from_secs(600)).unwrap();
    let request = LeaseRequest::new(MutexName::lease("report").unwrap(), term, &Clock::system());
    let lease = patient.create(&request).unwrap().expect("it is free");
    // The handle has a connection for the extension.
    until(|| hasty.exists(request.name()).is_ok()).unwrap();
    server.pause();
    let hours = Term::new(Duration::from_secs(7200)).unwrap();
    assert!(extend(&hasty, &lease, hours).unwrap_err().is_unavailable());
    server.resume();
    // Heard after the extension, which came on an earlier connection.
    let left = server.ask(&["PTTL", LEASE]).number();
    assert!(Duration::from_millis(left.unsigned_abs()) <= term.get(), "{left} ms are left");
    assert!(extend(&patient, &lease, hours).unwrap(), "an extension in time does it");
    assert!(server.ask(&["PTTL", LEASE]).number() > left);
}

#[test]
fn an_extension_is_not_undone_because_the_reason_looks_like_a_term() {
    let server = Redis::start();
    let mutex = store(&server.url());
    let [minutes, hours] = [600, 7200].map(|seconds| Term::new(Duration::from_secs(seconds)).unwrap());
    let request = |term| LeaseRequest::new(MutexName::lease("report").unwrap(), term, &Clock::system());
    let lease = mutex.create(&request(minutes).because("a term=7200000 b")).unwrap().expect("it is free");
    assert!(extend(&mutex, &lease, hours).unwrap());
    assert!(mutex.create(&request(minutes)).unwrap().is_none());
    let left = server.ask(&["PTTL", LEASE]).number();
    assert!(Duration::from_millis(left.unsigned_abs()) > minutes.get(), "{left} ms are left");
}

#[test]
fn a_lease_that_could_not_be_shortened_is_held_as_long_as_it_was_asked_for_and_given_back_then() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    let mutex = store(&proxy.url());
    let schedule = Schedule::new(mutex.clone());
    let proxy = Arc::new(proxy);
    let silence = Arc::clone(&proxy);
    let task = move |_: &Run| silence.fault(Fault::Silence);
    let event = Event::call("report", task).every_minute().without_overlapping();
    let length = Duration::from_secs(3);
    schedule.add(event.hold_at_least(length)).unwrap();
    let began = now();
    let report = schedule.run_due(noon());
    assert!(ran(&report, "report").to_string().contains("the lease was not released"), "{report}");
    proxy.mend();
    while mutex.exists(&MutexName::lease("report").unwrap()).unwrap() {
        assert!(now() < began.plus(length * 8), "it was not given back, although the server answers again");
        thread::sleep(Duration::from_millis(5)); // between two checks of a server
    }
    assert!(now() >= began.plus(length), "it was given back before its time");
}

#[test]
fn two_hundred_leases_in_hand_cost_three_commands_a_third_of_their_term() {
    // Two requests renew a hundred leases each, and one reads whether an operator cancels a run.
    let server = Redis::start();
    let schedule = Schedule::new(store_with(&server.url(), LONG));
    let (started, starts) = mpsc::channel();
    let ends = Arc::new(RwLock::new(()));
    let at_work = ends.write().unwrap();
    for number in 0..200 {
        let (started, ends) = (started.clone(), Arc::clone(&ends));
        let task = move |_: &Run| {
            started.send(()).expect("the test listens");
            drop(ends.read());
        };
        let event = Event::call(format!("event {number}"), task).every_minute().in_background();
        schedule.add(event.without_overlapping().lease_term(TERM)).unwrap();
    }
    let tick = thread::spawn(move || schedule.run_due(noon()));
    (0..200).for_each(|_| starts.recv_timeout(PATIENCE).expect("all of them start"));
    let began = now();
    let mut monitor = server.monitor();
    thread::sleep(TERM + TERM / 12); // three thirds, at the edge of which one renewal more or less may lie
    let renewals = monitor.commands().len();
    let thirds = usize::try_from(now().since(began).as_millis() / (TERM / 3).as_millis()).unwrap();
    assert!((6..=3 * (thirds + 1)).contains(&renewals), "{renewals} commands in {thirds} thirds");
    drop(at_work);
    assert!(!tick.join().unwrap().is_failure());
    monitor.commands();
    thread::sleep(TERM / 2);
    assert!(monitor.commands().is_empty(), "nothing is in hand any more");
}

#[test]
fn a_server_that_restarted_empty_is_noticed_at_the_next_renewal() {
    let server = Redis::start();
    let at_work = LongRun::on(store(&server.url()));
    at_work.wait_for_a_renewal();
    let deadline = at_work.deadline();
    server.restart();
    let cancelled = at_work.wait_until_cancelled();
    assert!(cancelled.at < deadline, "{cancelled:?} was not noticed before the deadline, {deadline:?}");
    assert_lost(&at_work.end());
}
