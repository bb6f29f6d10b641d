//! The records that 200 claims a second leave behind: a service with as many events that are due every second, for
//! a while. Claims of occurrences expire, and the store must clear them away.
//!
//! `cargo test` waits until the occurrences of three seconds have run. By hand, for longer, with a table in the
//! end and limits that are kept: `tests/soak`.

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::servers::postgres::Postgres;
use crate::servers::redis::Redis;
use crate::support::{example, patient_url};

const EVENTS: usize = 200;

/// Without a duration, as a part of all tests, the service ends when as many occurrences have run as are due in three seconds.
const ENOUGH: u64 = 3 * EVENTS as u64;
/// No service takes that long for them, on a loaded machine either.
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN_SAMPLES: Duration = Duration::from_secs(15);

/// The quantities of the store and the process that are measured, in their units, with their limits.
const MEMORY: (&str, u64) = ("MiB of memory", 70);
const FILES: (&str, u64) = ("MB of lock files, by their length", 45);
const BLOCKS: (&str, u64) = ("MB of lock files, on disk", 45);
const KEYS: (&str, u64) = ("keys", 100_000);
const ROWS: (&str, u64) = ("rows", 100_000);

/// How many of a hundred occurrences run at the least.
const MOST: u64 = 95;

/// The function that measures each quantity now.
type Look<'a> = &'a dyn Fn() -> Vec<((&'static str, u64), u64)>;

#[test]
fn memory_stays_small_under_two_hundred_claims_a_second() {
    soak("memory", "memory:", &[], &Vec::new);
}

#[test]
fn file_stays_small_under_two_hundred_claims_a_second() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let sizes = || {
        let [length, blocks] = sizes(directory.path());
        vec![(FILES, length / 1_000_000), (BLOCKS, blocks / 1_000_000)]
    };
    soak("file", &format!("file:{}", directory.path().display()), &[], &sizes);
}

#[test]
fn redis_stays_small_under_two_hundred_claims_a_second() {
    let redis = Redis::start();
    soak("redis", &patient_url(&redis.url()), &[], &|| vec![(KEYS, redis.ask(&["DBSIZE"]).number().unsigned_abs())]);
}

#[test]
fn postgres_stays_small_under_two_hundred_claims_a_second() {
    let postgres = Postgres::start();
    let rows = || {
        let counted = postgres.ask("SELECT count(*) FROM soloist_mutexes");
        let count = counted[0][0].as_ref().and_then(|count| count.parse().ok());
        vec![(ROWS, count.expect("a count is a number"))]
    };
    soak("postgres", &patient_url(&postgres.url()), &["--create-table"], &rows);
}

/// Returns the sum of the lengths of all files under this directory, and of their blocks on disk.
fn sizes(directory: &Path) -> [u64; 2] {
    let mut sum = [0, 0];
    for item in fs::read_dir(directory).expect("it is ours").flatten() {
        let Ok(found) = item.metadata() else { continue };
        let of_it = if found.is_dir() { sizes(&item.path()) } else { [found.len(), found.blocks() * 512] };
        sum = [sum[0] + of_it[0], sum[1] + of_it[1]];
    }
    sum
}

/// The running service. It ends on drop.
struct Service {
    child: Child,
    log: BufReader<File>,
    runs: u64,
    _directory: tempfile::TempDir,
}

impl Service {
    fn start(url: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("log");
        let file = File::create(&log).and_then(|_| File::open(&log)).expect("it is ours");
        let child = Command::new(example("worker"))
            .args(["--store", url, "--every-second", "--on-one-server", "--work", "--events", &EVENTS.to_string()])
            .args(options)
            .arg("--log")
            .arg(&log)
            .stdin(Stdio::null())
            .spawn()
            .expect("it runs");
        Self { child, log: BufReader::new(file), runs: 0, _directory: directory }
    }

    /// Returns how many occurrences have run since the service began.
    fn runs(&mut self) -> u64 {
        let ended = self.child.try_wait().expect("it is ours");
        assert!(ended.is_none(), "the service ended: {ended:?}");
        for line in (&mut self.log).lines().map_while(Result::ok) {
            self.runs += u64::from(line.contains(r#""what":"start""#));
        }
        self.runs
    }

    fn wait_for_runs(&mut self, count: u64) {
        let began = Instant::now();
        while self.runs() < count {
            assert!(began.elapsed() < PATIENCE, "{} runs after {PATIENCE:?}, and not {count}", self.runs);
            thread::sleep(Duration::from_millis(50)); // between two checks of another process
        }
    }

    /// Returns the memory in MiB.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it is alive");
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        kib.map(|kib: u64| kib.div_ceil(1024)).expect("Linux tells")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The child may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets the service work for a while, and fails if it leaves too much behind or does too little.
fn soak(store: &str, url: &str, options: &[&str], look: Look<'_>) {
    let mut service = Service::start(url, options);
    let Ok(seconds) = env::var("SOLOIST_SOAK_SECONDS") else { return service.wait_for_runs(ENOUGH) };
    let seconds = Duration::from_secs(seconds.parse().expect("a number of seconds"));
    service.wait_for_runs(1);
    let (began, before) = (Instant::now(), service.runs());
    let mut samples = Vec::new();
    loop {
        let left = seconds.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(BETWEEN_SAMPLES)); // as it is asked for
        samples.push([vec![(MEMORY, service.memory())], look()].concat());
    }
    let (ran, took) = (service.runs() - before, began.elapsed());
    let percent = ran * 100 / (took.as_secs() * EVENTS as u64).max(1);
    drop(service);

    let mut problems = Vec::new();
    let mut table = format!("| {store} | % of the occurrences ran ({ran}) | | {percent} | | at least {MOST} |\n");
    if percent < MOST {
        problems.push(format!("{percent} % of the occurrences ran, of which {MOST} % have to"));
    }
    for (at, ((what, limit), first)) in samples[0].iter().enumerate() {
        let all: Vec<u64> = samples.iter().map(|sample| sample[at].1).collect();
        // The mean of the last third.
        let last = &all[all.len() * 2 / 3..];
        let plateau = last.iter().sum::<u64>() / last.len() as u64;
        let most = all.iter().max().copied().unwrap_or_default();
        let _ = writeln!(table, "| {store} | {what} | {first} | {plateau} | {most} | {limit} |");
        if most > *limit {
            problems.push(format!("{most} {what}, where there may be {limit}"));
        }
    }
    println!("{table}");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak");
    fs::create_dir_all(&folder).expect("cargo builds there");
    fs::write(folder.join(store).with_extension("md"), &table).expect("the folder takes a file");
    assert!(problems.is_empty(), "{store}: {}", problems.join("; "));
}
