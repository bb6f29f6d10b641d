//! The command line, as people, scripts and crontabs use it: real processes, their output, exit codes, and their
//! traces in a store.

use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::servers::redis::Redis;
use crate::support::{example, patient_url, until};

mod backfill;
mod beside_flock;
mod cron_lines;
mod embedded;
mod failures;
mod late_starts;
#[cfg(feature = "redis")]
mod live_view;
mod namespaces;
mod pauses;
mod retries;
mod shapes;
mod signals;
mod terminal;
mod under_a_lease;
mod unlock;

/// The program `soloist`.
const SOLOIST: &str = env!("CARGO_BIN_EXE_soloist");

/// The exit code for "it is running already" that these tests ask for, since no command of theirs exits with it.
const CONFLICT: i32 = 9;

/// The four signals that ask a process to end.
const ASKING: [(i32, &str); 4] = [(SIGTERM, "TERM"), (SIGHUP, "HUP"), (SIGINT, "INT"), (SIGQUIT, "QUIT")];

/// A store, and a folder for commands and their output.
struct Place {
    folder: tempfile::TempDir,
    store: String,
}

impl Place {
    /// Makes a place with a file store.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        Self { store: format!("file:{}", folder.path().join("store").display()), folder }
    }

    /// Makes a place with a store on this server, in a namespace of its own.
    fn on(server: &Redis) -> Self {
        Self { store: patient_url(&server.url()), ..Self::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Uses the store once, so that it exists.
    fn used(self) -> Self {
        use std::os::unix::fs::DirBuilderExt;

        std::fs::DirBuilder::new().mode(0o700).create(self.path("store")).expect("the folder is ours");
        self
    }

    fn touch(&self, name: &str) {
        std::fs::write(self.path(name), "").expect("the folder is ours");
    }

    #[track_caller]
    fn wait_for(&self, name: &str) {
        until(|| self.path(name).exists()).unwrap_or_else(|why| panic!("{why} for {name}"));
    }

    /// Returns a command for the program in this folder, with these words and no ignored signals, as from a
    /// person's shell.
    fn program(&self, program: &Path, words: &str) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(program).args(words.split_whitespace());
        command.env("SOLOIST_STORE", &self.store).env("SCHEDULE_STORE", &self.store);
        command.env_remove("SOLOIST_APP").env_remove("NO_COLOR").current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn soloist(&self, words: &str) -> Command {
        self.program(Path::new(SOLOIST), words)
    }

    /// Returns a command for the program with a schedule: `examples/schedule_cli.rs`.
    fn schedule(&self, words: &str) -> Command {
        self.program(&example("schedule_cli"), words)
    }

    /// Returns a command that runs a shell line under the lease `j`.
    fn run(&self, options: &str, line: &str) -> Command {
        let mut command = self.soloist(&format!("run --name j -E {CONFLICT} {options} -- sh -c"));
        command.arg(line);
        command
    }

    /// Returns a command like `run`, as the line of a crontab with these times, at this instant.
    fn cron_line(&self, every: &str, now: &str, options: &str, line: &str) -> Command {
        // An interval has no zone.
        let zone = if every.contains(' ') { "--timezone UTC" } else { "" };
        let mut command = self.soloist(&format!("run --name j -E {CONFLICT} {zone} {options}"));
        command.args(["--every", every, "--", "sh", "-c", line]).env("SOLOIST_TEST_NOW", now);
        command
    }

    /// Returns the output with `--json`.
    #[track_caller]
    fn json(command: &mut Command) -> Value {
        let text = succeeds(command.arg("--json")).printed;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// Returns the holder of the lease `j`, as `locks --json` prints it.
    #[track_caller]
    fn holder(&self) -> Option<Value> {
        let locks = Self::json(&mut self.soloist("locks"));
        let held = locks.as_array().expect("it is a list").iter().find(|lock| lock["name"] == "j")?;
        Some(held["held_by"].clone())
    }

    #[track_caller]
    fn is_free(&self) {
        assert_eq!(self.holder(), None);
    }

    /// Returns whether any lease is held. Without a store there is none.
    #[track_caller]
    fn has_locks(&self) -> bool {
        let asked = answer(self.soloist("locks").arg("--json"));
        if asked.code == Some(3) && asked.errors.starts_with("soloist: there is no store in ") {
            return false;
        }
        asked.exits_with(0).printed.contains("\"name\"")
    }

    /// Waits until the lease `j` is held.
    #[track_caller]
    fn until_held(&self) -> Value {
        until(|| self.has_locks() && self.holder().is_some()).expect("it is taken");
        self.holder().expect("it was held a moment ago")
    }
}

/// The exit and the output of a program.
#[derive(Debug)]
struct Answer {
    code: Option<i32>,
    signal: Option<i32>,
    printed: String,
    errors: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("it writes text");
        let (code, signal) = (output.status.code(), output.status.signal());
        Self { code, signal, printed: text(output.stdout), errors: text(output.stderr) }
    }
}

impl Answer {
    #[track_caller]
    fn exits_with(self, code: i32) -> Self {
        assert_eq!((self.code, self.signal), (Some(code), None), "{self:?}");
        self
    }

    /// Asserts that the output contains this text.
    #[track_caller]
    fn says(self, text: &str) -> Self {
        let said = self.printed.contains(text) || self.errors.contains(text);
        assert!(said, "{text:?} is not in {self:?}");
        self
    }

    #[track_caller]
    fn is_silent(&self) {
        assert_eq!((&*self.printed, &*self.errors), ("", ""), "{self:?}");
    }
}

#[track_caller]
fn answer(command: &mut Command) -> Answer {
    command.output().expect("it runs").into()
}

#[track_caller]
fn succeeds(command: &mut Command) -> Answer {
    answer(command).exits_with(0)
}

/// A program that was started, and is ended with this.
struct Running(Option<Child>);

#[track_caller]
fn start(command: &mut Command) -> Running {
    Running(Some(command.spawn().expect("it starts")))
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is there until it is waited for")
    }
}

impl Running {
    /// Sends a signal: `TERM`, `KILL` and their like.
    #[track_caller]
    fn signal(&self, signal: &str) {
        assert!(send(signal, &self.id().to_string()), "{signal}");
    }

    /// Waits for its end.
    #[track_caller]
    fn ended(mut self) -> Answer {
        let child = self.0.take().expect("it was not waited for");
        child.wait_with_output().expect("it is ours").into()
    }

    /// Ends it by SIGKILL. Its children may go on, and hold its outputs open.
    #[track_caller]
    fn kill(mut self) {
        let mut child = self.0.take().expect("it was not waited for");
        assert!(child.try_wait().is_ok_and(|ended| ended.is_none()), "it has ended by itself");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    fn has_ended(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        // By a signal that it passes on.
        if child.try_wait().is_ok_and(|status| status.is_none()) {
            send("TERM", &child.id().to_string());
        }
        let _ = child.wait();
    }
}

/// Sends a signal to a process, or to a group if the number is negative. `false`: there is no such process.
fn send(signal: &str, to: &str) -> bool {
    let kill = Command::new("kill").args(["-s", signal, "--", to]).stderr(Stdio::null()).status();
    kill.expect("there is kill").success()
}

/// A group that something has left behind, ended with this.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        send("KILL", &format!("-{}", self.0));
    }
}

/// Waits between two reads of another process's state.
fn a_moment() {
    std::thread::sleep(Duration::from_millis(100));
}
