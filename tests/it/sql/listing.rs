//! The list of held leases: one read of the rows with a prefix.

use soloist::store::Names;
use soloist::{EventMutex, MutexName};

use super::on_both;
use super::trouble::{Trouble, request};
use crate::support::noon;

on_both!(leases_are_listed_by_prefix_whatever_characters_it_has);

#[track_caller]
fn listed(mutex: &impl EventMutex, prefix: &str) -> Vec<String> {
    let held = mutex.held(Names::LeasesWithPrefix(prefix)).expect("the server answers");
    assert!(held.iter().all(|held| held.holder().is_some()));
    let mut names: Vec<String> = held.iter().map(|held| held.name().mutex().to_owned()).collect();
    names.sort();
    names
}

fn leases_are_listed_by_prefix_whatever_characters_it_has<S: Trouble>() {
    let server = S::start();
    let mutex = server.mutex();
    let mut names =
        ["50%", "50_", "50x", "50!a", "50\\", "50'", "50/é 😀", "5%0", "shop:a", "Shop:a"].map(str::to_owned);
    names.sort();
    let leases = names.each_ref().map(|name| mutex.create(&request(name)).unwrap().expect("it is free"));
    let cut = request(&"c".repeat(512));
    mutex.create(&cut).unwrap().expect("it is free");
    mutex.create(&request("x").with(leases[0].name().claim("shop", noon()), leases[0].term())).unwrap();
    assert_eq!(listed(&mutex, ""), names, "but for a name that is cut");
    for prefix in ["50", "50%", "50_", "50!", "50\\", "50'", "50/", "50/é ", "5", "shop:", "Shop", "%", "c", "lease/"]
    {
        let expected: Vec<&String> = names.iter().filter(|name| name.starts_with(prefix)).collect();
        assert_eq!(listed(&mutex, prefix), expected.into_iter().cloned().collect::<Vec<_>>(), "{prefix}");
    }
    let [released, ended] = ["50_", "50x"].map(|name| MutexName::lease(name).expect("a name"));
    let lease = leases.iter().find(|lease| *lease.name() == released).expect("it was taken");
    assert!(mutex.forget(lease).unwrap());
    server.ask(&format!("UPDATE soloist_mutexes SET expires_at = {} WHERE name = '{ended}'", S::NOW));
    assert_eq!(listed(&mutex, "50"), ["50!a", "50%", "50'", "50/é 😀", "50\\"]);
}
