//! Killed schedulers, and their commands.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Stdio};

use super::*;

/// The variable in the environment of all processes that a scheduler started.
const MARK: &str = "SOLOIST_TEST_MARK";

/// Says that the scheduler forks.
const FORKS: &str = "SOLOIST_TEST_FORKS";

/// A process with a schedule that runs one command.
struct Scheduler {
    child: Child,
    mark: String,
    /// Kept open: a write would fail without a reader.
    _says: BufReader<ChildStdout>,
}

/// A command: its line, its grace in milliseconds, and whether it is protected.
struct Job<'a>(&'a str, u64, bool);

impl Scheduler {
    /// Waits until it is about to start its command.
    #[track_caller]
    fn start(place: &Place, job: &Job<'_>) -> Self {
        Self::start_with(place, job, &[])
    }

    #[track_caller]
    fn start_with(place: &Place, Job(line, grace, protected): &Job<'_>, variables: &[(&str, &str)]) -> Self {
        let mark = format!("{}/{}", place.0.path().display(), fastrand::u64(..));
        let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
        command.args(["--exact", "command::killed::a_scheduler_does_as_it_is_told", "--nocapture"]);
        command.env(MARK, &mark).env("SOLOIST_TEST_LINE", line).current_dir(place.0.path());
        command.env("SOLOIST_TEST_GRACE", grace.to_string()).env("SOLOIST_TEST_PROTECTED", protected.to_string());
        command.envs(variables.iter().copied());
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut says = BufReader::new(child.stdout.take().expect("it is piped"));
        let said = says.by_ref().lines().map_while(Result::ok).find(|line| line.ends_with(">about to start"));
        assert!(said.is_some(), "it ended before");
        Self { child, mark, _says: says }
    }

    #[track_caller]
    fn kill(&mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "it has ended by itself");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the processes with the scheduler's mark and their command lines, of any group or parent.
    fn left(&self) -> Vec<(u32, String)> {
        let mark = format!("{MARK}={}", self.mark);
        let is_marked = |process: &crate::support::Process| {
            let environment = fs::read(format!("/proc/{}/environ", process.id)).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let marked = processes().into_iter().filter(|process| process.is_alive && process.id != self.child.id());
        let command = |id: u32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            (id, String::from_utf8_lossy(&line).replace('\0', " "))
        };
        marked.filter(is_marked).map(|process| command(process.id)).collect()
    }

    fn watchdogs(&self) -> usize {
        self.left().iter().filter(|(_, command)| command.contains("soloist-watchdog")).count()
    }

    #[track_caller]
    fn leaves_nothing(&self) {
        until(|| self.left().is_empty()).unwrap_or_else(|_| panic!("left behind: {:?}", self.left()));
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for (id, _) in self.left() {
            let _ = Command::new("kill").args(["-s", "KILL", &id.to_string()]).status();
        }
    }
}

#[test]
fn a_scheduler_does_as_it_is_told() {
    let Ok(line) = std::env::var("SOLOIST_TEST_LINE") else { return };
    let grace = std::env::var("SOLOIST_TEST_GRACE").unwrap().parse().expect("it is a number");
    let protected = std::env::var("SOLOIST_TEST_PROTECTED").unwrap() == "true";
    let event = Event::exec("e", line).every_minute().grace(Duration::from_millis(grace));
    let schedule = Schedule::in_process();
    schedule.add(if protected { event.without_overlapping() } else { event }).unwrap();
    if std::env::var_os(FORKS).is_some() {
        thread::spawn(fork_beside_the_command);
    }
    println!(">about to start");
    println!("{}", schedule.run_due(noon()));
}

/// Waits for the command, and forks a child that starts no program, and so has its parent's open files.
fn fork_beside_the_command() {
    until(|| Path::new("pid").exists()).expect("the command begins");
    crate::fork::fork(|| {
        fs::write("forked", "").expect("the directory takes a file");
        thread::sleep(Duration::from_secs(60)); // it lives until the test ends it
    });
}

#[test]
fn a_protected_command_ends_with_its_scheduler_although_a_child_that_this_forked_lives() {
    let place = Place::new();
    let mut scheduler = Scheduler::start_with(&place, &Job("echo $$ >pid; sleep 60; :", 1_000, true), &[(FORKS, "1")]);
    let group = place.pid("pid");
    until(|| place.has("forked")).unwrap();
    scheduler.kill();
    until(|| !group_lives(group)).unwrap();
    until(|| scheduler.watchdogs() == 0).unwrap();
    assert_eq!(scheduler.left().len(), 1, "the child lives: {:?}", scheduler.left());
}

#[test]
fn a_protected_command_ends_with_its_scheduler() {
    let place = Place::new();
    let mut scheduler =
        Scheduler::start(&place, &Job("sleep 60 & (sleep 60; :) & echo $$ >pid; sleep 60; :", 20_000, true));
    let group = place.pid("pid");
    assert_eq!(scheduler.watchdogs(), 1);
    let before = Instant::now();
    scheduler.kill();
    until(|| !group_lives(group)).unwrap();
    assert!(before.elapsed() < SECOND + SLACK, "its grace is not waited for");
    scheduler.leaves_nothing();
    assert!(before.elapsed() < 2 * SECOND + SLACK, "nor is it by the watchdog");
}

#[test]
fn a_protected_command_ends_with_its_scheduler_also_when_all_of_its_group_is_killed() {
    let place = Place::new();
    let mut scheduler = Scheduler::start(&place, &Job("echo $$ >pid; sleep 60; :", 1_000, true));
    place.pid("pid");
    let group = format!("-{}", scheduler.child.id());
    let status = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
    assert!(status.expect("there is kill").success());
    scheduler.child.wait().unwrap();
    scheduler.leaves_nothing();
}

#[test]
fn a_command_that_does_not_hear_has_its_grace_when_its_scheduler_is_killed() {
    let place = Place::new();
    let line = "trap 'echo told >told' TERM; (trap '' TERM; sleep 60; :) & echo $$ >pid; while :; do wait; done";
    let mut scheduler = Scheduler::start(&place, &Job(line, 6_000, true)); // so long that a busy shell gets the signal
    let group = place.pid("pid");
    let before = Instant::now();
    scheduler.kill();
    until(|| place.has("told")).unwrap();
    until(|| !group_lives(group)).unwrap();
    let took = before.elapsed();
    assert!(took >= 6 * SECOND && took < 7 * SECOND + SLACK, "{took:?}");
    scheduler.leaves_nothing();
}

#[test]
fn a_command_has_its_grace_although_the_path_of_its_killed_scheduler_has_no_sleep() {
    let place = Place::new();
    let line = "trap '' TERM; echo $$ >pid; /bin/sleep 60; :";
    let mut scheduler = Scheduler::start_with(&place, &Job(line, 3_000, true), &[("PATH", "/nonexistent")]);
    let group = place.pid("pid");
    let before = Instant::now();
    scheduler.kill();
    until(|| !group_lives(group)).unwrap();
    let took = before.elapsed();
    assert!(took >= 3 * SECOND && took < 4 * SECOND + SLACK, "{took:?}");
    scheduler.leaves_nothing();
}

#[test]
fn what_a_command_left_behind_ends_with_the_scheduler() {
    let place = Place::new();
    let mut scheduler = Scheduler::start(&place, &Job("sleep 60 & echo $$ >pid; exit 0", 1_000, true));
    let group = place.pid("pid");
    until(|| !is_alive(group)).unwrap();
    assert!(group_lives(group));
    scheduler.kill();
    scheduler.leaves_nothing();
}

#[test]
fn whenever_a_scheduler_is_killed_its_command_ends() {
    let place = Place::new();
    let schedulers: Vec<Scheduler> = (0..30)
        .map(|number| {
            let line = if number % 2 == 0 { "sleep 60 & sleep 60; :" } else { "trap '' TERM; sleep 60 & sleep 60; :" };
            let mut scheduler = Scheduler::start(&place, &Job(line, 200, true));
            thread::sleep(Duration::from_micros(fastrand::u64(..20_000))); // in the middle of its start
            scheduler.kill();
            scheduler
        })
        .collect();
    for scheduler in &schedulers {
        scheduler.leaves_nothing();
    }
}

#[test]
fn a_command_whose_watchdog_was_killed_ends_as_it_would() {
    let place = Place::new();
    let line = "echo $$ >pid; until [ -e go ]; do sleep 0.02; done; echo done >done; exit 3";
    let mut scheduler = Scheduler::start(&place, &Job(line, 1_000, true));
    place.pid("pid");
    let left = scheduler.left();
    let watchdog = left.iter().find(|(_, command)| command.contains("soloist-watchdog")).expect("it is watched over");
    signal("KILL", watchdog.0);
    place.touch("go");
    assert!(scheduler.child.wait().unwrap().success());
    assert!(place.has("done"));
    scheduler.leaves_nothing();
}

#[test]
fn a_command_without_a_lease_runs_on_when_its_scheduler_is_killed() {
    let place = Place::new();
    let line = "sleep 0.2 & echo $$ >pid; until [ -e go ]; do sleep 0.02; done; echo done >done";
    let mut scheduler = Scheduler::start(&place, &Job(line, 0, false));
    let group = place.pid("pid");
    assert_eq!(scheduler.watchdogs(), 0);
    scheduler.kill();
    thread::sleep(Duration::from_millis(500)); // mostly long enough for a kill
    assert!(is_alive(group));
    place.touch("go");
    until(|| place.has("done")).unwrap();
    scheduler.leaves_nothing();
}
