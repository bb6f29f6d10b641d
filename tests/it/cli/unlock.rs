//! `unlock`: asks the holder of a lease to stop, and waits; takes the lease only by force.

use std::time::Instant;

use soloist::store::{Holder, Names};
use soloist::{EventMutex, LeaseGuard, MutexName, Term};

use super::*;
use crate::support::{group_lives, number_in, worker};

fn term(seconds: u64) -> Term {
    Term::new(Duration::from_secs(seconds)).expect("it is in bounds")
}

/// Starts a run that holds the lease `j`. Returns it with the number of its group.
#[track_caller]
fn holder(place: &Place, options: &str, line: &str) -> (Running, u32) {
    let running = start(&mut place.run(options, &format!("echo $$ >group; {line}")));
    (running, number_in(&place.path("group")))
}

#[track_caller]
fn a_holder_that_is_asked_stops_and_its_successor_is_left_alone(place: &Place) {
    let (first, group) = holder(place, "--term 18s --grace 2s", "sleep 600");
    let host = place.until_held()["host"].as_str().expect("it is a name").to_owned();
    // An hour for the request to stop, which outlives its answer.
    let asked = succeeds(&mut place.soloist("unlock j --wait 1h"));
    assert_eq!(asked.printed, "j is free: its holder has stopped\n");
    asked.says(&format!("soloist: j is held by {host}, pid {}, since ", first.id())).says(
        "soloist: its holder is asked to stop: a run sees this when it next renews its lease; waiting for 1 h 0 min\n",
    );
    assert!(!group_lives(group));
    first.ended().exits_with(143).says("because an operator frees its lease");
    place.is_free();

    let second = start(&mut place.run("--term 18s --grace 2s", "sleep 8; echo done"));
    let third = place.until_held();
    assert_eq!(third["pid"], second.id());
    assert_eq!(second.ended().exits_with(0).printed, "done\n", "it has renewed its lease");
}

#[test]
fn nobody_holds_what_is_free() {
    let place = Place::new().used();
    for options in ["", "--kill", "--force"] {
        let answer = answer(&mut place.soloist(&format!("unlock {options} j"))).exits_with(1);
        assert_eq!(
            (&*answer.printed, &*answer.errors),
            ("j is free: nobody holds it; `locks` lists the held names\n", "")
        );
    }
}

#[test]
fn a_command_that_does_not_hear_is_killed_after_its_grace() {
    let place = Place::new();
    let (running, group) =
        holder(&place, "--term 18s --grace 5s", "trap 'echo TERM >told' TERM; sleep 600 & wait; sleep 600");
    succeeds(&mut place.soloist("unlock j")).says("j is free");
    assert_eq!(place.read("told"), "TERM\n");
    assert!(!group_lives(group));
    running.ended().exits_with(143).says("ended by signal 9 (SIGKILL)");
}

#[test]
fn a_command_that_goes_on_after_its_scheduler_was_killed_during_the_wait_is_killed_too() {
    let place = Place::new();
    let (running, group) = holder(&place, "--term 1h", "trap '' HUP; sleep 600");
    let group = Group(group);
    let is_on_record = || place.holder().is_some_and(|holder| holder["process_group"] == group.0);
    until(is_on_record).expect("it is put on record");
    let token = place.until_held()["token"].as_u64().expect("it is a number");
    let unlocking = start(&mut place.soloist("unlock --kill --wait 1h j"));
    let (store, name) = (soloist::connect(&place.store).unwrap(), MutexName::lease("j").unwrap());
    until(|| request(&store, &name, token).is_some()).expect("the holder is asked");
    running.kill();
    assert_eq!(unlocking.ended().exits_with(0).printed, "j is free: its command has ended\n");
    assert!(!group_lives(group.0));
}

#[test]
fn two_operators_ask_for_the_same() {
    let place = Place::new();
    // The run reads requests after a third of that, when both have asked.
    let (running, _) = holder(&place, "--term 60s --grace 1s", "sleep 600");
    let asking = [(); 2].map(|()| start(&mut place.soloist("unlock j")));
    for asked in asking {
        asked.ended().exits_with(0).says("j is free");
    }
    running.ended().exits_with(143);
}

const ADVICE: &str = "soloist: j is still held, and is free in ";

#[track_caller]
fn a_guard_cannot_be_asked_and_learns_of_force(place: &Place) {
    let store = soloist::connect(&place.store).unwrap();
    let name = MutexName::lease("j").unwrap();
    let guard = LeaseGuard::acquire(&store, name.clone(), term(30)).unwrap().expect("it is free");
    let began = Instant::now();
    let refused = answer(&mut place.soloist("unlock j --wait 2s")).exits_with(1);
    assert!(began.elapsed() >= Duration::from_secs(2) && refused.printed.is_empty(), "{refused:?}");
    refused
        .says(ADVICE)
        .says(" unless its holder renews it:\n  if the lease is long, the holder reads the request late: wait longer, with `--wait 5m`\n")
        .says("  if the lease has a fixed term, or is held by a `LeaseGuard` or by a function that never checks for its cancellation: end the holder's process, or wait\n")
        .says("  if the holder's process is dead: wait, or free the lease at once with `--force`; a holder that lives would run beside the next one\n");
    assert!(!guard.is_lost() && place.holder().is_some());

    let forced = succeeds(&mut place.soloist("unlock --force j"));
    assert_eq!(forced.printed, "j is free: the former holder sees this when it next renews its lease\n");
    let (this, lines) = (std::process::id(), forced.errors.lines().count());
    assert!(forced.errors.starts_with("soloist: j is held by ") && lines == 1, "{forced:?}");
    forced.says(&format!(", pid {this}, since "));
    place.is_free();
    let running = start(&mut place.run("", "until [ -e go ]; do sleep 0.05; done"));
    let next = place.until_held();
    assert!(guard.wait_lost(Duration::from_secs(60)), "it is told");
    drop(guard);
    assert_eq!(place.holder().map(|now| now["token"].clone()), Some(next["token"].clone()), "it lets go of nothing");
    place.touch("go");
    running.ended().exits_with(0);
}

/// Returns the marker that asks the run of `name` with this token to stop.
fn request(store: &dyn EventMutex, name: &MutexName, token: u64) -> Option<Holder> {
    let mark = name.mark(name.mutex(), format!("cancel {token}"));
    store.held(Names::of(&mark)).unwrap().pop()?.holder().cloned()
}

#[track_caller]
fn a_request_lives_ten_seconds_longer_than_its_lease_whatever_was_asked_before(place: &Place) {
    let store = soloist::connect(&place.store).unwrap();
    // The second lease lasts longer than the first, and the third not so long.
    for (name, seconds) in [("first", 20), ("second", 3600), ("third", 60)] {
        let lease = MutexName::lease(name).unwrap();
        let _guard = LeaseGuard::acquire_for(&store, lease.clone(), term(seconds)).unwrap().expect("it is free");
        let holder = store.held(Names::of(&lease)).unwrap()[0].holder().cloned().expect("it is known");
        let asking = Instant::now();
        answer(&mut place.soloist(&format!("unlock {name} --wait 0"))).exits_with(1).says(" is still held, ");
        let at_most = 11_000 + i64::try_from(asking.elapsed().as_millis()).unwrap();
        let mark = request(&*store, &lease, holder.token().get()).expect("it is there");
        let longer = (mark.until() - holder.until()).num_milliseconds();
        assert!(longer > 9_000 && longer < at_most, "{name}: {longer} ms");
        assert_eq!(mark.reason(), Some("unlock"));
    }
}

#[test]
fn a_lease_for_a_fixed_term_lasts_as_long_as_is_said() {
    let place = Place::new();
    let store = soloist::connect(&place.store).unwrap();
    let name = MutexName::lease("j").unwrap();
    let _guard = LeaseGuard::acquire_for(&store, name, term(3600)).unwrap().expect("it is free");
    let refused = answer(&mut place.soloist("unlock j --wait 0s")).exits_with(1);
    let left = ["is free in 1 h 0 min unless", "is free in 59 min"];
    assert!(left.iter().any(|left| refused.errors.contains(left)), "{refused:?}");
}

/// Runs a function that does not check for its cancellation.
#[test]
fn a_function_that_does_not_stop_keeps_its_lease() {
    let place = Place::new();
    let mut command = worker(&place.store, &place.path("log"));
    command.args(["--event", "j", "--without-overlapping", "--term", "9", "--work-ms", "600000", "--stubborn"]);
    let mut running = start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    place.until_held();
    answer(&mut place.soloist("unlock j --wait 5s")).exits_with(1).says(ADVICE); // while it renews its lease
    assert!(!running.has_ended() && place.holder().is_some());
    running.kill();
}

#[test]
fn a_function_that_looks_stops() {
    let place = Place::new();
    let mut command = worker(&place.store, &place.path("log"));
    command.args(["--event", "j", "--without-overlapping", "--term", "9", "--work-ms", "600000"]);
    let running = start(command.stdin(Stdio::null()).stdout(Stdio::null()));
    place.until_held();
    succeeds(&mut place.soloist("unlock j")).says("j is free");
    running.ended();
    place.is_free();
    assert!(place.read("log").contains("unlocked"), "{}", place.read("log"));
}

#[test]
fn both_programs_free_the_same() {
    let place = Place::new();
    let (running, _) = holder(&place, "--term 18s --grace 2s", "sleep 600");
    succeeds(&mut place.schedule("unlock j")).says("j is free");
    running.ended().exits_with(143);
}

mod on_file {
    use super::*;

    #[test]
    fn a_holder_that_is_asked_stops_and_its_successor_is_left_alone() {
        super::a_holder_that_is_asked_stops_and_its_successor_is_left_alone(&Place::new());
    }

    #[test]
    fn a_guard_cannot_be_asked_and_learns_of_force() {
        super::a_guard_cannot_be_asked_and_learns_of_force(&Place::new());
    }

    #[test]
    fn a_request_lives_ten_seconds_longer_than_its_lease_whatever_was_asked_before() {
        super::a_request_lives_ten_seconds_longer_than_its_lease_whatever_was_asked_before(&Place::new());
    }
}

mod on_redis {
    use super::*;

    #[test]
    fn a_holder_that_is_asked_stops_and_its_successor_is_left_alone() {
        let server = Redis::start();
        super::a_holder_that_is_asked_stops_and_its_successor_is_left_alone(&Place::on(&server));
    }

    #[test]
    fn a_guard_cannot_be_asked_and_learns_of_force() {
        let server = Redis::start();
        super::a_guard_cannot_be_asked_and_learns_of_force(&Place::on(&server));
    }

    #[test]
    fn a_request_lives_ten_seconds_longer_than_its_lease_whatever_was_asked_before() {
        let server = Redis::start();
        super::a_request_lives_ten_seconds_longer_than_its_lease_whatever_was_asked_before(&Place::on(&server));
    }
}
