//! The terminal of this process, which a command in its place shares.
//!
//! The command has a process group of its own, so that all of it can be ended. But a terminal has one foreground group:
//! the job of a shell, with this process and perhaps a pager or a whole script. So the job keeps the terminal. The
//! signals of the terminal's keys reach this process, which passes them on to the command. If another group reads from
//! the terminal or changes its settings, the kernel stops that group. If the kernel stops the command for this reason
//! while the job is in the foreground, the terminal is lent to the command. If anything else stops the command, the
//! whole job stops, so that the shell continues.

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
use crate::base::process_id;
#[cfg(target_os = "linux")]
use crate::base::process_stat::ProcessStat;
use crate::base::system::{SignalAction, group_of, is_ignored};
use crate::base::threads;
use crate::hold::held_lease::HeldLease;

/// The signals of the terminal that do not end a process. `Shutdown` passes on the signals that end one.
const PASSED_ON: [Signal; 4] = [Signal::TSTP, Signal::TTIN, Signal::TTOU, Signal::WINCH];

/// A job that is continued in the background waits this long for a signal that ends it. Only then its command
/// continues.
const ENDING: Duration = Duration::from_millis(500);

/// The terminal of this process, and the signals that its keys send from now on.
pub(in crate::task) struct Terminal {
    file: File,
    signals: Signals,
}

/// The terminal and a command that shares it. If the terminal is lent, drop takes it back.
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
            return None; // The group is outside of this PID namespace.
        }
        // Even if the standard input is no terminal, the command may ask for a password.
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

/// Takes the terminal back from the command's group. If another group has the terminal, this changes nothing: while the
/// job is in the background, the terminal belongs to the shell.
fn take_back(terminal: &File, command: Pid) {
    if is_foreground(terminal, command) {
        // Otherwise the kernel would stop this process, because a process in the background may not change this.
        let _ignored = SignalAction::Ignore.of(Signal::TTOU);
        // An error means that the terminal has gone.
        let _ = tcsetpgrp(terminal, getpgrp());
    }
}

/// Follows each stop of the command's first process, until that process has ended.
fn follow(terminal: &File, command: Pid, held: &HeldLease) {
    let is_cancelled = || held.reason_at(held.now()).is_some();
    let mut has_hung_up = false;
    while let Some(signal) = next_stop(command) {
        let asks_for_terminal = [Signal::TTIN, Signal::TTOU].contains(&signal);
        if asks_for_terminal && is_foreground(terminal, getpgrp()) {
            let _ = tcsetpgrp(terminal, command);
        } else if is_cancelled() || (signal == Signal::STOP && !is_foreground(terminal, command)) {
            continue; // The command is killed soon, or was stopped by an operator: its lease is renewed.
        } else if asks_for_terminal && is_orphaned() {
            // No shell will ever give the command the terminal, so the command gets SIGHUP. If it ignores SIGHUP and
            // reads again, it is stopped again, and then killed.
            send(command, if has_hung_up { Signal::KILL } else { Signal::HUP });
            has_hung_up = true;
        } else {
            take_back(terminal, command);
            // STOP also stops processes that ignore the keys of the terminal. That is necessary, because no thread
            // renews the lease while this process is stopped.
            send(command, Signal::STOP);
            stop_job(if signal == Signal::STOP { Signal::TSTP } else { signal });
            let is_ended = || !is_foreground(terminal, getpgrp()) && held.wait(ENDING).is_some();
            // After a stop that outlasts its lease, the command must not continue.
            if is_cancelled() || is_ended() {
                continue;
            }
        }
        send(command, Signal::CONT);
    }
}

/// Waits until a process is stopped. Returns the signal; `None`: it has ended.
fn next_stop(process: Pid) -> Option<Signal> {
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(process), options) {
            Err(Errno::INTR) => {}
            Ok(Some(status)) if status.stopped() => {
                // A wait without `NOWAIT` reports each stop only once. With `NOWAIT`, the end of the process is left to
                // the thread that waits for that end.
                let _ = waitid(WaitId::Pid(process), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
                return status.stopping_signal().and_then(Signal::from_named_raw).or(Some(Signal::STOP));
            }
            _ => return None,
        }
    }
}

/// Stops the process group of this process, all other members first, and returns when it is continued.
fn stop_job(signal: Signal) {
    let ignored = SignalAction::Ignore.of(signal);
    send(getpgrp(), signal);
    drop(ignored);
    let _by_default = SignalAction::Default.of(signal);
    // An error means that there is no such signal.
    let _ = low_level::raise(signal.as_raw());
}

/// Returns whether no shell controls the process group of this process. If so, the signals of a terminal do not stop
/// this group.
#[cfg(target_os = "linux")]
fn is_orphaned() -> bool {
    let Some(own) = ProcessStat::read(process_id::current()) else { return false };
    let mut ancestor = own.parent;
    while let Some(process) = ProcessStat::read(ancestor) {
        if (process.session, process.group) != (own.session, own.group) {
            return process.session != own.session;
        }
        ancestor = process.parent;
    }
    ancestor == 0 // the ancestor is outside of this PID namespace; another one may not be shown to this user
}

/// Returns `false`: other systems do not show the parent of a process.
#[cfg(not(target_os = "linux"))]
fn is_orphaned() -> bool {
    false
}
