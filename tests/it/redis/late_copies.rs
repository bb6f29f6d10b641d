//! An admission that is requested again on another connection, because the first one broke: the server may act on
//! the first copy after the run.

use std::thread;
use std::time::Duration;

use soloist::store::{Admission, Admitted, Batch, Grant, LeaseRequest};
use soloist::time::Clock;
use soloist::{EventMutex, MutexName, RedisMutex, Term};

use super::{claim, contract, entries, minute, patient};
use crate::servers::proxy::{Fault, Proxy};
use crate::servers::redis::Redis;

/// Returns an admission of a lease and a claim on the `number`th minute.
fn admission(name: &MutexName, number: i64) -> Admission {
    let lease = LeaseRequest::new(name.clone(), Term::DEFAULT, &Clock::system());
    let claim = lease.with(name.claim(name.mutex(), minute(number)), Term::DEFAULT);
    Admission::both(lease, claim)
}

#[test]
fn a_late_copy_that_meets_the_next_run_leaves_the_claim_of_its_own() {
    let mutex = patient(&Redis::shared().url());
    let name = MutexName::lease("a late copy").expect("a name");
    let first = admission(&name, 0);
    let Admitted::Granted(grant) = first.ask(&mutex).expect("an answer") else { panic!("it is free") };
    assert!(mutex.forget(grant.lease().expect("a lease")).expect("an answer"), "the run is over");
    assert!(matches!(admission(&name, 1).ask(&mutex), Ok(Admitted::Granted(_))), "the next one runs");

    assert!(matches!(first.ask(&mutex), Ok(Admitted::LeaseTaken(_))), "the copy");

    let claim = grant.claim().expect("a claim");
    assert!(mutex.exists(claim.name()).expect("an answer"), "whoever is late must not run it again");
}

#[test]
fn a_claim_whose_lease_went_before_it_was_asked_for_again_is_given_back() {
    let server = Redis::start();
    let proxy = Proxy::of(&server);
    // The store asks again after half of that.
    let ours = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(24)).build().expect("a url");
    let theirs = patient(&server.url());
    let name = MutexName::lease("report").expect("a name");
    assert!(!ours.exists(&name).expect("an answer"), "and a connection is at rest");
    let lease = LeaseRequest::new(name.clone(), Term::DEFAULT, &Clock::system());
    proxy.fault_once(Fault::ReplyLost);
    let held = thread::scope(|scope| {
        let call = scope.spawn(|| admission(&name, 0).ask(&ours));
        proxy.wait_until_met();
        assert!(theirs.break_lease(&name).expect("an answer").is_some(), "the server has granted it");
        let held = theirs.create(&lease).expect("an answer").expect("nobody holds it");
        let answer = call.join().expect("no panic");
        assert!(matches!(answer, Ok(Admitted::LeaseTaken(_))), "{answer:?}");
        held
    });

    // No server runs the occurrence, and no other server may until the claim is released.
    assert!(ours.exists(&name).expect("an answer"), "the lease is another's");
    assert!(!entries(&server).contains(&claim(0)), "the claim goes with a later call");
    assert!(theirs.forget(&held).expect("an answer"), "it was left alone");
    assert!(matches!(admission(&name, 0).ask(&theirs), Ok(Admitted::Granted(_))), "another server runs it");
}

/// Sends a copy of an admission after its run. The script knows the owner, and not the sender.
#[track_caller]
fn assert_refused(admission: &Admission, mutex: &RedisMutex) {
    let copy = admission.ask(mutex);
    assert!(matches!(copy, Ok(Admitted::LeaseTaken(Some(_)) | Admitted::ClaimTaken(Some(_)))), "{copy:?}");
    assert!(!mutex.exists(&lease_of(admission)).expect("an answer"), "nobody would give it back");
}

/// Returns an admission that was granted at its second copy, because the connection of the first copy broke. If the idle
/// connection was closed meanwhile, because the machine is slow, the next admission is tried.
#[track_caller]
fn granted_at_the_second_copy(mutex: &RedisMutex, proxy: &Proxy, next: impl Fn() -> Admission) -> (Admission, Grant) {
    for _ in 0..100 {
        let admission = next();
        assert!(!mutex.exists(&lease_of(&admission)).expect("an answer"), "and a connection is at rest");
        let opened = proxy.connections();
        proxy.fault_once(Fault::Cut);
        let answer = admission.ask(mutex);
        if let Ok(Admitted::Granted(grant)) = answer {
            if proxy.connections() == opened + 1 {
                return (admission, grant);
            }
            for lease in [grant.lease(), grant.claim()].into_iter().flatten() {
                assert!(mutex.forget(lease).expect("an answer"));
            }
        } else {
            assert!(answer.is_err() && proxy.connections() == opened + 1, "{answer:?}");
        }
    }
    panic!("each idle connection was closed before its use");
}

fn lease_of(admission: &Admission) -> MutexName {
    admission.lease().expect("it asks for one").name().clone()
}

#[test]
fn an_owner_that_asked_twice_and_released_is_granted_nothing_more() {
    let server = Redis::start();
    let (proxy, theirs) = (Proxy::of(&server), RedisMutex::new(&server.url()).expect("a url"));
    // The copy may come for as long as a call lasts.
    let ours = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(20)).build().expect("a url");
    let name = MutexName::lease("report").expect("a name");
    let lease = || LeaseRequest::new(name.clone(), Term::DEFAULT, &Clock::system());
    for has_claim in [false, true] {
        let next = || if has_claim { admission(&name, 0) } else { Admission::lease_only(lease()) };
        let (admission, grant) = granted_at_the_second_copy(&ours, &proxy, next);
        assert!(ours.forget(grant.lease().expect("a lease")).expect("an answer"), "its run is over");
        assert_refused(&admission, &theirs);

        let next = theirs.create(&lease()).expect("an answer").expect("it is free for all others");
        assert!(theirs.forget(&next).expect("an answer"));
    }
    assert!((1..=21_000).contains(&server.ask(&["PTTL", "{soloist}:revoked"]).number()), "it goes by itself");

    // A process whose calls last longer has revoked an owner before.
    server.ask(&["PEXPIRE", "{soloist}:revoked", "900000"]);
    let (_, grant) = granted_at_the_second_copy(&ours, &proxy, || admission(&name, 1));
    assert!(ours.forget(grant.lease().expect("a lease")).expect("an answer"), "its run is over");
    assert!(server.ask(&["PTTL", "{soloist}:revoked"]).number() > 21_000, "that owner stays revoked");
}

#[test]
fn an_owner_that_asked_twice_is_granted_nothing_more_after_its_minimum_hold() {
    let server = Redis::start();
    let (proxy, theirs) = (Proxy::of(&server), RedisMutex::new(&server.url()).expect("a url"));
    let ours = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(20)).build().expect("a url");
    let name = MutexName::lease("report").expect("a name");
    let next = || Admission::lease_only(LeaseRequest::new(name.clone(), Term::DEFAULT, &Clock::system()));
    let (admission, grant) = granted_at_the_second_copy(&ours, &proxy, next);
    assert!(matches!(admission.ask(&theirs), Ok(Admitted::Granted(_))), "a copy that comes during the run");
    let mut over = Batch::new();
    over.release_after(grant.lease().expect("a lease").clone(), Term::DEFAULT);
    ours.carry_out(&mut over);
    assert!(matches!(over.releases()[0].answer(), Some(Ok(true))), "its run is over");
    assert_eq!(server.ask(&["DEL", &contract::key(&name)]).number(), 1, "the minimum hold is over, too");
    assert_refused(&admission, &theirs);
}

#[test]
fn an_admission_that_was_given_up_is_granted_to_nobody_later() {
    let server = Redis::start();
    let (proxy, theirs) = (Proxy::of(&server), RedisMutex::new(&server.url()).expect("a url"));
    let ours = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(20)).build().expect("a url");
    let name = MutexName::lease("report").expect("a name");
    let admission = Admission::lease_only(LeaseRequest::new(name, Term::DEFAULT, &Clock::system()));
    proxy.fault(Fault::Cut);
    admission.ask(&ours).expect_err("nothing is answered");
    proxy.mend();
    assert!(!ours.exists(&lease_of(&admission)).expect("an answer"));
    assert_eq!(server.ask(&["EXISTS", "{soloist}:revoked"]).number(), 1, "it was given back");
    assert_refused(&admission, &theirs);
}

#[test]
fn a_copy_that_finds_the_claim_of_its_run_and_no_lease_is_refused() {
    let mutex = patient(&Redis::shared().url());
    let admission = admission(&MutexName::lease("a claim is left").expect("a name"), 0);
    let Ok(Admitted::Granted(grant)) = admission.ask(&mutex) else { panic!("it is free") };
    assert!(mutex.forget(grant.lease().expect("a lease")).expect("an answer"), "its run is over");
    assert_refused(&admission, &mutex);
}
