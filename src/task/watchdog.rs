//! A process that ends a command when its scheduler was killed.
//!
//! It reads from a pipe of the scheduler's: the kernel closes that pipe when the scheduler ends, however it ended; but not while
//! a child that the scheduler forked meanwhile has it open. So the kernel also sends the watchdog a signal. (The command itself
//! could be sent one, but none of the processes that it has started.)

use std::io::{self, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::process::Signal;

use super::output::because;
use crate::base::process_id;
#[cfg(target_os = "linux")]
use crate::base::system;

const SCRIPT: &str = include_str!("watchdog.sh");

pub(super) struct Watchdog {
    process: Child,
    line: PipeWriter,
}

impl Watchdog {
    /// Watches over what tells its process id to [`line`](Self::line).
    pub(super) fn start(grace: Duration) -> io::Result<Self> {
        Self::begin(grace, process_id::current())
            .map_err(|error| because(&error, "its watchdog, /bin/sh, could not be started"))
    }

    fn begin(grace: Duration, scheduler: u32) -> io::Result<Self> {
        let (input, line) = io::pipe()?;
        // Whoever lists processes sees what it does, in as few words as can be.
        let script: String =
            SCRIPT.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
        // Nothing of the scheduler's is held by it: no directory, no output that somebody waits for, no terminal.
        let mut process = Command::new("/bin/sh");
        process.args(["-c", &script, "soloist-watchdog", &in_seconds(grace), &scheduler.to_string()]);
        process.current_dir("/").process_group(0);
        process.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        // This thread waits for the end of the command, and so lives as long as the watchdog is wanted.
        #[cfg(target_os = "linux")]
        system::signal_at_death_of_this_thread(&mut process, Signal::URG);
        Ok(Self { process: process.spawn()?, line })
    }

    pub(super) fn line(&self) -> io::Result<PipeWriter> {
        self.line.try_clone()
    }

    /// The command was told to stop: if the scheduler goes now, it has had its grace.
    pub(super) fn note_termination(&mut self) {
        // It may have been killed.
        let _ = self.line.write_all(b"stopping\n");
    }

    /// There is nothing to watch over any more, or never was.
    pub(super) fn dismiss(mut self) {
        // While it can still read: the end of its input would set it off. If it was killed already, that is done.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// As `sleep` takes it: whole seconds where it can be, because not each takes fractions.
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
        // The line stays open, as if a child of the scheduler had it.
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
