//! Cases of `exists` and `holder`: looking changes nothing.

use chrono::TimeDelta;

use crate::store::contract::subject::{CaseResult, Subject, answered, broken, long, must};
use crate::store::{contract::harness::Harness, contract::race::beside, event_mutex::EventMutex};

pub(super) fn looking_at_a_free_name_leaves_it_free<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("free");
    for _ in 0..10 {
        subject.is_free(&name, "looking takes nothing");
        let holder = subject.holder(&name);
        must(holder.is_none(), "nobody holds a free name", &name, format_args!("the holder is told as {holder:?}"));
    }
    let lease = subject.create(&name);
    subject.gives_back(&lease);
    subject.is_free(&name, "looking takes nothing");
}

pub(super) fn looking_at_a_held_name_does_not_end_it<H: Harness>(subject: &Subject<H>) {
    let lease = subject.create(&subject.name("held"));
    for _ in 0..100 {
        subject.is_held_by(&lease, "looking ends nothing");
    }
    subject.is_refused(lease.name());
    subject.gives_back(&lease);
}

pub(super) fn looking_at_a_held_name_does_not_prolong_it<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("looked at");
    subject.create_for(&name, subject.shorts(4));
    for _ in 0..4 {
        subject.let_pass(subject.short());
        subject.exists(&name);
        subject.holder(&name);
    }
    subject.is_free(&name, "looking prolongs nothing");
    subject.create(&name);
}

pub(super) fn looking_never_makes_a_create_fail<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("hammered");
    let look = || {
        let mutex = subject.another_mutex();
        for _ in 0..50 {
            answered("exists", &name, mutex.exists(&name));
            answered("holder", &name, mutex.holder(&name));
        }
    };
    beside(3, look, || {
        for _ in 0..1_000 {
            let promise = "looking makes no create fail";
            let lease =
                subject.try_create(&name).unwrap_or_else(|| broken(promise, &name, "the only create was refused"));
            subject.is_held(&name, "looking ends nothing");
            subject.gives_back(&lease);
        }
    });
}

pub(super) fn the_holder_is_told_truly_or_not_at_all<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let name = subject.name("holder");
    let lease = subject.create(&name);
    let told = subject.holder(&name);
    subject.is_told(&lease, told.as_ref(), "the holder is told truly");
    let Some(told) = told else {
        return CaseResult::DoesNotApply("the store keeps no holders");
    };
    let promise = "a person can read who holds a name, since when and until when";
    must(told.pid() == std::process::id(), promise, &name, format_args!("told {told:?}"));
    must(!told.host().is_empty(), promise, &name, format_args!("told {told:?}"));
    let term = TimeDelta::from_std(long().get()).expect("ten minutes are a time span");
    let off = (told.until() - told.since() - term).abs();
    must(off < TimeDelta::seconds(2), promise, &name, format_args!("told {told:?} for a term of {term}"));
    subject.gives_back(&lease);
    let after = subject.holder(&name);
    must(after.is_none(), "nobody holds a free name", &name, format_args!("told {after:?}"));

    let next = subject.create(&name);
    subject.is_told(&next, subject.holder(&name).as_ref(), "the holder is told truly, also the next one");
    subject.gives_back(&next);
    subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    let after = subject.holder(&name);
    must(after.is_none(), "nobody holds an expired name", &name, format_args!("told {after:?}"));
    CaseResult::Passed
}
