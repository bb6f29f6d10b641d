//! Cases of admissions. An admission gets all its names or none. It gets none while an excluding name is held.

use crate::contract::harness::Harness;
use crate::contract::subject::{CaseResult, Subject, broken, granted, leases_of, long, must, occurrence};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{name::MutexName, term::Term};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::Batch;

pub(super) fn an_admission_is_granted_as_it_was_asked_for<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("both");
    let claim = name.claim("event", occurrence(0));
    let grant = subject.is_admitted(&subject.both(&name, &claim));
    let held: Vec<&Lease> = leases_of(&grant).collect();
    must(held.len() == 2, "a lease and a claim are granted together", &name, format_args!("got {grant:?}"));
    for lease in &held {
        subject.is_held_by(lease, "an admitted name is held");
    }
    subject.releases(held[0]);
    subject.is_free(&name, "a lease that was released is free");
    subject.is_held_by(held[1], "a claim stays when its lease is released");

    let next = subject.is_admitted(&subject.both(&name, &name.claim("event", occurrence(1))));
    let happened = format_args!("{:?} came after {:?}", next.token(), grant.token());
    must(next.token() > grant.token(), "tokens rise", &name, happened);

    let lease = subject.is_admitted(&Admission::lease_only(subject.request(&subject.name("lease alone"))));
    lease.lease().iter().for_each(|lease| subject.is_held_by(lease, "an admitted name is held"));
    let claim = subject.name("claim alone").claim("event", occurrence(0));
    let claim = subject.is_admitted(&Admission::claim_only(subject.request(&claim)));
    claim.claim().iter().for_each(|claim| subject.is_held_by(claim, "an admitted name is held"));
    subject.is_free(&subject.name("claim alone"), "a claim alone leaves the lease free");
    // A process releases the claim if its task did not start, so a claim alone can be released, too.
    claim.claim().iter().for_each(|claim| subject.releases(claim));
}

pub(super) fn a_taken_lease_leaves_the_claim_free<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("running");
    let claim = name.claim("event", occurrence(0));
    let held = subject.create(&name);
    for _ in 0..2 {
        is_taken(subject, &held, &subject.both(&name, &claim));
        is_taken(subject, &held, &Admission::lease_only(subject.request(&name)));
        subject.is_free(&claim, "an admission that lost the lease leaves the claim free");
    }
    subject.is_held_by(&held, "a refused admission changes nothing for the holder");
    subject.releases(&held);
    subject.is_admitted(&subject.both(&name, &claim));
}

pub(super) fn a_taken_claim_leaves_the_lease_free<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("claimed");
    let claim = name.claim("event", occurrence(0));
    let held = subject.create(&claim);
    for _ in 0..2 {
        is_taken(subject, &held, &subject.both(&name, &claim));
        is_taken(subject, &held, &Admission::claim_only(subject.request(&claim)));
        subject.is_free(&name, "an admission that lost the claim leaves the lease free");
    }
    subject.is_held_by(&held, "a refused admission does not change the claim");
    let next = name.claim("event", occurrence(1));
    subject.is_admitted(&subject.both(&name, &next));

    // One owner holds the lease, and another owner holds the claim. The answer may name either holder.
    let other = subject.create(&name.claim("event", occurrence(2)));
    let both = subject.both(&name, other.name());
    match subject.admit(&both) {
        Admitted::ClaimTaken(holder) => subject.is_told(&other, holder.as_ref(), "a refusal names the holder"),
        Admitted::LeaseTaken(holder) => {
            let name_told = holder.is_some() || !subject.keeps_holders();
            must(name_told, "a refusal names the holder", &name, "no holder was named");
        }
        admitted => broken("a held lease and a held claim are refused", &name, format_args!("got {admitted:?}")),
    }
}

pub(super) fn a_permit_is_a_claim_like_any_other<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("permitted");
    let [first, second] = ["day@1970-01-01T00:00:00+00:00", "day@1970-01-02T00:00:00+00:00"];
    let of_period = |period: &'static str| subject.both(&name, &name.permit("event", period));
    let granted = subject.is_admitted(&of_period(first));
    let held: Vec<&Lease> = leases_of(&granted).collect();
    must(held.len() == 2, "a lease and a permit are granted together", &name, format_args!("got {granted:?}"));
    for held in &held {
        subject.is_held_by(held, "an admitted name is held");
    }
    is_taken(subject, held[0], &of_period(second));
    subject.releases(held[0]);
    for _ in 0..2 {
        is_taken(subject, held[1], &of_period(first));
        subject.is_free(&name, "an admission that lost the permit leaves the lease free");
    }
    subject.is_held_by(held[1], "a refused admission does not change the permit");
    // This permit was requested while the lease was held. The refusal must have left the permit free.
    let grant = subject.is_admitted(&of_period(second));
    let happened = format_args!("{:?} came after {:?}", grant.token(), granted.token());
    must(grant.token() > granted.token(), "tokens rise", &name, happened);
    // A process releases the permit if its task did not start.
    grant.claim().iter().for_each(|claim| subject.releases(claim));

    let short = subject.request_for(&name.permit("event", "short"), subject.short());
    let late = subject.is_admitted(&Admission::claim_only(short));
    subject.let_pass(subject.short());
    let again = subject.is_admitted(&Admission::claim_only(subject.request(&name.permit("event", "short"))));
    late.claim().iter().for_each(|late| {
        must(!subject.forget(late), "an expired permit is free", late.name(), "forget answered true");
    });
    again
        .claim()
        .iter()
        .for_each(|again| subject.is_held_by(again, "a late forget changes nothing for the new holder"));
}

pub(super) fn an_expired_lease_and_claim_are_granted_again<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("expired");
    let claim = name.claim("event", occurrence(0));
    let lease = subject.request_for(&name, subject.short());
    let short = Admission::both(lease.clone(), lease.with(claim.clone(), subject.short()));
    let late = subject.is_admitted(&short);
    subject.let_pass(subject.short());
    let grant = subject.is_admitted(&subject.both(&name, &claim));
    for late in leases_of(&late) {
        let ours = subject.forget(late);
        must(!ours, "forget returns false if the owner no longer holds the name", late.name(), "it answered true");
    }
    for held in leases_of(&grant) {
        subject.is_held_by(held, "a late forget changes nothing for the new holder");
    }
    each_name_has_its_own_term(subject);
}

fn each_name_has_its_own_term<H: Harness>(subject: &Subject<H>) {
    let admit = |text: &str, terms: [Term; 2]| {
        let name = subject.name(text);
        let lease = subject.request_for(&name, terms[0]);
        let claim = lease.with(name.claim("event", occurrence(0)), terms[1]);
        let grant = subject.is_admitted(&Admission::both(lease, claim));
        let both = grant.lease().cloned().zip(grant.claim().cloned());
        both.unwrap_or_else(|| broken("a lease and a claim are granted together", &name, format_args!("got {grant:?}")))
    };
    let promise = "a lease and a claim that were admitted together each last for their own term";
    let (short_lease, long_claim) = admit("short lease", [subject.short(), long()]);
    let (long_lease, short_claim) = admit("short claim", [long(), subject.short()]);
    let (extended, its_claim) = admit("extended", [long(), long()]);
    if subject.can_extend().is_ok() {
        subject.extend(&extended, subject.short());
    }
    let term = subject.shorts(4);
    subject.in_time(|name| {
        let end = subject.clock.moment().plus(term.get());
        let lease = subject.request_for(name, term);
        let claim = lease.with(name.claim("event", occurrence(0)), term);
        subject.is_admitted(&Admission::both(lease, claim.clone()));
        subject.let_pass(subject.short());
        let are_held = subject.before(end, [name, claim.name()].map(|name| subject.exists(name)))?;
        must(are_held == [true, true], promise, name, format_args!("lease and claim are held: {are_held:?}"));
        Some(())
    });
    for (over, lasts) in [(short_lease, long_claim), (short_claim, long_lease)] {
        subject.is_free(over.name(), promise);
        subject.is_held_by(&lasts, promise);
    }
    subject.is_held_by(&its_claim, "an extension of a lease leaves the claim alone");

    let promise = "the end of a lease leaves its claim alone";
    let (released, claim) = admit("released together", [long(), long()]);
    subject.release_all(&[released]);
    subject.is_held_by(&claim, promise);
    let (broken_lease, claim) = admit("broken lease", [long(), long()]);
    if subject.can_break().is_ok() {
        subject.break_lease(broken_lease.name());
    }
    subject.is_held_by(&claim, promise);
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
    let answers = subject.admit_all(&admissions);
    let promise = "admissions in one call are independent, and answered in order";
    let apart = matches!(
        answers[..],
        [
            Admitted::Granted(_),
            Admitted::LeaseTaken(_),
            Admitted::Granted(_),
            Admitted::ClaimTaken(_),
            Admitted::Granted(_),
            Admitted::Granted(_),
        ]
    );
    must(apart, promise, running.name(), format_args!("the store answered {answers:?}"));
    for (admission, answer) in admissions.iter().zip(answers) {
        match answer {
            Admitted::LeaseTaken(holder) => {
                subject.is_told(&running, holder.as_ref(), promise);
                subject.is_free(&name("running").claim("event", occurrence(0)), promise);
            }
            Admitted::ClaimTaken(holder) => {
                subject.is_told(&claimed, holder.as_ref(), promise);
                subject.is_free(&name("claimed"), promise);
            }
            admitted => {
                let grant = granted(admission, admitted);
                leases_of(&grant).for_each(|it| subject.is_held_by(it, promise));
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
    let answers = subject.admit_all(&admissions);
    let promise = "admissions of the same name in one call are granted in their order";
    let [Admitted::Granted(first), second, third, Admitted::Granted(_)] = &answers[..] else {
        broken(promise, &name, format_args!("the store answered {answers:?}"));
    };
    match (second, third, first.lease(), first.claim()) {
        (Admitted::LeaseTaken(lease), Admitted::ClaimTaken(claim), Some(first_lease), Some(first_claim)) => {
            subject.is_told(first_lease, lease.as_ref(), promise);
            subject.is_told(first_claim, claim.as_ref(), promise);
        }
        _ => broken(promise, &name, format_args!("the store answered {answers:?}")),
    }
}

pub(super) fn a_batch_releases_before_it_admits<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("handed on");
    let (other, excluding) = (subject.name("other"), subject.name("excluding"));
    let (held, excludes) = (subject.create(&name), subject.create(&excluding));
    let mut batch = Batch::new();
    batch.admit(subject.both(&name, &name.claim("event", occurrence(0))));
    batch.admit(Admission::lease_only(subject.request(&other)).unless(excluding.clone()));
    batch.release(held.clone());
    batch.release(excludes);
    let (released, admitted) = subject.carry_out(batch);
    let promise = "a name that a batch releases is free for the admissions of the batch";
    let both = matches!(admitted[..], [Admitted::Granted(_), Admitted::Granted(_)]);
    must(released == [true, true] && both, promise, &name, format_args!("got {released:?} and {admitted:?}"));
    for admitted in &admitted {
        let Admitted::Granted(grant) = admitted else { continue };
        leases_of(grant).for_each(|it| subject.is_held_by(it, promise));
        let rises = grant.lease().is_some_and(|lease| lease.name() != &name || lease.token() > held.token());
        let happened = format_args!("{:?} came after {:?}", grant.token(), held.token());
        must(rises, "tokens rise within a batch", &name, happened);
    }
    subject.is_free(&excluding, promise);
}

pub(super) fn a_batch_does_not_admit_to_what_it_releases_later<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let lease = subject.create(&subject.name("under a minimum hold"));
    let mut batch = Batch::new();
    batch.release_after(lease.clone(), long());
    batch.admit(Admission::lease_only(subject.request(lease.name())));
    let (released, admitted) = subject.carry_out(batch);
    let kept = released == [true] && matches!(admitted[..], [Admitted::LeaseTaken(_)]);
    let promise = "a name under a minimum hold is held, also for the batch that releases it";
    must(kept, promise, lease.name(), format_args!("got {released:?} and {admitted:?}"));
    Ok(())
}

pub(super) fn asking_for_nothing_answers_nothing<H: Harness>(subject: &Subject<H>) {
    let held = subject.create(&subject.name("held"));
    subject.carry_out(Batch::new());
    subject.extend_all(&[], long());
    subject.is_held_by(&held, "an empty batch changes nothing");
}

pub(super) fn an_admission_is_excluded_while_the_name_is_held<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("excluded");
    for (number, excluding) in excluding_names(subject).iter().enumerate() {
        let claim = name.claim("event", occurrence(number));
        let both = subject.both(&name, &claim).unless(excluding.clone());
        let lease = Admission::lease_only(subject.request(&name)).unless(excluding.clone());
        let claim_alone = Admission::claim_only(subject.request(&claim)).unless(excluding.clone());
        let held = subject.create(excluding);
        for _ in 0..2 {
            for admission in [&both, &lease, &claim_alone] {
                is_excluded(subject, &held, admission);
                subject.is_free(&name, "an excluded admission leaves the lease free");
                subject.is_free(&claim, "an excluded admission leaves the claim free");
            }
        }
        subject.is_held_by(&held, "an excluded admission changes nothing for the holder of the name that excludes it");
        subject.releases(&held);
        let grant = subject.is_admitted(&both);
        grant.lease().iter().for_each(|lease| subject.releases(lease));
        subject.is_free(excluding, "an admission does not take the name that would exclude it");
    }
}

pub(super) fn an_exclusion_ends_with_the_term_of_its_name<H: Harness>(subject: &Subject<H>) {
    for (number, excluding) in excluding_names(subject).iter().enumerate() {
        let name = subject.name(format_args!("excluded {number}"));
        let admission = subject.both(&name, &name.claim("event", occurrence(0))).unless(excluding.clone());
        subject.create_for(excluding, subject.short());
        subject.let_pass(subject.short());
        subject.is_admitted(&admission);
    }
}

pub(super) fn an_exclusion_ends_when_its_name_is_broken<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_break()?;
    for (number, excluding) in excluding_names(subject).iter().enumerate() {
        let name = subject.name(format_args!("excluded {number}"));
        let admission = Admission::lease_only(subject.request(&name)).unless(excluding.clone());
        is_excluded(subject, &subject.create(excluding), &admission);
        subject.break_lease(excluding);
        subject.is_admitted(&admission);
    }
    Ok(())
}

pub(super) fn an_exclusion_is_looked_at_before_the_claim_and_the_lease<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("excluded");
    let claim = name.claim("event", occurrence(0));
    let (lease, claim) = (subject.create(&name), subject.create(&claim));
    let free_claim = name.claim("event", occurrence(1));
    for excluding in excluding_names(subject) {
        let held = subject.create(&excluding);
        let admissions = [
            subject.both(&name, &free_claim),
            subject.both(&name.mark("event", "free place"), claim.name()),
            subject.both(&name, claim.name()),
        ]
        .map(|admission| admission.unless(excluding.clone()));
        for admission in &admissions {
            is_excluded(subject, &held, admission);
        }
        subject.releases(&held);
        is_taken(subject, &lease, &admissions[0]);
        is_taken(subject, &claim, &admissions[1]);
    }
    for held in [&lease, &claim] {
        subject.is_held_by(held, "an excluded admission changes neither the held lease nor the held claim");
    }
    subject.is_free(&free_claim, "an excluded admission leaves the claim free");
}

pub(super) fn admissions_that_share_an_excluding_name_are_decided_one_by_one<H: Harness>(subject: &Subject<H>) {
    let [held, free] = ["held", "free"].map(|text| subject.name(text).mark("event", "paused"));
    let held = subject.create(&held);
    let running = subject.create(&subject.name("running"));
    let lease = |text: &str| Admission::lease_only(subject.request(&subject.name(text)));
    let admissions = [
        lease("one").unless(held.name().clone()),
        lease("two"),
        lease("three").unless(free.clone()),
        lease("running").unless(free.clone()),
        lease("four").unless(held.name().clone()),
        lease("five").unless(free),
        lease("running").unless(held.name().clone()),
    ];
    let answers = subject.admit_all(&admissions);
    let promise = "admissions that are excluded by one name are decided one by one";
    let apart = matches!(
        answers[..],
        [
            Admitted::Excluded(_),
            Admitted::Granted(_),
            Admitted::Granted(_),
            Admitted::LeaseTaken(_),
            Admitted::Excluded(_),
            Admitted::Granted(_),
            Admitted::Excluded(_),
        ]
    );
    must(apart, promise, held.name(), format_args!("the store answered {answers:?}"));
    for (admission, answer) in admissions.iter().zip(answers) {
        match answer {
            Admitted::LeaseTaken(holder) => subject.is_told(&running, holder.as_ref(), promise),
            Admitted::Excluded(held_name) => subject.is_told(&held, held_name.holder(), promise),
            admitted => {
                granted(admission, admitted).lease().iter().for_each(|lease| subject.is_held_by(lease, promise));
            }
        }
    }
    for admission in [&admissions[0], &admissions[4]] {
        subject.is_free(admission.name(), "an excluded admission leaves the lease free");
    }
    subject.is_held_by(&running, "a refused admission changes nothing for the holder");
    subject.releases(&held);
    let answers = subject.admit_all(&admissions[..1]);
    must(
        matches!(answers[..], [Admitted::Granted(_)]),
        promise,
        held.name(),
        format_args!("after the release, the store answered {answers:?}"),
    );
}

pub(super) fn an_admission_is_excluded_by_what_was_admitted_before_it<H: Harness>(subject: &Subject<H>) {
    let names = ["one", "other"].map(|text| subject.name(text));
    let lease = |at: usize| Admission::lease_only(subject.request(&names[at])).unless(names[1 - at].clone());
    let answers = subject.admit_all(&[lease(0), lease(1)]);
    let promise = "if two admissions of one batch exclude each other, the first is granted";
    let [Admitted::Granted(first), Admitted::Excluded(held)] = &answers[..] else {
        broken(promise, &names[0], format_args!("the store answered {answers:?}"));
    };
    first.lease().iter().for_each(|first| subject.is_told(first, held.holder(), promise));
    subject.is_free(&names[1], promise);
}

pub(super) fn each_of_several_names_excludes<H: Harness>(subject: &Subject<H>) {
    let names = excluding_names(subject);
    let [first, second] = ["excluded", "next"].map(|text| subject.name(text));
    let unless = |name: &MutexName, excluding: &[MutexName]| {
        excluding.iter().cloned().fold(Admission::lease_only(subject.request(name)), Admission::unless)
    };
    let promise = "within a batch, a name excludes only the admissions that list it";
    for (number, excluding) in names.iter().enumerate() {
        let held = subject.create(excluding);
        is_excluded(subject, &held, &unless(&first, &names));
        let others: Vec<MutexName> = names.iter().filter(|name| *name != excluding).cloned().collect();
        let third = subject.name(format_args!("third {number}"));
        let batch = [unless(&first, &names), unless(&third, &others), unless(&second, &names)];
        let answers = subject.admit_all(&batch);
        let [Admitted::Excluded(one), Admitted::Granted(granted), Admitted::Excluded(two)] = &answers[..] else {
            broken(promise, excluding, format_args!("the store answered {answers:?}"));
        };
        for by in [one, two] {
            must(by.name() == excluding, promise, excluding, format_args!("the store answered {answers:?}"));
            subject.is_told(&held, by.holder(), promise);
        }
        granted.lease().iter().for_each(|lease| subject.releases(lease));
        subject.releases(&held);
    }
    subject.is_admitted(&unless(&first, &names));
}

/// Requests two markers together, as a queue does: a place in the queue, and the occurrence that waits there.
pub(super) fn a_mark_is_admitted_with_another_and_released<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("queued");
    let [place, first, second] = ["place", "first", "second"].map(|text| name.mark("event", text));
    let queued = |note: &MutexName| subject.both(&place, note);
    let grant = subject.is_admitted(&queued(&first));
    let held: Vec<&Lease> = leases_of(&grant).collect();
    must(held.len() == 2, "two markers are granted together", &place, format_args!("got {grant:?}"));
    for lease in &held {
        subject.is_held_by(lease, "an admitted name is held");
    }
    is_taken(subject, held[1], &subject.both(&name.mark("event", "free place"), &first));
    is_taken(subject, held[0], &queued(&second));
    subject.is_free(&second, "an admission that lost one of two markers leaves the other free");
    subject.is_free(&name, "a marker leaves the lease free");
    if subject.can_extend().is_ok() {
        must(subject.extend(held[0], long()), "a marker is renewed like a lease", &place, "extend answered false");
    }
    subject.releases(held[0]);
    subject.is_free(&place, "a marker that was released is free");
    subject.is_held_by(held[1], "a marker stays when the other marker is released");
    subject.is_admitted(&queued(&second));
}

/// Returns names that can exclude an admission: a lease and a marker of another mutex, and a marker of the admission's
/// own mutex.
fn excluding_names<H: Harness>(subject: &Subject<H>) -> [MutexName; 3] {
    let (other, own) = (subject.name("excluding"), subject.name("excluded"));
    [other.clone(), other.mark("schedule", "paused"), own.mark("event", "paused")]
}

/// Checks that the admission is refused because of its lease or its claim, which `held` holds.
#[track_caller]
fn is_taken<H: Harness>(subject: &Subject<H>, held: &Lease, admission: &Admission) {
    let is_held = |request: Option<&LeaseRequest>| request.is_some_and(|request| request.name() == held.name());
    let holder = match subject.admit(admission) {
        Admitted::LeaseTaken(holder) if is_held(admission.lease()) => holder,
        Admitted::ClaimTaken(holder) if is_held(admission.claim()) => holder,
        admitted => {
            let promise = "a held lease or a held claim is reported as taken";
            broken(promise, held.name(), format_args!("the store answered {admitted:?}"))
        }
    };
    subject.is_told(held, holder.as_ref(), "a refusal names the holder");
}

#[track_caller]
fn is_excluded<H: Harness>(subject: &Subject<H>, held: &Lease, admission: &Admission) {
    match subject.admit(admission) {
        Admitted::Excluded(by) => {
            let promise = "an excluded admission reports the name that excludes it";
            must(by.name() == held.name(), promise, held.name(), format_args!("the store answered {}", by.name()));
            subject.is_told(held, by.holder(), "a refusal names the holder");
        }
        admitted => {
            let promise = "an admission is excluded while the name is held";
            broken(promise, held.name(), format_args!("the store answered {admitted:?}"))
        }
    }
}
