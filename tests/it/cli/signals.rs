//! Signals to `soloist run`: its command and all processes of the group get each signal. And SIGKILL, which cannot
//! be passed on.

use std::time::Instant;

#[cfg(target_os = "linux")]
use rustix::process::{getpid, set_child_subreaper};

use super::*;
use crate::support::{group_lives, number_in, run_alone};

/// Writes into the file `$1` each signal that asks it to end, and ends at the first. With `$2` it does not end.
const WITNESS: &str = r#"
for signal in HUP INT QUIT TERM; do trap "echo $signal >>$1; [ -n '$2' ] || exit 3" $signal; done
echo $$ >$1.pid
while :; do sleep 0.05; done
"#;

/// The command itself, and a child in the background, where a shell ignores some signals.
const FAMILY: &str =
    "env --default-signal=HUP,INT,QUIT,TERM sh witness.sh child $STAYS & exec sh witness.sh leader $STAYS";

/// Starts both. Returns the run, and the number of their group.
#[track_caller]
fn family(place: &Place, options: &str, stays: &str) -> (Running, u32) {
    std::fs::write(place.path("witness.sh"), WITNESS).expect("the folder is ours");
    let running = start(place.run(options, FAMILY).env("STAYS", stays));
    number_in(&place.path("child.pid"));
    let group = number_in(&place.path("leader.pid"));
    (running, group)
}

#[track_caller]
fn each_signal_reaches_the_whole_group_as_what_it_is(place: impl Fn() -> Place) {
    for (number, name) in ASKING {
        let place = place();
        let (running, group) = family(&place, "-v --grace 20s", ""); // so long that a busy shell gets the signal
        running.signal(name);
        let answer = running.ended();
        assert_eq!(answer.signal, Some(number), "{name}: {answer:?}");
        assert_eq!((place.read("leader"), place.read("child")), (format!("{name}\n"), format!("{name}\n")));
        assert!(!group_lives(group));
        answer.says("because the process is shutting down; exited with 3");
        place.is_free();
        succeeds(&mut place.run("", "true"));
    }
}

#[test]
fn each_signal_reaches_the_whole_group_as_what_it_is_on_file() {
    each_signal_reaches_the_whole_group_as_what_it_is(Place::new);
}

#[test]
fn each_signal_reaches_the_whole_group_as_what_it_is_on_redis() {
    let server = Redis::start();
    each_signal_reaches_the_whole_group_as_what_it_is(|| Place::on(&server));
}

#[test]
fn a_group_that_does_not_end_is_killed_after_its_grace_and_then_the_lease_is_free() {
    let place = Place::new();
    let (running, group) = family(&place, "-v --grace 5s", "stays"); // so long that a busy shell gets the signal
    let told = Instant::now();
    running.signal("INT");
    let answer = running.ended();
    assert!(told.elapsed() >= Duration::from_secs(5));
    assert_eq!(answer.signal, Some(SIGINT), "{answer:?}");
    assert_eq!((&*place.read("leader"), &*place.read("child")), ("INT\n", "INT\n"));
    assert!(!group_lives(group));
    answer.says("ended by signal 9 (SIGKILL)");
    place.is_free();
}

// Otherwise an interactive shell continues its loop after Ctrl-C.
#[test]
fn a_command_that_was_ended_by_sigint_ends_its_scheduler_so_too() {
    let place = Place::new();
    let answer = answer(&mut place.run("", "kill -s INT $$"));
    assert_eq!(answer.signal, Some(SIGINT), "{answer:?}");
    answer.is_silent();
    place.is_free();
}

/// Reports the signal only on demand: its sender knows.
#[test]
fn a_command_that_ends_by_a_signal_to_its_scheduler_is_told_on_demand_alone() {
    for (stays, options) in [("", ""), ("stays", "--grace 200ms")] {
        let place = Place::new();
        let (running, group) = family(&place, options, stays);
        running.signal("TERM");
        let answer = running.ended();
        assert_eq!(answer.signal, Some(SIGTERM), "{answer:?}");
        // A shell of the command may print the end of its child.
        assert!(answer.printed.is_empty() && !answer.errors.contains("soloist: "), "{answer:?}");
        assert!(!group_lives(group));
    }
}

#[test]
fn a_second_signal_ends_all_of_it_at_once() {
    let place = Place::new();
    let (running, group) = family(&place, "--grace 10m --term 1h", "stays");
    running.signal("INT");
    until(|| place.read("child") == "INT\n").expect("it is passed on");
    std::thread::sleep(Duration::from_secs(1)); // two signals at once count as one
    assert!(group_lives(group));
    running.signal("INT");
    assert_eq!(running.ended().signal, Some(SIGINT));
    until(|| !group_lives(group)).expect("it is killed");
    place.is_free();
}

#[test]
fn a_signal_that_was_ignored_from_the_start_ends_nothing() {
    let place = Place::new();
    let usual = place.run("", "echo $$ >group; until [ -e go ]; do sleep 0.05; done");
    let mut command = Command::new("env");
    command.arg("--ignore-signal=HUP").args(usual.get_args().skip(1)).current_dir(place.folder.path());
    command.env("SOLOIST_STORE", &place.store).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = start(&mut command);
    let group = number_in(&place.path("group"));
    running.signal("HUP");
    std::thread::sleep(Duration::from_millis(500)); // enough to end in
    assert!(!running.has_ended() && group_lives(group), "as `nohup` has it");
    place.touch("go");
    running.ended().exits_with(0);
}

/// Waits until the scheduler has recorded the number of the group, after the start of the command.
#[track_caller]
fn until_on_record(place: &Place, group: u32) {
    until(|| place.holder().is_some_and(|holder| holder["process_group"] == group)).expect("it is put on record");
}

/// A command that outlives its scheduler: the number of its group.
const SLEEPERS: &str = "trap '' HUP; sleep 600 & echo $$ >group; wait; sleep 600";

#[test]
fn a_command_keeps_its_lease_on_file_when_its_scheduler_is_killed_until_an_operator_ends_it() {
    let place = Place::new();
    let running = start(&mut place.run("--term 8s --grace 1s", SLEEPERS));
    let pid = running.id();
    let group = Group(number_in(&place.path("group")));
    until_on_record(&place, group.0);
    running.kill();
    std::thread::sleep(Duration::from_secs(9)); // past its term

    let holder = place.holder().expect("it is held");
    assert_eq!((&holder["pid"], &holder["process_group"]), (&pid.into(), &group.0.into()));
    assert_eq!(holder["has_ended"], true);
    succeeds(&mut place.soloist("locks")).says(&format!("pid {pid} ")).says("its command ends");
    answer(&mut place.run("", "true")).exits_with(CONFLICT);

    let refused = answer(&mut place.soloist("unlock j")).exits_with(1);
    assert_eq!(refused.printed, "");
    refused.says(&format!("its command still runs as process group {}: `--kill` ends it", group.0));
    assert!(group_lives(group.0) && place.holder().is_some(), "nothing was done");

    let freed = succeeds(&mut place.soloist("unlock --kill j"));
    assert_eq!(freed.printed, "j is free: its command has ended\n");
    assert!(!group_lives(group.0));
    place.is_free();
    succeeds(&mut place.run("", "true"));
}

#[test]
fn who_forces_a_lease_whose_command_goes_on_is_told_so() {
    let place = Place::new();
    let running = start(&mut place.run("", SLEEPERS));
    let group = Group(number_in(&place.path("group")));
    until_on_record(&place, group.0);
    running.kill();
    let forced = succeeds(&mut place.soloist("unlock --force j"));
    assert!(forced.printed.starts_with("j is free: nothing stops its command, so end it: "), "{forced:?}");
    assert!(forced.printed.ends_with(&format!("still runs as process group {}\n", group.0)), "{forced:?}");
    assert!(group_lives(group.0));
    place.is_free();
}

#[test]
fn a_process_of_another_container_is_not_taken_for_one_that_has_ended() {
    let place = Place::new();
    let running = start(&mut place.run("--term 1h", SLEEPERS));
    let group = Group(number_in(&place.path("group")));
    until_on_record(&place, group.0);
    // In another container, the process may live, and in this one the number of its group may be that of other processes.
    let mut files = std::fs::read_dir(place.path("store")).expect("it is ours").map(|file| file.unwrap().path());
    let state = files.find(|file| file.extension().is_some_and(|kind| kind == "state")).expect("it is held");
    let text = std::fs::read_to_string(&state).expect("it is text");
    let (before, after) = text.split_once(&format!("pid {} in ", running.id())).expect("it says where");
    let digits = after.find('\t').expect("another field follows");
    let elsewhere = format!("{before}pid {} in {}{}", running.id(), "7".repeat(digits), &after[digits..]);
    std::fs::write(&state, elsewhere).expect("it is ours");
    running.kill();

    assert_eq!(place.holder().expect("it is held")["has_ended"], false);
    let refused = answer(&mut place.soloist("unlock --kill --wait 100ms j")).exits_with(1);
    refused.says("is still held");
    assert!(group_lives(group.0), "nothing was killed");
}

#[test]
fn a_command_whose_scheduler_was_killed_frees_its_lease_on_file_by_its_end() {
    let place = Place::new();
    let running = start(&mut place.run("--term 1h", "echo $$ >group; until [ -e go ]; do sleep 0.05; done"));
    let group = Group(number_in(&place.path("group")));
    until_on_record(&place, group.0);
    running.kill();
    answer(&mut place.run("", "true")).exits_with(CONFLICT);
    place.touch("go");
    succeeds(&mut place.run("--wait 30s", "true"));
    assert!(!group_lives(group.0));
}

#[test]
fn an_end_by_an_operator_takes_force_where_the_command_does_not_hear() {
    let place = Place::new();
    let running = start(&mut place.run("", "trap '' TERM; sleep 600 & echo $$ >group; wait; sleep 600"));
    let group = Group(number_in(&place.path("group")));
    until_on_record(&place, group.0);
    running.kill();
    succeeds(&mut place.soloist("unlock --kill j"));
    assert!(!group_lives(group.0));
    place.is_free();
}

// Plays a container whose first process does not reap orphans.
#[cfg(target_os = "linux")]
#[test]
fn a_command_whose_end_nobody_notices_has_ended() {
    let alone = "cli::signals::a_command_whose_end_nobody_notices_has_ended";
    if run_alone(alone, &[]).is_some() {
        return;
    }
    set_child_subreaper(Some(getpid())).expect("a process may adopt orphans");
    let place = Place::new();
    let running = start(&mut place.run("", "echo $$ >group; exec sleep 600"));
    let group = Group(number_in(&place.path("group")));
    until_on_record(&place, group.0);
    running.kill();
    succeeds(&mut place.soloist("unlock --kill j"));
    assert!(send("0", &format!("-{}", group.0)), "its zombie is still there");
    place.is_free();
}

/// Leaves the group alone: the number may be another group's by then.
#[test]
fn a_group_that_does_not_know_its_owner_is_not_ended() {
    let place = Place::new();
    let line = "echo $$ >group; exec env -u SOLOIST_OWNER sleep 600";
    let running = start(&mut place.run("", line));
    let group = Group(number_in(&place.path("group")));
    until_on_record(&place, group.0);
    let environment = || std::fs::read(format!("/proc/{}/environ", group.0)).expect("it is ours");
    let knows = || String::from_utf8_lossy(&environment()).contains("SOLOIST_OWNER=");
    until(|| !knows()).expect("it becomes another program");
    running.kill();
    let refused = answer(&mut place.soloist("unlock --kill j")).exits_with(1);
    assert_eq!(refused.printed, "");
    refused
        .says(&format!("soloist: can't end the process group {}: ", group.0))
        .says("none of its processes has the environment of the command");
    assert!(group_lives(group.0) && place.holder().is_some(), "nothing was done");
    assert!(send("TERM", &group.0.to_string()), "it was not even told to end");
    succeeds(&mut place.run("--wait 30s", "true"));
}

#[test]
fn a_holder_that_lives_is_not_killed() {
    let place = Place::new();
    let mut running = start(
        &mut place.run("--grace 200ms", "echo $$ >group; trap 'echo TERM >told' TERM; sleep 600 & wait; sleep 600"),
    );
    let group = number_in(&place.path("group"));
    answer(&mut place.soloist("unlock --kill --wait 0s j")).exits_with(1).says("j is still held, ");
    assert!(!running.has_ended() && group_lives(group));
    assert_eq!(place.read("told"), "");
}

#[test]
fn a_command_is_ended_on_redis_when_its_scheduler_is_killed_and_the_lease_ends_with_its_term() {
    let server = Redis::start();
    let place = Place::on(&server);
    let running = start(&mut place.run("--term 9s --grace 1s", SLEEPERS));
    let group = Group(number_in(&place.path("group")));
    running.kill();
    until(|| !group_lives(group.0)).expect("its watchdog ends it");
    succeeds(&mut place.run("--wait 30s", "true"));
}
