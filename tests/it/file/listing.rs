//! The list of the leases that are held, which is made of the records in the directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use soloist::{EventMutex, MutexName, Names};

use super::torn::put;
use super::{Store, files, noon, reports, rested, take};

/// The names in the list, and whether their holders are known.
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
fn leases_are_listed_by_the_names_that_their_records_say() {
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
fn files_that_are_no_records_of_their_name_are_left_out_and_left_alone() {
    let store = Store::new();
    let mutex = store.other();
    take(&mutex, &store.request(&reports()));
    let record = fs::read(store.record()).unwrap();
    let at = |file: &str| store.path().join(file);
    fs::write(at("copied-8cb507b3-6fb7-5145-a68c-2f0aa5830fd9.record"), &record).unwrap();
    fs::write(at("text.record"), "of somebody else").unwrap();
    fs::write(at("empty.record"), "").unwrap();
    fs::create_dir(at("directory.record")).unwrap();
    symlink("/etc/hostname", at("link.record")).unwrap();
    let before = files(store.path());
    assert_eq!(listed(&store, ""), [("reports".to_owned(), true)]);
    assert_eq!(files(store.path()), before);
    assert_eq!(fs::read(at("text.record")).unwrap(), b"of somebody else");
}

#[test]
fn a_lease_whose_state_is_torn_is_listed_without_its_holder() {
    let store = Store::new();
    let other = store.other();
    take(&other, &store.request(&reports()));
    let record = fs::read(store.record()).unwrap();
    put(&store.record(), &record[..300]);
    assert_eq!(listed(&store, "rep"), [("reports".to_owned(), false)]);
    put(&store.record(), &record[..200]);
    assert_eq!(listed(&store, ""), [], "it does not say its name");
    assert!(store.mutex.exists(&reports()).unwrap());
    drop(other);
    put(&store.record(), &record[..300]);
    assert_eq!(listed(&store, ""), []);
}
