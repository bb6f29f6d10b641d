//! Several `worker` processes on one store: nothing doubled, nothing lost, nothing stranded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{example, worker};
use crate::worker_log::{Line, read};

/// A store, and the log of every worker on it.
pub(crate) struct Fleet {
    directory: tempfile::TempDir,
    store: String,
}

impl Fleet {
    /// Makes a fleet on a file store of its own.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { store: format!("file:{}", directory.path().join("store").display()), directory }
    }

    /// Makes a fleet on the store with this URL, where no other test uses the event of `worker`.
    #[cfg(any(feature = "redis", all(feature = "mysql", feature = "postgres")))]
    pub(crate) fn on(store: String) -> Self {
        Self { store, ..Self::new() }
    }

    pub(crate) fn worker(&self, log: &str, options: &[&str]) -> Command {
        let mut command = worker(&self.store, &self.log(log));
        command.args(options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    #[cfg(any(feature = "redis", all(feature = "mysql", feature = "postgres")))]
    pub(crate) fn url(&self) -> &str {
        &self.store
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

#[track_caller]
pub(crate) fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// The start of a fleet's workers: all at once, or over four ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    Together,
    Staggered,
}

/// How many occurrences eight workers tick.
const OCCURRENCES: usize = 200;

/// Lets eight workers tick the same occurrences, every so many milliseconds. Asserts that none starts twice, and no tick is lost.
/// Returns how many started.
#[track_caller]
pub(crate) fn eight_workers_share_each_occurrence(fleet: &Fleet, how: Start, every: u32) -> usize {
    let protections = ["--on-one-server", "--without-overlapping"];
    let (ticks, every_ms) = (OCCURRENCES.to_string(), every.to_string());
    let ticking = ["--now", "2026-03-01T00:00:00Z", "--ticks", &ticks, "--every-ms", &every_ms, "--work-ms", "5"];
    let began = Instant::now();
    let start = |worker: u32| {
        if how == Start::Staggered {
            thread::sleep((Duration::from_millis(4 * u64::from(every)) * worker / 7).saturating_sub(began.elapsed()));
        }
        let options = [&protections[..], &ticking[..]].concat();
        fleet.worker(&format!("worker-{worker}"), &options).spawn().expect("a worker starts")
    };
    let workers: Vec<Child> = (0..8).map(start).collect();
    let outputs: Vec<Output> =
        workers.into_iter().map(|worker| worker.wait_with_output().expect("a worker ends")).collect();
    // A machine on which a worker did not get the lock of a file for three seconds has shown nothing.
    if outputs.iter().any(|output| String::from_utf8_lossy(&output.stderr).contains(" s for locks")) {
        return 0;
    }
    outputs.iter().for_each(succeeded);

    let lines: Vec<Line> = (0..8).flat_map(|worker| read(&fleet.log(&format!("worker-{worker}")))).collect();
    let of = |what: &str| lines.iter().filter(|line| line.what == what).cloned().collect::<Vec<_>>();
    let (mut starts, ends, skips) = (of("start"), of("end"), of("skipped"));
    assert_eq!(starts.len() + skips.len(), 8 * OCCURRENCES, "every worker accounts for every tick");
    assert_eq!(lines.len(), starts.len() + ends.len() + skips.len(), "nothing failed");

    let ended: BTreeMap<u64, u64> = ends.iter().map(|end| (end.token.expect("protected"), end.at)).collect();
    starts.sort_by_key(|start| start.at);
    for pair in starts.windows(2) {
        let earlier_end = ended[&pair[0].token.expect("protected")];
        assert!(earlier_end <= pair[1].at, "overlap: {:?} started before {:?} ended", pair[1], pair[0]);
        assert!(pair[0].token < pair[1].token, "tokens rise: {pair:?}");
    }
    let started: BTreeSet<&str> = starts.iter().map(|start| &*start.occurrence).collect();
    assert_eq!(started.len(), starts.len(), "no occurrence starts twice");

    let mut nowhere: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for skip in &skips {
        let reason = skip.reason.as_deref().expect("a skip has its reason");
        assert!(["overlapping", "ran_elsewhere"].contains(&reason), "{skip:?}");
        if !started.contains(&*skip.occurrence) {
            nowhere.entry(&skip.occurrence).or_default().push(skip);
        }
    }
    for (occurrence, skips) in &nowhere {
        let explained = skips.iter().all(|skip| skip.reason.as_deref() == Some("overlapping") && skip.holder.is_some());
        assert!(explained, "nobody ran {occurrence}, so every worker met a run and none a claim: {skips:#?}");
    }
    assert_eq!(started.len() + nowhere.len(), OCCURRENCES);
    println!("{} occurrences started; where all met a run: {:?}", started.len(), nowhere.keys());
    started.len()
}

/// Asserts that all but a few of the occurrences start. On a busy machine or a slow disk, more of them meet a
/// running task: so the ticks of the next attempt are further apart.
#[track_caller]
pub(crate) fn most_start(fleet: impl Fn(u32) -> usize) {
    let spacings = [50, 100, 200, 400];
    let started: Vec<usize> = spacings.into_iter().map(fleet).take_while(|started| *started < 190).collect();
    assert!(started.len() < spacings.len(), "only {started:?} of {OCCURRENCES} started, because of overlaps");
}

#[test]
fn eight_workers_on_one_file_store_double_nothing_and_lose_nothing() {
    most_start(|every| eight_workers_share_each_occurrence(&Fleet::new(), Start::Together, every));
}

#[test]
fn eight_workers_that_start_one_after_another_share_a_file_store_as_well() {
    most_start(|every| eight_workers_share_each_occurrence(&Fleet::new(), Start::Staggered, every));
}

#[test]
fn a_worker_that_was_killed_in_its_task_frees_the_event_at_once() {
    let fleet = Fleet::new();
    let forever = ["--without-overlapping=86400", "--work-ms", "600000"];
    let mut victim = fleet.worker("victim", &forever).spawn().expect("a worker starts");
    let pid = victim.id();
    while !read(&fleet.log("victim")).iter().any(|line| line.what == "start") {
        assert!(victim.try_wait().expect("the worker is ours").is_none(), "the worker ended before its task");
        thread::sleep(Duration::from_millis(5)); // between two checks of another process
    }

    succeeded(&fleet.worker("other", &["--without-overlapping=86400"]).output().expect("a worker runs"));
    let skip = &read(&fleet.log("other"))[0];
    assert_eq!((&*skip.what, skip.reason.as_deref()), ("skipped", Some("overlapping")));
    let holder = skip.holder.as_deref().expect("the store knows its holder");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux says what it is called");
    let expected = format!("{}, pid {pid}, since 20", host.trim());
    assert!(holder.starts_with(&expected), "{holder:?} should start with {expected:?}");

    victim.kill().expect("it is at work");
    victim.wait().expect("it is ours");
    succeeded(&fleet.worker("next", &["--without-overlapping=86400"]).output().expect("a worker runs"));
    let next: Vec<String> = read(&fleet.log("next")).into_iter().map(|line| line.what).collect();
    assert_eq!(next, ["start", "end"]);
}

#[test]
fn a_worker_says_what_is_wrong_with_its_arguments() {
    let cases: [(&[&str], &str); 10] = [
        (&[], "--store is missing"),
        (&["--store", "memory:", "--cron", "61 * * * *"], "61"),
        (&["--store", "nowhere:"], "nowhere"),
        (&["--store", "memory:", "--now", "noon"], "noon"),
        (&["--store", "memory:", "--without-overlapping=0"], "`without_overlapping_for(0s)`: use 1ms to ten years"),
        (&["--store", "memory:", "--once-per", "fortnight"], "fortnight"),
        (&["--store", "memory:", "--catch-up", "60"], "on_one_server()"),
        (&["--store", "memory:", "--timezone", "europe/berlin"], "Europe/Berlin"),
        (&["--store", "memory:", "--work", "--ticks", "3"], "goes without --now"),
        (&["--store", "memory:", "--sideways"], "--sideways"),
    ];
    for (arguments, message) in cases {
        let output = Command::new(example("worker")).args(arguments).output().expect("the worker runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_worker_fails_when_its_store_is_out() {
    let fleet = Fleet::new();
    // A foreign file in the place of the event's state.
    succeeded(&fleet.worker("log", &["--without-overlapping"]).output().expect("a worker runs"));
    let store = fleet.directory.path().join("store");
    let states =
        std::fs::read_dir(&store).expect("the store is there").map(|file| file.expect("it is readable").path());
    let state = states.filter(|path| path.extension().is_some_and(|kind| kind == "state")).collect::<Vec<_>>();
    std::fs::write(&state[0], "somebody's shopping list").expect("the state can be written");

    let output = fleet.worker("log", &["--without-overlapping"]).output().expect("a worker runs");
    assert_eq!(output.status.code(), Some(1));
    let last = read(&fleet.log("log")).pop().expect("the log has lines");
    assert_eq!((&*last.what, last.reason.as_deref()), ("skipped", Some("store_unavailable")));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&*state[0].to_string_lossy()), "the path is named");
}

#[test]
fn a_worker_fails_on_a_full_disk_and_runs_when_there_is_room_again() {
    let fleet = Fleet::new();
    // No file of it may grow; its log is a pipe.
    let full = "trap '' XFSZ; exec prlimit --fsize=0 \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", full, "sh"]).arg(example("worker")).args(["--store", &fleet.store, "--without-overlapping"]);
    let output = command.output().expect("a worker runs");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(".state: File too large"), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"reason\":\"store_unavailable\""));

    succeeded(&fleet.worker("log", &["--without-overlapping"]).output().expect("a worker runs"));
}

/// Starts the example twice, on one new store. Returns both reports.
#[track_caller]
fn two_quick_starts() -> [String; 2] {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let quick_start = || {
        let mut command = Command::new(example("quick_start"));
        command.env("TMPDIR", directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    // Not over the change of a minute, which would be two occurrences.
    while chrono::Utc::now().timestamp() % 60 > 40 {
        thread::sleep(Duration::from_millis(200));
    }
    [quick_start(), quick_start()].map(|child| {
        let output = child.wait_with_output().expect("it ends");
        succeeded(&output);
        String::from_utf8(output.stdout).expect("a report is a text")
    })
}

#[test]
fn the_quick_start_does_the_main_job() {
    // The task takes five seconds. If the second process begins later, the two have not met, so there are more tries.
    let have_met = |reports: &[String; 2]| reports.iter().any(|report| report.contains("still running: "));
    let reports = std::iter::repeat_with(two_quick_starts).take(5).find(have_met).expect("one of five pairs meets");
    let with = |text: &str| reports.iter().filter(|report| report.contains(text)).count();
    assert_eq!((with("reports:generate: running in process"), with("still running: ")), (1, 1), "{reports:#?}");
    assert_eq!(with("carts:remind: running in process"), 1, "{reports:#?}");
}
