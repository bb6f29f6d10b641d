//! A process that ends a command if the command's scheduler is killed.
//!
//! The watchdog reads from a pipe of the scheduler. The kernel closes the pipe when the scheduler ends. But a child
//! that the scheduler has forked may keep the pipe open. So the kernel also sends the watchdog a signal when the
//! scheduler ends. (The kernel could signal the command itself, but not the processes that the command has started.)

use std::io::{self, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::process::Signal;

use super::output::because;
#[cfg(target_os = "linux")]
use crate::base::system;

const SCRIPT: &str = include_str!("watchdog.sh");

pub(super) struct Watchdog {
    process: Child,
    line: PipeWriter,
}

impl Watchdog {
    /// Starts a watchdog. The process of the command must write its id to [`line`](Self::line).
    pub(super) fn start(grace: Duration) -> io::Result<Self> {
        Self::begin(grace, std::process::id())
            .map_err(|error| because(&error, "could not start the watchdog of the command, /bin/sh"))
    }

    fn begin(grace: Duration, scheduler: u32) -> io::Result<Self> {
        let (input, line) = io::pipe()?;
        // The script is an argument, so a list of processes shows it: keep it short.
        let script: String =
            SCRIPT.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
        // The watchdog keeps no directory, output or terminal of the scheduler open, because another process may wait
        // until they are closed.
        let mut process = Command::new("/bin/sh");
        process.args(["-c", &script, "soloist-watchdog", &in_seconds(grace), &scheduler.to_string()]);
        process.current_dir("/").process_group(0);
        process.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        // The signal comes when this thread ends. This thread waits for the end of the command, so it lives as long as
        // the watchdog is needed.
        #[cfg(target_os = "linux")]
        system::signal_at_death_of_this_thread(&mut process, Signal::URG);
        Ok(Self { process: process.spawn()?, line })
    }

    pub(super) fn line(&self) -> io::Result<PipeWriter> {
        self.line.try_clone()
    }

    /// Notifies the watchdog that the command was asked to stop. If the scheduler is killed after this, the watchdog
    /// kills the command without a second grace.
    pub(super) fn note_termination(&mut self) {
        // An error means that the watchdog was killed.
        let _ = self.line.write_all(b"stopping\n");
    }

    /// Ends the watchdog. Call this when the command has ended, or could not be started.
    pub(super) fn dismiss(mut self) {
        // Kill the watchdog before its pipe is closed. Otherwise the watchdog would read the end of its input, and end
        // the command. An error means that the watchdog was killed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Formats a grace for `sleep`: whole seconds if possible, because not every `sleep` accepts fractions.
fn in_seconds(grace: Duration) -> String {
    let millis = grace.as_nanos().div_ceil(1_000_000);
    let (seconds, millis) = (millis / 1000, millis % 1000);
    if millis == 0 { seconds.to_string() } else { format!("{seconds}.{millis:03}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_that_was_killed_before_its_watchdog_could_hear_of_it_is_missed() {
        let gone = Command::new("true").spawn().and_then(|mut ends| ends.wait().map(|_| ends.id())).expect("it ends");
        let mut command = Command::new("sleep").arg("60").process_group(0).spawn().expect("it starts");
        let mut watchdog = Watchdog::begin(Duration::ZERO, gone).expect("it starts");
        // The test keeps the line open, as a child of the killed scheduler would.
        writeln!(watchdog.line, "{}", command.id()).expect("it listens");
        assert!(!command.wait().expect("it is ours").success());
        watchdog.process.wait().expect("it is ours");
    }

    #[test]
    fn a_grace_is_whole_seconds_where_it_can_be_and_never_less_than_it_is() {
        for (millis, text) in
            [(0, "0"), (1, "0.001"), (200, "0.200"), (5000, "5"), (5001, "5.001"), (3_600_000, "3600")]
        {
            assert_eq!(in_seconds(Duration::from_millis(millis)), text);
        }
        assert_eq!(in_seconds(Duration::from_nanos(1)), "0.001");
        assert_eq!(in_seconds(Duration::from_nanos(999_999_999)), "1");
    }
}
