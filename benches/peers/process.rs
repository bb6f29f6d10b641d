//! Measures whole processes, from their start to their end: a program that cron starts, and a command under a lock or a
//! lease.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::alternate::{LEASE, NOTHING, Unit, Work};
use crate::race::Race;

pub(crate) fn race(race: &mut Race) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let times = race.size(10, 1);
    let starts = |program: &OsStr, arguments: &[&str], code: i32| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        move || {
            let began = Instant::now();
            for _ in 0..times {
                let status = command.status().expect("it can be started");
                assert_eq!(status.code(), Some(code), "{command:?}");
            }
            crate::ticks::each(began.elapsed(), times)
        }
    };
    let [empty, cron, soloist] = ["empty_program", "cron_program", "soloist"]
        .map(|name| program(name).unwrap_or_else(|| panic!("{name} was not built: run `benches/run --peers`")));
    let work = Work::new("a process that cron starts, files", Unit::Seconds)
        .by("an empty Rust program", NOTHING, starts(empty.as_os_str(), &[], 0))
        // The exit code of `cron_program` is the number of events that ran.
        .by("soloist, nothing due", LEASE, starts(cron.as_os_str(), &[&path("cron"), "idle"], 0))
        .by("soloist, one event due", LEASE, starts(cron.as_os_str(), &[&path("cron"), "due"], 1));
    race.run(12, work);

    let (lock, store) = (path("lock"), format!("file:{}", path("run")));
    let words = ["run", "--store", &store, "--name", "job", "--", "true"];
    let work = Work::new("a process that runs `true`", Unit::Seconds)
        .by("`flock -n`", "a lease on this host", starts("flock".as_ref(), &["-n", &lock, "true"], 0))
        .by("`soloist run`", LEASE, starts(soloist.as_os_str(), &words, 0))
        .by("`true` alone", NOTHING, starts("true".as_ref(), &[], 0));
    // `benches/run` builds the static program, but a test does not.
    let work = match program("soloist_static") {
        Some(program) => work.by("`soloist run`, linked statically", LEASE, starts(program.as_os_str(), &words, 0)),
        None => work,
    };
    race.run(12, work);
    let flock = Command::new("flock").arg("--version").output().expect("it was there");
    race.version("util-linux", &String::from_utf8_lossy(&flock.stdout));
}

/// Finds a program: in the folder into which `benches/run` installs programs, or else in the folder into which cargo
/// builds.
fn program(name: &str) -> Option<PathBuf> {
    let installed = std::env::var_os("SOLOIST_PEERS_PROGRAMS").map(PathBuf::from);
    let this = std::env::current_exe().expect("it runs");
    let built = this.parent().and_then(|deps| deps.parent()).expect("benches lie in target/PROFILE/deps");
    let folders = installed.into_iter().chain([built.to_owned()]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}
