//! Cases of `exists` and `held`: a read changes nothing, and the answers are true.

use std::sync::Arc;

use chrono::TimeDelta;

use super::naming::ODD;
use crate::contract::subject::{
    CaseResult, DoesNotApply, Subject, answered, broken, leases_of, long, must, occurrence,
};
use crate::contract::{harness::Harness, race::beside, race::repeat};
use crate::lease::label::{LONGEST, Label};
use crate::lease::{holder::Holder, name::MutexName, request::Lease};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::{EventMutex, held::Held, held::Names};

pub(super) fn looking_at_a_free_name_leaves_it_free<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("free");
    for _ in 0..10 {
        subject.is_free(&name, "a read does not acquire the name");
        let holder = subject.holder(&name);
        must(holder.is_none(), "a free name has no holder", &name, format_args!("the holder is {holder:?}"));
    }
    let lease = subject.create(&name);
    subject.releases(&lease);
    subject.is_free(&name, "a read does not acquire the name");
}

pub(super) fn looking_at_a_held_name_does_not_end_it<H: Harness>(subject: &Subject<H>) {
    let lease = subject.create(&subject.name("held"));
    for _ in 0..100 {
        subject.is_held_by(&lease, "a read ends no lease");
    }
    subject.is_refused(lease.name());
    subject.releases(&lease);
}

pub(super) fn looking_at_a_held_name_does_not_prolong_it<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("looked at");
    subject.create_for(&name, subject.shorts(4));
    for _ in 0..4 {
        subject.let_pass(subject.short());
        subject.exists(&name);
        subject.holder(&name);
    }
    subject.is_free(&name, "a read prolongs no lease");
    subject.create(&name);
}

pub(super) fn looking_never_makes_a_create_fail<H: Harness>(subject: &Subject<H>) {
    let name = subject.name("hammered");
    let tells = |mutex: &dyn EventMutex, names| match mutex.held(names) {
        Err(error) if error.is_unsupported() => {}
        answer => drop(answered("held", &name, answer)),
    };
    let look = || {
        let mutex = subject.harness.mutex();
        for _ in 0..50 {
            answered("exists", &name, mutex.exists(&name));
            tells(&mutex, Names::of(&name));
        }
        tells(&mutex, Names::LeasesWithPrefix(name.mutex()));
    };
    let create = |_| {
        let promise = "a read makes no create fail";
        let lease = subject.try_create(&name).unwrap_or_else(|| broken(promise, &name, "the only create was refused"));
        subject.is_held(&name, "a read ends no lease");
        subject.releases(&lease);
    };
    beside(3, look, || repeat(20, 100, create));
}

pub(super) fn the_holder_is_told_truly_or_not_at_all<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let name = subject.name("holder");
    let lease = subject.create(&name);
    let told = subject.holder(&name);
    subject.is_told(&lease, told.as_ref(), "the answer names the right holder");
    let told = told.ok_or(DoesNotApply("the store keeps no holders"))?;
    let promise = "a holder has its host, its process id, and the start and the end of its lease";
    must(told.pid() == std::process::id(), promise, &name, format_args!("found {told:?}"));
    must(!told.host().is_empty(), promise, &name, format_args!("found {told:?}"));
    let term = TimeDelta::from_std(long().get()).expect("ten minutes are a time span");
    let off = (told.until() - told.since() - term).abs();
    must(off < TimeDelta::seconds(2), promise, &name, format_args!("found {told:?} for a term of {term}"));
    subject.releases(&lease);
    let after = subject.holder(&name);
    must(after.is_none(), "a free name has no holder", &name, format_args!("found {after:?}"));

    let next = subject.create(&name);
    subject.is_told(&next, subject.holder(&name).as_ref(), "after a release, the answer names the next holder");
    subject.releases(&next);
    subject.create_for(&name, subject.short());
    subject.let_pass(subject.short());
    let after = subject.holder(&name);
    must(after.is_none(), "an expired name has no holder", &name, format_args!("found {after:?}"));
    Ok(())
}

pub(super) fn the_holder_tells_for_which_occurrence_it_holds<H: Harness>(subject: &Subject<H>) -> CaseResult {
    if !subject.keeps_holders() {
        return Err(DoesNotApply("the store keeps no holders"));
    }
    let promise = "a holder has the occurrence for which it holds a name";
    let lease = subject.name("for an occurrence");
    let can_extend = subject.mutex.describe().can_extend();
    for name in [lease.mark("event", "queue 1"), lease] {
        for occurrence in [Some(occurrence(7)), None, Some(occurrence(8))] {
            let asked = subject.request(&name);
            let asked = if let Some(occurrence) = occurrence { asked.for_occurrence(occurrence) } else { asked };
            let lease = answered("create", &name, subject.mutex.create(&asked));
            let lease = lease.unwrap_or_else(|| broken("a free name is granted", &name, "create was refused"));
            for is_extended in [false, true] {
                let told = subject.holder(&name).and_then(|holder| holder.occurrence());
                must(told == occurrence, promise, &name, format_args!("found {told:?} instead of {occurrence:?}"));
                if can_extend && !is_extended {
                    must(
                        subject.extend(&lease, long()),
                        "the owner can extend its lease",
                        &name,
                        "extend answered false",
                    );
                }
            }
            subject.releases(&lease);
        }
    }
    Ok(())
}

pub(super) fn the_holder_tells_its_application_and_its_instance<H: Harness>(subject: &Subject<H>) -> CaseResult {
    if !subject.keeps_holders() {
        return Err(DoesNotApply("the store keeps no holders"));
    }
    let promise = "a holder has its application and its instance";
    let (name, longest) = (subject.name("of an application"), "😀".repeat(LONGEST));
    let claim = name.claim("event", occurrence(0));
    let labels = [["shop", "blue"], ["my shop (a) app=%41", "instance=b ü"], [&*longest, &*longest]];
    for [application, instance] in labels {
        let [application, instance] = [application, instance].map(|part| Some(part.into()));
        let (timetable, reason) = (Some("daily at 02:30, UTC".into()), Some("a (good) reason".into()));
        let label = Arc::new(Label { application, instance, timetable, reason });
        let lease = subject.request(&name).labelled(Some(label.clone()));
        let both = Admission::both(lease.clone(), lease.with(claim.clone(), long()));
        let Admitted::Granted(grant) = subject.admit(&both) else {
            broken("a free lease and a free claim are granted", &name, "the admission was refused")
        };
        for name in [&name, &claim] {
            let told = subject.holder(name);
            // A store may cut off the end of a long text. The reason is the last part of the text.
            let is_cut = told.as_ref().is_some_and(|holder| holder.reason() != label.reason.as_deref());
            let parts = |holder: &Holder| {
                [holder.application(), holder.instance(), holder.timetable()].map(|part| part.map(Arc::<str>::from))
            };
            let told = told.as_ref().map(parts).unwrap_or_default();
            if told == [None, None, None] {
                return Err(DoesNotApply("the store does not keep the text of a holder"));
            }
            let expected = [label.application.clone(), label.instance.clone(), label.timetable.clone()];
            let may_differ = is_cut && label.application.as_deref() == Some(&*longest);
            must(may_differ || told == expected, promise, name, format_args!("found {told:?} instead of {expected:?}"));
        }
        leases_of(&grant).for_each(|lease| subject.releases(lease));
    }
    let lease = subject.create(&name);
    let told = subject.holder(&name).and_then(|holder| holder.application().map(str::to_owned));
    must(told.is_none(), "if a request has no application, its holder has none", &name, format_args!("found {told:?}"));
    subject.releases(&lease);
    Ok(())
}

pub(super) fn each_of_several_names_is_told_that_is_held<H: Harness>(subject: &Subject<H>) {
    let promise = "a read of several names returns the held names, and no others";
    let (one, other) = (subject.name("one of several"), subject.name("another of several"));
    let marks = (1..=100).map(|number| one.mark("event", format!("place {number}")));
    let of_other = [other.clone(), other.claim("event", occurrence(0))];
    let names: Vec<MutexName> = marks.chain([one.clone(), one.claim("event", occurrence(0))]).chain(of_other).collect();
    let are_told = |expected: &[&Lease]| {
        let mut told = subject.held(Names::Each(&names)).unwrap_or_else(|| {
            broken("every store can read several names", &one, "held answered that the store can't do this")
        });
        // A store may return the names in any order.
        told.sort_by_key(|held| names.iter().position(|name| name == held.name()));
        let same = told.iter().map(Held::name).eq(expected.iter().map(|lease| lease.name()));
        must(same, promise, &one, format_args!("found {told:?} instead of {expected:?}"));
        for (held, lease) in told.iter().zip(expected) {
            subject.is_told(lease, held.holder(), "a read of several names returns the right holders");
        }
    };
    are_told(&[]);
    let mut held: Vec<Lease> = [1, 41, 99, 100, 101, 102, 103].map(|at| subject.create(&names[at])).into();
    subject.create(&one.mark("event", "not asked about"));
    while let Some(lease) = held.pop() {
        are_told(&held.iter().chain([&lease]).collect::<Vec<_>>());
        subject.releases(&lease);
    }
    are_told(&[]);
    let none = subject.held(Names::Each(&[]));
    must(none.is_some_and(|told| told.is_empty()), promise, &one, "a read of no names returned something");
}

pub(super) fn a_store_lists_the_leases_that_are_held_and_nothing_else<H: Harness>(subject: &Subject<H>) -> CaseResult {
    can_list(subject)?;
    let prefix = subject.name("listed:");
    let name = |text: &str| subject.name(format_args!("listed:{text}"));
    let held = ["", "a", "b", "a:b", "c", "C"].map(|text| subject.create(&name(text)));
    // The list must not have names with another prefix, names of other kinds, or names that are not held any more.
    for other in ["listed", "Listed:a", "listed;", "other:listed:"] {
        subject.create(&subject.name(other));
    }
    for of in [&held[1], &subject.create(&subject.name("unlisted"))] {
        subject.create(&of.name().claim("event", occurrence(0)));
        subject.create(&of.name().permit("event", "day@1970-01-01T00:00:00+00:00"));
        subject.create(&of.name().mark("event", "paused"));
    }
    subject.create(&name("claimed alone").claim("event", occurrence(0)));
    subject.create(&name("marked alone").mark("event", "paused"));
    subject.releases(&subject.create(&name("released")));
    subject.create_for(&name("ended"), subject.short());
    subject.let_pass(subject.short());

    let of = held[1].name().mutex();
    if let Some(marks) = subject.held(Names::MarksOf(of)) {
        let names: Vec<&MutexName> = marks.iter().map(Held::name).collect();
        let expected = held[1].name().mark("event", "paused");
        must(
            names == [&expected],
            "the markers of a mutex are listed",
            &expected,
            format_args!("listed are {names:?}"),
        );
    }

    let mut expected: Vec<&Lease> = held.iter().collect();
    are_listed(subject, prefix.mutex(), &expected);
    while let Some(lease) = expected.pop() {
        subject.releases(lease);
        are_listed(subject, prefix.mutex(), &expected);
    }
    Ok(())
}

pub(super) fn a_prefix_is_text_and_no_pattern<H: Harness>(subject: &Subject<H>) -> CaseResult {
    can_list(subject)?;
    let leases: Vec<Lease> = ODD.iter().map(|ending| subject.create(&subject.name(ending))).collect();
    for prefix in leases.iter().map(|lease| lease.name().mutex()).chain([&*subject.run]) {
        let expected: Vec<&Lease> = leases.iter().filter(|lease| lease.name().mutex().starts_with(prefix)).collect();
        are_listed(subject, prefix, &expected);
    }
    let longest = format!("{:x<1$}", subject.run, MutexName::MAX_CHARS);
    for none in [&longest, &format!("{longest}x"), &format!("{}\u{10ffff}", subject.run)] {
        are_listed(subject, none, &[]);
    }
    let all = subject.held(Names::LeasesWithPrefix("")).unwrap_or_default();
    for lease in &leases {
        let listed = all.iter().filter(|held| held.name() == lease.name()).count();
        must(
            listed == 1,
            "an empty prefix lists all leases",
            lease.name(),
            format_args!("it was listed {listed} times"),
        );
    }
    Ok(())
}

/// Returns an error if the store can't list leases by a prefix. Fails if the store can do so only sometimes.
fn can_list<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let name = subject.name("whether leases are listed");
    let list = || subject.held(Names::LeasesWithPrefix(name.mutex())).map(|held| held.len());
    let lease = subject.create(&name);
    let held = list();
    subject.releases(&lease);
    match (held, list()) {
        (Some(1), Some(0)) => Ok(()),
        (None, None) => Err(DoesNotApply("the store can't list leases by a prefix, and says so")),
        counts => {
            broken("a store that can't list leases says so each time", &name, format_args!("it listed {counts:?}"))
        }
    }
}

/// Checks that the list by `prefix` has exactly the leases `expected`, each once and with the right holder.
#[track_caller]
fn are_listed<H: Harness>(subject: &Subject<H>, prefix: &str, expected: &[&Lease]) {
    let mut listed = subject.held(Names::LeasesWithPrefix(prefix)).unwrap_or_default();
    listed.sort_by(|a, b| a.name().cmp(b.name()));
    let mut expected = expected.to_vec();
    expected.sort_by(|a, b| a.name().cmp(b.name()));
    let promise = "a list by prefix has exactly the leases whose names begin with the prefix";
    let names = listed.iter().map(Held::name);
    let same = names.eq(expected.iter().map(|lease| lease.name()));
    let happened = format_args!("{listed:?} were listed instead of {expected:?}");
    must(same, promise, &prefix, happened);
    for (held, lease) in listed.iter().zip(&expected) {
        subject.is_told(lease, held.holder(), "the list has the right holders");
    }
}
