//! Whole processes on the file store, in alternation: a tick in which nothing is due, and one with a due event, beside an
//! empty program; and `soloist run`, which supervises, renews and releases, beside `flock -n` and the command alone.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use chrono::Utc;
use soloist::{Event, FileMutex, Schedule};

/// How often each is started: twice, where it is a test that they are measured.
fn times() -> usize {
    if std::env::args().any(|argument| argument == "--bench") { 300 } else { 2 }
}

/// What this program is when it is started with a store and an expression: a service of one tick.
fn tick(store: &str, expression: &str) -> Result<bool, Box<dyn Error>> {
    let mut schedule = Schedule::new(FileMutex::in_dir(store)?);
    schedule.add(Event::call("bench", |_| {}).cron(expression).without_overlapping())?;
    Ok(schedule.run_due(Utc::now()).is_failure())
}

/// A program that does nothing, built as Rust programs are.
fn build_empty(directory: &Path) -> Result<String, Box<dyn Error>> {
    let (source, program) = (directory.join("empty.rs"), directory.join("empty"));
    std::fs::write(&source, "fn main() {}")?;
    let built = Command::new("rustc").args(["-C", "opt-level=3", "-o"]).arg(&program).arg(&source).status()?;
    assert!(built.success(), "rustc: {built}");
    Ok(program.display().to_string())
}

fn start(program: &str, arguments: &[&str]) -> Duration {
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

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [tick_of, store, expression] = &arguments[..]
        && tick_of == "tick"
    {
        std::process::exit(tick(store, expression)?.into());
    }
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (store, lock, this) = (path("store"), path("lock"), std::env::current_exe()?.display().to_string());
    let (empty, url) = (build_empty(directory.path())?, format!("file:{store}"));
    // The first three beside an empty program, the others beside `flock`.
    let programs: [(&str, &str, &[&str]); 6] = [
        ("an empty program", &empty, &[]),
        ("a tick, nothing due", &this, &["tick", &store, "0 0 29 2 *"]),
        ("a tick, one due event", &this, &["tick", &store, "* * * * *"]),
        ("flock -n true", "flock", &["-n", &lock, "true"]),
        ("soloist run true", env!("CARGO_BIN_EXE_soloist"), &["run", "--store", &url, "--name", "run", "--", "true"]),
        ("true alone", "true", &[]),
    ];
    let mut all = programs.map(|_| Vec::new());
    for _ in 0..times() {
        for ((_, program, arguments), times) in programs.iter().zip(&mut all) {
            times.push(start(program, arguments));
        }
    }
    println!("{:32} {:>10} {:>8}", "a whole process", "median", "ratio");
    let medians = all.map(median);
    for (at, ((name, ..), time)) in programs.iter().zip(medians).enumerate() {
        let floor = medians[if at < 3 { 0 } else { 3 }];
        println!("{name:32} {:>7} µs {:>8.2}", time.as_micros(), time.as_secs_f64() / floor.as_secs_f64());
    }
    Ok(())
}
