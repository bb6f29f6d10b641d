//! The vocabulary of the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use soloist::store::{Held, Holder, Names};
use soloist::time::Clock;
use soloist::{Entry, EventMutex, MutexName, Report, RunOutcome, SkipReason, TaskResult, Verdict};

/// Runs `tell` with a subscriber for this thread's events.
///
/// `tracing` asks the subscriber of the first thread that reaches a place in the code, and remembers its answer as
/// long as the process has only one subscriber. The first thread could be another test's, which has none. So there
/// is always a second subscriber, which receives nothing.
pub(crate) fn with_subscriber<T>(subscriber: impl Into<tracing::Dispatch>, tell: impl FnOnce() -> T) -> T {
    static ANOTHER: OnceLock<tracing::Dispatch> = OnceLock::new();
    ANOTHER.get_or_init(|| tracing::Dispatch::new(tracing_subscriber::Registry::default()));
    tracing::dispatcher::with_default(&subscriber.into(), tell)
}

/// Parses an instant, such as `2026-03-01T12:00:00Z`.
#[track_caller]
pub(crate) fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant as RFC 3339 writes it")
}

pub(crate) fn noon() -> DateTime<Utc> {
    at("2026-03-01T12:00:00Z")
}

/// A fixed term, for stores that can't extend a lease.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A longer wait than any answer between threads needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done` returns true. An error after [`PATIENCE`].
pub(crate) fn until(done: impl Fn() -> bool) -> TaskResult {
    let patience = Clock::system().moment().plus(PATIENCE);
    let mut pause = Duration::from_millis(1); // between two checks of other threads
    while !done() {
        if Clock::system().moment() > patience {
            return Err("waited in vain".into());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(16));
    }
    Ok(())
}

/// Tries up to five times until `attempt` says that it took less than `limit`: a machine that stood still meanwhile has shown
/// nothing.
#[track_caller]
pub(crate) fn in_time(limit: Duration, mut attempt: impl FnMut() -> Duration) {
    let took: Vec<Duration> = (0..5).map(|_| attempt()).take_while(|took| *took >= limit).collect();
    assert!(took.len() < 5, "each time it took more than {limit:?}: {took:?}");
}

/// A list that tasks and hooks write into.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn note(&self, line: impl Into<String>) {
        self.0.lock().expect("nothing panics while it holds the diary").push(line.into());
    }

    /// Returns a task, or a `before` hook, that writes one line.
    pub(crate) fn task(&self, line: &str) -> impl Fn(&soloist::Run) + Send + Sync + use<> {
        let (diary, line) = (self.clone(), line.to_owned());
        move |_| diary.note(line.clone())
    }

    /// Returns a hook that runs after the task and writes one line.
    pub(crate) fn hook(&self, line: &str) -> impl Fn(&soloist::Run, &RunOutcome) + Send + Sync + use<> {
        let task = self.task(line);
        move |run, _| task(run)
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().expect("nothing panics while it holds the diary").clone()
    }
}

/// Returns the holder of this name.
#[track_caller]
pub(crate) fn holder(store: &(impl EventMutex + ?Sized), name: &MutexName) -> Option<Holder> {
    store.held(Names::of(name)).expect("the store answers").pop().and_then(Held::into_holder)
}

#[track_caller]
pub(crate) fn entry<'a>(report: &'a Report, event: &str) -> &'a Entry {
    report.entry(event).unwrap_or_else(|| panic!("no entry for {event} in:\n{report}"))
}

#[track_caller]
pub(crate) fn ran<'a>(report: &'a Report, event: &str) -> &'a RunOutcome {
    match entry(report, event).verdict() {
        Verdict::Ran(outcome) => outcome,
        Verdict::Skipped(reason) => panic!("{event} did not run: {reason}"),
    }
}

#[track_caller]
pub(crate) fn skipped<'a>(report: &'a Report, event: &str) -> &'a SkipReason {
    match entry(report, event).verdict() {
        Verdict::Skipped(reason) => reason,
        Verdict::Ran(outcome) => panic!("{event} ran: {outcome}"),
    }
}

/// The words about a lease for a minute, behind the time at which it was lost.
pub(crate) const FIXED_TERM: &str = ", because `without_overlapping_for(1m)` is a fixed term: use `without_overlapping()`, whose \
                                     lease lasts as long as the run";

/// Returns the output of the test `name` when it is run again, alone in a process with `variables` of its own.
/// `None`: this is that process.
#[track_caller]
pub(crate) fn run_alone(name: &str, variables: &[(&str, &str)]) -> Option<String> {
    let output = output_alone(name, variables)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

/// Returns the output of the test `name` as [`run_alone`] does, also of a process that fails.
pub(crate) fn output_alone(name: &str, variables: &[(&str, &str)]) -> Option<std::process::Output> {
    const ALONE: &str = "SOLOIST_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().expect("a running program has a path"));
    child.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, "1").envs(variables.iter().copied());
    Some(child.output().expect("it runs"))
}

/// With this variable, no thread can be started: no machine has a stack of that size.
pub(crate) const NO_THREADS: (&str, &str) = ("RUST_MIN_STACK", "70368744177664");

/// Returns the program `examples/{name}.rs`, or of a folder: `examples/fleet`, `tests/fleet/worker`. `cargo test` builds it;
/// `cargo test --test it` alone does not.
pub(crate) fn example(name: &str) -> PathBuf {
    // The library stays as it is while the tests run.
    static LIBRARY: OnceLock<SystemTime> = OnceLock::new();
    let this = std::env::current_exe().expect("a running program has a path");
    let target = this.parent().and_then(|deps| deps.parent()).expect("tests lie in target/PROFILE/deps");
    let example = target.join("examples").join(name);
    let built = std::fs::metadata(&example).and_then(|example| example.modified()).ok();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join(if name == "worker" { "tests/fleet" } else { "examples" }).join(name);
    let source = if folder.is_dir() { newest(&folder) } else { modified(&folder.with_extension("rs")) };
    let library = *LIBRARY.get_or_init(|| newest(&root.join("src")));
    let fresh = built.is_some_and(|built| library.max(source) < built);
    assert!(fresh, "{} is missing or older than its source: run `cargo build --examples`", example.display());
    example
}

/// Returns a command for the example `worker` on this store, with this log.
pub(crate) fn worker(store: &str, log: &Path) -> Command {
    worker_at(&example("worker"), store, log)
}

/// Returns a command for the worker at this path.
pub(crate) fn worker_at(program: &Path, store: &str, log: &Path) -> Command {
    // The process that started the tests may ignore some signals, as a shell does for its background jobs.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(program);
    command.args(["--store", store, "--log"]).arg(log);
    command
}

fn modified(file: &Path) -> SystemTime {
    std::fs::metadata(file).and_then(|file| file.modified()).expect("the source is there")
}

fn newest(folder: &Path) -> SystemTime {
    let items = std::fs::read_dir(folder).expect("the source is there").map(|item| item.expect("it is readable"));
    let time = |item: std::fs::DirEntry| match item.metadata() {
        Ok(data) if data.is_dir() => newest(&item.path()),
        data => data.and_then(|data| data.modified()).expect("files have times"),
    };
    items.map(time).max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A process, by the kernel's table.
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) is_alive: bool,
}

pub(crate) fn processes() -> Vec<Process> {
    let ids = std::fs::read_dir("/proc").expect("Linux has one").flatten();
    let ids = ids.filter_map(|item| item.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| {
        let stat = std::fs::read(format!("/proc/{id}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat).into_owned();
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let is_alive = !["Z", "X"].contains(&fields[0]);
        Some(Process { id, parent: fields[1].parse().ok()?, group: fields[2].parse().ok()?, is_alive })
    })
    .collect()
}

/// Returns whether any process of this group lives. A process that has ended does not count, even if its parent
/// has not noticed.
pub(crate) fn group_lives(group: u32) -> bool {
    processes().iter().any(|process| process.group == group && process.is_alive)
}

/// Waits for the number that a command writes into this file: `echo $$ > FILE`.
#[track_caller]
pub(crate) fn number_in(file: &Path) -> u32 {
    let read = || std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))?.trim().parse().ok();
    until(|| read().is_some()).unwrap_or_else(|why| panic!("{why} for {}", file.display()));
    read().expect("it was there")
}

/// An error that panics when it is shown.
#[derive(Debug)]
pub(crate) struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no words for it")
    }
}

impl std::error::Error for Unspeakable {}

/// Returns the URL of a store with a timeout that no busy machine exceeds: for tests in which the server answers.
pub(crate) fn patient_url(url: &str) -> String {
    format!("{url}?timeout=30s")
}
