//! Cases of many threads that request one name: one of them wins, and a lost race consumes no occurrence.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::contract::harness::Harness;
use crate::contract::race::{TimeToRepeat, exactly, patiently, repeat, rounds, together};
use crate::contract::subject::{Subject, answered, must, occurrence};
use crate::lease::{name::MutexName, request::Lease};
use crate::store::event_mutex::EventMutex;
use crate::store::event_mutex::admission::{Admission, Admitted};

pub(super) fn of_eight_threads_exactly_one_wins_each_round<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("contested");
    let release = |won: &Option<Lease>| won.iter().for_each(|lease| subject.releases(lease));
    let won = rounds(8, 100, |_, _| subject.try_create(&name), release);
    let leases = one_in_each_round(&won, |_| &name);
    for pair in leases.windows(2) {
        let happened = format_args!("{:?} came after {:?}", pair[1].token(), pair[0].token());
        must(pair[0].token() < pair[1].token(), "tokens rise with every grant, to any owner", &name, happened);
    }
}

pub(super) fn of_many_who_take_over_an_expired_name_exactly_one_wins<H: Harness>(subject: &Subject<H>) {
    let (mut names, mut expired): (Vec<MutexName>, Vec<Lease>) = Default::default();
    repeat(10, 50, |number| {
        names.push(subject.name(format_args!("expired {number}")));
        expired.push(subject.create_for(&names[number], subject.short()));
    });
    subject.let_pass(subject.short());
    let take_over = |_, round: usize| {
        // At the same moment, the owner of the expired lease releases it.
        let ours = subject.forget(&expired[round]);
        must(!ours, "forget returns false if the owner no longer holds the name", &names[round], "it answered true");
        subject.try_create(&names[round])
    };
    let mut won = Vec::new();
    repeat(1, names.len() / 10, |part| won.extend(exactly(6, part * 10..part * 10 + 10, take_over, |_| {})));
    for lease in one_in_each_round(&won, |round| &names[round]) {
        subject.is_held_by(lease, "the next holder of an expired name holds it");
    }
}

pub(super) fn of_many_forgets_at_once_exactly_one_counts<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("forgotten");
    let held = Mutex::new(subject.create(&name));
    let current = || held.lock().expect("no thread panics while it copies the lease").clone();
    let forget_and_take = |_, _| (subject.forget(&current()), subject.try_create(&name));
    // The winner still holds the name when the next round begins. In that round, all threads forget the winner's lease.
    let hand_over = |(_, won): &(bool, Option<Lease>)| {
        if let Some(won) = won {
            *held.lock().expect("no thread panics while it copies the lease") = won.clone();
        }
    };
    for answers in rounds(6, 100, forget_and_take, hand_over) {
        let forgot = answers.iter().filter(|(forgot, _)| *forgot).count();
        let won = answers.iter().filter(|(_, won)| won.is_some()).count();
        must(
            forgot == 1,
            "a lease is released once",
            &name,
            format_args!("{forgot} simultaneous forgets returned true"),
        );
        let promise = "two simultaneous forgets do not free the next holder's name";
        must(won == 1, promise, &name, format_args!("{won} simultaneous creates were granted"));
    }
}

pub(super) fn no_update_is_lost_between_threads<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("guarded");
    let count = AtomicUsize::new(0);
    let update = |_| {
        let mutex = subject.harness.mutex();
        repeat(5, 20, |_| {
            let lease = patiently("a name that is released again and again is granted", &name, || {
                answered("create", &name, mutex.create(&subject.request(&name)))
            });
            // If two threads read the count at the same time, and then write it, an update is lost.
            let read = count.load(Ordering::SeqCst);
            thread::yield_now();
            count.store(read + 1, Ordering::SeqCst);
            subject.releases(&lease);
        })
    };
    let updates: usize = together(8, update).into_iter().sum();
    let count = count.into_inner();
    let happened = format_args!("{count} of {updates} updates were kept");
    must(count == updates, "only one thread at a time holds the name", &name, happened);
}

pub(super) fn of_racing_admissions_of_an_occurrence_exactly_one_is_granted<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("raced");
    let attempt = |_, round| {
        let claim = name.claim("event", occurrence(round));
        let admitted = subject.admit(&subject.both(&name, &claim));
        if let Admitted::Granted(grant) = &admitted {
            // The task is so short that it may end before the other threads send their requests.
            grant.lease().into_iter().for_each(|lease| subject.releases(lease));
        }
        matches!(admitted, Admitted::Granted(_))
    };
    for (round, granted) in rounds(6, 100, attempt, |_| {}).iter().enumerate() {
        let winners = granted.iter().filter(|granted| **granted).count();
        let happened = format_args!("{winners} of {} were granted in round {round}", granted.len());
        must(
            winners == 1,
            "exactly one of several simultaneous admissions of an occurrence is granted",
            &name,
            happened,
        );
    }
    subject.is_free(&name, "a refused admission keeps no lease");
}

pub(super) fn an_admission_that_loses_the_claim_in_a_race_keeps_no_lease<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("raced");
    // The first thread requests the lease and the claim. The other threads request only the claim.
    let attempt = |thread, round| {
        let claim = name.claim("event", occurrence(round));
        let admitted = subject.admit(&match thread {
            0 => subject.both(&name, &claim),
            _ => Admission::claim_only(subject.request(&claim)),
        });
        if let Admitted::Granted(grant) = &admitted {
            grant.lease().into_iter().for_each(|lease| subject.releases(lease));
        }
        admitted
    };
    for (round, answers) in rounds(3, 100, attempt, |_| {}).iter().enumerate() {
        let winners = answers.iter().filter(|admitted| matches!(admitted, Admitted::Granted(_))).count();
        let happened = format_args!("round {round} gave {answers:?}");
        must(
            winners == 1,
            "exactly one of several simultaneous admissions of an occurrence is granted",
            &name,
            happened,
        );
        let said_so = !matches!(answers[0], Admitted::LeaseTaken(_));
        must(said_so, "an admission whose lease is free is not refused because of the lease", &name, happened);
    }
    subject.is_free(&name, "an admission that lost the claim releases the lease");
}

pub(super) fn a_lost_race_consumes_no_occurrence<H: Harness>(subject: &Subject<H>) {
    const OCCURRENCES: usize = 50;
    let name = subject.name("raced");
    let runs: Vec<AtomicUsize> = (0..OCCURRENCES).map(|_| AtomicUsize::new(0)).collect();
    let servers = AtomicUsize::new(3);
    let serve = || {
        let _left = CountDown(&servers);
        repeat(10, OCCURRENCES, |number| {
            let claim = name.claim("event", occurrence(number));
            patiently("a repeated request is granted, or names the holder", &claim, || {
                match subject.admit(&subject.both(&name, &claim)) {
                    Admitted::Granted(grant) => {
                        runs[number].fetch_add(1, Ordering::SeqCst);
                        grant.lease().into_iter().for_each(|lease| subject.releases(lease));
                        Some(())
                    }
                    Admitted::ClaimTaken(_) => Some(()),
                    _ => None,
                }
            });
        })
    };
    // Two more threads imitate runs by hand: they take the lease without a claim. So the servers sometimes find the
    // lease taken although the claim is free.
    let time = TimeToRepeat::begin();
    let run_by_hand = || {
        while servers.load(Ordering::SeqCst) > 0 && !time.is_over() {
            if let Some(lease) = subject.try_create(&name) {
                thread::yield_now();
                subject.releases(&lease);
            }
            thread::yield_now();
        }
        0
    };
    let served = together(5, |number| if number < 3 { serve() } else { run_by_hand() });
    let served = served.into_iter().max().unwrap_or_default();
    for (number, runs) in runs.iter().take(served).enumerate() {
        let runs = runs.load(Ordering::SeqCst);
        let claim = name.claim("event", occurrence(number));
        must(
            runs == 1,
            "each occurrence runs once, whatever races were lost",
            &claim,
            format_args!("it ran {runs} times"),
        );
    }
}

struct CountDown<'a>(&'a AtomicUsize);

impl Drop for CountDown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns the lease that was granted in each round. Fails if a round has no grant, or several grants.
fn one_in_each_round<'a>(won: &'a [Vec<Option<Lease>>], name: impl Fn(usize) -> &'a MutexName) -> Vec<&'a Lease> {
    let one = |(round, answers): (usize, &'a Vec<Option<Lease>>)| {
        let mut winners = answers.iter().flatten();
        let happened = format_args!("{} won in round {round}", winners.clone().count());
        must(
            winners.clone().count() == 1,
            "if several threads create a free name at once, exactly one gets it",
            name(round),
            happened,
        );
        winners.next()
    };
    won.iter().enumerate().filter_map(one).collect()
}
