//! The program `soloist` with the options of a URL, and with the names of applications: changes in one namespace
//! are not visible in another.

use super::*;

/// Returns a place on a server, in a namespace.
fn place_at(url: &str, options: &str) -> Place {
    Place { store: format!("{url}?{options}"), ..Place::new() }
}

/// Runs, logs, pauses, lists and unlocks in one namespace, and reads the other.
#[track_caller]
fn are_apart([place, other]: [Place; 2]) {
    succeeds(&mut other.run("", "true"));
    succeeds(&mut place.run("--log 5", "true"));
    succeeds(&mut place.soloist("log j")).says("succeeded");
    succeeds(&mut other.soloist("log j")).says("no run of this event is on record");

    succeeds(&mut place.soloist("pause j"));
    answer(&mut place.run("-v", "true")).exits_with(CONFLICT).says("skipped, paused by ");
    succeeds(&mut other.run("", "true"));
    answer(&mut other.soloist("paused j")).exits_with(1);
    succeeds(&mut place.soloist("resume j"));

    let running = start(&mut place.run("--term 18s --grace 2s --schedule shop", "sleep 600"));
    assert_eq!(place.until_held()["application"], "shop");
    succeeds(&mut place.soloist("locks")).says(", application shop ");
    assert_eq!(succeeds(&mut other.soloist("locks")).printed, "nothing is held\n");
    succeeds(&mut other.run("", "true"));
    answer(&mut other.soloist("unlock j")).exits_with(1);
    succeeds(&mut place.soloist("unlock j")).says("j is free: its holder has stopped");
    running.ended().exits_with(143);
}

#[test]
fn two_folders_are_apart() {
    are_apart([Place::new(), Place::new()]);
}

#[test]
fn two_prefixes_are_apart() {
    let url = Redis::shared().url();
    are_apart(["prefix=apart-1&timeout=20s", "timeout=20s&prefix=apart-2"].map(|options| place_at(&url, options)));
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
#[test]
fn two_tables_are_apart() {
    use crate::servers::{mariadb::Mariadb, postgres::Postgres};

    for url in [Mariadb::shared().url(), Postgres::shared().url()] {
        let places = ["table=apart_1&timeout=20s", "timeout=20s&table=apart_2"].map(|options| place_at(&url, options));
        for place in &places {
            succeeds(&mut place.soloist("create-table"));
        }
        are_apart(places);
    }
}

#[test]
fn a_wrong_option_is_told_and_no_value_of_it() {
    for (options, why) in [
        ("prefix=secret&prefix=secret", "has the option prefix twice"),
        ("timeout=2secret", "has a timeout that is not a number with ms, s or m: write timeout=500ms"),
        ("timeout=1h", "has a timeout that is not a number with ms, s or m: write timeout=500ms"),
        (
            "table=secret",
            "has an unknown option: the options are `prefix`, `timeout` and `wait`; for TLS, write rediss://",
        ),
    ] {
        let refused = answer(&mut place_at("redis://:secret@localhost", options).soloist("locks")).exits_with(2);
        assert!(!refused.errors.contains("secret"), "{refused:?}");
        refused.says(&format!("soloist: the url of a redis server {why}"));
    }
}

#[test]
fn another_application_with_the_name_is_told_of() {
    let place = Place::new();
    let mut line = place.soloist("run --name carts:remind -- sleep 600");
    let _running = start(line.env("SOLOIST_APP", "billing").env("SOLOIST_INSTANCE", "web-1"));
    until(|| place.has_locks()).expect("it is taken");
    let held_by = Place::json(&mut place.soloist("locks"))[0]["held_by"].clone();
    assert_eq!((&held_by["application"], &held_by["instance"]), (&"billing".into(), &"web-1".into()));
    succeeds(&mut place.soloist("locks")).says(", instance web-1, application billing ");

    let run =
        |options: &str| answer(&mut place.soloist(&format!("run --name carts:remind -E {CONFLICT} {options} -- true")));
    run("--schedule shop").exits_with(CONFLICT).says("; two applications share this name: give each a prefix");
    run("--schedule billing").exits_with(CONFLICT).is_silent();
    run("").exits_with(CONFLICT).is_silent();

    // The schedule of the example is `shop`.
    let said = "the application billing has the event carts:remind, too, so that each application takes occurrences of the other";
    answer(&mut place.schedule("check")).exits_with(1).says(said);
    answer(&mut place.schedule("status")).exits_with(0).says(", instance web-1, application billing, since ");
}
