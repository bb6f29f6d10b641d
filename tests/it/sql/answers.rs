//! Replies that are lost on their way, and requests that the server carries out after the caller has given up.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use soloist::store::{Admission, Admitted, Batch};
use soloist::time::Clock;
use soloist::{EventMutex, FencingToken, Schedule, Term};

use super::batches::extend;
use super::trouble::{IN_TIME, Trouble, assert_out, assert_ran, claim, minute, report, request, schedule, wait_until};
use super::{COLUMNS, GRANTED, LONG, on_both};
use crate::servers::proxy::{Fault, Proxy};
use crate::support::{Diary, noon, ran, skipped};

on_both!(
    an_answer_that_is_lost_once_is_asked_for_again_and_the_event_runs_once,
    what_was_granted_without_an_answer_is_given_back_and_admits_nobody_meanwhile,
    a_claim_whose_lease_went_before_it_was_asked_for_again_is_given_back,
    what_was_granted_without_an_answer_is_ours_with_its_token,
    a_release_without_an_answer_is_made_up_for,
    a_lease_that_was_lost_is_told_of_though_its_release_is_asked_for_twice,
    the_last_handle_gives_back_what_it_may_hold,
    the_last_handle_ends_no_minimum_hold_early,
    a_pause_without_an_answer_stays_because_another_process_may_have_prolonged_it,
    an_admission_that_a_stopped_server_finds_late_grants_nothing_though_nobody_is_left,
    an_admission_that_gets_its_lock_late_grants_nothing,
    a_commit_that_takes_longer_than_the_call_is_given_back,
    an_owner_that_has_released_is_granted_nothing_more,
    a_copy_that_comes_late_leaves_the_row_of_its_owner,
    a_renewal_that_gets_its_lock_late_prolongs_nothing
);

/// The requests of a call on an idle connection.
const LOOK: usize = 0;
const WRITE: usize = 1;

fn an_answer_that_is_lost_once_is_asked_for_again_and_the_event_runs_once<S: Trouble>() {
    let server = S::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    let mut claims = Vec::new();
    for at in [LOOK, WRITE] {
        for fault in
            [Fault::ReplyCut, Fault::ReplyCutInHalf, Fault::ReplyLost, Fault::HalfAReply, Fault::Cut, Fault::Silence]
        {
            let number = i64::try_from(claims.len()).unwrap();
            // A new connection has one attempt. Half of the time is for the second attempt, which logs in to a
            // server beside many others.
            let schedule = schedule(S::open_at_rest(&proxy, 3 * LONG), &diary);
            proxy.fault_once_after(fault, at);
            assert_ran(&schedule.run_due(minute(number)));
            claims.push(claim(number));
            assert_eq!(diary.lines().len(), claims.len(), "{fault:?} at {at}");
        }
    }
    claims.sort();
    assert_eq!(server.held(), claims);
}

fn what_was_granted_without_an_answer_is_ours_with_its_token<S: Trouble>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    // Half of the time is for the second attempt, which logs in.
    let mutex = S::open_at_rest(&proxy, 3 * LONG);
    for fault in [Fault::ReplyLost, Fault::ReplyCut] {
        proxy.fault_once_after(fault, WRITE);
        let lease = mutex.create(&request("report")).unwrap().expect("it was granted before");
        let token = server.count("SELECT token FROM soloist_mutexes WHERE name = 'lease/report'");
        assert_eq!(lease.token(), FencingToken::new(token));
        proxy.fault_once(fault);
        assert!(mutex.forget(&lease).unwrap(), "{fault:?}: it was ours until its release, whose answer was lost");
    }
}

/// Repeats a release. The fleet under fire found this on PostgreSQL with the seeds 18 and 43: a server that had
/// lost its data got a release on a dead connection, and then on another; it had not received the first.
fn a_lease_that_was_lost_is_told_of_though_its_release_is_asked_for_twice<S: Trouble>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    let theirs = server.mutex();
    let forgotten = |name: &str| _ = server.ask(&format!("DELETE FROM soloist_mutexes WHERE name = 'lease/{name}'"));
    let broken = |name: &str| assert!(theirs.break_lease(request(name).name()).unwrap().is_some());
    let losses: [&dyn Fn(&str); 2] = [&forgotten, &broken];
    let mut lost = Vec::new();
    for (number, lose) in losses.iter().enumerate() {
        for taken_by_another in [false, true] {
            let name = format!("loss:{number}:{taken_by_another}");
            let ours = S::open_at_rest(&proxy, 3 * LONG);
            let lease = ours.create(&request(&name)).unwrap().expect("nobody holds it");
            lose(&name);
            let other = taken_by_another.then(|| theirs.create(&request(&name)).unwrap().expect("nobody holds it"));
            lost.push((ours, lease, other));
        }
    }
    thread::sleep(Duration::from_secs(2)); // longer than a reply is under way
    for (ours, lease, other) in lost {
        proxy.fault_once(Fault::Cut);
        assert!(!ours.forget(&lease).unwrap(), "{}", lease.name());
        if let Some(other) = other {
            assert!(theirs.forget(&other).unwrap(), "it was left alone");
        }
    }
}

fn what_was_granted_without_an_answer_is_given_back_and_admits_nobody_meanwhile<S: Trouble>() {
    for (fault, why) in
        [(Fault::ReplyLost, "no answer within 4s"), (Fault::ReplyCut, "the server closed the connection")]
    {
        let server = S::start();
        let (proxy, diary) = (Proxy::of(&server), Diary::default());
        let mutex = S::open(&proxy.url(), LONG);
        let ours = schedule(mutex.clone(), &diary);
        proxy.fault_once_after_then(fault, WRITE, Fault::Cut);
        let said = assert_out(&ours, noon(), &diary);
        assert!(said.contains(why), "{said}");
        assert_eq!(server.held(), [&claim(0), "lease/report"], "the server has granted what nobody knows of");
        let theirs = schedule(server.mutex(), &diary);
        assert_eq!(skipped(&theirs.run_due(noon()), "report").keyword(), "ran_elsewhere");
        proxy.mend();
        assert!(!mutex.exists(request("report").name()).unwrap(), "it is released before the name is read");
        assert!(server.held().is_empty());
        assert_ran(&theirs.run_due(noon()));
        assert_eq!(skipped(&ours.run_due(noon()), "report").keyword(), "ran_elsewhere");
        assert_eq!(diary.lines().len(), 1);
    }
}

fn a_claim_whose_lease_went_before_it_was_asked_for_again_is_given_back<S: Trouble>() {
    let server = S::start();
    let (proxy, diary) = (Proxy::of(&server), Diary::default());
    // The store asks again after half of that.
    let mutex = S::open_at_rest(&proxy, 6 * LONG);
    let ours = schedule(mutex.clone(), &diary);
    let (theirs, name) = (server.mutex(), request("report").name().clone());
    proxy.fault_once_after(Fault::ReplyLost, WRITE);
    let held = thread::scope(|scope| {
        let tick = scope.spawn(|| ours.run_due(noon()));
        wait_until("the server has granted it", || server.held().contains(&"lease/report".to_owned()));
        assert!(theirs.break_lease(&name).unwrap().is_some());
        let held = theirs.create(&request("report")).unwrap().expect("nobody holds it");
        assert_eq!(skipped(&tick.join().unwrap(), "report").keyword(), "overlapping");
        held
    });
    assert!(mutex.exists(&name).unwrap(), "the lease is another's");
    assert_eq!(server.held(), ["lease/report"], "the claim goes with a later call");
    assert!(theirs.forget(&held).unwrap(), "it was left alone");
    assert_ran(&schedule(theirs, &diary).run_due(noon()));
    assert_eq!(diary.lines().len(), 1);
}

fn a_release_without_an_answer_is_made_up_for<S: Trouble>() {
    let server = S::start();
    let (proxy, diary) = (Arc::new(Proxy::of(&server)), Diary::default());
    for (number, fault) in [(0, Fault::Silence), (1, Fault::ReplyLost)] {
        let mutex = S::open(&proxy.url(), LONG);
        let schedule = Schedule::new(mutex.clone());
        // The hook comes before the release.
        let proxy = Arc::clone(&proxy);
        let break_it = {
            let proxy = Arc::clone(&proxy);
            move |_: &soloist::Run, _: &soloist::RunOutcome| proxy.fault(fault)
        };
        schedule.add(report(&diary).then(break_it)).unwrap();
        let began = Instant::now();
        let report = schedule.run_due(minute(number));
        assert!(began.elapsed() < IN_TIME);
        let outcome = ran(&report, "report").to_string();
        assert!(outcome.contains("the lease was not released"), "{outcome}");
        proxy.mend();
        assert!(!mutex.exists(request("report").name()).unwrap(), "it is released before the name is read");
    }
    assert_eq!(server.held(), [claim(0), claim(1)]);
}

fn the_last_handle_gives_back_what_it_may_hold<S: Trouble>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    let mutex = S::open(&proxy.url(), LONG);
    proxy.fault_once_after_then(Fault::ReplyCut, WRITE, Fault::Cut);
    mutex.create(&request("report")).expect_err("the answer is lost");
    assert_eq!(server.held(), ["lease/report"], "the server has granted what nobody knows of");
    proxy.mend();
    drop(mutex);
    assert!(server.held().is_empty());
}

fn the_last_handle_ends_no_minimum_hold_early<S: Trouble>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    let mutex = S::open(&proxy.url(), LONG);
    let mut batch = Batch::new();
    batch.release_after(mutex.create(&request("report")).unwrap().expect("it is free"), Term::DEFAULT);
    proxy.fault_once_after_then(Fault::ReplyCut, LOOK, Fault::Cut);
    mutex.carry_out(&mut batch);
    assert!(matches!(batch.releases()[0].answer(), Some(Err(_))), "the answer is lost");
    proxy.mend();
    drop(mutex);
    assert_eq!(server.held(), ["lease/report"]);
}

fn a_pause_without_an_answer_stays_because_another_process_may_have_prolonged_it<S: Trouble>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    let until = Clock::system().now() + TimeDelta::hours(1);
    let first = Schedule::new(S::open(&proxy.url(), LONG)).named("shop").unwrap();
    let second = Schedule::new(server.mutex()).named("shop").unwrap();
    proxy.fault_once_after_then(Fault::ReplyCut, WRITE, Fault::Cut);
    first.pause(until, "").expect_err("the answer is lost");
    proxy.mend();
    second.pause(until, "").unwrap();
    assert!(first.paused().unwrap().is_some(), "nothing is released before the read");
    drop(first);
    assert!(second.paused().unwrap().is_some(), "nothing is released at the end");
}

fn an_admission_that_a_stopped_server_finds_late_grants_nothing_though_nobody_is_left<S: Trouble>() {
    let server = S::start();
    let proxy = Proxy::of(&server);
    let mutex = S::open(&proxy.url(), LONG);
    mutex.exists(request("report").name()).unwrap();
    proxy.fault_after(Fault::RequestHeld, WRITE);
    thread::scope(|scope| {
        let call = scope.spawn(|| mutex.create(&request("report")).expect_err("nothing is answered"));
        proxy.wait_until_met();
        server.pause();
        proxy.mend(); // The stopped server has the request, and cannot act on it.
        call.join().unwrap();
    });
    drop(mutex);
    server.resume();
    wait_until("all is done", || server.ask(S::CONNECTED).is_empty());
    assert!(server.held().is_empty(), "nobody waits for the admission any more");
    assert!(server.mutex().create(&request("report")).unwrap().is_some());
}

fn an_admission_that_gets_its_lock_late_grants_nothing<S: Trouble>() {
    let server = S::start();
    let mutex = S::open(&server.url(), Duration::from_millis(200));
    let now = S::NOW;
    let insert = format!(
        "INSERT INTO soloist_mutexes ({COLUMNS}) VALUES ({GRANTED}, 'lease/report', 'x', 1, 'x', 1, {now}, {now})"
    );
    let lock = server.holding(&[S::BEGIN, &insert]);
    mutex.create(&request("report")).expect_err("its row is locked");
    std::mem::forget(mutex); // Like the end of the process: no lease is released.
    drop(lock);
    wait_until("nobody waits", || server.ask(S::WAITING).is_empty());
    assert!(server.held().is_empty());
    assert!(server.mutex().create(&request("report")).unwrap().is_some());
}

fn a_commit_that_takes_longer_than_the_call_is_given_back<S: Trouble>() {
    let server = S::start();
    let mutex = S::open(&server.url(), Duration::from_secs(1));
    let commits = server.block_commits();
    let mut known = Vec::new();
    let failed = (0..1000).map(|number| format!("{number}")).find(|name| {
        let answer = mutex.create(&request(name));
        // Else it was a moment too early.
        known.extend(answer.iter().flatten().map(|_| format!("lease/{name}")));
        answer.is_err()
    });
    // Longer than lost requests are repeated.
    thread::sleep(Duration::from_secs(3));
    server.let_commit(commits);
    known.sort();
    let failed = format!("lease/{}", failed.expect("one of them"));
    wait_until("the server has carried it out", || server.ask(S::WAITING).is_empty());
    wait_until("what is not known to be ours was given back", || {
        // A busy machine may take longer than this handle waits.
        mutex.exists(request("later").name()).is_ok() && server.held() == known
    });
    // The name stays free.
    assert!(server.mutex().create(&request(&failed["lease/".len()..])).unwrap().is_some());
}

/// Asks by an owner that the store knows.
fn an_owner_that_has_released_is_granted_nothing_more<S: Trouble>() {
    let server = S::start();
    let (ours, theirs, lease) = (server.mutex(), server.mutex(), request("report"));
    let claim = lease.with(lease.name().claim("report", noon()), Term::MAX);
    for admission in [Admission::lease_only(request("report")), Admission::both(lease, claim)] {
        let Ok(Admitted::Granted(grant)) = admission.ask(&ours) else { panic!("it is free") };
        assert!(ours.forget(grant.lease().expect("a lease")).unwrap(), "its run is over");
        let copy = admission.ask(&theirs);
        assert!(matches!(copy, Ok(Admitted::LeaseTaken(Some(_)) | Admitted::ClaimTaken(Some(_)))), "{copy:?}");
        assert!(!theirs.exists(request("report").name()).unwrap(), "nobody would give it back");
    }
}

/// Delays a write after its read: it arrives when the first one was granted and its run is over, or has a minimum
/// hold.
fn a_copy_that_comes_late_leaves_the_row_of_its_owner<S: Trouble>() {
    let server = S::start();
    let mutex = S::open(&server.url(), Duration::from_secs(40));
    for (name, released, is_held) in [("released", "TRUE", false), ("rests", "FALSE", true)] {
        let request = request(name);
        let insert = format!(
            "INSERT INTO soloist_mutexes ({COLUMNS}) VALUES \
             ({released}, 60000000, 'lease/{name}', '{}', 1, 'first', 1, {now}, {now} + INTERVAL '60' SECOND)",
            request.owner(),
            now = S::NOW,
        );
        let mut first = server.holding(&[S::BEGIN, &insert]);
        let copy = thread::scope(|scope| {
            let copy = scope.spawn(|| mutex.create(&request));
            wait_until("it waits to write", || !server.ask(S::WAITING).is_empty());
            S::execute(&mut first, "COMMIT");
            copy.join().unwrap().unwrap()
        });
        assert_eq!(copy.map(|lease| lease.token().get()), is_held.then_some(1));
        let row = format!(
            "SELECT COUNT(*) FROM soloist_mutexes WHERE name = 'lease/{name}' AND token = 1 AND host = 'first' \
             AND expires_at < {} + INTERVAL '60' SECOND",
            S::NOW
        );
        assert_eq!(server.count(&row), 1, "it is as it was");
    }
}

/// Tests a server that carries out an abandoned request when the lock is free.
fn a_renewal_that_gets_its_lock_late_prolongs_nothing<S: Trouble>() {
    let server = S::start();
    let lease = server.mutex().create(&request("report")).unwrap().expect("it is free");
    let hasty = S::open(&server.url(), Duration::from_millis(300));
    let mut lock = server.holding(&[S::BEGIN, "UPDATE soloist_mutexes SET pid = 0 WHERE name = 'lease/report'"]);
    extend(&hasty, &[lease], Term::MAX).remove(0).expect_err("its row is locked");
    let in_an_hour = format!("{} + INTERVAL '1' HOUR", S::NOW);
    S::execute(&mut lock, &format!("UPDATE soloist_mutexes SET expires_at = {in_an_hour} WHERE name = 'lease/report'"));
    S::execute(&mut lock, "COMMIT");
    wait_until("nobody waits", || server.ask(S::WAITING).is_empty());
    let shortened = format!("SELECT COUNT(*) FROM soloist_mutexes WHERE token > 0 AND expires_at <= {in_an_hour}");
    assert_eq!(server.count(&shortened), 1);
}
