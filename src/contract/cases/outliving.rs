//! Cases of lifelines: a lease with a lifeline lasts as long as any process has the lifeline open.

use crate::contract::harness::Harness;
use crate::contract::subject::{CaseResult, DoesNotApply, Subject, answered, broken, must};
use crate::lease::{name::MutexName, request::Lease};
use crate::store::event_mutex::{EventMutex, lifeline::Lifeline};

pub(super) fn a_lease_with_a_lifeline_outlasts_its_term<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.gives_lifelines()?;
    subject.in_time(|name| {
        let (lease, lifeline) = short_with_lifeline(subject, name)?;
        for _ in 0..2 {
            subject.let_pass(lease.term());
            subject.is_held_by(&lease, "a lease with a lifeline outlasts its term");
            subject.is_refused(name);
        }
        drop(lifeline);
        subject.let_pass(lease.term());
        subject.is_held_by(
            &lease,
            "a lease with a lifeline lasts while its owner holds it, even if another process has the lifeline",
        );
        subject.releases(&lease);
        Some(())
    });
    Ok(())
}

pub(super) fn an_extension_does_not_end_a_lease_with_a_lifeline<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    subject.gives_lifelines()?;
    subject.in_time(|name| {
        let (lease, _lifeline) = short_with_lifeline(subject, name)?;
        for _ in 0..2 {
            subject.let_pass(lease.term());
            let extended = subject.extend(&lease, subject.short());
            must(extended, "the owner can extend its lease, also after its term", name, "extend answered false");
            subject.let_pass(subject.short());
            subject.is_held_by(&lease, "an extension does not end a lease with a lifeline");
        }
        subject.releases(&lease);
        Some(())
    });
    Ok(())
}

pub(super) fn a_forget_frees_a_name_whoever_has_its_lifeline<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.gives_lifelines()?;
    let name = subject.name("released");
    let lease = subject.create(&name);
    let _lifeline = lifeline_of(subject, &lease);
    subject.releases(&lease);
    subject.is_free(
        &name,
        "a name is free after its lease was released, even if a process has the lifeline of that lease",
    );
    let next = subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    subject.is_free(&name, "a lifeline does not prolong the next lease");
    must(!subject.forget(&next), "a lease ends with its term", &name, "forget answered true");
    Ok(())
}

pub(super) fn a_later_release_frees_a_name_whoever_has_its_lifeline<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    subject.gives_lifelines()?;
    let minimum_hold = subject.shorts(4);
    subject.in_time(|name| {
        let lease = subject.create(name);
        let _lifeline = lifeline_of(subject, &lease);
        let end = subject.clock.moment().plus(minimum_hold.get());
        let released = subject.release_after(&lease, minimum_hold);
        must(released, "the owner's release with a minimum hold succeeds", name, "it answered false");
        let exists = subject.before(end, subject.exists(name))?;
        must(exists, "a name is held until its minimum hold is over", name, "exists answered false");
        subject.let_pass(minimum_hold);
        subject.is_free(
            name,
            "a name is free when its minimum hold is over, even if a process has the lifeline of the lease",
        );
        subject.create(name);
        Some(())
    });
    Ok(())
}

pub(super) fn a_break_frees_a_name_whoever_has_its_lifeline<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_break()?;
    subject.gives_lifelines()?;
    let lease = subject.create(&subject.name("broken"));
    let _lifeline = lifeline_of(subject, &lease);
    let freed = subject.break_lease(lease.name());
    must(freed, "a break frees a name, whichever owner holds it", lease.name(), "break_lease returned None");
    subject.is_free(
        lease.name(),
        "a name is free after its lease was broken, even if a process has the lifeline of that lease",
    );
    let holder = subject.create(lease.name());
    must(!subject.forget(&lease), "the forget of the former holder returns false", lease.name(), "it answered true");
    subject.is_held_by(&holder, "a former holder with a lifeline changes nothing for the new holder");
    Ok(())
}

pub(super) fn what_is_not_ours_any_more_gets_no_lifeline<H: Harness>(subject: &Subject<H>) {
    let released = subject.create(&subject.name("released"));
    subject.releases(&released);
    let ended = subject.create_for(&subject.name("ended"), subject.short());
    subject.let_pass(subject.short());
    for lease in [&released, &ended] {
        gets_none(subject, lease);
        subject.is_free(lease.name(), "a request for a lifeline does not acquire a free name");
        let holder = subject.create(lease.name());
        gets_none(subject, lease);
        subject.is_held_by(&holder, "a request for the lifeline of another's lease changes nothing for its holder");
        subject.releases(&holder);

        subject.create_for(lease.name(), subject.short());
        gets_none(subject, lease);
        subject.let_pass(subject.short());
        subject.is_free(lease.name(), "a request for the lifeline of another's lease does not prolong it");
    }
}

pub(super) fn a_lease_without_a_lifeline_is_as_it_was<H: Harness>(subject: &Subject<H>) -> CaseResult {
    if subject.gives_lifelines().is_ok() {
        return Err(DoesNotApply("the store gives lifelines"));
    }
    let asks = |lease: &Lease| {
        let lifeline = subject.lifeline(lease);
        let happened = format_args!("lifeline answered {lifeline:?}");
        must(lifeline.is_none(), "a store gives lifelines always or never", lease.name(), happened);
    };
    let lease = subject.create(&subject.name("as it was"));
    asks(&lease);
    subject.is_held_by(&lease, "if the store gives no lifeline, the request does not change the lease");
    subject.is_refused(lease.name());
    subject.releases(&lease);

    let lease = subject.create_for(lease.name(), subject.short());
    asks(&lease);
    subject.let_pass(subject.short());
    subject.is_free(lease.name(), "a lease without a lifeline ends with its term");
    Ok(())
}

/// Acquires a lease whose term is a few times the short term, and gets its lifeline. Returns `None` if the machine was
/// so slow that the lease may have ended before the store answered.
fn short_with_lifeline<H: Harness>(subject: &Subject<H>, name: &MutexName) -> Option<(Lease, Lifeline)> {
    let lease = subject.create_for(name, subject.shorts(4));
    let answer = subject.mutex.lifeline(&lease);
    subject.before(lease.deadline(), ())?;
    let lifeline = given(&lease, answered("lifeline", name, answer));
    Some((lease, lifeline))
}

#[track_caller]
fn lifeline_of<H: Harness>(subject: &Subject<H>, lease: &Lease) -> Lifeline {
    given(lease, subject.lifeline(lease))
}

#[track_caller]
fn given(lease: &Lease, lifeline: Option<Lifeline>) -> Lifeline {
    lifeline
        .unwrap_or_else(|| broken("a store gives lifelines always or never", lease.name(), "lifeline returned None"))
}

#[track_caller]
fn gets_none<H: Harness>(subject: &Subject<H>, lease: &Lease) {
    if let Ok(Some(lifeline)) = subject.mutex.lifeline(lease) {
        let happened = format_args!("lifeline answered {lifeline:?}");
        broken("a lost lease gets no lifeline", lease.name(), happened);
    }
}
