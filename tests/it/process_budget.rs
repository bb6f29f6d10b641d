//! The cost of a process that cron starts each minute, by counts: system calls, threads, and pointers that the loader adjusts; and
//! the crates of each feature. Each limit is a little above the count when it was set.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use soloist::{Event, FileMutex, Schedule};

use crate::support::{example, noon};

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

/// The store of a child, which is traced.
const STORE: &str = "SOLOIST_TEST_TRACED";

/// Files that do not exist. The child searches for them where its tick begins and ends, which marks the trace.
const MARKS: [&str; 2] = ["/soloist-test-begin", "/soloist-test-end"];

fn tick(store: &Path, expression: &str) {
    let schedule = Schedule::new(FileMutex::in_dir(store).expect("a directory of its own"));
    let event = Event::call("reports", |_| {}).cron(expression).timezone("Europe/Berlin");
    schedule.add(event.without_overlapping()).expect("it is in order");
    assert!(!schedule.run_due(noon()).is_failure());
}

/// Returns the system calls of `program` and its threads, each with its thread, without those for memory.
fn traced(program: &mut Command) -> Vec<(String, String)> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let trace = directory.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "signal=none", "-e", "trace=!%memory", "-o"]).arg(&trace);
    strace.arg(program.get_program()).args(program.get_args());
    strace.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    output(&mut strace);
    let trace = std::fs::read_to_string(&trace).expect("strace writes it");
    let calls = trace.lines().filter_map(|line| line.split_once(' ')).map(|(thread, call)| (thread, call.trim_start()));
    // A debug build of the standard library checks each descriptor that it closes.
    let calls = calls.filter(|(_, call)| !call.starts_with(['<', '+']) && !call.contains("F_GETFD"));
    calls.map(|(thread, call)| (thread.into(), call.into())).collect()
}

/// Returns the system calls of a tick's own thread. `None`: this is the process that is traced.
fn calls_of_a_tick(test: &str, expression: &str) -> Option<Vec<String>> {
    if let Some(store) = std::env::var_os(STORE) {
        assert!(!Path::new(MARKS[0]).exists());
        tick(Path::new(&store), expression);
        assert!(!Path::new(MARKS[1]).exists());
        return None;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    // An earlier tick creates the files.
    tick(directory.path(), expression);
    let mut child = Command::new(std::env::current_exe().expect("a running program has a path"));
    child.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(STORE, directory.path());
    let calls = traced(&mut child);
    let mark = |mark: &str| calls.iter().position(|(_, call)| call.contains(mark)).expect("it has come there");
    let between = &calls[mark(MARKS[0])..mark(MARKS[1])];
    let its_own = between.iter().skip(1).filter(|(thread, _)| *thread == between[0].0);
    Some(its_own.map(|(_, call)| call.clone()).collect())
}

#[track_caller]
fn at_most(limit: usize, calls: &[String]) {
    assert!(calls.len() <= limit, "{} where there were {limit}:\n{}", calls.len(), calls.join("\n"));
}

#[test]
fn a_process_with_nothing_due_asks_the_system_for_next_to_nothing() {
    let test = "process_budget::a_process_with_nothing_due_asks_the_system_for_next_to_nothing";
    if let Some(calls) = calls_of_a_tick(test, "0 0 29 2 *") {
        at_most(10, &calls);
        assert!(!calls.iter().any(|call| call.starts_with("clone")), "it needs no thread: {calls:?}");
    }
}

#[test]
fn a_process_with_a_due_event_writes_its_state_and_its_end() {
    let test = "process_budget::a_process_with_a_due_event_writes_its_state_and_its_end";
    let count = |calls: &[String], name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
    if let Some(mut calls) = calls_of_a_tick(test, "* * * * *") {
        // One call wakes all threads that wait for the first answer of a store. How often one thread waits for another is left
        // to chance.
        calls.retain(|call| !call.starts_with("futex(") || call.contains(&i32::MAX.to_string()));
        // The standard library tries once whether the system has `statx`: at the mark, or earlier.
        calls.retain(|call| !call.starts_with("statx(0, NULL"));
        at_most(68, &calls);
        let names = ["renameat(", "write(", "clone", "fsync", "futex"];
        assert_eq!(names.map(|name| count(&calls, name)), [0, 2, 1, 0, 1], "{calls:?}");
    }
}

#[cfg(feature = "cli")]
#[test]
fn a_command_under_a_lease_needs_three_threads_and_no_pause() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = format!("file:{}", directory.path().display());
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_soloist"));
        command.args(["run", "--store", &store, "--name", "reports", "--", "/bin/true"]);
        command
    };
    output(&mut run());
    let calls = traced(&mut run());
    let opens = |call: &str| call.starts_with("openat(") && call.contains(&*directory.path().to_string_lossy());
    let opened = calls.iter().position(|(_, call)| opens(call));
    let its_own = calls.iter().skip(opened.expect("it opens the store")).filter(|(thread, _)| *thread == calls[0].0);
    // How often one thread waits for another is left to chance.
    let waits = |call: &str| call.starts_with("futex(") || call.starts_with("restart_syscall(");
    let its_own: Vec<String> = its_own.map(|(_, call)| call.clone()).filter(|call| !waits(call)).collect();
    at_most(164, &its_own);
    let count = |name: &str| calls.iter().filter(|(_, call)| call.starts_with(name)).count();
    assert_eq!(
        [count("clone3"), count("nanosleep") + count("clock_nanosleep"), count("fsync")],
        [3, 0, 0],
        "{calls:?}"
    );
}

/// Counts the relocations. The loader writes each of them, and a written page is shared with no other process.
/// `chrono-tz` had 30,000. A debug build has five times as many as a release build.
#[test]
fn a_program_has_few_pointers_that_the_loader_adjusts() {
    let table = output(Command::new("readelf").arg("-dW").arg(example("quick_start")));
    let count = table.lines().find(|line| line.contains("(RELACOUNT)")).and_then(|line| line.split_whitespace().last());
    let count: usize = count.expect("it is position-independent").parse().expect("it is a number");
    assert!(count <= 22_500, "{count}");
}

/// Runs the worker as users do who look for faults in their programs.
#[test]
fn a_worker_runs_under_valgrind() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9"]).arg(example("worker"));
    valgrind.args(["--ticks", "1", "--every-ms", "1", "--without-overlapping", "--on-one-server", "--store"]);
    output(valgrind.arg(format!("file:{}", directory.path().display())));
}

/// Counts the crates of a program on Linux, this one included.
#[test]
fn each_feature_is_built_with_no_more_crates_than_it_was() {
    for (features, limit) in [
        ("", 30),
        ("default", 43),
        ("cron", 40),
        ("serde", 33),
        ("metrics", 33),
        ("tokio", 37),
        ("cli", 65),
        ("redis", 51),
        ("postgres", 78),
        ("mysql", 100),
    ] {
        let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        tree.current_dir(env!("CARGO_MANIFEST_DIR")).args(["tree", "--offline", "--quiet", "--edges", "normal,build"]);
        tree.args(["--prefix", "none", "--format", "{p}", "--target", "x86_64-unknown-linux-gnu"]);
        tree.args(["--no-default-features", "--features", features]);
        let tree = output(&mut tree);
        let crates: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
        assert!(crates.len() <= limit, "{features:?} has {}, where it had {limit}: {crates:?}", crates.len());
    }
}
