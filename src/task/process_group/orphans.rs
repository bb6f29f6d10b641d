//! Ends a process group that has outlived its scheduler, for the command `unlock`.

use std::io;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::zombies::Zombies;
use crate::lease::owner::Owner;
use crate::time::clock::Clock;

/// The time between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// The time that the kernel may take to end killed processes.
const KILLING: Duration = Duration::from_secs(2);

/// Ends the process group of a command whose lease has this owner: by SIGTERM, and by SIGKILL after the grace. Returns
/// `false` if a process of the group is left.
///
/// # Errors
///
/// The group can't be signalled. Or none of its processes has this owner in its environment, so the id may belong to
/// another group by now.
pub(crate) fn end_orphans(group: u32, owner: Owner, grace: Duration) -> io::Result<bool> {
    let group = i32::try_from(group).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
    if test_kill_process_group(group) != Err(Errno::SRCH) && !is_of(group, owner) {
        return Err(io::Error::other(
            "none of its processes has the environment of the command, so this id may belong to another group by now: find \
             the process that keeps the lease with `fuser DIR/*.life`",
        ));
    }
    let clock = Clock::system();
    let mut zombies = Zombies::default();
    for (signal, patience) in [(Signal::TERM, grace), (Signal::KILL, KILLING)] {
        match kill_process_group(group, signal) {
            Err(Errno::SRCH) => return Ok(true),
            sent => sent?,
        }
        let enough = clock.moment().plus(patience);
        while clock.moment() < enough {
            if test_kill_process_group(group) == Err(Errno::SRCH) || zombies.are_all_of(group) {
                return Ok(true);
            }
            thread::sleep(PAUSE); // polled, because a process can't wait for processes that are not its children
        }
    }
    Ok(false)
}

/// Returns whether a process of this group has the owner in its environment.
#[cfg(target_os = "linux")]
fn is_of(group: Pid, owner: Owner) -> bool {
    use std::fs;

    use crate::base::process_stat::{ProcessStat, processes};

    let variable = format!("SOLOIST_OWNER={owner}");
    let knows = |id: u32| {
        fs::read(format!("/proc/{id}/environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|it| it == variable.as_bytes()))
    };
    let is_in_group = |id: &u32| ProcessStat::read(*id).is_some_and(|it| it.group == group.as_raw_pid());
    processes().is_ok_and(|ids| ids.into_iter().filter(is_in_group).any(knows))
}

/// Returns `true` without a check, because systems other than Linux do not show the environment of a process.
#[cfg(not(target_os = "linux"))]
fn is_of(_: Pid, _: Owner) -> bool {
    true
}
