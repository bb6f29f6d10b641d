//! A server whose clock is set back, or forward and back, while it has leases. Whatever the clock shows, a
//! released lease stays free, a dead process blocks a name for a term at most, and the change of the clock is
//! reported.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use soloist::store::{Batch, Lease, LeaseRequest, Slot, StoreWarning};
use soloist::time::Clock;
use soloist::{
    CancelReason, Event, EventMutex, LeaseGuard, MutexError, MutexName, MysqlMutex, Overlap, PostgresMutex, RedisMutex,
    Report, Schedule, SkipReason, Term, Verdict,
};

use crate::servers::clock::WallClock;
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;
use crate::servers::proxy::{Behind, Fault, Proxy};
use crate::servers::redis::Redis;
use crate::support::{holder, noon, patient_url, until};

const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;

/// Short enough to be waited for, and longer than any thread stalls between a grant and a step of the clock.
const TERM: Duration = Duration::from_secs(6);

/// Longer than any case takes.
const LONG: Duration = Duration::from_secs(600);

/// The precision of a server's clock in milliseconds, with a margin.
const A_MOMENT: Duration = Duration::from_millis(100);

/// A server whose clock can be set, and the store on it.
pub(crate) trait Clocked: Behind + Sized + Sync {
    type Mutex: EventMutex + Clone + 'static;

    fn start() -> Self;
    fn open(url: &str) -> Self::Mutex;
    fn clock(&self) -> WallClock;
    fn pause(&self);
    fn resume(&self);

    fn mutex(&self) -> Self::Mutex {
        Self::open(&patient_url(&self.address().0))
    }
}

macro_rules! clocked {
    ($server:ident, $mutex:ident, $prepare:expr) => {
        impl Clocked for $server {
            type Mutex = $mutex;

            fn start() -> Self {
                let server = Self::with_clock();
                $prepare(&server.mutex());
                server
            }

            fn open(url: &str) -> $mutex {
                $mutex::new(url).expect("a url")
            }

            fn clock(&self) -> WallClock {
                $server::clock(self)
            }

            fn pause(&self) {
                $server::pause(self);
            }

            fn resume(&self) {
                $server::resume(self);
            }
        }
    };
}

clocked!(Redis, RedisMutex, |_| {});
clocked!(Mariadb, MysqlMutex, |mutex: &MysqlMutex| mutex.create_table().expect("the table is made"));
clocked!(Postgres, PostgresMutex, |mutex: &PostgresMutex| mutex.create_table().expect("the table is made"));

/// Each of these cases on each server.
macro_rules! on_each {
    ($($case:ident),* $(,)?) => {
        mod on_redis {
            $(#[test] fn $case() { super::$case::<super::Redis>(); })*
        }

        mod on_mariadb {
            $(#[test] fn $case() { super::$case::<super::Mariadb>(); })*
        }

        mod on_postgres {
            $(#[test] fn $case() { super::$case::<super::Postgres>(); })*
        }
    };
}

on_each!(
    what_was_given_back_stays_free_when_the_clock_goes_back,
    what_was_given_back_while_the_clock_was_ahead_stays_free,
    what_was_given_back_without_an_answer_stays_free_when_the_clock_goes_back,
    a_killed_holder_blocks_for_one_term_after_the_clock_went_back_and_is_told_of,
    a_killed_waiter_keeps_its_place_for_one_term_after_the_clock_went_back,
    a_renewed_lease_lasts_when_the_clock_goes_back,
    a_rest_lasts_as_long_as_was_asked_for_when_the_clock_goes_back,
    a_lease_that_was_granted_after_the_clock_went_back_is_a_usual_one,
    a_day_forward_and_back_loses_no_occurrence,
    a_day_forward_ends_leases_and_tells_their_holders,
    a_request_that_is_heard_after_the_clock_went_back_grants_nothing,
);

fn second(number: i64) -> DateTime<Utc> {
    noon() + TimeDelta::seconds(number)
}

/// Returns an occurrence that no other call returns.
fn next_second() -> DateTime<Utc> {
    static NEXT: AtomicI64 = AtomicI64::new(HOUR);
    second(NEXT.fetch_add(1, Ordering::SeqCst))
}

fn name() -> MutexName {
    MutexName::lease("report").expect("a name")
}

/// Acquires a lease as a killed process would: without renewal or release.
#[track_caller]
fn lease(mutex: &impl EventMutex, term: Duration) -> Lease {
    let request = LeaseRequest::new(name(), Term::new(term).expect("a term"), &Clock::system());
    mutex.create(&request).expect("an answer").expect("it is free")
}

/// Returns a schedule with one event that is due every second, under a lease and claims.
fn schedule(mutex: impl EventMutex + 'static, task: impl Fn(&soloist::Run) + Send + Sync + 'static) -> Schedule {
    let schedule = Schedule::new(mutex).with_lease_term(TERM);
    schedule.add(Event::call("report", task).every_second().without_overlapping().on_one_server()).expect("in order");
    schedule
}

#[track_caller]
fn verdict(report: &Report) -> &Verdict {
    let [entry] = report.entries() else { panic!("one event was due:\n{report}") };
    entry.verdict()
}

fn has_run(report: &Report) -> bool {
    matches!(verdict(report), Verdict::Ran(_))
}

/// Ticks again and again, each time another occurrence, until the event runs. Returns the refusals before that.
/// They would last for an hour, or a day, if dates decided.
#[track_caller]
fn refusals_before_it_runs(schedule: &Schedule) -> Vec<Report> {
    refusals_before_it_runs_at(schedule, next_second)
}

#[track_caller]
fn refusals_before_it_runs_at(schedule: &Schedule, time: impl Fn() -> DateTime<Utc>) -> Vec<Report> {
    let mut refusals = Vec::new();
    let began = Instant::now();
    loop {
        let report = schedule.run_due(time());
        if has_run(&report) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "still refused:\n{report}");
        refusals.push(report);
        thread::sleep(Duration::from_millis(50)); // real leases on a real server
    }
    refusals
}

/// Asserts that the report names a holder from the future, and fails the process.
#[track_caller]
fn assert_reported(report: &Report) {
    assert!(matches!(verdict(report), Verdict::Skipped(SkipReason::Overlapping(Some(_)))), "{report}");
    let said = report.to_string();
    assert!(said.contains("in the future") && said.contains("clock was set back"), "{said}");
    assert!(report.is_failure(), "{said}");
}

#[track_caller]
fn warns_of_its_clock(mutex: &impl EventMutex) -> bool {
    let warnings: Vec<String> = mutex.check().expect("an answer").iter().map(StoreWarning::to_string).collect();
    warnings.iter().any(|warning| warning.contains("was set back"))
}

fn what_was_given_back_stays_free_when_the_clock_goes_back<S: Clocked>() {
    let server = S::start();
    let (ours, theirs) = (schedule(server.mutex(), |_| {}), schedule(server.mutex(), |_| {}));
    for ahead in [0, -HOUR, -DAY, -2 * DAY] {
        server.clock().set_ahead(ahead);
        for schedule in [&ours, &theirs, &ours] {
            let report = schedule.run_due(next_second());
            assert!(has_run(&report), "{report}");
        }
    }
    // An owner can release after the clock was set back.
    let lease = lease(&server.mutex(), LONG);
    server.clock().set_ahead(-3 * DAY);
    assert!(server.mutex().forget(&lease).expect("an answer"));
    server.clock().set_ahead(-4 * DAY);
    assert!(!extend(&server.mutex(), lease, Term::MAX).expect("an answer"), "it was given back");
    assert!(!server.mutex().exists(&name()).expect("an answer"));
    assert_eq!(holder(&server.mutex(), &name()), None);
    assert!(has_run(&theirs.run_due(next_second())));
}

/// Releases a lease that has ended by the clock, before the clock is set right again.
fn what_was_given_back_while_the_clock_was_ahead_stays_free<S: Clocked>() {
    let (server, term) = (S::start(), Duration::from_secs(2 * 60 * 60));
    let lease = lease(&server.mutex(), term);
    server.clock().set_ahead(DAY);
    assert!(!server.mutex().forget(&lease).expect("an answer"), "it had ended");
    server.clock().set_ahead(0);
    assert!(!server.mutex().exists(&name()).expect("an answer"));
    assert!(has_run(&schedule(server.mutex(), |_| {}).run_due(next_second())));
}

fn what_was_given_back_without_an_answer_stays_free_when_the_clock_goes_back<S: Clocked>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    let mutex = S::open(&proxy.url());
    // A read without a reply leaves nothing to release.
    proxy.fault_after(Fault::Silence, usize::from(!proxy.url().starts_with("redis")));
    let request = LeaseRequest::new(name(), Term::MAX, &Clock::system());
    assert!(mutex.create(&request).expect_err("nobody answers").is_unavailable());
    proxy.mend();
    // The possible grant is released before another request.
    until(|| mutex.exists(&name()).is_ok_and(|exists| !exists)).expect("it answers again");
    server.clock().set_ahead(-HOUR);
    assert!(!server.mutex().exists(&name()).expect("an answer"));
    assert!(has_run(&schedule(server.mutex(), |_| {}).run_due(next_second())));
}

fn a_killed_holder_blocks_for_one_term_after_the_clock_went_back_and_is_told_of<S: Clocked>() {
    let server = S::start();
    assert!(!warns_of_its_clock(&server.mutex()));
    let killed = lease(&server.mutex(), TERM);
    server.clock().set_ahead(-HOUR);
    assert!(warns_of_its_clock(&server.mutex()));

    let schedule = schedule(server.mutex(), |_| {});
    let before = Instant::now();
    let refusals = refusals_before_it_runs(&schedule);
    assert!(before.elapsed() + A_MOMENT >= TERM, "its term counts from the first gate");
    assert!(!refusals.is_empty());
    refusals.iter().for_each(assert_reported);
    assert!(!server.mutex().forget(&killed).expect("an answer"), "it has ended");
}

fn a_killed_waiter_keeps_its_place_for_one_term_after_the_clock_went_back<S: Clocked>() {
    let (server, its_own) = (S::start(), next_second());
    for marker in ["queue 1".to_owned(), format!("waits {}", its_own.format("%FT%TZ"))] {
        let marker = name().mark("report", marker);
        let request = LeaseRequest::new(marker, Term::new(TERM).expect("a term"), &Clock::system());
        server.mutex().create(&request).expect("an answer").expect("it is free");
    }
    server.clock().set_ahead(-HOUR);

    let schedule = Schedule::new(server.mutex());
    let event = Event::call("report", |_| {}).every_second().without_overlapping().on_one_server();
    schedule.add(event.on_overlap(Overlap::QueueOne)).expect("in order");
    // Each of its markers ends a term after the first request for it.
    let refusals = refusals_before_it_runs_at(&schedule, || its_own);
    let is_queued = |report: &&Report| matches!(verdict(report), Verdict::Skipped(SkipReason::Queued(Some(_))));
    let is_full = |report: &Report| matches!(verdict(report), Verdict::Skipped(SkipReason::QueueFull(None)));
    let queued = refusals.iter().take_while(is_queued).count();
    assert!(queued > 0, "{refusals:?}");
    assert!(refusals[queued..].iter().all(is_full), "{refusals:?}");
}

fn a_renewed_lease_lasts_when_the_clock_goes_back<S: Clocked>() {
    let server = S::start();
    // Two thirds of it are longer than any thread stalls.
    let term = Term::new(Duration::from_secs(6)).expect("a term");
    let guard = LeaseGuard::acquire(&server.mutex(), name(), term).expect("an answer").expect("it is free");
    server.clock().set_ahead(-HOUR);
    let (schedule, began) = (schedule(server.mutex(), |_| {}), Instant::now());
    while began.elapsed() < term.get() + TERM {
        assert_reported(&schedule.run_due(next_second()));
        thread::sleep(Duration::from_millis(50)); // real leases on a real server
    }
    assert!(!guard.is_lost());
    assert!(guard.release().expect("an answer"));
    assert!(has_run(&schedule.run_due(next_second())));
}

/// Lets the lease end one `term` from now.
fn extend(mutex: &impl EventMutex, lease: Lease, term: Term) -> Result<bool, MutexError> {
    let mut slots = [Slot::new(lease)];
    mutex.extend(&mut slots, term);
    slots[0].answer().expect("each slot is filled").clone()
}

/// Releases the lease with this minimum hold.
#[track_caller]
fn release_after(mutex: &impl EventMutex, lease: Lease, rest: Duration) {
    let mut batch = Batch::new();
    batch.release_after(lease, Term::new(rest).expect("a term"));
    mutex.carry_out(&mut batch);
    assert!(matches!(batch.releases()[0].answer(), Some(Ok(true))), "{batch:?}");
}

fn a_rest_lasts_as_long_as_was_asked_for_when_the_clock_goes_back<S: Clocked>() {
    let server = S::start();
    let (mutex, schedule) = (server.mutex(), schedule(server.mutex(), |_| {}));
    for ahead in [0, -HOUR] {
        let lease = lease(&mutex, LONG);
        let (before, rest) = (Instant::now(), Duration::from_secs(3));
        release_after(&mutex, lease, rest);
        server.clock().set_ahead(ahead);
        let refusals = refusals_before_it_runs(&schedule);
        assert!(before.elapsed() + A_MOMENT >= rest, "it was shortened: {:?}", before.elapsed());
        assert!(refusals.iter().all(|report| report.is_failure() == (ahead < 0)));
        let _ = mutex.break_lease(&name());
    }
}

fn a_lease_that_was_granted_after_the_clock_went_back_is_a_usual_one<S: Clocked>() {
    let server = S::start();
    // A handle that has read the clock before.
    let mutex = server.mutex();
    assert!(mutex.forget(&lease(&mutex, LONG)).expect("an answer"));
    server.clock().set_ahead(-HOUR);
    let _held = lease(&mutex, LONG);
    let report = schedule(server.mutex(), |_| {}).run_due(noon());
    assert!(matches!(verdict(&report), Verdict::Skipped(SkipReason::Overlapping(Some(_)))), "{report}");
    assert!(!report.is_failure(), "{report}");
}

fn a_day_forward_and_back_loses_no_occurrence<S: Clocked>() {
    const TICKS: i64 = 60;
    let server = S::start();
    let (barrier, runs) = (Barrier::new(3), Arc::new(Mutex::new(BTreeMap::<DateTime<Utc>, Vec<u64>>::new())));
    thread::scope(|scope| {
        for worker in 0..3 {
            let (server, barrier, runs) = (&server, &barrier, Arc::clone(&runs));
            scope.spawn(move || {
                let task = move |run: &soloist::Run| {
                    let token = run.fencing_token().expect("a lease").get();
                    runs.lock().expect("no panic").entry(run.occurrence()).or_default().push(token);
                    thread::sleep(Duration::from_millis(5)); // the task's work
                };
                let schedule = schedule(server.mutex(), task);
                for number in 0..TICKS {
                    barrier.wait();
                    match number {
                        _ if worker != 0 => {}
                        20 => server.clock().set_ahead(DAY),
                        40 => server.clock().set_ahead(0),
                        50 => server.clock().set_ahead(-HOUR),
                        _ => {}
                    }
                    let report = schedule.run_due(second(number));
                    let unavailable = |entry: &soloist::Entry| {
                        matches!(entry.verdict(), Verdict::Skipped(SkipReason::StoreUnavailable(_)))
                    };
                    assert!(!report.entries().iter().any(unavailable), "{report}");
                }
            });
        }
    });
    let runs = runs.lock().expect("no panic");
    let lost: Vec<i64> = (0..TICKS).filter(|number| !runs.contains_key(&second(*number))).collect();
    assert_eq!(lost, [0; 0], "lost occurrences");
    let again: Vec<&Vec<u64>> = runs.values().filter(|tokens| tokens.len() > 1).collect();
    println!("{} of {TICKS} occurrences ran twice", again.len());
    // Claims that end by the jump forward; the second run has the higher token.
    assert!(again.len() <= 1, "{again:?}");
    let mut tokens: Vec<u64> = runs.values().flatten().copied().collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), runs.values().map(Vec::len).sum::<usize>(), "each run has a token of its own");
}

fn a_day_forward_ends_leases_and_tells_their_holders<S: Clocked>() {
    let server = S::start();
    let (clock, seen) = (server.clock(), Arc::new(Mutex::new(None)));
    let task = {
        let seen = Arc::clone(&seen);
        move |run: &soloist::Run| {
            clock.set_ahead(DAY);
            until(|| run.is_cancelled()).expect("it is told");
            *seen.lock().expect("no panic") = run.cancel_reason();
        }
    };
    let report = schedule(server.mutex(), task).run_due(noon());
    assert!(report.is_failure(), "{report}");
    assert!(matches!(*seen.lock().expect("no panic"), Some(CancelReason::LeaseLost)), "{seen:?}");

    // A process that is killed during that day does not block it.
    lease(&server.mutex(), TERM);
    server.clock().set_ahead(0);
    assert!(warns_of_its_clock(&server.mutex()));
    let refusals = refusals_before_it_runs(&schedule(server.mutex(), |_| {}));
    assert!(!refusals.is_empty());
    refusals.iter().for_each(assert_reported);
}

fn a_request_that_is_heard_after_the_clock_went_back_grants_nothing<S: Clocked>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    let mutex = S::open(&proxy.url());
    // An idle connection, and no clean-up in between.
    let is_redis = proxy.url().starts_with("redis");
    let first = lease(&mutex, LONG);
    proxy.wait_for_replies(if is_redis { 1 } else { 3 });
    assert!(mutex.forget(&first).expect("an answer"));

    proxy.fault_after(Fault::RequestHeld, usize::from(!is_redis));
    thread::scope(|scope| {
        let call = scope.spawn(move || mutex.create(&LeaseRequest::new(name(), Term::MAX, &Clock::system())));
        proxy.wait_until_met();
        server.pause();
        proxy.mend(); // The stopped server has the request, and cannot act on it.
        let error = call.join().expect("no panic").unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    });
    server.clock().set_ahead(-HOUR);
    server.resume();
    let other = server.mutex();
    for _ in 0..20 {
        assert!(!other.exists(&name()).expect("an answer"), "nobody waits for it any more");
        thread::sleep(Duration::from_millis(25)); // a server acts on a request within moments
    }
}

/// Shortens a lease after an extension was sent. The extension arrives too late, or by a clock that was set back,
/// and changes nothing.
#[test]
fn an_extension_that_redis_hears_after_its_clock_went_back_does_nothing() {
    let server = <Redis as Clocked>::start();
    let proxy = Proxy::of(&server);
    let (mutex, rest) = (<Redis as Clocked>::open(&proxy.url()), Duration::from_secs(20));
    let lease = lease(&mutex, Duration::from_secs(30));
    proxy.fault(Fault::RequestHeld);
    thread::scope(|scope| {
        let (lease, extended) = (&lease, lease.clone());
        let call = scope.spawn(move || extend(&mutex, extended, Term::MAX));
        proxy.wait_until_met();
        release_after(&server.mutex(), lease.clone(), rest);
        server.pause();
        proxy.mend(); // The stopped server has the request, and cannot act on it.
        assert!(call.join().expect("no panic").is_err());
    });
    server.clock().set_ahead(-HOUR);
    server.resume();
    // The end of the lease stays where it was, an hour later by a clock that is an hour behind.
    let end = Utc::now() + rest;
    for _ in 0..20 {
        let holder = holder(&server.mutex(), &name()).expect("it is held");
        assert!(holder.until() <= end, "{holder:?}");
        thread::sleep(Duration::from_millis(25)); // a server acts on a request within moments
    }
}
