//! Admissions that another name excludes: decided under the locks of both mutexes.

use std::sync::Barrier;
use std::thread;

use soloist::store::{Admission, Admitted};
use soloist::{EventMutex, FileMutex, MutexName};

use super::torn::put;
use super::{Store, admitted, files, noon, patiently, release, reports, take};

fn name(text: &str) -> MutexName {
    MutexName::lease(text).unwrap()
}

/// Returns an admission of the first name, unless the second is held.
fn unless(store: &Store, [wanted, excluding]: [&MutexName; 2]) -> Admission {
    Admission::lease_only(store.request(wanted)).unless(excluding.clone())
}

/// Asks for both at one moment, each through a handle of its own. Returns how many are granted.
fn granted_of(handles: &[FileMutex; 2], asked: [Admission; 2]) -> usize {
    let gate = Barrier::new(2);
    let ask = |(mutex, admission): (&FileMutex, Admission)| {
        gate.wait();
        usize::from(matches!(patiently(|| admission.ask(mutex)).unwrap(), Admitted::Granted(_)))
    };
    thread::scope(|scope| {
        let ask = &ask;
        let threads: Vec<_> = handles.iter().zip(asked).map(|pair| scope.spawn(move || ask(pair))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn two_names_that_exclude_each_other_are_never_held_together_also_before_their_files_are_there() {
    let store = Store::new();
    let handles = [store.other(), store.other()];
    for round in 0..150 {
        let names = ["a", "b"].map(|side| name(&format!("{side}{round}")));
        let asked = [0, 1].map(|at| unless(&store, [&names[at], &names[1 - at]]));
        assert_eq!(granted_of(&handles, asked), 1, "in round {round}");
    }
}

#[test]
fn those_whose_names_exclude_each_other_do_not_wait_for_each_other() {
    let store = Store::new();
    let names = [name("a"), name("b")];
    for name in &names {
        store.assert_free(name); // Creates the files.
    }
    let gate = Barrier::new(4);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (mutex, names, gate, store) = (store.other(), &names, &gate, &store);
            scope.spawn(move || {
                let [wanted, excluding] = [&names[thread % 2], &names[1 - thread % 2]];
                let admission = unless(store, [wanted, excluding]);
                gate.wait();
                for _ in 0..150 {
                    if let Admitted::Granted(grant) = patiently(|| admission.ask(&mutex)).unwrap() {
                        assert!(!mutex.exists(excluding).unwrap(), "both are held");
                        release(&mutex, grant.lease().unwrap());
                    }
                }
            });
        }
    });
}

#[test]
fn a_name_that_was_never_asked_for_excludes_nothing() {
    let store = Store::new();
    let paused = name("shop").mark("shop", "paused");
    admitted(&store.mutex, &Admission::lease_only(store.request(&reports())).unless(paused.clone()));
    assert_eq!(files(store.path()).len(), 4, "three files, and the lock of the other mutex");
    take(&store.mutex, &store.request(&paused));
    let import = Admission::lease_only(store.request(&name("import"))).unless(paused.clone());
    assert!(matches!(import.ask(&store.mutex), Ok(Admitted::Excluded(_))));
    assert!(store.mutex.break_lease(&paused).unwrap().is_some());
    admitted(&store.mutex, &import);
}

#[test]
fn a_name_of_the_same_mutex_excludes_within_one_state() {
    let store = Store::new();
    let (mark, claim) = (reports().mark("reports", "paused"), reports().claim("reports", noon()));
    let both = store.both(&reports(), &claim).unless(mark.clone());
    take(&store.mutex, &store.request(&mark));
    assert!(matches!(both.ask(&store.mutex), Ok(Admitted::Excluded(_))));
    assert!(store.mutex.break_lease(&mark).unwrap().is_some());
    let grant = admitted(&store.mutex, &both);
    let claim = Admission::claim_only(store.request(&reports().claim("other", noon())));
    let excluded = claim.unless(reports()).ask(&store.mutex).unwrap();
    assert!(
        matches!(excluded, Admitted::Excluded(held) if held.holder().unwrap().owner() == grant.lease().unwrap().owner())
    );
}

#[test]
fn a_holder_whom_no_state_names_excludes_as_long_as_it_lives() {
    let store = Store::new();
    let other = store.other();
    take(&other, &store.request(&reports()));
    put(&store.state(), b"");
    for text in ["a", "z"] {
        let wanted = name(text);
        let error = unless(&store, [&wanted, &reports()]).ask(&store.mutex).unwrap_err();
        assert!(error.to_string().contains("still lives"), "{error}");
    }
    drop(other);
    admitted(&store.mutex, &unless(&store, [&name("a"), &reports()]));
}

/// Asks for names that lie before, between and behind one another; the files of one of them are not there yet.
#[test]
fn three_names_that_exclude_each_other_are_never_held_together_also_before_their_files_are_there() {
    let store = Store::new();
    let handles = [store.other(), store.other()];
    for round in 0..100 {
        let [before, between, behind] = ["a", "m", "z"].map(|side| name(&format!("{side}{round}")));
        store.assert_free(&before);
        let of_between = unless(&store, [&between, &before]).unless(behind.clone());
        let of_behind = unless(&store, [&behind, &between]);
        assert_eq!(granted_of(&handles, [of_between, of_behind]), 1, "in round {round}");
    }
}
