//! A command and all that it starts, as one process group: signalled together, and waited for together.
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
    /// How the leader ended, once it was reaped.
    status: Option<io::Result<ExitStatus>>,
    zombies: Zombies,
}

/// The process that was started, which gave the group its number.
#[derive(Clone, Copy)]
pub(super) struct Leader(Pid);

impl ProcessGroup {
    /// Starts the command in a group of its own.
    pub(super) fn start(mut command: Command, orphan: OrphanPolicy, grace: Duration) -> io::Result<Self> {
        let (watchdog, (lifeline, tell)) = match orphan {
            OrphanPolicy::RunOn => (None, (None, None)),
            OrphanPolicy::KeepLease(lifeline) => {
                let watchdog = scheduler_is_a_command().then(|| Watchdog::start(grace)).transpose()?;
                let (inherited, tell) = lifeline.into_parts();
                (watchdog, (Some(inherited), tell))
            }
            OrphanPolicy::End => (Some(Watchdog::start(grace)?), (None, None)),
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
                    // A store that panics must not cut off the command.
                    let _ = contain(|| tell(leader.id()));
                }
                let id = i32::try_from(leader.id()).ok().and_then(Pid::from_raw);
                let id = id.expect("a process has a positive number that fits");
                Ok(Self { leader, id, watchdog, status: None, zombies: Zombies::default() })
            }
            Err(error) => {
                watchdog.into_iter().for_each(Watchdog::dismiss);
                Err(error)
            }
        }
    }

    pub(super) fn leader(&self) -> Leader {
        Leader(self.id)
    }

    /// By this signal; by SIGTERM, if none is said.
    pub(super) fn ask_to_stop(&mut self, signal: Option<i32>) {
        self.watchdog.iter_mut().for_each(Watchdog::note_termination);
        self.signal(signal.and_then(Signal::from_named_raw).unwrap_or(Signal::TERM));
    }

    /// Lets it go on, if it is stopped: a process that is stopped hears no signal but SIGKILL.
    pub(super) fn let_go_on(&self) {
        self.signal(Signal::CONT);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// The number is the group's as long as anything of it is there. When the leader was noticed to have ended, whatever
    /// else was there at the last look may have gone since: that its number is another's by then is a matter of chance.
    fn signal(&self, signal: Signal) {
        // An error says that nothing of it is left, or that it has become somebody else's, as `sudo` does.
        let _ = kill_process_group(self.id, signal);
    }

    /// Whether nothing of it is left, asked once the leader has ended. `thorough`: also if that means to look at every
    /// process there is.
    pub(super) fn has_gone(&mut self, thorough: bool) -> bool {
        let Self { leader, status, .. } = self;
        status.get_or_insert_with(|| leader.wait());
        // What the leader left behind is a child of this process, if that is the one that adopts: in a container.
        while let Ok(Some(_)) = waitpgid(self.id, WaitOptions::NOHANG) {}
        test_kill_process_group(self.id) == Err(Errno::SRCH) || (thorough && self.zombies.are_all_of(self.id))
    }

    /// How the leader ended, when nothing of it is left.
    pub(super) fn end(self) -> io::Result<ExitStatus> {
        let Self { mut leader, watchdog, status, .. } = self;
        watchdog.into_iter().for_each(Watchdog::dismiss);
        status.unwrap_or_else(|| leader.wait())
    }
}

impl Leader {
    /// Waits until it has ended, and leaves it to be reaped: as long as it is not, its number is nobody else's.
    pub(super) fn wait(self) {
        let ended = || waitid(WaitId::Pid(self.0), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        while matches!(ended(), Err(Errno::INTR)) {}
    }

    pub(super) fn has_ended(self) -> bool {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.0), ended), Ok(None) | Err(Errno::INTR))
    }
}
