//! Many clients want the same rows at once, each in an order of its own: no call fails, and each row has one
//! winner.

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

use soloist::store::{Admission, Admitted, Lease, Owner};
use soloist::{EventMutex, MutexName, Term};

use super::batches::{admit, extend, release};
use super::trouble::{Trouble, request};
use super::{key, on_both};
use crate::support::noon;

const THREADS: usize = 6;
const NAMES: usize = 12;

on_both!(
    batches_in_any_order_have_one_winner_for_each_of_their_events,
    renewals_and_releases_in_any_order_are_no_errors_of_each_other
);

/// Returns the admission of a place and a claim. Places and claims are counted in opposite directions, so that
/// they cross. The excluding marker has no row.
fn admission(round: usize, number: usize) -> Admission {
    let mutex = MutexName::lease(round.to_string()).expect("a name");
    let lease = mutex.mark("place", number.to_string());
    let claim = mutex.claim(format!("event {}", NAMES - 1 - number), noon());
    let lease = request("x").with(lease, Term::MAX);
    let claim = lease.with(claim, Term::MAX);
    let asked = if number.is_multiple_of(3) { Admission::lease_only(lease) } else { Admission::both(lease, claim) };
    asked.unless(MutexName::lease("shop").expect("a name").mark("shop", "paused"))
}

/// Returns the grants of each thread. Each requests the batch in an order of its own.
#[track_caller]
fn granted(mutexes: &[impl EventMutex], round: usize) -> Vec<Vec<Lease>> {
    let all_are_there = Barrier::new(THREADS);
    let ask = |seed: usize, mutex: &dyn EventMutex| {
        let mut numbers: Vec<usize> = (0..NAMES).collect();
        fastrand::Rng::with_seed(seed as u64).shuffle(&mut numbers);
        let batch: Vec<Admission> = numbers.into_iter().map(|number| admission(round, number)).collect();
        all_are_there.wait();
        let answers =
            admit(&mutex, &batch).into_iter().map(|answer| answer.unwrap_or_else(|error| panic!("{error:?}")));
        let grants = answers.filter_map(|answer| match answer {
            Admitted::Granted(grant) => Some([grant.lease().cloned(), grant.claim().cloned()]),
            _ => None,
        });
        grants.flatten().flatten().collect()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = mutexes
            .iter()
            .enumerate()
            .map(|(at, mutex)| {
                let ask = &ask;
                scope.spawn(move || ask(round * THREADS + at, mutex))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no error")).collect()
    })
}

fn batches_in_any_order_have_one_winner_for_each_of_their_events<S: Trouble>() {
    let server = S::start();
    let mutexes: Vec<_> = (0..THREADS).map(|_| server.mutex()).collect();
    for round in 0..4 {
        // The first time the row is missing; the second time it has ended.
        for time in 0..2 {
            let grants = granted(&mutexes, round);
            let mut winners: HashMap<MutexName, Owner> = HashMap::new();
            for lease in grants.iter().flatten() {
                assert!(winners.insert(lease.name().clone(), lease.owner()).is_none(), "{lease:?} has two winners");
            }
            let held = server.held();
            assert_eq!(held.len(), winners.len(), "{round} {time}: what is held was granted: {held:?} {winners:?}");
            let lease = |number| key(admission(round, number).lease().expect("it asks for one").name());
            let leases = (0..NAMES).filter(|number| held.contains(&lease(*number))).count();
            assert_eq!(leases, NAMES, "somebody runs each of them");
            server.ask(&format!("UPDATE soloist_mutexes SET expires_at = {}", S::NOW));
        }
    }
}

fn renewals_and_releases_in_any_order_are_no_errors_of_each_other<S: Trouble>() {
    let server = S::start();
    let mutexes: Vec<_> = (0..THREADS).map(|_| server.mutex()).collect();
    for round in 0..3 {
        let leases: Vec<Lease> = granted(&mutexes, round).into_iter().flatten().collect();
        let all_are_there = Barrier::new(THREADS);
        let ask = |seed: usize, mutex: &dyn EventMutex| {
            let mut leases = leases.clone();
            fastrand::Rng::with_seed(seed as u64).shuffle(&mut leases);
            all_are_there.wait();
            let answers =
                if seed.is_multiple_of(2) { extend(&mutex, &leases, Term::MAX) } else { release(&mutex, &leases) };
            answers
                .into_iter()
                .map(|answer| usize::from(answer.unwrap_or_else(|error| panic!("{error:?}"))))
                .sum::<usize>()
        };
        let released: usize = thread::scope(|scope| {
            let threads: Vec<_> = mutexes
                .iter()
                .enumerate()
                .map(|(at, mutex)| {
                    (
                        at,
                        scope.spawn({
                            let ask = &ask;
                            move || ask(at, mutex)
                        }),
                    )
                })
                .collect();
            let counts = threads.into_iter().map(|(at, thread)| (at, thread.join().expect("no error")));
            counts.filter(|(at, _)| !at.is_multiple_of(2)).map(|(_, count)| count).sum()
        });
        assert_eq!(released, leases.len(), "each was released once");
        assert!(server.held().is_empty());
    }
}
