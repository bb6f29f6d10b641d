//! Cases of late releases: only the owner can release a lease.

use crate::contract::harness::Harness;
use crate::contract::subject::{Subject, must};
use crate::lease::request::Lease;

pub(super) fn a_second_forget_changes_nothing<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("forgotten twice");
    let lease = subject.create(&name);
    subject.releases(&lease);
    is_not_ours(subject, &lease);
    let next = subject.create(&name);
    is_not_ours(subject, &lease);
    subject.is_held_by(&next, "a second forget changes nothing for the next holder");
    subject.is_refused(&name);
    subject.releases(&next);
}

pub(super) fn a_forget_after_the_end_changes_nothing<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("ended");
    let lease = subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    is_not_ours(subject, &lease);
    let next = subject.create(&name);
    subject.is_held_by(&next, "a name that expired is free");
}

pub(super) fn a_late_forget_leaves_the_new_holder_alone<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("late");
    let late = subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    let holder = subject.create(&name);
    for _ in 0..3 {
        is_not_ours(subject, &late);
        subject.is_held_by(&holder, "a late forget changes nothing for the new holder");
        subject.is_refused(&name);
    }
    subject.releases(&holder);
}

pub(super) fn a_late_release_of_several_leaves_the_new_holder_alone<H: Harness>(subject: &Subject<H>) {
    let names = ["one", "two"].map(|text| subject.name(text));
    let late = names.each_ref().map(|name| subject.create_for(name, subject.short()));
    subject.let_pass(subject.short());
    let holders = names.each_ref().map(|name| subject.create(name));
    let answers = subject.release_all(&late);
    must(answers == [false, false], "a late release returns false", &names[0], format_args!("got {answers:?}"));
    for holder in &holders {
        subject.is_held_by(holder, "a late release changes nothing for the new holder");
        subject.releases(holder);
    }
}

#[track_caller]
fn is_not_ours<H: Harness>(subject: &Subject<H>, lease: &Lease) {
    let ours = subject.forget(lease);
    must(!ours, "forget returns false if the owner no longer holds the name", lease.name(), "forget answered true");
}
