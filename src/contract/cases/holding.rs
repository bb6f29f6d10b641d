//! Cases of `create`, `forget` and expiry.

use crate::contract::harness::Harness;
use crate::contract::subject::{Subject, answered, broken, must};
use crate::store::event_mutex::EventMutex;

pub(super) fn all_handles_of_a_harness_are_for_one_store<H: Harness>(subject: &Subject<H>) {
    let lease = subject.create(&subject.name("seen"));
    let is_seen = answered("exists", lease.name(), subject.harness.mutex().exists(lease.name()));
    let happened = "another handle does not see the lease: let `mutex` return a clone of one store";
    must(is_seen, "all handles of `Harness::mutex` are for one store", lease.name(), happened);
    subject.releases(&lease);
}

pub(super) fn a_free_name_is_granted_as_it_was_asked_for<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("granted");
    subject.is_free(&name, "a name without a holder is free");
    let request = subject.request(&name);
    let lease = answered("create", &name, subject.mutex.create(&request));
    let lease = lease.unwrap_or_else(|| broken("a free name is granted", &name, "create was refused"));
    let same = lease == request.granted(lease.token());
    must(same, "the lease matches the request", &name, format_args!("asked {request:?}, got {lease:?}"));
    subject.is_held_by(&lease, "a granted name is held");
}

pub(super) fn a_held_name_is_refused_and_its_holder_left_alone<H: Harness>(subject: &Subject<H>) {
    let lease = subject.create(&subject.name("held"));
    for _ in 0..3 {
        subject.is_refused(lease.name());
    }
    subject.is_held_by(&lease, "a refused create changes nothing for the holder");
    subject.releases(&lease);
}

pub(super) fn a_forgotten_name_is_free_again<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("forgotten");
    for _ in 0..3 {
        let lease = subject.create(&name);
        subject.releases(&lease);
        subject.is_free(&name, "a name that was released is free");
    }
}

pub(super) fn an_expired_name_is_free_again<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("expired");
    for _ in 0..2 {
        subject.create_for(&name, subject.short());
        subject.let_pass(subject.short());
        subject.is_free(&name, "a lease ends with its term");
    }
    let lease = subject.create(&name);
    subject.is_held_by(&lease, "an expired name is held by the next owner that acquired it");
}

pub(super) fn a_lease_lasts_for_its_whole_term<H: Harness>(subject: &Subject<H>) {
    subject.in_time(|name| {
        let lease = subject.create_for(name, subject.shorts(4));
        subject.let_pass(subject.short());
        let exists = subject.before(lease.deadline(), subject.exists(name))?;
        must(exists, "a lease does not end before its term", name, "exists answered false");
        let second = subject.before(lease.deadline(), subject.try_create(name))?;
        must(second.is_none(), "a lease does not end before its term", name, "another create was granted");
        Some(())
    });
}
