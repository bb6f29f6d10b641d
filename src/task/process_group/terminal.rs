//! The terminal of this process, lent to a command that works in its place.
//!
//! A terminal speaks to one process group: whoever else reads from it is stopped. Ctrl-C reaches that group alone.

use std::io::{Stdin, stdin};

use rustix::process::{Pid, Signal, getpgrp, kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::base::system;

/// Takes the terminal back when it is dropped.
pub(in crate::task) struct LentTerminal(Stdin);

impl LentTerminal {
    /// `None`: there is no terminal, or it speaks to another group than this process's.
    pub(super) fn to(group: Pid) -> Option<Self> {
        let terminal = stdin();
        if tcgetpgrp(&terminal).ok()? != getpgrp() {
            return None;
        }
        tcsetpgrp(&terminal, group).ok()?;
        // It may have read before, and was stopped.
        let _ = kill_process_group(group, Signal::CONT);
        Some(Self(terminal))
    }
}

impl Drop for LentTerminal {
    fn drop(&mut self) {
        system::ignore_background_output();
        // An error says that the terminal has gone.
        let _ = tcsetpgrp(&self.0, getpgrp());
    }
}
