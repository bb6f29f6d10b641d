//! The list of the leases that are held, which is made of the states in the directory.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::time::Duration;

use soloist::store::Names;
use soloist::{EventMutex, MutexName};

use super::{Store, files, noon, reports, rested, take};

/// Returns the names in the list, and whether their holders are known.
#[track_caller]
fn listed(store: &Store, prefix: &str) -> Vec<(String, bool)> {
    let held = store.other().held(Names::LeasesWithPrefix(prefix)).unwrap();
    let mut listed: Vec<_> =
        held.iter().map(|held| (held.name().mutex().to_owned(), held.holder().is_some())).collect();
    listed.sort();
    listed
}

fn name(text: &str) -> MutexName {
    MutexName::lease(text).unwrap()
}

#[test]
fn leases_are_listed_by_the_names_that_their_states_say() {
    let store = Store::new();
    let mut names = ["shop:50 %\n", "shop:é/../\0", "shop:", "Shop:a", "shop;"].map(str::to_owned).to_vec();
    names.push(format!("shop:{}", "\u{85}".repeat(507)));
    let leases: Vec<_> = names.iter().map(|text| take(&store.mutex, &store.request(&name(text)))).collect();
    take(&store.mutex, &store.request(&name("shop:claims").claim("shop", noon())));
    names.sort();
    let all: Vec<_> = names.iter().map(|text| (text.clone(), true)).collect();
    assert_eq!(listed(&store, ""), all);
    let shops: Vec<_> = all.iter().filter(|(text, _)| text.starts_with("shop:")).cloned().collect();
    assert_eq!(listed(&store, "shop:"), shops);
    assert_eq!(listed(&store, "shop:50 %\n"), [("shop:50 %\n".to_owned(), true)]);
    let held = store.other().held(Names::LeasesWithPrefix("Shop")).unwrap();
    assert_eq!(held[0].holder().unwrap().owner(), leases[3].owner());
}

#[test]
fn what_was_given_back_has_expired_or_lost_its_process_is_not_listed() {
    let store = Store::new();
    let [kept, returned, resting] = ["kept", "returned", "resting"].map(|text| store.take(&name(text)));
    let other = store.other();
    take(&other, &store.request(&name("killed")));
    assert!(store.mutex.forget(&returned).unwrap());
    assert!(rested(&store.mutex, resting));
    drop(other); // Its life file is unlocked, as when its process is killed.
    assert_eq!(listed(&store, ""), [("kept".to_owned(), true), ("resting".to_owned(), true)]);
    store.clock.advance(Duration::from_secs(59));
    assert!(super::extended(&store.mutex, &kept));
    store.clock.advance(Duration::from_secs(1));
    assert_eq!(listed(&store, ""), [("kept".to_owned(), true)]);
}

#[test]
fn files_that_are_no_states_of_their_name_are_left_out_and_left_alone() {
    let store = Store::new();
    let mutex = store.other();
    take(&mutex, &store.request(&reports()));
    let state = fs::read(store.state()).unwrap();
    let at = |file: &str| store.path().join(file);
    fs::write(at("copied-8cb507b3-6fb7-5145-a68c-2f0aa5830fd9.state"), &state).unwrap();
    fs::write(at("text.state"), "of somebody else").unwrap();
    fs::write(at("empty.state"), "").unwrap();
    fs::create_dir(at("directory.state")).unwrap();
    symlink("/etc/hostname", at("link.state")).unwrap();
    let before = files(store.path());
    assert_eq!(listed(&store, ""), [("reports".to_owned(), true)]);
    assert_eq!(files(store.path()), before);
    assert_eq!(fs::read(at("text.state")).unwrap(), b"of somebody else");
}

#[test]
fn a_mutex_that_stays_locked_hides_no_other_and_not_its_own_holder() {
    let store = Store::new();
    let [stuck, other] = ["stuck", "other"].map(|text| store.take(&name(text)));
    let locks = files(store.path()).into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "lock"));
    let locks: Vec<File> = locks.map(|lock| File::options().write(true).open(lock).unwrap()).collect();
    locks[1].lock().unwrap();
    let all = [("other".to_owned(), true), ("stuck".to_owned(), true)];
    assert_eq!(listed(&store, ""), all);
    let names = [stuck.name().clone(), name("free"), other.name().clone()];
    assert_eq!(store.mutex.held(Names::Each(&names)).unwrap().len(), 2);
    assert!(store.mutex.exists(stuck.name()).unwrap());
}
