//! A worker of a fleet, while it runs.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::fleet::{Fleet, succeeded};
use crate::support::PATIENCE;
use crate::worker_log::{Line, read};

/// A worker process of a fleet.
pub(crate) struct Worker<'a> {
    fleet: &'a Fleet,
    log: String,
    child: Child,
}

impl<'a> Worker<'a> {
    /// Starts a worker that allows one run at a time, and writes the log of this name.
    pub(crate) fn start(fleet: &'a Fleet, log: &str, options: &str) -> Self {
        let options: Vec<&str> = options.split(' ').collect();
        Self::with(fleet, log, &[&["--without-overlapping"], &options[..]].concat())
    }

    /// Starts a worker with these options only.
    pub(crate) fn with(fleet: &'a Fleet, log: &str, options: &[&str]) -> Self {
        Self::of(fleet, log, fleet.worker(log, options))
    }

    pub(crate) fn of(fleet: &'a Fleet, log: &str, mut command: Command) -> Self {
        Self { fleet, log: log.to_owned(), child: command.stderr(Stdio::piped()).spawn().expect("a worker starts") }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> Vec<Line> {
        read(&self.fleet.log(&self.log))
    }

    /// Waits until its log has this line.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, what: &str) -> Line {
        self.wait_until(what, |line| line.what == what)
    }

    /// Waits until its log has a line like that.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, is_it: impl Fn(&Line) -> bool) -> Line {
        let began = Instant::now();
        loop {
            let ended = self.child.try_wait().expect("it is ours"); // before its log is read, or the last line is missed
            if let Some(line) = self.log().into_iter().find(&is_it) {
                return line;
            }
            assert_eq!(ended, None, "{} ended before it logged {what}: {:#?}", self.log, self.log());
            assert!(began.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {} logs {what}", self.log);
            thread::sleep(Duration::from_millis(5)); // between two checks of another process
        }
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("there is kill").success());
    }

    /// Waits for its failure. Returns its log, and its standard error.
    #[track_caller]
    pub(crate) fn fails(self) -> (Vec<Line>, String) {
        let log = self.fleet.log(&self.log);
        let output = self.child.wait_with_output().expect("it is ours");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        (read(&log), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Waits for its end by this signal. Returns its log, and its standard error.
    #[track_caller]
    pub(crate) fn ended_by(self, signal: i32) -> (Vec<Line>, String) {
        let log = self.fleet.log(&self.log);
        let output = self.child.wait_with_output().expect("it is ours");
        assert_eq!(output.status.signal(), Some(signal), "{output:?}");
        (read(&log), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[track_caller]
    pub(crate) fn succeeds(self) -> Vec<Line> {
        let log = self.fleet.log(&self.log);
        succeeded(&self.child.wait_with_output().expect("it is ours"));
        read(&log)
    }

    #[track_caller]
    pub(crate) fn kill(mut self) {
        assert_eq!(self.child.try_wait().expect("it is ours"), None, "{} has ended by itself", self.log);
        self.child.kill().expect("it is at work");
        self.child.wait().expect("it is ours");
    }
}

pub(crate) fn what(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| &*line.what).collect()
}

/// Returns how often this worker was skipped, and asserts that the holder was this process each time.
#[track_caller]
pub(crate) fn skipped_because_of(lines: &[Line], pid: u32) -> usize {
    let skips: Vec<&Line> = lines.iter().filter(|line| line.what == "skipped").collect();
    for skip in &skips {
        assert_eq!(skip.reason.as_deref(), Some("overlapping"));
        let holder = skip.holder.as_deref().expect("the store knows its holder");
        assert!(holder.contains(&format!(", pid {pid}, ")), "{holder} is not pid {pid}");
    }
    skips.len()
}
