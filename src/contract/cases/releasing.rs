//! Cases of releases, with and without a minimum hold, and of `break_lease`. A name with a minimum hold stays held for
//! that time, even if its process ends.

use crate::contract::harness::Harness;
use crate::contract::subject::{CaseResult, Subject, long, must};
use crate::lease::{name::MutexName, request::Lease, term::Term};
use crate::store::event_mutex::batch::Batch;

pub(super) fn several_leases_are_released_in_order<H: Harness>(subject: &Subject<H>) {
    let four = subject.four_leases();
    let answers = subject.release_all(&four.leases);
    subject.are_ended(&four, &answers, "each of several releases succeeds or fails independently of the others");
}

pub(super) fn a_name_that_is_released_later_is_held_until_then<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let minimum_hold = subject.shorts(4);
    subject.in_time(|name| {
        let lease = subject.create(name);
        let end = subject.clock.moment().plus(minimum_hold.get());
        is_released_after(subject, &lease, minimum_hold);
        subject.let_pass(subject.short());
        let promise = "a name is held until its minimum hold is over";
        let exists = subject.before(end, subject.exists(name))?;
        must(exists, promise, name, "exists answered false");
        let second = subject.before(end, subject.try_create(name))?;
        must(second.is_none(), promise, name, "another create was granted");
        if let Some(told) = subject.before(end, subject.holder(name))? {
            let same = told.owner() == lease.owner() && told.token() == lease.token();
            must(
                same,
                "the releasing owner is the holder until the minimum hold is over",
                name,
                format_args!("found {told:?}"),
            );
        }
        subject.let_pass(minimum_hold);
        subject.is_free(name, "a name is free when its minimum hold is over");
        let next = subject.create(name);
        must(next.token() > lease.token(), "tokens rise after a minimum hold", name, format_args!("got {next:?}"));
        Some(())
    });
    Ok(())
}

pub(super) fn a_later_release_shortens_and_lengthens<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let shortened = subject.create(&subject.name("shortened"));
    is_released_after(subject, &shortened, subject.short());
    subject.let_pass(subject.short());
    subject.is_free(shortened.name(), "a name is free when its minimum hold is over, even if its term was longer");

    let (term, minimum_hold) = (subject.shorts(2), subject.shorts(6));
    subject.in_time(|name| {
        let lease = subject.create_for(name, term);
        subject.before(lease.deadline(), ())?;
        let end = subject.clock.moment().plus(minimum_hold.get());
        let released = subject.release_after(&lease, minimum_hold);
        // If the term may have been over at the release, the answer proves nothing.
        subject.before(lease.deadline(), ())?;
        must(released, "the owner's release with a minimum hold succeeds", name, "it answered false");
        subject.let_pass(term);
        let exists = subject.before(end, subject.exists(name))?;
        must(
            exists,
            "a name is held until its minimum hold is over, even if its term was shorter",
            name,
            "exists answered false",
        );
        subject.let_pass(minimum_hold);
        subject.is_free(name, "a name is free when its minimum hold is over");
        Some(())
    });
    Ok(())
}

pub(super) fn a_later_release_of_what_is_not_ours_any_more_takes_nothing<H: Harness>(
    subject: &Subject<H>,
) -> CaseResult {
    subject.can_extend()?;
    let released = subject.create(&subject.name("released"));
    subject.releases(&released);
    let ended = subject.create_for(&subject.name("ended"), subject.short());
    subject.let_pass(subject.short());
    for lease in [&released, &ended] {
        is_not_released(subject, lease, long());
        subject.is_free(lease.name(), "a release with a minimum hold does not acquire a free name");
        subject.create(lease.name());
    }
    Ok(())
}

pub(super) fn a_late_later_release_leaves_the_new_holder_alone<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let name = subject.name("late");
    let late = subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    let holder = subject.create(&name);
    is_not_released(subject, &late, subject.short());
    subject.let_pass(subject.short());
    subject.is_held_by(&holder, "a late release with a minimum hold changes nothing for the new holder");
    subject.releases(&holder);

    let holder = subject.create_for(&name, subject.short());
    is_not_released(subject, &late, long());
    subject.let_pass(subject.short());
    subject.is_free(holder.name(), "a late release does not prolong the new holder's lease");
    Ok(())
}

pub(super) fn several_later_releases_are_independent<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let (four, mut batch) = (subject.four_leases(), Batch::new());
    for lease in &four.leases {
        batch.release_after(lease.clone(), subject.short());
    }
    let (answers, _) = subject.carry_out(batch);
    subject.let_pass(subject.short());
    let promise = "each of several releases with a minimum hold succeeds or fails independently of the others";
    subject.are_ended(&four, &answers, promise);
    Ok(())
}

pub(super) fn releases_of_one_batch_have_minimum_holds_of_their_own<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let names = ["a while", "at once", "longer", "also at once"].map(|text| subject.name(text));
    let minimum_holds = [Some(subject.short()), None, Some(long()), None];
    let mut batch = Batch::new();
    for (name, minimum_hold) in names.iter().zip(minimum_holds) {
        batch.add_release(subject.create(name), minimum_hold);
    }
    let (answers, _) = subject.carry_out(batch);
    let promise = "each release of a batch has its own minimum hold";
    must(answers == [true; 4], promise, &names[0], format_args!("it answered {answers:?}"));
    subject.is_free(&names[1], promise);
    subject.is_free(&names[3], promise);
    subject.let_pass(subject.short());
    subject.is_free(&names[0], promise);
    subject.is_held(&names[2], promise);
    subject.is_refused(&names[2]);
    Ok(())
}

#[track_caller]
fn is_released_after<H: Harness>(subject: &Subject<H>, lease: &Lease, minimum_hold: Term) {
    let released = subject.release_after(lease, minimum_hold);
    must(released, "the owner's release with a minimum hold succeeds", lease.name(), "it answered false");
}

#[track_caller]
fn is_not_released<H: Harness>(subject: &Subject<H>, lease: &Lease, minimum_hold: Term) {
    let released = subject.release_after(lease, minimum_hold);
    must(
        !released,
        "only the holder of a name can release it, also with a minimum hold",
        lease.name(),
        "it answered true",
    );
}

pub(super) fn a_broken_name_is_free_and_its_holder_can_not_come_back<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_break()?;
    let name = subject.name("broken");
    let old = subject.create(&name);
    let freed = subject.break_lease(&name);
    must(freed, "a break frees a name, whichever owner holds it", &name, "break_lease returned None");
    subject.is_free(&name, "a name is free after its lease was broken");
    is_lost(subject, &old);
    subject.is_free(&name, "the former holder of a broken lease does not get the name back");
    let holder = subject.create(&name);
    is_lost(subject, &old);
    subject.is_held_by(&holder, "a former holder changes nothing for the new holder");
    subject.is_refused(&name);
    subject.releases(&holder);
    Ok(())
}

pub(super) fn breaking_a_free_name_changes_nothing<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_break()?;
    let name = subject.name("free");
    is_not_broken(subject, &subject.name("never held"));
    let lease = subject.create(&name);
    subject.releases(&lease);
    is_not_broken(subject, lease.name());
    subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    is_not_broken(subject, lease.name());
    let other = subject.create(&subject.name("other"));
    is_not_broken(subject, &name);
    subject.is_held_by(&other, "a break of one name does not change others");
    subject.create(&name);
    Ok(())
}

#[track_caller]
fn is_lost<H: Harness>(subject: &Subject<H>, lease: &Lease) {
    let released = subject.forget(lease);
    must(!released, "the forget of the former holder returns false", lease.name(), "it answered true");
    if subject.can_extend().is_ok() {
        let extended = subject.extend(lease, long());
        must(!extended, "the extend of the former holder returns false", lease.name(), "it answered true");
    }
}

#[track_caller]
fn is_not_broken<H: Harness>(subject: &Subject<H>, name: &MutexName) {
    let freed = subject.break_lease(name);
    must(!freed, "a break of a free name returns None", name, "break_lease returned the holder of a held name");
}
