//! Cases of `break_lease`.

use crate::lease::{name::MutexName, request::Lease};
use crate::store::contract::harness::Harness;
use crate::store::contract::subject::{CaseResult, Subject, long, must};

pub(super) fn a_broken_name_is_free_and_its_holder_can_not_come_back<H: Harness>(subject: &Subject<H>) -> CaseResult {
    if let Some(unsupported) = subject.can_not_break() {
        return unsupported;
    }
    let name = subject.name("broken");
    let old = subject.create(&name);
    let freed = subject.break_lease(&name);
    must(freed, "breaking frees a name whoever holds it", &name, "break_lease answered NotHeld");
    subject.is_free(&name, "a broken name is free");
    is_lost(subject, &old);
    subject.is_free(&name, "the holder of a broken name does not get it back");
    let holder = subject.create(&name);
    is_lost(subject, &old);
    subject.is_held_by(&holder, "a broken holder leaves the new one alone");
    subject.is_refused(&name);
    subject.gives_back(&holder);
    CaseResult::Passed
}

pub(super) fn breaking_a_free_name_changes_nothing<H: Harness>(subject: &Subject<H>) -> CaseResult {
    if let Some(unsupported) = subject.can_not_break() {
        return unsupported;
    }
    let name = subject.name("free");
    is_not_broken(subject, &subject.name("never held"));
    let lease = subject.create(&name);
    subject.gives_back(&lease);
    is_not_broken(subject, lease.name());
    subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    is_not_broken(subject, lease.name());
    let other = subject.create(&subject.name("other"));
    is_not_broken(subject, &name);
    subject.is_held_by(&other, "breaking one name leaves others alone");
    subject.create(&name);
    CaseResult::Passed
}

#[track_caller]
fn is_lost<H: Harness>(subject: &Subject<H>, lease: &Lease) {
    let released = subject.forget(lease);
    must(!released, "the broken holder's forget answers false", lease.name(), "it answered true");
    if subject.can_not_extend().is_none() {
        let extended = subject.extend(lease, long());
        must(!extended, "the broken holder's extend answers false", lease.name(), "it answered true");
    }
}

#[track_caller]
fn is_not_broken<H: Harness>(subject: &Subject<H>, name: &MutexName) {
    let freed = subject.break_lease(name);
    must(!freed, "breaking a free name answers NotHeld", name, "break_lease answered that it was freed");
}
