//! Many lose a race at one moment: each learns the winner, and the server's log shows no error.

use std::slice;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use chrono::TimeDelta;
use soloist::store::{Admission, Admitted, LeaseRequest};
use soloist::{EventMutex, FencingToken, MutexName, Term};

use super::batches::{admit, extend};
use super::trouble::{Trouble, request, wait_until};
use super::{COLUMNS, GRANTED, on_both};
use crate::servers::proxy::{Fault, Proxy};
use crate::support::noon;

const THREADS: usize = 6;
const OCCURRENCES: i64 = 40;

on_both!(
    a_gate_that_is_lost_in_a_race_is_no_error_in_the_log_of_the_server,
    a_batch_of_any_size_that_is_lost_in_a_race_is_no_error_in_the_log_of_the_server,
    who_is_beaten_halfway_by_one_that_does_not_queue_keeps_nothing,
    who_is_beaten_and_falls_silent_soon_keeps_nobody_from_renewing,
    a_hundred_threads_on_the_claims_of_one_event_hear_of_one_another_and_of_no_lock,
);

/// Returns one of several admissions. Some share the occurrence, others share only the lease.
fn asked(number: i64, thread: usize) -> Admission {
    let lease = request("report").with(MutexName::lease(format!("report:{}", number % 3)).expect("a name"), Term::MAX);
    let event = if number % 2 == 0 { format!("report:{thread}") } else { "report".to_owned() };
    let claim = lease.name().claim(event, noon() + TimeDelta::minutes(number));
    let claim = lease.with(claim, Term::MAX);
    let asked = if number % 5 == 0 { Admission::claim_only(claim) } else { Admission::both(lease, claim) };
    asked.unless(MutexName::lease("shop").expect("a name").mark("shop", "paused"))
}

fn a_gate_that_is_lost_in_a_race_is_no_error_in_the_log_of_the_server<S: Trouble>() {
    let server = S::start();
    let before = server.errors();
    let mutexes: Vec<_> = (0..THREADS).map(|_| server.mutex()).collect();
    let all_are_there = Barrier::new(THREADS);
    let race = |thread: usize, mutex: &S::Mutex| {
        let mut won = Vec::new();
        for number in 0..OCCURRENCES {
            all_are_there.wait();
            let asked = asked(number, thread);
            let answer = asked.ask(&mutex);
            all_are_there.wait(); // no lease is released while others request it
            if let Admitted::Granted(grant) = answer.unwrap_or_else(|error| panic!("{error:?}")) {
                won.push(number);
                assert!(grant.lease().is_none_or(|lease| mutex.forget(lease).expect("it is ours")));
            }
        }
        won
    };
    let mut won: Vec<i64> = thread::scope(|scope| {
        let race = &race;
        let threads: Vec<_> =
            mutexes.iter().enumerate().map(|(at, mutex)| scope.spawn(move || race(at, mutex))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no error")).collect()
    });
    won.sort_unstable();
    // A claim of one's own, without a lease, is everybody's to win.
    let winners = |number: i64| if number % 10 == 0 { THREADS } else { 1 };
    let expected: Vec<i64> = (0..OCCURRENCES).flat_map(|number| vec![number; winners(number)]).collect();
    assert_eq!(won, expected, "one winner each");
    let errors: Vec<String> = server.errors().split_off(before.len());
    assert!(errors.is_empty(), "{} errors in the log: {:#?}", errors.len(), &errors[..errors.len().min(3)]);
}

/// Asks for batches that overlap. Of 50 names and of less, each has a place in the queue of PostgreSQL; of more, one place is for
/// all.
fn a_batch_of_any_size_that_is_lost_in_a_race_is_no_error_in_the_log_of_the_server<S: Trouble>() {
    let server = S::start();
    let before = server.errors();
    // So long that no batch gives up its wait where the disk stands still for some seconds.
    let mutexes: Vec<_> = (0..THREADS).map(|_| S::open(&server.url(), Duration::from_secs(60))).collect();
    let all_are_there = Barrier::new(THREADS);
    for (round, events) in [24, 25, 26].repeat(4).into_iter().enumerate() {
        let race = |thread: usize, mutex: &S::Mutex| {
            let asked = (thread..thread + events).map(|number| {
                let lease = request(&format!("report:{number}:{round}"));
                let claim = lease.with(lease.name().claim("report", noon()), Term::MAX);
                Admission::both(lease, claim)
            });
            let asked: Vec<Admission> = asked.collect();
            all_are_there.wait();
            let granted = |answer: &Admitted| matches!(answer, Admitted::Granted(_));
            admit(mutex, &asked).into_iter().map(|answer| answer.expect("no error")).filter(granted).count()
        };
        let granted: usize = thread::scope(|scope| {
            let race = &race;
            let threads: Vec<_> =
                mutexes.iter().enumerate().map(|(at, mutex)| scope.spawn(move || race(at, mutex))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no error")).sum()
        });
        assert_eq!(granted, events + THREADS - 1, "one winner each");
    }
    let errors: Vec<String> = server.errors().split_off(before.len());
    assert!(errors.is_empty(), "{} errors in the log: {:#?}", errors.len(), &errors[..errors.len().min(3)]);
}

/// Returns the statement that grants this lease for an hour, without a look at the row.
fn winner<S: Trouble>(lease: &LeaseRequest) -> String {
    let (owner, now) = (lease.owner(), S::NOW);
    let later = if now.starts_with("UTC") { "INTERVAL 1 HOUR" } else { "INTERVAL '1 hour'" };
    let values = format!("{GRANTED}, 'lease/report', '{owner}', 1, 'x', 1, {now}, {now} + {later}");
    format!("INSERT INTO soloist_mutexes ({COLUMNS}) VALUES ({values})")
}

/// Lets another client, which does not queue, have the lease when the claim of the admission is written already.
fn who_is_beaten_halfway_by_one_that_does_not_queue_keeps_nothing<S: Trouble>() {
    let server = S::start();
    let (lease, mutex) = (request("report"), server.mutex());
    let claim = lease.with(lease.name().claim("report", noon()), Term::MAX);
    let winner_of_it = request("report");
    let mut other = server.holding(&[S::BEGIN, &winner::<S>(&winner_of_it)]);
    let answer = thread::scope(|scope| {
        let ours = scope.spawn(|| Admission::both(lease, claim).ask(&mutex));
        wait_until("it waits for the lease", || !server.ask(S::WAITING).is_empty());
        S::execute(&mut other, "COMMIT");
        ours.join().expect("it does not panic")
    });
    let Ok(Admitted::LeaseTaken(Some(holder))) = answer else { panic!("not beaten: {answer:?}") };
    assert_eq!(holder.owner(), winner_of_it.owner());
    assert_eq!(server.held(), ["lease/report"], "the claim is nobody's");
}

/// Lets the server get nothing more from a client that was beaten, before this client can roll back.
fn who_is_beaten_and_falls_silent_soon_keeps_nobody_from_renewing<S: Trouble>() {
    let (server, lease, later) = (S::start(), request("report"), request("report"));
    let proxy = Proxy::of(&server);
    let mutex = S::open(&proxy.url(), Duration::from_secs(60));
    let claim = lease.with(lease.name().claim("report", noon()), Term::MAX);
    let held = winner::<S>(&later);
    let mut other = server.holding(&[S::BEGIN, &held]);
    thread::scope(|scope| {
        let ours = scope.spawn(|| Admission::both(lease, claim).ask(&mutex));
        wait_until("it waits for the lease", || !server.ask(S::WAITING).is_empty());
        proxy.fault(Fault::Silence);
        S::execute(&mut other, "COMMIT");
        let winner = later.granted(FencingToken::new(1));
        let others = server.mutex();
        let renew = || extend(&others, slice::from_ref(&winner), Term::MAX);
        wait_until("the winner has renewed its lease", || matches!(renew()[..], [Ok(true)]));
        assert!(!ours.is_finished(), "it has not given up yet");
        proxy.mend();
        proxy.cut();
        let answer = ours.join().expect("it does not panic");
        assert!(!matches!(answer, Ok(Admitted::Granted(_))), "{answer:?}");
    });
}

fn a_hundred_threads_on_the_claims_of_one_event_hear_of_one_another_and_of_no_lock<S: Trouble>() {
    const HUNDRED: usize = 100;
    let (server, occurrences) = (S::start(), 15);
    // The first hundred logins alone take a busy machine seconds.
    let mutex = S::open(&server.url(), Duration::from_secs(60));
    let all_are_there = Barrier::new(HUNDRED);
    let run_each = || {
        all_are_there.wait();
        let mut won = 0;
        for number in 0..occurrences {
            let lease = request("report");
            let claim = lease.with(lease.name().claim("report", noon() + TimeDelta::minutes(number)), Term::MAX);
            let paused = MutexName::lease("shop").expect("a name").mark("shop", "paused");
            let answer = Admission::both(lease, claim).unless(paused).ask(&mutex);
            if let Admitted::Granted(grant) = answer.map_err(|error| format!("{error:?}"))? {
                won += 1;
                let lease = grant.lease().expect("it was asked for");
                assert!(mutex.forget(lease).map_err(|error| format!("{error:?}"))?, "it is ours");
            }
        }
        Ok(won)
    };
    let answers: Vec<Result<i64, String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..HUNDRED).map(|_| scope.spawn(run_each)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let errors: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(errors.is_empty(), "{} of {HUNDRED} threads had an error: {}", errors.len(), errors[0]);
    let won: i64 = answers.iter().flatten().sum();
    // Where all met the lease of the occurrence before, that was the policy.
    assert!(0 < won && won <= occurrences, "{won} of {occurrences} were run");
}
