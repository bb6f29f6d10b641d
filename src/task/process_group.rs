//! A process group: the process of a command, and the processes that it starts. All these processes are signalled
//! together, and waited for together.
//!
//! A process that leaves the group, by `setsid` or as a job of an interactive shell, no longer belongs to the command.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, test_kill_process_group, waitid, waitpgid,
};

use super::orphan_policy::{OrphanPolicy, scheduler_is_a_command};
use super::watchdog::Watchdog;
use crate::base::catch_panic::contain;
use crate::base::system;

#[cfg(feature = "cli")]
pub(crate) mod orphans;
#[cfg(feature = "cli")]
pub(super) mod terminal;
mod zombies;

use zombies::Zombies;

pub(super) struct ProcessGroup {
    leader: Child,
    id: Pid,
    watchdog: Option<Watchdog>,
    /// The exit status of the leader. `None`: the leader has not been reaped yet.
    status: Option<io::Result<ExitStatus>>,
    zombies: Zombies,
}

/// The first process of the command. Its id is also the id of the group.
#[derive(Clone, Copy)]
pub(super) struct Leader(Pid);

impl ProcessGroup {
    /// Starts the command in a group of its own.
    pub(super) fn start(mut command: Command, orphan: OrphanPolicy, grace: Duration) -> io::Result<Self> {
        let needs_watchdog = matches!(orphan, OrphanPolicy::End) || scheduler_is_a_command();
        let watchdog = needs_watchdog.then(|| Watchdog::start(grace)).transpose()?;
        let (lifeline, tell) = match orphan {
            OrphanPolicy::KeepLease(lifeline) => {
                let (inherited, tell) = lifeline.into_parts();
                (Some(inherited), tell)
            }
            OrphanPolicy::RunOn | OrphanPolicy::End => (None, None),
        };
        command.process_group(0);
        let told = watchdog.as_ref().map(Watchdog::line).transpose();
        let started = told.and_then(|told| {
            if lifeline.is_some() || told.is_some() {
                system::prepare(&mut command, lifeline, told);
                return command.spawn();
            }
            match command.spawn() {
                Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                    system::prepare(&mut command, None, None);
                    command.spawn()
                }
                spawned => spawned,
            }
        });
        match started {
            Ok(leader) => {
                if let Some(tell) = tell {
                    // `tell` is code of the store. If `tell` panics, the command continues, and this process still
                    // waits for the command.
                    let _ = contain(|| tell(leader.id()));
                }
                let id = i32::try_from(leader.id()).ok().and_then(Pid::from_raw);
                let id = id.expect("a process id is positive and fits");
                Ok(Self { leader, id, watchdog, status: None, zombies: Zombies::default() })
            }
            Err(error) => {
                if let Some(watchdog) = watchdog {
                    watchdog.dismiss();
                }
                Err(error)
            }
        }
    }

    pub(super) fn leader(&self) -> Leader {
        Leader(self.id)
    }

    /// Sends `signal` to the group. `None`: sends SIGTERM.
    pub(super) fn ask_to_stop(&mut self, signal: Option<i32>) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.note_termination();
        }
        self.signal(signal.and_then(Signal::from_named_raw).unwrap_or(Signal::TERM));
    }

    /// Continues the group if it is stopped, because a stopped process handles no signal except SIGKILL.
    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends `signal` to the group. If the group has ended since the last check, the kernel may have given its id to
    /// another group, which would get the signal. But the kernel seldom reuses an id so soon.
    fn signal(&self, signal: Signal) {
        // An error means that the group has ended, or that its processes belong to another user, as with `sudo`.
        let _ = kill_process_group(self.id, signal);
    }

    /// Returns whether all processes of the group have ended. Call this after the end of the leader. With `thorough`,
    /// this may scan all processes of the system, to find out whether only zombies are left.
    pub(super) fn has_gone(&mut self, thorough: bool) -> bool {
        let Self { leader, status, .. } = self;
        status.get_or_insert_with(|| leader.wait());
        // If this process adopts orphans, as process 1 of a container does, it must reap the children of the leader.
        while let Ok(Some(_)) = waitpgid(self.id, WaitOptions::NOHANG) {}
        test_kill_process_group(self.id) == Err(Errno::SRCH) || (thorough && self.zombies.are_all_of(self.id))
    }

    /// Returns the exit status of the leader. Call this after the end of the group.
    pub(super) fn end(self) -> io::Result<ExitStatus> {
        let Self { mut leader, watchdog, status, .. } = self;
        if let Some(watchdog) = watchdog {
            watchdog.dismiss();
        }
        status.unwrap_or_else(|| leader.wait())
    }
}

impl Leader {
    /// Waits for the end of the leader, and does not reap the leader. So the kernel does not reuse the leader's id.
    pub(super) fn wait(self) {
        let ended = || waitid(WaitId::Pid(self.0), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        while matches!(ended(), Err(Errno::INTR)) {}
    }

    pub(super) fn has_ended(self) -> bool {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.0), ended), Ok(None) | Err(Errno::INTR))
    }
}
