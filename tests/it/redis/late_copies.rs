//! An admission that is asked for again on another connection, because the first one broke: the server may come to the
//! first copy when the run is over.

use std::thread;
use std::time::Duration;

use soloist::{Admission, Admitted, Clock, EventMutex, LeaseRequest, MutexName, RedisMutex, Term};

use super::{claim, entries, minute, wait_until};
use crate::servers::proxy::{Fault, Proxy};
use crate::servers::redis::Redis;

/// A lease and a claim on the `number`th minute.
fn admission(name: &MutexName, number: i64) -> Admission {
    let lease = LeaseRequest::new(name.clone(), Term::DEFAULT, &Clock::system());
    let claim = lease.with(name.claim(name.mutex(), minute(number)), Term::DEFAULT);
    Admission::both(lease, claim)
}

#[test]
fn a_late_copy_that_meets_the_next_run_leaves_the_claim_of_its_own() {
    let mutex = RedisMutex::new(&Redis::shared().url()).expect("a url");
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
    // It asks again after half of that.
    let ours = RedisMutex::builder(&proxy.url()).timeout(Duration::from_secs(8)).build().expect("a url");
    let theirs = RedisMutex::new(&server.url()).expect("a url");
    let name = MutexName::lease("report").expect("a name");
    assert!(!ours.exists(&name).expect("an answer"), "and a connection is at rest");
    let lease = LeaseRequest::new(name.clone(), Term::DEFAULT, &Clock::system());
    proxy.fault_once(Fault::ReplyLost);
    let held = thread::scope(|scope| {
        let call = scope.spawn(|| admission(&name, 0).ask(&ours));
        proxy.wait_until_met();
        assert!(theirs.break_lease(&name).expect("an answer").is_freed(), "the server has granted it");
        let held = theirs.create(&lease).expect("an answer").expect("nobody holds it");
        let answer = call.join().expect("no panic");
        assert!(matches!(answer, Ok(Admitted::LeaseTaken(_))), "{answer:?}");
        held
    });

    // Nobody runs it, and nobody else may before that.
    wait_until("the claim was given back", || !entries(&server).contains(&claim(0)));
    assert!(theirs.forget(&held).expect("an answer"), "it was left alone");
    assert!(matches!(admission(&name, 0).ask(&theirs), Ok(Admitted::Granted(_))), "another server runs it");
}
