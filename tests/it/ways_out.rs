//! Every end of a run, on each store: the rows of the page "what happens to my lease when …". A tidy test compares
//! the page with these tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
use soloist::{Event, FileMutex, Output, Schedule};

use crate::fleet::Fleet;
#[cfg(feature = "redis")]
use crate::servers::redis::Redis;
use crate::support::{group_lives, noon, number_in, patient_url, ran, until};
use crate::tidy::sources;
use crate::worker::{Worker, skipped_because_of, what};
use crate::worker_log::Line;

/// The four signals that ask a process to end.
const ASKING: [(i32, &str); 4] = [(SIGTERM, "-TERM"), (SIGINT, "-INT"), (SIGQUIT, "-QUIT"), (SIGHUP, "-HUP")];

/// A lease of a day, which would be seen if it were not released, and a renewed lease.
const LEASES: [&str; 2] = ["--without-overlapping=86400", "--without-overlapping"];

/// The time between two signals. A second signal at once would count as the first, and a busy machine may hand over the
/// first one late.
const BETWEEN_SIGNALS: Duration = Duration::from_secs(8);

/// A grace that no process on a busy machine uses up.
const LONG_GRACE: &str = "--grace-ms 60000";

/// Starts a worker that runs one event for ten minutes under such a lease.
fn start<'a>(fleet: &'a Fleet, log: &'static str, lease: &str, options: &str) -> Worker<'a> {
    let options: Vec<&str> = options.split(' ').filter(|option| !option.is_empty()).collect();
    Worker::with(fleet, log, &[&[lease, "--work-ms", "600000"], &options[..]].concat())
}

/// Asserts that the event runs in another worker's next tick.
#[track_caller]
fn is_free(fleet: &Fleet, event: &str) {
    let next = Worker::with(fleet, "next", &["--without-overlapping", "--event", event]).succeeds();
    assert_eq!(what(&next[next.len() - 2..]), ["start", "end"], "{event}: {next:#?}");
}

/// Returns how many ticks, a quarter of a second each, skip another worker because of this process before it runs.
#[track_caller]
fn ticks_until_free(fleet: &Fleet, pid: u32) -> usize {
    let mut next = Worker::start(fleet, "next", "--ticks 200 --every-ms 250 --work-ms 600000");
    next.wait_for("start");
    let ticks = skipped_because_of(&next.log(), pid);
    next.signal("-TERM");
    next.ended_by(SIGTERM);
    ticks
}

/// Returns a shell line that writes its number into the file, starts a process that ignores TERM, and ignores TERM
/// itself.
fn stubborn_line(fleet: &Fleet) -> (String, PathBuf) {
    let file = fleet.log("group");
    (format!("trap '' TERM; sleep 600 & echo $$ > {}; sleep 600; :", file.display()), file)
}

/// Starts a worker on a shell line. Returns it with the number of the command's group.
#[track_caller]
fn start_command<'a>(fleet: &'a Fleet, lease: &str, line: &str, file: &Path, options: &[&str]) -> (Worker<'a>, u32) {
    let worker = Worker::with(fleet, "first", &[&[lease, "--exec", line], options].concat());
    let group = number_in(file);
    assert!(group_lives(group));
    (worker, group)
}

#[track_caller]
fn count(lines: &[Line], what: &str) -> usize {
    lines.iter().filter(|line| line.what == what).count()
}

// The rows.

#[track_caller]
fn a_task_that_ends_in_any_way_gives_its_lease_back(fleet: &Fleet) {
    for options in [vec![], vec!["--exec", "exit 3"], vec!["--exec", "kill -KILL $$"]] {
        let worker = Worker::with(fleet, "first", &[&["--without-overlapping=86400"], &options[..]].concat());
        let lines = if options.is_empty() { worker.succeeds() } else { worker.fails().0 };
        assert!(!lines.is_empty());
        is_free(fleet, "report");
    }
}

#[track_caller]
fn a_callback_that_looks_ends_at_each_signal(fleet: &Fleet) {
    for ((signal, name), lease) in ASKING.into_iter().zip(LEASES.into_iter().cycle()) {
        let mut worker = start(fleet, "first", lease, LONG_GRACE);
        worker.wait_for("start");
        worker.signal(name);
        let (lines, said) = worker.ended_by(signal);
        assert_eq!(what(&lines[lines.len() - 3..]), ["start", "cancelled", "failed"], "{name}");
        assert_eq!(lines[lines.len() - 2].reason.as_deref(), Some("shutting_down"));
        assert!(said.contains(", because the process is shutting down"), "{said}");
        std::fs::remove_file(fleet.log("first")).expect("it is there");
        is_free(fleet, "report");
    }
}

/// Ends the process with its last run, before the drain is over.
#[track_caller]
fn a_run_that_ends_within_the_drain_is_not_told_and_gives_its_lease_back(fleet: &Fleet) {
    let ends = fleet.log("ends");
    std::fs::create_dir(&ends).expect("it is new");
    let options = format!("--until {} --drain-ms 3600000 {LONG_GRACE}", ends.display());
    let mut worker = start(fleet, "first", LEASES[0], &options);
    worker.wait_for("start");
    worker.signal("-TERM");
    thread::sleep(Duration::from_secs(1)); // a cancellation would come now
    std::fs::write(ends.join("report"), "").expect("the folder is there");
    let (lines, said) = worker.ended_by(SIGTERM);
    assert_eq!((what(&lines), &*said), (vec!["start", "end"], ""));
    is_free(fleet, "report");
}

#[track_caller]
fn a_second_signal_ends_the_drain(fleet: &Fleet) {
    let mut worker = start(fleet, "first", LEASES[0], &format!("--drain-ms 3600000 {LONG_GRACE}"));
    worker.wait_for("start");
    worker.signal("-TERM");
    thread::sleep(BETWEEN_SIGNALS);
    assert_eq!(what(&worker.log()), ["start"], "it is not told");
    worker.signal("-INT");
    let (lines, _) = worker.ended_by(SIGTERM);
    assert_eq!(what(&lines), ["start", "cancelled", "failed"]);
    is_free(fleet, "report");
}

/// Returns how many ticks of a quarter of a second each lease is held after the process of a callback that does
/// not stop has gone.
#[track_caller]
fn ticks_after_a_callback_that_does_not_stop(fleet: &Fleet) -> Vec<usize> {
    let ticks = |((signal, name), lease): ((i32, &str), &str)| {
        let mut worker = start(fleet, "first", lease, "--stubborn --grace-ms 100");
        worker.wait_for("start");
        let pid = worker.pid();
        worker.signal(name);
        let (lines, _) = worker.ended_by(signal);
        assert_eq!(what(&lines), ["start"], "it was left behind");
        std::fs::remove_file(fleet.log("first")).expect("it is there");
        let ticks = ticks_until_free(fleet, pid);
        std::fs::remove_file(fleet.log("next")).expect("it is there");
        ticks
    };
    ASKING.into_iter().zip(LEASES.into_iter().cycle()).map(ticks).collect()
}

#[track_caller]
fn a_command_is_ended_with_all_that_it_started_at_each_signal(fleet: &Fleet) {
    let (line, file) = stubborn_line(fleet);
    for ((signal, name), lease) in ASKING.into_iter().zip(LEASES.into_iter().cycle()) {
        let (worker, group) = start_command(fleet, lease, &line, &file, &["--grace-ms", "200"]);
        worker.signal(name);
        let (lines, said) = worker.ended_by(signal);
        assert!(!group_lives(group), "{name}");
        assert_eq!(what(&lines).last(), Some(&"failed"));
        assert!(said.contains("ended by signal 9 (SIGKILL)"), "{said}");
        std::fs::remove_file(&file).expect("it is there");
        is_free(fleet, "report");
    }
}

#[track_caller]
fn events_in_the_background_end_at_each_signal(fleet: &Fleet) {
    for ((signal, name), lease) in ASKING.into_iter().zip(LEASES.into_iter().cycle()) {
        let mut worker = start(fleet, "first", lease, &format!("--in-background 3 {LONG_GRACE}"));
        until(|| count(&worker.log(), "start") == 3).expect("all of them start");
        worker.wait_for("start");
        worker.signal(name);
        let (lines, _) = worker.ended_by(signal);
        assert_eq!(count(&lines, "cancelled"), 3, "{name}: {lines:#?}");
        std::fs::remove_file(fleet.log("first")).expect("it is there");
        for event in ["report", "report-2", "report-3"] {
            is_free(fleet, event);
        }
    }
}

/// Returns how many ticks each lease is held after a second signal has ended the process at once.
#[track_caller]
fn ticks_after_a_second_signal(fleet: &Fleet) -> usize {
    let mut worker = start(fleet, "first", "--without-overlapping", "--term 12 --stubborn --grace-ms 600000");
    worker.wait_for("start");
    let pid = worker.pid();
    worker.signal("-TERM");
    thread::sleep(BETWEEN_SIGNALS);
    worker.signal("-INT");
    assert_eq!(what(&worker.ended_by(SIGINT).0), ["start"]);
    ticks_until_free(fleet, pid)
}

/// Runs a command that ignores TERM, with a grace longer than the test.
#[track_caller]
fn a_second_signal_ends_a_command_at_once(fleet: &Fleet) {
    let (line, file) = stubborn_line(fleet);
    let (worker, group) = start_command(fleet, LEASES[0], &line, &file, &["--grace-ms", "600000"]);
    worker.signal("-INT");
    thread::sleep(BETWEEN_SIGNALS);
    assert!(group_lives(group));
    worker.signal("-INT");
    worker.ended_by(SIGINT);
    until(|| !group_lives(group)).expect("it is killed");
}

/// Returns how many ticks each lease is held after SIGKILL of a process that runs a callback.
#[track_caller]
fn ticks_after_sigkill(fleet: &Fleet) -> usize {
    let mut worker = start(fleet, "first", "--without-overlapping", "--term 12");
    worker.wait_for("start");
    let pid = worker.pid();
    worker.signal("-KILL");
    worker.ended_by(SIGKILL);
    ticks_until_free(fleet, pid)
}

/// Returns a shell line that writes its number into the file, and those of the two processes that it waits for.
fn two_sleepers(fleet: &Fleet) -> (String, PathBuf) {
    let file = fleet.log("group");
    let path = file.display();
    (format!("sleep 600 & echo $! > {path}-1; sleep 600 & echo $! > {path}-2; echo $$ > {path}; wait"), file)
}

#[track_caller]
fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("there is kill").success());
}

/// Stops a scheduler past its term, while its command runs, and continues it. Returns the log of another worker,
/// and its own.
#[track_caller]
fn suspended_beside_its_command(fleet: &Fleet) -> (Vec<Line>, Vec<Line>) {
    let (line, file) = two_sleepers(fleet);
    let (worker, group) =
        start_command(fleet, "--without-overlapping", &line, &file, &["--term", "6", "--grace-ms", "100"]);
    // It ticks before the other one stands still, so that it meets the lease however busy the machine is.
    let mut other = Worker::start(fleet, "next", "--ticks 40 --every-ms 350");
    other.wait_for("skipped");
    worker.signal("-STOP");
    let other = other.succeeds();
    worker.signal("-CONT");
    until(|| !group_lives(group)).expect("past its deadline it is told all the same");
    // With its one run it is done.
    let (lines, _) = worker.fails();
    (other, lines)
}

mod on_file {
    use super::*;

    #[test]
    fn a_task_that_ends_in_any_way_gives_its_lease_back() {
        super::a_task_that_ends_in_any_way_gives_its_lease_back(&Fleet::new());
    }

    #[test]
    fn a_callback_that_looks_ends_at_each_signal() {
        super::a_callback_that_looks_ends_at_each_signal(&Fleet::new());
    }

    #[test]
    fn a_run_that_ends_within_the_drain_is_not_told_and_gives_its_lease_back() {
        super::a_run_that_ends_within_the_drain_is_not_told_and_gives_its_lease_back(&Fleet::new());
    }

    #[test]
    fn a_second_signal_ends_the_drain() {
        super::a_second_signal_ends_the_drain(&Fleet::new());
    }

    #[test]
    fn the_lease_of_a_callback_that_does_not_stop_ends_with_its_process() {
        assert_eq!(ticks_after_a_callback_that_does_not_stop(&Fleet::new()), [0; 4]);
    }

    #[test]
    fn a_command_is_ended_with_all_that_it_started_at_each_signal() {
        super::a_command_is_ended_with_all_that_it_started_at_each_signal(&Fleet::new());
    }

    #[test]
    fn events_in_the_background_end_at_each_signal() {
        super::events_in_the_background_end_at_each_signal(&Fleet::new());
    }

    #[test]
    fn a_lease_ends_with_its_process_at_a_second_signal() {
        assert_eq!(ticks_after_a_second_signal(&Fleet::new()), 0);
    }

    #[test]
    fn a_second_signal_ends_a_command_at_once() {
        let fleet = Fleet::new();
        super::a_second_signal_ends_a_command_at_once(&fleet);
        is_free(&fleet, "report");
    }

    /// Opens descriptors with low numbers in a script: a shell can name only few.
    #[test]
    fn a_command_that_opens_descriptors_of_its_own_keeps_its_lease() {
        let fleet = Fleet::new();
        let (line, file) = two_sleepers(&fleet);
        let line = format!("exec 3>&1 4>&1 5>&1 6>&1 7>&1 8>&1 9>&1; {line}");
        let (worker, group) = start_command(&fleet, "--without-overlapping", &line, &file, &[]);
        let pid = worker.pid();
        worker.kill();
        let other = Worker::start(&fleet, "next", "--ticks 3 --every-ms 100").succeeds();
        assert_eq!(skipped_because_of(&other, pid), 3, "{other:#?}");
        assert!(Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().unwrap().success());
    }

    #[test]
    fn a_lease_ends_with_its_process_at_sigkill() {
        assert_eq!(ticks_after_sigkill(&Fleet::new()), 0);
    }

    /// Tests the lease past its term, and its end with the last process.
    #[test]
    fn a_lease_is_held_after_sigkill_exactly_as_long_as_anything_of_its_command_lives() {
        for lease in LEASES {
            let fleet = Fleet::new();
            let (line, file) = two_sleepers(&fleet);
            let options = if lease == "--without-overlapping" { vec!["--term", "3"] } else { vec![] };
            let (worker, group) =
                start_command(&fleet, lease, &line, &file, &[&["--grace-ms", "100"], &options[..]].concat());
            let pid = worker.pid();
            worker.kill();
            let sleepers = ["-1", "-2"].map(|number| {
                let mut path = file.clone().into_os_string();
                path.push(number);
                number_in(path.as_ref())
            });
            let other = Worker::start(&fleet, "next", "--ticks 20 --every-ms 200").succeeds();
            assert_eq!(skipped_because_of(&other, pid), 20, "{other:#?}");
            kill(group);
            kill(sleepers[0]);
            let other = Worker::start(&fleet, "another", "--ticks 5 --every-ms 100").succeeds();
            assert_eq!(skipped_because_of(&other, pid), 5, "{other:#?}");
            kill(sleepers[1]);
            until(|| !group_lives(group)).expect("all of it was killed");
            is_free(&fleet, "report");
        }
    }

    #[test]
    fn a_lease_is_held_while_its_process_is_suspended_beside_its_command() {
        let (other, lines) = suspended_beside_its_command(&Fleet::new());
        assert_eq!(what(&other), ["skipped"; 40], "it is held by what lives");
        assert_eq!(what(&lines), ["failed"]);
    }

    /// Asks each shell for its open life files.
    #[test]
    fn of_two_commands_that_start_together_neither_inherits_the_others_lease() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let schedule = Schedule::new(FileMutex::in_dir(directory.path()).expect("it can be written"));
        let line = r"readlink /proc/$$/fd/* | grep '\.life'";
        for event in ["one", "two"] {
            let event = Event::exec(event, line).every_minute().without_overlapping().in_background();
            schedule.add(event.output(Output::Keep(4096))).expect("it is in order");
        }
        let of = |report: &soloist::Report, event: &str| ran(report, event).output().expect("it is kept").to_string();
        let mut seen = None;
        for _ in 0..50 {
            let report = schedule.run_due(noon());
            let (one, two) = (of(&report, "one"), of(&report, "two"));
            assert_eq!((one.lines().count(), two.lines().count()), (1, 1), "{one}{two}");
            assert_ne!(one, two);
            assert_eq!(*seen.get_or_insert((one.clone(), two.clone())), (one, two), "each has its own");
        }
    }
}

#[cfg(feature = "redis")]
mod on_redis {
    use super::*;

    fn fleet() -> (Redis, Fleet) {
        let server = Redis::start();
        let fleet = Fleet::on(patient_url(&server.url()));
        (server, fleet)
    }

    #[test]
    fn a_task_that_ends_in_any_way_gives_its_lease_back() {
        super::a_task_that_ends_in_any_way_gives_its_lease_back(&fleet().1);
    }

    #[test]
    fn a_callback_that_looks_ends_at_each_signal() {
        super::a_callback_that_looks_ends_at_each_signal(&fleet().1);
    }

    #[test]
    fn a_run_that_ends_within_the_drain_is_not_told_and_gives_its_lease_back() {
        super::a_run_that_ends_within_the_drain_is_not_told_and_gives_its_lease_back(&fleet().1);
    }

    #[test]
    fn a_second_signal_ends_the_drain() {
        super::a_second_signal_ends_the_drain(&fleet().1);
    }

    /// Tests that the lease outlasts the process by seconds, and not by the requested day.
    #[test]
    fn the_lease_of_a_callback_that_does_not_stop_is_held_for_a_few_seconds_more() {
        let (_server, fleet) = fleet();
        for ticks in ticks_after_a_callback_that_does_not_stop(&fleet) {
            assert!((1..=40).contains(&ticks), "{ticks} ticks of a quarter of a second");
        }
    }

    #[test]
    fn a_command_is_ended_with_all_that_it_started_at_each_signal() {
        super::a_command_is_ended_with_all_that_it_started_at_each_signal(&fleet().1);
    }

    #[test]
    fn events_in_the_background_end_at_each_signal() {
        super::events_in_the_background_end_at_each_signal(&fleet().1);
    }

    #[test]
    fn a_lease_ends_with_its_term_after_a_second_signal() {
        assert!((1..=60).contains(&ticks_after_a_second_signal(&fleet().1)));
    }

    #[test]
    fn a_second_signal_ends_a_command_at_once() {
        super::a_second_signal_ends_a_command_at_once(&fleet().1);
    }

    #[test]
    fn a_lease_ends_with_its_term_after_sigkill() {
        assert!((1..=60).contains(&ticks_after_sigkill(&fleet().1)));
    }

    /// Waits until the command has gone, and then for the rest of the term.
    #[test]
    fn a_command_is_ended_after_sigkill_of_its_scheduler() {
        let (_server, fleet) = fleet();
        let (line, file) = two_sleepers(&fleet);
        let (worker, group) = start_command(&fleet, "--without-overlapping", &line, &file, &["--term", "12"]);
        let pid = worker.pid();
        worker.kill();
        until(|| !group_lives(group)).expect("the watchdog ends it");
        assert!(ticks_until_free(&fleet, pid) >= 1, "it was ended before its lease did");
    }

    /// Kills the scheduler before the grace of its command is over.
    #[test]
    fn a_command_that_was_told_to_stop_has_no_second_grace() {
        let (_server, fleet) = fleet();
        let (file, told) = (fleet.log("group"), fleet.log("told"));
        let child = "(trap '' TERM; exec sleep 600) & child=$!";
        let line = format!(
            "trap 'echo $$ > {}' TERM; {child}; echo $$ > {}; while :; do wait $child; done",
            told.display(),
            file.display()
        );
        let (worker, group) = start_command(&fleet, LEASES[0], &line, &file, &["--grace-ms", "600000"]);
        worker.signal("-TERM");
        assert_eq!(number_in(&told), group, "the scheduler tells it");
        assert!(group_lives(group));
        worker.kill();
        until(|| !group_lives(group)).expect("the watchdog kills it");
    }

    #[test]
    fn a_command_whose_process_was_suspended_past_its_term_is_ended_when_that_goes_on() {
        let (_server, fleet) = fleet();
        let (other, lines) = suspended_beside_its_command(&fleet);
        assert_eq!(count(&other, "start"), count(&other, "end"));
        assert!(count(&other, "start") > 0 && count(&other, "skipped") > 0, "it may run elsewhere: {other:#?}");
        assert_eq!(what(&lines), ["failed"]);
    }
}

/// Makes the tests of dead processes on a table. The other cases work alike on every server.
#[cfg(all(feature = "mysql", feature = "postgres"))]
macro_rules! in_a_table {
    ($server:ty) => {
        use super::*;

        fn fleet() -> ($server, Fleet) {
            let server = <$server as crate::sql::SqlServer>::start();
            let fleet = Fleet::on(patient_url(&server.url()));
            (server, fleet)
        }

        #[test]
        fn a_task_that_ends_in_any_way_gives_its_lease_back() {
            super::a_task_that_ends_in_any_way_gives_its_lease_back(&fleet().1);
        }

        #[test]
        fn a_callback_that_looks_ends_at_each_signal() {
            super::a_callback_that_looks_ends_at_each_signal(&fleet().1);
        }

        #[test]
        fn a_run_that_ends_within_the_drain_is_not_told_and_gives_its_lease_back() {
            super::a_run_that_ends_within_the_drain_is_not_told_and_gives_its_lease_back(&fleet().1);
        }

        #[test]
        fn a_lease_ends_with_its_term_after_sigkill() {
            assert!((1..=60).contains(&ticks_after_sigkill(&fleet().1)));
        }
    };
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
mod on_mariadb {
    in_a_table!(crate::servers::mariadb::Mariadb);
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
mod on_postgres {
    in_a_table!(crate::servers::postgres::Postgres);
}

/// The rows of the page, by their first column, and the tests of each.
const ROWS: &[(&str, &[&str])] = &[
    (
        "the task returns, fails or panics",
        &[
            "ways_out::a_task_that_ends_in_any_way_gives_its_lease_back",
            "schedule::hooks_run_around_the_task_while_the_lease_is_held",
            "faults::a_task_that_panics",
        ],
    ),
    (
        "the command exits, or is killed",
        &[
            "ways_out::a_task_that_ends_in_any_way_gives_its_lease_back",
            "command::a_command_that_exits_otherwise_has_failed",
            "command::a_command_that_a_signal_ended_has_failed",
        ],
    ),
    (
        "the command leaves a process running in its group",
        &["command::a_run_lasts_until_what_the_command_left_behind_has_ended"],
    ),
    (
        "a process has left the group, for example by `setsid`",
        &["command::what_has_left_the_group_holds_up_neither_the_run_nor_its_output"],
    ),
    (
        "a callback takes longer than its `timeout`",
        &["healing::a_task_that_does_not_stop_is_waited_for_under_its_lease"],
    ),
    (
        "a command takes longer than its `timeout`",
        &[
            "command::a_command_that_obeys",
            "command::a_command_that_does_not_hear_is_killed_with_all_that_it_started",
            "command::the_lease_is_renewed_while_a_command_uses_up_its_grace",
        ],
    ),
    (
        "a callback loses its lease",
        &[
            "healing::whoever_waits_is_woken_when_the_term_of_its_lease_is_over",
            "healing::a_broken_lease_is_told_at_the_next_renewal",
        ],
    ),
    (
        "a command is about to lose its lease",
        &[
            "command::a_command_is_told_to_stop_while_its_lease_still_lasts_for_its_grace_and_a_second",
            "command::a_command_whose_lease_is_not_renewed_is_told_before_it_ends",
        ],
    ),
    ("an operator breaks the lease of a command", &["command::a_command_whose_lease_somebody_broke_is_killed_at_once"]),
    (
        "a run ends within the drain",
        &[
            "ways_out::a_run_that_ends_within_the_drain_is_not_told_and_gives_its_lease_back",
            "drain::a_task_of_any_kind_finishes_within_the_drain_and_its_tick_returns_then",
        ],
    ),
    (
        "a second signal comes during the drain",
        &[
            "ways_out::a_second_signal_ends_the_drain",
            "drain::a_task_of_any_kind_is_cancelled_when_somebody_ends_the_drain",
        ],
    ),
    (
        "a callback that checks for its cancellation is running",
        &[
            "ways_out::a_callback_that_looks_ends_at_each_signal",
            "shutdown::a_callback_is_told_its_hooks_run_and_its_lease_goes_back_last",
        ],
    ),
    (
        "a callback that does not stop is running",
        &[
            "ways_out::the_lease_of_a_callback_that_does_not_stop_ends_with_its_process",
            "ways_out::the_lease_of_a_callback_that_does_not_stop_is_held_for_a_few_seconds_more",
        ],
    ),
    (
        "a command is running",
        &[
            "ways_out::a_command_is_ended_with_all_that_it_started_at_each_signal",
            "shutdown::the_lease_of_a_command_goes_back_when_nothing_is_left_of_its_group",
        ],
    ),
    (
        "events are running in the background",
        &[
            "ways_out::events_in_the_background_end_at_each_signal",
            "shutdown::every_run_at_work_is_told_in_the_background_too",
        ],
    ),
    (
        "another signal comes after the drain",
        &[
            "ways_out::a_second_signal_ends_a_command_at_once",
            "ways_out::a_lease_ends_with_its_process_at_a_second_signal",
            "ways_out::a_lease_ends_with_its_term_after_a_second_signal",
            "drain::after_the_drain_the_grace_ends_the_process_and_another_signal_does_at_once",
        ],
    ),
    (
        "the task calls `process::exit`, or its hook does",
        &[
            "exit::the_lease_of_an_exiting_task_is_free_at_once_and_those_of_others_within_seconds",
            "exit::on_file_nothing_stays_but_what_is_to_be_held_longer",
            "exit::what_the_exiting_thread_performs_is_given_back_once_and_the_rest_ends_soon",
        ],
    ),
    (
        "another thread calls `process::exit`, or `main` returns, during a callback",
        &[
            "exit::the_lease_of_an_exiting_task_is_free_at_once_and_those_of_others_within_seconds",
            "exit::a_return_from_main_lets_the_runs_of_other_threads_end_soon",
            "exit::on_file_nothing_stays_but_what_is_to_be_held_longer",
        ],
    ),
    (
        "a thread calls `process::exit`, or `main` returns, during a command",
        &[
            "exit::a_command_of_another_thread_keeps_its_lease_on_file",
            "exit::the_lease_of_a_command_outlasts_its_watchdog",
        ],
    ),
    (
        "a process exits, and its store is unavailable",
        &[
            "exit::an_exit_does_not_hang_while_the_server_is_stopped_or_gone",
            "exit::an_exit_does_not_hang_in_a_store_that_does_not_answer",
        ],
    ),
    (
        "SIGKILL, `abort`, `panic = \"abort\"`, or no memory, during a callback",
        &["ways_out::a_lease_ends_with_its_process_at_sigkill", "ways_out::a_lease_ends_with_its_term_after_sigkill"],
    ),
    (
        "SIGKILL, `abort`, `panic = \"abort\"`, or no memory, during a command",
        &[
            "ways_out::a_lease_is_held_after_sigkill_exactly_as_long_as_anything_of_its_command_lives",
            "ways_out::a_command_is_ended_after_sigkill_of_its_scheduler",
            "command::a_protected_command_ends_with_its_scheduler",
        ],
    ),
    ("a signal, without a `Shutdown`", &["exit::a_signal_that_nobody_handles_lets_leases_end_with_their_terms"]),
    (
        "the process is suspended past the term, during a callback",
        &[
            "recovery::a_process_that_was_stopped_past_its_term_leaves_its_successor_alone",
            "healing::a_process_that_was_stopped_past_its_term_knows_before_anything_else_that_its_lease_is_lost",
        ],
    ),
    (
        "the process is suspended past the term, during a command",
        &[
            "ways_out::a_lease_is_held_while_its_process_is_suspended_beside_its_command",
            "ways_out::a_command_whose_process_was_suspended_past_its_term_is_ended_when_that_goes_on",
        ],
    ),
];

#[test]
fn every_row_of_the_page_has_its_tests_and_every_test_is_there() {
    let page = include_str!("../../docs/guide/ways_out.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: Vec<&str> = rows.filter(|row| *row != "when" && !row.starts_with("---")).collect();
    assert_eq!(rows, ROWS.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    for test in ROWS.iter().flat_map(|(_, tests)| *tests) {
        let (room, name) = test.split_once("::").expect("a room and a test in it");
        let (beside, within) = (format!("tests/it/{room}.rs"), format!("tests/it/{room}/"));
        let files = sources("tests/it").into_iter().map(|(path, text)| (path.display().to_string(), text));
        let found = files.filter(|(path, _)| *path == beside || path.starts_with(&within));
        assert!(found.into_iter().any(|(_, text)| text.contains(&format!("fn {name}("))), "there is no {test}");
    }
}

#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    let fleet = Fleet::new();
    let mut command = Command::new("env");
    let usual = fleet.worker("first", &["--work-ms", "600000"]);
    command.arg("--ignore-signal=HUP").args(usual.get_args().skip(1));
    let mut worker = Worker::of(&fleet, "first", command);
    worker.wait_for("start");
    worker.signal("-HUP");
    thread::sleep(Duration::from_millis(300)); // enough to end in
    assert_eq!(what(&worker.log()), ["start"]);
    worker.signal("-TERM");
    worker.ended_by(SIGTERM);
}
