//! The terminal of this process, lent to a command that works in its place.
//!
//! A terminal speaks to one process group: whoever else reads from it is stopped. Ctrl-C and Ctrl-Z reach that group alone. When
//! Ctrl-Z stops the command, this process takes the terminal back and stops as well, so that the shell goes on; when it is
//! continued, it lends the terminal again.

use std::io::stdin;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process_group, waitid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::base::system;

/// Takes the terminal back when it is dropped.
pub(in crate::task) struct LentTerminal {
    to: Pid,
}

impl LentTerminal {
    /// `None`: there is no terminal, or it speaks to another group than this process's.
    pub(super) fn to(group: Pid) -> Option<Self> {
        if !speaks_to(getpgrp()) {
            return None;
        }
        system::ignore_background_output();
        lend(group);
        // Without this thread, Ctrl-Z stops the command and nobody hears of it.
        let _ = thread::Builder::new().name("soloist-terminal".into()).spawn(move || stop_with(group));
        Some(Self { to: group })
    }
}

impl Drop for LentTerminal {
    fn drop(&mut self) {
        take_back(self.to);
    }
}

fn speaks_to(group: Pid) -> bool {
    tcgetpgrp(stdin()).is_ok_and(|it| it == group)
}

/// Lets the group go on, with the terminal if that is to be had: not in the background.
fn lend(group: Pid) {
    if speaks_to(getpgrp()) {
        let _ = tcsetpgrp(stdin(), group);
    }
    // It may have read before, and was stopped.
    let _ = kill_process_group(group, Signal::CONT);
}

/// Not from somebody else: in the background, the terminal is the shell's.
fn take_back(group: Pid) {
    if speaks_to(group) {
        // An error says that the terminal has gone.
        let _ = tcsetpgrp(stdin(), getpgrp());
    }
}

/// Stops this process whenever the leader of the group is stopped, until that has ended.
fn stop_with(group: Pid) {
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(group), options) {
            Err(Errno::INTR) => {}
            Ok(Some(status)) if status.stopped() => {
                // Each stop is told once.
                let _ = waitid(WaitId::Pid(group), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
                take_back(group);
                system::stop_this_process();
                lend(group);
            }
            _ => return,
        }
    }
}
