//! Cases of many threads that ask for one name: one wins.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::lease::{name::MutexName, request::Lease};
use crate::store::contract::race::{exactly, patiently, rounds, together};
use crate::store::contract::subject::{Subject, answered, must};
use crate::store::{contract::harness::Harness, event_mutex::EventMutex};

pub(super) fn of_eight_threads_exactly_one_wins_each_of_a_thousand_rounds<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("contested");
    let give_back = |won: &Option<Lease>| won.iter().for_each(|lease| subject.gives_back(lease));
    let won = rounds(8, 1_000, |_, _| subject.try_create(&name), give_back);
    let leases = one_in_each_round(&won, |_| &name);
    for pair in leases.windows(2) {
        let happened = format_args!("{:?} came after {:?}", pair[1].token(), pair[0].token());
        must(pair[0].token() < pair[1].token(), "tokens rise with every grant, whoever wins", &name, happened);
    }
}

pub(super) fn of_many_who_take_over_an_expired_name_exactly_one_wins<H: Harness>(subject: &Subject<H>) {
    let names: Vec<MutexName> = (0..200).map(|number| subject.name(format_args!("expired {number}"))).collect();
    let expired: Vec<Lease> = names.iter().map(|name| subject.create_for(name, subject.short())).collect();
    subject.let_pass(subject.short());
    let take_over = |_, round: usize| {
        // The late owner comes back in the same instant.
        let ours = subject.forget(&expired[round]);
        must(!ours, "forget answers false when the name is not ours any more", &names[round], "it answered true");
        subject.try_create(&names[round])
    };
    let won = exactly(6, 0..names.len(), take_over, |_| {});
    for lease in one_in_each_round(&won, |round| &names[round]) {
        subject.is_held_by(lease, "who took over an expired name holds it");
    }
}

pub(super) fn of_many_forgets_at_once_exactly_one_counts<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("forgotten");
    let held = Mutex::new(subject.create(&name));
    let current = || held.lock().expect("no thread fails while it copies the lease").clone();
    let forget_and_take = |_, _| (subject.forget(&current()), subject.try_create(&name));
    // Whoever won holds it in the next round. The others learn of it before they start.
    let hand_over = |(_, won): &(bool, Option<Lease>)| {
        if let Some(won) = won {
            *held.lock().expect("no thread fails while it copies the lease") = won.clone();
        }
    };
    for answers in rounds(6, 500, forget_and_take, hand_over) {
        let forgot = answers.iter().filter(|(forgot, _)| *forgot).count();
        let won = answers.iter().filter(|(_, won)| won.is_some()).count();
        must(forgot == 1, "a lease is given back once", &name, format_args!("{forgot} forgets answered true at once"));
        let promise = "of two forgets at once neither frees the next holder's name";
        must(won == 1, promise, &name, format_args!("{won} creates were granted at once"));
    }
}

pub(super) fn no_update_is_lost_between_threads<H: Harness>(subject: &Subject<H>) {
    const EACH: u64 = 100;
    let name = subject.name("guarded");
    let count = AtomicU64::new(0);
    let update = |_| {
        let mutex = subject.another_mutex();
        for _ in 0..EACH {
            let lease = patiently("a name that is given back again and again is granted", &name, || {
                answered("create", &name, mutex.create(&subject.request(&name)))
            });
            // Read, think, write: whoever does it beside another loses one's update.
            let read = count.load(Ordering::SeqCst);
            thread::yield_now();
            count.store(read + 1, Ordering::SeqCst);
            subject.gives_back(&lease);
        }
    };
    let threads = together(8, update).len() as u64;
    let count = count.into_inner();
    let happened = format_args!("{count} of {} updates were kept", threads * EACH);
    must(count == threads * EACH, "one at a time", &name, happened);
}

/// The lease of each round; one and only one of its creates was granted.
fn one_in_each_round<'a>(won: &'a [Vec<Option<Lease>>], name: impl Fn(usize) -> &'a MutexName) -> Vec<&'a Lease> {
    let one = |(round, answers): (usize, &'a Vec<Option<Lease>>)| {
        let mut winners = answers.iter().flatten();
        let happened = format_args!("{} won in round {round}", winners.clone().count());
        must(
            winners.clone().count() == 1,
            "of all who create a free name at once exactly one wins",
            name(round),
            happened,
        );
        winners.next()
    };
    won.iter().enumerate().filter_map(one).collect()
}
