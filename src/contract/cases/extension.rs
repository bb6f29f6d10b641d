//! Cases of `extend`: only the owner can extend a lease, and only while it holds the lease.

use crate::contract::harness::Harness;
use crate::contract::subject::{CaseResult, Subject, long, must};
use crate::lease::request::Lease;
use crate::store::event_mutex::extend_one;
use crate::store::event_mutex::{EventMutex, batch::Batch};

pub(super) fn a_store_says_whether_it_can_extend<H: Harness>(subject: &Subject<H>) {
    let (can, lease) = (subject.mutex.describe().can_extend(), subject.create(&subject.name("asked")));
    let ask = || {
        let mut later = Batch::new();
        later.release_after(lease.clone(), long());
        subject.mutex.carry_out(&mut later);
        let later = later.releases().iter().find_map(|slot| slot.answer().cloned());
        [("an extension", Some(extend_one(&subject.mutex, &lease, long()))), ("a release with a minimum hold", later)]
    };
    let held = ask();
    subject.releases(&lease);
    for (state, (verb, answer)) in held.map(|it| ("held", it)).into_iter().chain(ask().map(|it| ("free", it))) {
        let unsupported = matches!(&answer, Some(Err(error)) if error.is_unsupported());
        let happened = format_args!(
            "`describe().can_extend()` is {can}, but {verb} of a name that is {state} returned {answer:?}"
        );
        must(
            unsupported != can,
            "a store that can't extend leases says so each time, and a store that can extend leases never says so",
            lease.name(),
            happened,
        );
    }
}

pub(super) fn an_extension_moves_the_end_each_time<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let term = subject.shorts(4);
    subject.in_time(|name| {
        let lease = subject.create_for(name, term);
        let mut end = lease.deadline();
        for _ in 0..4 {
            subject.let_pass(subject.short());
            let asked = subject.clock.moment();
            let extended = subject.before(end, subject.extend(&lease, term))?;
            must(extended, "the owner can extend its lease", name, "extend answered false");
            end = asked.plus(term.get());
        }
        let second = subject.before(end, subject.try_create(name))?;
        must(second.is_none(), "an extended lease lasts longer", name, "another create was granted");
        if let Some(holder) = subject.before(end, subject.holder(name))? {
            let moved = holder.until() > holder.since() + term.get();
            must(moved, "an extension moves the deadline of the holder", name, format_args!("found {holder:?}"));
        }
        subject.let_pass(term);
        subject.is_free(name, "an extended lease ends one term after the last extension");
        Some(())
    });
    Ok(())
}

pub(super) fn an_extension_can_shorten<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let lease = subject.create(&subject.name("shortened"));
    let extended = subject.extend(&lease, subject.short());
    must(extended, "the owner can shorten its lease", lease.name(), "extend answered false");
    subject.let_pass(subject.short());
    subject.is_free(lease.name(), "an extended lease ends one term from now, even if that is earlier");
    subject.create(lease.name());
    Ok(())
}

pub(super) fn an_extension_after_the_end_is_refused<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let lease = subject.create_for(&subject.name("ended"), subject.short());
    subject.let_pass(subject.short());
    is_not_extended(subject, &lease);
    subject.is_free(lease.name(), "an extension after the end of a lease does not acquire the name");
    subject.create(lease.name());
    Ok(())
}

pub(super) fn an_extension_after_a_forget_is_refused<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let lease = subject.create(&subject.name("released"));
    subject.releases(&lease);
    is_not_extended(subject, &lease);
    subject.is_free(lease.name(), "an extension after a forget does not acquire the name");
    Ok(())
}

pub(super) fn an_extension_after_a_break_is_refused<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    subject.can_break()?;
    let name = subject.name("broken");
    let broken = subject.create(&name);
    subject.break_lease(&name);
    is_not_extended(subject, &broken);
    subject.is_free(&name, "an extension after a break does not acquire the name");
    let holder = subject.create(&name);
    let shortened = subject.extend(&broken, subject.short());
    must(!shortened, "the former holder of a broken lease can't shorten it", &name, "extend answered true");
    subject.let_pass(subject.short());
    subject.is_held_by(&holder, "an extension after a break changes nothing for the new holder");
    Ok(())
}

pub(super) fn a_late_extension_leaves_the_new_holder_alone<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let name = subject.name("late");
    let late = subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    let holder = subject.create(&name);
    is_not_extended(subject, &late);
    let shortened = subject.extend(&late, subject.short());
    must(!shortened, "only the owner can shorten a lease", &name, "extend answered true");
    subject.let_pass(subject.short());
    subject.is_held_by(&holder, "a late extension changes nothing for the new holder");
    subject.releases(&holder);

    let holder = subject.create_for(&name, subject.short());
    is_not_extended(subject, &late);
    subject.let_pass(subject.short());
    subject.is_free(holder.name(), "a late extension does not prolong the new holder's lease");
    Ok(())
}

pub(super) fn several_extensions_are_independent<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_extend()?;
    let four = subject.four_leases();
    let answers = subject.extend_all(&four.leases, subject.short());
    subject.let_pass(subject.short());
    subject.are_ended(&four, &answers, "each of several extensions succeeds or fails independently of the others");
    Ok(())
}

#[track_caller]
fn is_not_extended<H: Harness>(subject: &Subject<H>, lease: &Lease) {
    let extended = subject.extend(lease, long());
    must(!extended, "only the holder of a name can extend it", lease.name(), "extend answered true");
}
