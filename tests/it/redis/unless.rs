//! Admissions that a held name excludes, and the list of held names.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use soloist::store::{Admission, Admitted, Held, Holder, Lease, LeaseRequest, Names};
use soloist::time::Clock;
use soloist::{EventMutex, MutexName, RedisMutex, Term};

use super::{carry_out, entries};
use crate::servers::redis::Redis;
use crate::support::noon;

fn name(text: &str) -> MutexName {
    MutexName::lease(text).expect("a name")
}

fn request(name: &MutexName) -> LeaseRequest {
    LeaseRequest::new(name.clone(), Term::DEFAULT, &Clock::system())
}

fn store(server: &Redis) -> RedisMutex {
    super::patient(&server.url())
}

/// Returns an admission of the lease and a claim of `event`, unless `migration` is held.
fn import(event: &str) -> Admission {
    let lease = request(&name(event));
    let claim = lease.with(name(event).claim(event, noon()), Term::DEFAULT);
    Admission::both(lease, claim).unless(name("migration"))
}

#[track_caller]
fn migrate(mutex: &RedisMutex) -> Lease {
    mutex.create(&request(&name("migration"))).expect("an answer").expect("it is free")
}

/// Returns the answers to these admissions in one batch, after the release of this lease.
#[track_caller]
fn decided(mutex: &RedisMutex, release: Option<Lease>, admissions: Vec<Admission>) -> Vec<Admitted> {
    let batch = carry_out(mutex, release.into_iter().collect(), admissions);
    assert!(batch.releases().iter().all(|slot| matches!(slot.answer(), Some(Ok(true)))), "{batch:?}");
    batch.admissions().iter().map(|slot| slot.answer().expect("an answer").clone().expect("it is known")).collect()
}

fn is_excluded_by(admitted: &Admitted, lease: &Lease) -> bool {
    matches!(admitted, Admitted::Excluded(held) if held.holder().is_some_and(|it| it.owner() == lease.owner()))
}

fn is_granted(admitted: &Admitted) -> bool {
    matches!(admitted, Admitted::Granted(_))
}

#[test]
fn a_hundred_admissions_that_one_name_excludes_ask_once() {
    let server = Redis::start();
    let mutex = store(&server);
    let imports = || (0..100).map(|number| import(&number.to_string())).collect::<Vec<_>>();
    let migration = migrate(&mutex);
    let mut monitor = server.monitor();
    let answers = decided(&mutex, None, imports());
    assert!(answers.iter().all(|answer| is_excluded_by(answer, &migration)), "{answers:?}");
    let asked = monitor.commands();
    assert_eq!(asked.len(), 1, "{asked:#?}");
    assert_eq!(entries(&server), ["{soloist}:lease/migration"], "nothing was taken");

    assert!(decided(&mutex, Some(migration), imports()).iter().all(is_granted), "it was given back before that");
    let asked = monitor.commands();
    assert_eq!(asked.len(), 1, "the release and the gates: {asked:#?}");
}

#[test]
fn whatever_is_at_the_key_of_an_excluding_name_excludes() {
    let server = Redis::start();
    for foreign in [&["SET", "{soloist}:lease/migration", "by hand"][..], &["RPUSH", "{soloist}:lease/migration", "1"]]
    {
        server.ask(&["DEL", "{soloist}:lease/migration"]);
        server.ask(foreign);
        let answer = import("report").ask(&store(&server)).expect("an answer");
        assert!(matches!(&answer, Admitted::Excluded(held) if held.holder().is_none()), "{answer:?}");
    }
    server.ask(&["DEL", "{soloist}:lease/migration"]);
    assert!(is_granted(&import("report").ask(&store(&server)).expect("an answer")));
}

#[test]
fn what_an_earlier_admission_of_a_batch_took_excludes_the_later_ones() {
    let migration = Admission::lease_only(request(&name("migration")));
    // The second admission takes the name that excludes the others, also with an exclusion of its own.
    for migration in [migration.clone(), migration.unless(name("migration"))] {
        for server in [Redis::start(), Redis::cluster_node()] {
            let batch = vec![import("before"), migration.clone(), import("after"), import("last")];
            let answers = decided(&store(&server), None, batch);
            assert!(is_granted(&answers[0]) && is_granted(&answers[1]), "{answers:?}");
            assert!(answers[2..].iter().all(|answer| matches!(answer, Admitted::Excluded(_))), "{answers:?}");
        }
    }
}

#[test]
fn a_name_may_exclude_admissions_of_its_own_mutex() {
    for server in [Redis::shared(), Redis::shared_cluster_node()] {
        let own = name("excluded by itself");
        let mark = own.mark("excluded by itself", "stop");
        let admission = || Admission::lease_only(request(&own)).unless(mark.clone());
        let mutex = store(server);
        let held = mutex.create(&request(&mark)).expect("an answer").expect("it is free");
        assert!(is_excluded_by(&admission().ask(&mutex).expect("an answer"), &held));
        assert!(mutex.forget(&held).expect("an answer"));
        assert!(is_granted(&admission().ask(&mutex).expect("an answer")));
    }
}

/// Loses the reply. The owner asks again, and another caller may have come in between that waits for the run to
/// end.
#[test]
fn what_was_granted_stays_granted_whoever_excludes_it_since() {
    for server in [Redis::shared(), Redis::shared_cluster_node()] {
        let (own, mutex) = (name("granted before"), store(server));
        let mark = own.mark("granted before", "queue 1");
        let lease = request(&own);
        let claim = lease.with(own.claim("granted before", noon()), Term::DEFAULT);
        let admission = Admission::both(lease, claim).unless(mark.clone());
        let Admitted::Granted(first) = admission.ask(&mutex).expect("an answer") else { panic!("it is free") };
        let held = mutex.create(&request(&mark)).expect("an answer").expect("it is free");
        let Admitted::Granted(again) = admission.ask(&mutex).expect("an answer") else { panic!("it is ours") };
        assert_eq!(again.token(), first.token());
        assert!(mutex.forget(first.lease().expect("a lease")).expect("an answer"));
        assert!(is_excluded_by(&admission.ask(&mutex).expect("an answer"), &held), "its run is over");
    }
}

/// Lets eight threads request two names that exclude each other. In two steps, both would be held sooner or later.
#[test]
fn of_two_names_that_exclude_each_other_never_both_are_held() {
    let server = Redis::start();
    let (names, granted) = ([name("one"), name("other")], AtomicUsize::new(0));
    let held = [(); 2].map(|()| AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..8 {
            let (mutex, names, granted, held) = (store(&server), &names, &granted, &held);
            let (own, other) = (thread % 2, 1 - thread % 2);
            scope.spawn(move || {
                for _ in 0..200 {
                    let admission = Admission::lease_only(request(&names[own])).unless(names[other].clone());
                    let Admitted::Granted(grant) = admission.ask(&mutex).expect("an answer") else { continue };
                    held[own].fetch_add(1, Ordering::SeqCst);
                    granted.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(held[other].load(Ordering::SeqCst), 0, "both are held");
                    thread::yield_now();
                    held[own].fetch_sub(1, Ordering::SeqCst);
                    assert!(mutex.forget(grant.lease().expect("a lease")).expect("an answer"));
                }
            });
        }
    });
    assert!(granted.into_inner() > 8, "hardly anybody was admitted");
}

/// Makes more leases than the server scans for one reply, among as many with other prefixes.
#[test]
fn leases_are_listed_by_the_beginning_of_their_names_whatever_these_are_made_of() {
    let server = Redis::start();
    let prefix = r"a*[b]?\:";
    let timeout = Duration::from_secs(10); // so many admissions take a busy machine a while
    let mutex = RedisMutex::builder(&server.url()).prefix(prefix).timeout(timeout).build().expect("a prefix");
    let odd =
        ["*", "*a", "?", "[a]", r"\", r"\*", "{", "}", "%", "%41", "A", "Größe", "a\nb", "a b", "a/b", "a:b", "^-"];
    let many = (0..1500).map(|number| format!("many {number}"));
    let names: Vec<MutexName> = odd.map(str::to_owned).into_iter().chain(many).map(|text| name(&text)).collect();
    let admissions = names.iter().map(|name| {
        let lease = request(name);
        Admission::both(lease.clone(), lease.with(name.claim("claimed", noon()), Term::DEFAULT))
    });
    let granted = decided(&mutex, None, admissions.collect());
    // The keys of others, and of another store.
    let foreign = [
        r"{a*[b]?\:}:lease/",
        r"{a*[b]?\:}:lease/%61",
        r"{a*[b]?\:}:lease/a/b",
        r"{a*[b]?\:}:lease/a{",
        "{aXb?:}:lease/*",
    ];
    for key in foreign {
        server.ask(&["SET", key, "1"]);
    }
    assert!(store(&server).create(&request(&name("*"))).expect("an answer").is_some());

    for prefix in ["", "*", "?", "[", r"\", "{", "%", "%4", "A", "Gr", "Größ", "a", "a\n", "many ", "many 10", "none"]
    {
        let asked = Names::LeasesWithPrefix(prefix);
        let expected: BTreeSet<&MutexName> = names.iter().filter(|name| asked.contain(name)).collect();
        let found = mutex.held(asked).expect("an answer");
        assert_eq!(found.iter().map(Held::name).collect::<BTreeSet<_>>(), expected, "{prefix:?}");
        assert_eq!(found.len(), expected.len(), "{prefix:?}");
        for held in found {
            let at = names.iter().position(|name| name == held.name()).expect("it is one of them");
            let Admitted::Granted(grant) = &granted[at] else { panic!("{:?}", granted[at]) };
            assert_eq!(held.holder().map(Holder::token), Some(grant.token()));
        }
    }

    server.ask(&["SET", r"{a*[b]?\:}:lease/b", "by hand"]);
    let found = mutex.held(Names::LeasesWithPrefix("b")).expect("an answer");
    assert_eq!(found, [Held::new(name("b"), None)], "what somebody else wrote hides no other");
    server.kill();
    let error = mutex.held(Names::LeasesWithPrefix("b")).expect_err("nobody answers");
    assert!(
        error.is_unavailable() && error.to_string().starts_with("could not list the leases in redis://"),
        "{error}"
    );
}
