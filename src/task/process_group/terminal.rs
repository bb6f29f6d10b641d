//! The terminal of this process, lent to a command that works in its place.
//!
//! A terminal speaks to one process group: whoever else reads from it is stopped. Ctrl-C and Ctrl-Z reach that group alone. When
//! Ctrl-Z stops the command, this process takes the terminal back and stops its own group as well, so that the shell goes on;
//! when it is continued, it lends the terminal again.

use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process_group, waitid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::base::{system, threads};

/// In this time a process has stopped that was told to; unless no shell controls it, and it does not stop.
const STOPPING: Duration = Duration::from_millis(200);

/// Takes the terminal back when it is dropped.
pub(in crate::task) struct LentTerminal {
    terminal: Arc<File>,
    to: Pid,
}

impl LentTerminal {
    /// `None`: there is no terminal, or it speaks to another group than this process's. A command that was stopped goes on if it
    /// `may_go_on` then.
    pub(super) fn to(group: Pid, may_go_on: impl Fn() -> bool + Send + 'static) -> Option<Self> {
        // Its standard input may be something else, and the command may ask for a password all the same.
        let terminal = Arc::new(File::options().read(true).write(true).open("/dev/tty").ok()?);
        if !speaks_to(&terminal, getpgrp()) {
            return None;
        }
        system::ignore_background_output();
        lend(&terminal, group);
        let stopping = Arc::clone(&terminal);
        // Without this thread, Ctrl-Z stops the command and nobody hears of it.
        let _ = threads::start("soloist-terminal", move || stop_with(&stopping, group, &may_go_on));
        Some(Self { terminal, to: group })
    }
}

impl Drop for LentTerminal {
    fn drop(&mut self) {
        take_back(&self.terminal, self.to);
    }
}

fn speaks_to(terminal: &File, group: Pid) -> bool {
    tcgetpgrp(terminal).is_ok_and(|it| it == group)
}

/// Lets the group go on, with the terminal if that is to be had: not in the background.
fn lend(terminal: &File, group: Pid) {
    if speaks_to(terminal, getpgrp()) {
        let _ = tcsetpgrp(terminal, group);
    }
    // It may have read before, and was stopped.
    let _ = kill_process_group(group, Signal::CONT);
}

/// Not from somebody else: in the background, the terminal is the shell's.
fn take_back(terminal: &File, group: Pid) {
    if speaks_to(terminal, group) {
        // An error says that the terminal has gone.
        let _ = tcsetpgrp(terminal, getpgrp());
    }
}

/// Stops the group of this process whenever the leader of the other group is stopped, until that has ended.
fn stop_with(terminal: &File, group: Pid, may_go_on: &impl Fn() -> bool) {
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(group), options) {
            Err(Errno::INTR) => {}
            Ok(Some(status)) if status.stopped() => {
                // Each stop is told once.
                let _ = waitid(WaitId::Pid(group), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
                take_back(terminal, group);
                let _ = kill_process_group(getpgrp(), Signal::TSTP);
                thread::sleep(STOPPING); // the signal may reach another thread first
                if !may_go_on() {
                    return; // It is killed as it is.
                }
                lend(terminal, group);
            }
            _ => return,
        }
    }
}
