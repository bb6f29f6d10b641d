//! The terminal of this process, shared with a command that takes the place of this process.
//!
//! The command has its own process group, so that all its processes can be ended together. But a terminal has only one
//! foreground group. At first, this is the group that the shell started: this process, and perhaps a pager or a whole
//! script. The shell calls this group a job. The kernel sends the signals of the terminal's keys, such as Ctrl-C, only
//! to the foreground group. So this process gets these signals, and passes them on to the command.
//!
//! If a process outside of the foreground group reads from the terminal or changes the terminal's settings, the kernel
//! stops that process. If the kernel stops the command for this reason while the job is in the foreground, this process
//! lends the terminal to the command. The command's group is then the foreground group. If anything else stops the
//! command, this process stops the whole job, so that the shell continues.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process_group, waitid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level;

use super::Leader;
#[cfg(target_os = "linux")]
use crate::base::process_stat::ProcessStat;
use crate::base::system::{SignalAction, group_of, is_ignored};
use crate::base::threads;
use crate::hold::held_lease::HeldLease;

/// The signals of the terminal that do not end a process. (`Shutdown` passes on the signals that end a process.)
const PASSED_ON: [Signal; 4] = [Signal::TSTP, Signal::TTIN, Signal::TTOU, Signal::WINCH];

/// After a stopped job was continued in the background, this process waits this long for a signal that ends the job. If
/// no such signal comes in this time, the command continues.
const ENDING: Duration = Duration::from_millis(500);

/// The terminal of this process, and the signals that the terminal sends after it was opened.
pub(in crate::task) struct Terminal {
    file: File,
    signals: Signals,
}

/// The terminal, and the command that shares the terminal. If the terminal is lent to the command when this value is
/// dropped, this process takes the terminal back.
pub(in crate::task) struct SharedTerminal {
    file: Arc<File>,
    signals: Handle,
    command: Pid,
}

impl Terminal {
    /// Opens the terminal before a command starts, so that no key is lost. `None`: this process has no terminal, or
    /// can't share it.
    pub(in crate::task) fn of_this_process() -> Option<Self> {
        if group_of(0) <= 0 {
            return None; // The process group of this process has no id in this PID namespace.
        }
        // Open the terminal even if the standard input is not a terminal, because the command may ask for a password.
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let signals = PASSED_ON.into_iter().map(Signal::as_raw).filter(|signal| !is_ignored(*signal));
        Some(Self { file, signals: Signals::new(signals).ok()? })
    }

    /// Shares the terminal with this command.
    pub(in crate::task) fn share<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        Leader(command): Leader,
        held: &Arc<HeldLease>,
    ) -> io::Result<SharedTerminal> {
        let Self { file, mut signals } = self;
        let (file, held) = (Arc::new(file), Arc::clone(held));
        let shared = SharedTerminal { file: Arc::clone(&file), signals: signals.handle(), command };
        threads::start_in(scope, "soloist-keys", move || {
            for signal in signals.forever().filter_map(Signal::from_named_raw) {
                send(command, signal);
            }
        })?;
        threads::start_in(scope, "soloist-terminal", move || follow(&file, command, &held))?;
        Ok(shared)
    }
}

impl Drop for SharedTerminal {
    fn drop(&mut self) {
        self.signals.close();
        take_back(&self.file, self.command);
    }
}

/// Sends a signal to a process group.
fn send(group: Pid, signal: Signal) {
    // An error means that the group has ended.
    let _ = kill_process_group(group, signal);
}

fn is_foreground(terminal: &File, group: Pid) -> bool {
    tcgetpgrp(terminal).is_ok_and(|it| it == group)
}

/// Takes the terminal back from the command's group. If another group has the terminal, this changes nothing, because
/// the terminal of a job in the background belongs to the shell.
fn take_back(terminal: &File, command: Pid) {
    if is_foreground(terminal, command) {
        // If SIGTTOU were not ignored, the kernel would stop this process, because a process in the background must not
        // change the foreground group.
        let _ignored = SignalAction::Ignore.of(Signal::TTOU);
        // An error means that the terminal has gone.
        let _ = tcsetpgrp(terminal, getpgrp());
    }
}

/// Handles each stop of the command's first process, until that process has ended.
fn follow(terminal: &File, command: Pid, held: &HeldLease) {
    let is_cancelled = || held.reason_at(held.now()).is_some();
    let mut has_hung_up = false;
    while let Some(signal) = next_stop(command) {
        let asks_for_terminal = [Signal::TTIN, Signal::TTOU].contains(&signal);
        if asks_for_terminal && is_foreground(terminal, getpgrp()) {
            let _ = tcsetpgrp(terminal, command);
        } else if is_cancelled() || (signal == Signal::STOP && !is_foreground(terminal, command)) {
            continue; // A cancelled command is killed soon. A command that an operator stopped stays stopped, and keeps its lease.
        } else if asks_for_terminal && is_orphaned() {
            // No shell controls this job, and the command would wait forever for the terminal. So the command gets
            // SIGHUP. If the command ignores SIGHUP and asks for the terminal again, the kernel stops the command
            // again. At this second stop, the command is killed.
            send(command, if has_hung_up { Signal::KILL } else { Signal::HUP });
            has_hung_up = true;
        } else {
            take_back(terminal, command);
            // SIGSTOP also stops processes that ignore SIGTSTP. All processes of the command must stop, because no
            // thread renews the lease while this process is stopped.
            send(command, Signal::STOP);
            stop_job(if signal == Signal::STOP { Signal::TSTP } else { signal });
            let is_ended = || !is_foreground(terminal, getpgrp()) && held.wait(ENDING).is_some();
            // If the run was cancelled, for example because its lease ended during the stop, the command must not
            // continue.
            if is_cancelled() || is_ended() {
                continue;
            }
        }
        send(command, Signal::CONT);
    }
}

/// Waits until `process` is stopped, and returns the signal that stopped it. `None`: the process has ended.
fn next_stop(process: Pid) -> Option<Signal> {
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(process), options) {
            Err(Errno::INTR) => {}
            Ok(Some(status)) if status.stopped() => {
                // The wait above has `NOWAIT`, so that it leaves the end of the process to the thread that waits for
                // this end. But it also leaves the stop. This wait takes the stop, so that the next call does not
                // report it again.
                let _ = waitid(WaitId::Pid(process), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
                return status.stopping_signal().and_then(Signal::from_named_raw).or(Some(Signal::STOP));
            }
            _ => return None,
        }
    }
}

/// Stops the process group of this process: first the other processes, and then this process. Returns when this process
/// is continued.
fn stop_job(signal: Signal) {
    let ignored = SignalAction::Ignore.of(signal);
    send(getpgrp(), signal);
    drop(ignored);
    let _by_default = SignalAction::Default.of(signal);
    // An error means that there is no such signal.
    let _ = low_level::raise(signal.as_raw());
}

/// Returns whether no shell controls the process group of this process. The signals of a terminal do not stop such a
/// group.
#[cfg(target_os = "linux")]
fn is_orphaned() -> bool {
    let Some(own) = ProcessStat::read(std::process::id()) else { return false };
    let mut ancestor = own.parent;
    while let Some(process) = ProcessStat::read(ancestor) {
        if (process.session, process.group) != (own.session, own.group) {
            return process.session != own.session;
        }
        ancestor = process.parent;
    }
    ancestor == 0 // 0: it is outside of this PID namespace; not 0: `/proc` hides it from this user
}

/// Returns `false`, because the answer is unknown: only Linux shows in `/proc` the parent of each process.
#[cfg(not(target_os = "linux"))]
fn is_orphaned() -> bool {
    false
}
