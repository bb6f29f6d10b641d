//! Cases of admissions: lease and claim are granted together or not at all, and no race consumes an occurrence.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::lease::request::Lease;
use crate::store::contract::race::{patiently, rounds, together};
use crate::store::contract::subject::{Subject, answered, broken, granted, long, must, occurrence};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::{contract::harness::Harness, event_mutex::EventMutex};

pub(super) fn an_admission_is_granted_as_it_was_asked_for<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("both");
    let claim = name.claim("event", occurrence(0));
    let grant = subject.is_admitted(&subject.both(&name, &claim));
    let held: Vec<&Lease> = [grant.lease(), grant.claim()].into_iter().flatten().collect();
    must(held.len() == 2, "a lease and a claim are granted together", &name, format_args!("got {grant:?}"));
    for lease in &held {
        subject.is_held_by(lease, "what was admitted is held");
    }
    subject.gives_back(held[0]);
    subject.is_free(&name, "a lease that was given back is free");
    subject.is_held_by(held[1], "a claim stays when its lease is given back");

    let next = subject.is_admitted(&subject.both(&name, &name.claim("event", occurrence(1))));
    must(next.token() > grant.token(), "tokens rise", &name, format_args!("{next:?} came after {grant:?}"));

    let lease = subject.is_admitted(&Admission::lease_only(subject.request(&subject.name("lease alone"))));
    lease.lease().iter().for_each(|lease| subject.is_held_by(lease, "what was admitted is held"));
    let claim = subject.name("claim alone").claim("event", occurrence(0));
    let claim = subject.is_admitted(&Admission::claim_only(subject.request(&claim)));
    claim.claim().iter().for_each(|claim| subject.is_held_by(claim, "what was admitted is held"));
    subject.is_free(&subject.name("claim alone"), "a claim alone leaves the lease free");
    // The process gives a claim back while its task has not started.
    claim.claim().iter().for_each(|claim| subject.gives_back(claim));
}

pub(super) fn a_taken_lease_leaves_the_claim_free<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("running");
    let claim = name.claim("event", occurrence(0));
    let held = subject.create(&name);
    for _ in 0..2 {
        is_lease_taken(subject, &held, &subject.both(&name, &claim));
        is_lease_taken(subject, &held, &Admission::lease_only(subject.request(&name)));
        subject.is_free(&claim, "an admission that lost the lease leaves the claim free");
    }
    subject.is_held_by(&held, "an admission that was refused leaves the holder alone");
    subject.gives_back(&held);
    subject.is_admitted(&subject.both(&name, &claim));
}

pub(super) fn a_taken_claim_leaves_the_lease_free<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("claimed");
    let claim = name.claim("event", occurrence(0));
    let held = subject.create(&claim);
    for _ in 0..2 {
        is_claim_taken(subject, &held, &subject.both(&name, &claim));
        is_claim_taken(subject, &held, &Admission::claim_only(subject.request(&claim)));
        subject.is_free(&name, "an admission that lost the claim leaves the lease free");
    }
    subject.is_held_by(&held, "an admission that was refused leaves the claim alone");
    let next = name.claim("event", occurrence(1));
    subject.is_admitted(&subject.both(&name, &next));

    // With both taken, by two, the answer names either, and truly.
    let other = subject.create(&name.claim("event", occurrence(2)));
    let both = subject.both(&name, other.name());
    match subject.admit(&both) {
        Admitted::ClaimTaken(holder) => subject.is_told(&other, holder.as_ref(), "a refusal names the holder"),
        Admitted::LeaseTaken(holder) => {
            let name_told = holder.is_some() || !subject.keeps_holders();
            must(name_told, "a refusal names the holder", &name, "admit named nobody");
        }
        admitted @ Admitted::Granted(_) => {
            broken("a held lease and a held claim are refused", &name, format_args!("got {admitted:?}"))
        }
    }
}

pub(super) fn a_permit_is_a_claim_like_any_other<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("permitted");
    let [first, second] = ["day@1970-01-01T00:00:00+00:00", "day@1970-01-02T00:00:00+00:00"];
    let of_period = |period: &'static str| subject.both(&name, &name.permit("event", period));
    let granted = subject.is_admitted(&of_period(first));
    let held: Vec<&Lease> = [granted.lease(), granted.claim()].into_iter().flatten().collect();
    must(held.len() == 2, "a lease and a permit are granted together", &name, format_args!("got {granted:?}"));
    for held in &held {
        subject.is_held_by(held, "what was admitted is held");
    }
    is_lease_taken(subject, held[0], &of_period(second));
    subject.gives_back(held[0]);
    for _ in 0..2 {
        is_claim_taken(subject, held[1], &of_period(first));
        subject.is_free(&name, "an admission that lost the permit leaves the lease free");
    }
    subject.is_held_by(held[1], "an admission that was refused leaves the permit alone");
    // A permit that was asked for while the lease was held was not used up.
    let grant = subject.is_admitted(&of_period(second));
    must(grant.token() > granted.token(), "tokens rise", &name, format_args!("{grant:?} came after {granted:?}"));
    // The process gives a permit back while its task has not started.
    grant.claim().iter().for_each(|claim| subject.gives_back(claim));

    let short = subject.request_for(&name.permit("event", "short"), subject.short());
    let late = subject.is_admitted(&Admission::claim_only(short));
    subject.let_pass(subject.short());
    let again = subject.is_admitted(&Admission::claim_only(subject.request(&name.permit("event", "short"))));
    late.claim().iter().for_each(|late| {
        must(!subject.forget(late), "a permit that has expired is nobody's", late.name(), "forget answered true");
    });
    again.claim().iter().for_each(|again| subject.is_held_by(again, "a late forget leaves the new holder alone"));
}

pub(super) fn an_expired_lease_and_claim_are_granted_again<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("expired");
    let claim = name.claim("event", occurrence(0));
    let lease = subject.request_for(&name, subject.short());
    let short = Admission::both(lease.clone(), lease.with(claim.clone(), subject.short()));
    let late = subject.is_admitted(&short);
    subject.let_pass(subject.short());
    let grant = subject.is_admitted(&subject.both(&name, &claim));
    for late in [late.lease(), late.claim()].into_iter().flatten() {
        let ours = subject.forget(late);
        must(!ours, "forget answers false when the name is not ours any more", late.name(), "it answered true");
    }
    for held in [grant.lease(), grant.claim()].into_iter().flatten() {
        subject.is_held_by(held, "a late forget leaves the new holder alone");
    }
}

pub(super) fn several_admissions_are_independent_and_in_order<H: Harness>(subject: &Subject<H>) {
    let name = |text: &str| subject.name(text);
    let running = subject.create(&name("running"));
    let claimed = subject.create(&name("claimed").claim("event", occurrence(0)));
    let admissions = [
        subject.both(&name("free"), &name("free").claim("event", occurrence(0))),
        subject.both(running.name(), &name("running").claim("event", occurrence(0))),
        Admission::lease_only(subject.request(&name("lease alone"))),
        subject.both(&name("claimed"), claimed.name()),
        Admission::claim_only(subject.request(&name("claim alone").claim("event", occurrence(0)))),
        subject.both(&name("also free"), &name("also free").claim("event", occurrence(0))),
    ];
    let answers = subject.mutex.admit(&admissions);
    let promise = "admissions in one call are independent, and answered in order";
    let apart = matches!(
        answers[..],
        [
            Ok(Admitted::Granted(_)),
            Ok(Admitted::LeaseTaken(_)),
            Ok(Admitted::Granted(_)),
            Ok(Admitted::ClaimTaken(_)),
            Ok(Admitted::Granted(_)),
            Ok(Admitted::Granted(_)),
        ]
    );
    must(apart, promise, running.name(), format_args!("admit answered {answers:?}"));
    for (admission, answer) in admissions.iter().zip(answers) {
        match answered("admit", running.name(), answer) {
            Admitted::LeaseTaken(holder) => {
                subject.is_told(&running, holder.as_ref(), promise);
                subject.is_free(&name("running").claim("event", occurrence(0)), promise);
            }
            Admitted::ClaimTaken(holder) => {
                subject.is_told(&claimed, holder.as_ref(), promise);
                subject.is_free(&name("claimed"), promise);
            }
            admitted @ Admitted::Granted(_) => {
                let grant = granted(admission, admitted);
                [grant.lease(), grant.claim()].into_iter().flatten().for_each(|it| subject.is_held_by(it, promise));
            }
        }
    }
}

pub(super) fn of_two_admissions_of_a_name_in_one_call_the_first_wins<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("twice");
    let claims = [0, 1].map(|number| name.claim("event", occurrence(number)));
    let admissions = [
        subject.both(&name, &claims[0]),
        subject.both(&name, &claims[1]),
        Admission::claim_only(subject.request(&claims[0])),
        Admission::claim_only(subject.request(&claims[1])),
    ];
    let answers = subject.mutex.admit(&admissions);
    let promise = "admissions of the same name in one call are granted in their order";
    let [Ok(Admitted::Granted(first)), Ok(second), Ok(third), Ok(Admitted::Granted(_))] = &answers[..] else {
        broken(promise, &name, format_args!("admit answered {answers:?}"));
    };
    match (second, third, first.lease(), first.claim()) {
        (Admitted::LeaseTaken(lease), Admitted::ClaimTaken(claim), Some(first_lease), Some(first_claim)) => {
            subject.is_told(first_lease, lease.as_ref(), promise);
            subject.is_told(first_claim, claim.as_ref(), promise);
        }
        _ => broken(promise, &name, format_args!("admit answered {answers:?}")),
    }
}

pub(super) fn asking_for_nothing_answers_nothing<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("nothing");
    let (admitted, released) = (subject.mutex.admit(&[]), subject.mutex.release(&[]));
    let extended = subject.mutex.extend(&[], long());
    must(admitted.is_empty(), "no admission, no answer", &name, format_args!("admit answered {admitted:?}"));
    must(released.is_empty(), "no lease, no answer", &name, format_args!("release answered {released:?}"));
    must(extended.is_empty(), "no lease, no answer", &name, format_args!("extend answered {extended:?}"));
}

pub(super) fn several_leases_are_released_in_order<H: Harness>(subject: &Subject<H>) {
    let names = ["one", "given back", "another's", "two"].map(|text| subject.name(text));
    let leases = names.each_ref().map(|name| subject.create(name));
    subject.gives_back(&leases[1]);
    subject.gives_back(&leases[2]);
    let holder = subject.create(&names[2]);
    let answers = subject.mutex.release(&leases);
    let promise = "each lease of several is released, or not, by itself";
    let apart = matches!(answers[..], [Ok(true), Ok(false), Ok(false), Ok(true)]);
    must(apart, promise, &names[0], format_args!("release answered {answers:?} for ours, free, another's, ours"));
    subject.is_held_by(&holder, promise);
    for at in [0, 1, 3] {
        subject.is_free(&names[at], promise);
    }
}

pub(super) fn of_racing_admissions_of_an_occurrence_exactly_one_is_granted<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("raced");
    let attempt = |_, round| {
        let claim = name.claim("event", occurrence(round));
        let admitted = subject.admit(&subject.both(&name, &claim));
        if let Admitted::Granted(grant) = &admitted {
            // A short task: it has ended before the others have asked.
            grant.lease().into_iter().for_each(|lease| subject.gives_back(lease));
        }
        matches!(admitted, Admitted::Granted(_))
    };
    for (round, granted) in rounds(6, 500, attempt, |_| {}).iter().enumerate() {
        let winners = granted.iter().filter(|granted| **granted).count();
        let happened = format_args!("{winners} of {} were granted in round {round}", granted.len());
        must(winners == 1, "of racing admissions of an occurrence exactly one is granted", &name, happened);
    }
    subject.is_free(&name, "an admission that was refused keeps no lease");
}

pub(super) fn an_admission_that_loses_the_claim_in_a_race_keeps_no_lease<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("raced");
    // Only the first thread asks for the lease; the others are after the claim.
    let attempt = |thread, round| {
        let claim = name.claim("event", occurrence(round));
        let admitted = subject.admit(&match thread {
            0 => subject.both(&name, &claim),
            _ => Admission::claim_only(subject.request(&claim)),
        });
        if let Admitted::Granted(grant) = &admitted {
            grant.lease().into_iter().for_each(|lease| subject.gives_back(lease));
        }
        admitted
    };
    for (round, answers) in rounds(3, 1_000, attempt, |_| {}).iter().enumerate() {
        let winners = answers.iter().filter(|admitted| matches!(admitted, Admitted::Granted(_))).count();
        let happened = format_args!("round {round} gave {answers:?}");
        must(winners == 1, "of racing admissions of an occurrence exactly one is granted", &name, happened);
        let said_so = !matches!(answers[0], Admitted::LeaseTaken(_));
        must(said_so, "a refusal says truly which of the two was taken; the lease was not", &name, happened);
    }
    subject.is_free(&name, "an admission that lost the claim gives the lease back");
}

pub(super) fn a_lost_race_consumes_no_occurrence<H: Harness>(subject: &Subject<H>) {
    const OCCURRENCES: usize = 200;
    let name = subject.name("raced");
    let runs: Vec<AtomicUsize> = (0..OCCURRENCES).map(|_| AtomicUsize::new(0)).collect();
    let servers = AtomicUsize::new(3);
    let serve = || {
        let _left = CountDown(&servers);
        for (number, runs) in runs.iter().enumerate() {
            let claim = name.claim("event", occurrence(number));
            patiently("who asks again is granted, or told who was", &claim, || {
                match subject.admit(&subject.both(&name, &claim)) {
                    Admitted::Granted(grant) => {
                        runs.fetch_add(1, Ordering::SeqCst);
                        grant.lease().into_iter().for_each(|lease| subject.gives_back(lease));
                        Some(())
                    }
                    Admitted::ClaimTaken(_) => Some(()),
                    Admitted::LeaseTaken(_) => None,
                }
            });
        }
    };
    // Runs by hand, which take the lease and no claim, make the servers lose it.
    let run_by_hand = || {
        while servers.load(Ordering::SeqCst) > 0 {
            if let Some(lease) = subject.try_create(&name) {
                thread::yield_now();
                subject.gives_back(&lease);
            }
            thread::yield_now();
        }
    };
    together(5, |number| if number < 3 { serve() } else { run_by_hand() });
    for (number, runs) in runs.iter().enumerate() {
        let runs = runs.load(Ordering::SeqCst);
        let claim = name.claim("event", occurrence(number));
        must(runs == 1, "each occurrence runs once, whoever lost a race", &claim, format_args!("it ran {runs} times"));
    }
}

struct CountDown<'a>(&'a AtomicUsize);

impl Drop for CountDown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[track_caller]
fn is_lease_taken<H: Harness>(subject: &Subject<H>, held: &Lease, admission: &Admission) {
    match subject.admit(admission) {
        Admitted::LeaseTaken(holder) => subject.is_told(held, holder.as_ref(), "a refusal names the holder"),
        admitted => {
            broken("a held lease is said to be taken", held.name(), format_args!("admit answered {admitted:?}"))
        }
    }
}

#[track_caller]
fn is_claim_taken<H: Harness>(subject: &Subject<H>, held: &Lease, admission: &Admission) {
    match subject.admit(admission) {
        Admitted::ClaimTaken(holder) => subject.is_told(held, holder.as_ref(), "a refusal names the holder"),
        admitted => {
            broken("a held claim is said to be taken", held.name(), format_args!("admit answered {admitted:?}"))
        }
    }
}
