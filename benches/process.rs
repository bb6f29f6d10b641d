//! Whole processes that start a command under a lock, in alternation: `soloist run` on the file store, which supervises, renews and
//! releases, and `flock -n`; and the floor, the command alone.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often each is started: twice, where it is a test that they are measured.
fn times() -> usize {
    if std::env::args().any(|argument| argument == "--bench") { 300 } else { 2 }
}

fn start(program: impl AsRef<OsStr>, arguments: &[&str]) -> Duration {
    let began = Instant::now();
    let mut command = Command::new(program);
    let status = command.args(arguments).stdin(Stdio::null()).status().expect("it can be started");
    assert!(status.success(), "{command:?}: {status}");
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (store, lock) = (format!("file:{}", path("store")), path("lock"));
    let soloist = ["run", "--store", &store, "--name", "bench", "--", "true"];
    let soloist_program = Path::new(env!("CARGO_BIN_EXE_soloist"));
    let mut all = [(); 3].map(|()| Vec::new());
    for _ in 0..times() {
        all[0].push(start(soloist_program, &soloist));
        all[1].push(start("flock", &["-n", &lock, "true"]));
        all[2].push(start("true", &[]));
    }
    let [ours, flock, floor] = all.map(median);
    println!("{:32} {:>10} {:>8}", "a command as a whole process", "median", "ratio");
    for (name, time) in [("soloist run", ours), ("flock -n", flock), ("the command alone", floor)] {
        println!("{name:32} {:>7} µs {:>8.2}", time.as_micros(), time.as_secs_f64() / flock.as_secs_f64());
    }
}
