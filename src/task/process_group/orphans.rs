//! A process group that outlived its scheduler, and how an operator ends it.

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

/// Ends the group of a command that ran for this owner: by SIGTERM, and by SIGKILL when the grace is over. `false`: a process of
/// the group is left.
///
/// # Errors
///
/// The group can't be signalled, or none of its processes names this owner: the id may belong to another group by now.
pub(crate) fn end_orphans(group: u32, owner: Owner, grace: Duration) -> io::Result<bool> {
    let group = i32::try_from(group).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
    if test_kill_process_group(group) != Err(Errno::SRCH) && !is_of(group, owner) {
        return Err(io::Error::other(
            "none of its processes has the environment of the command, so its number may be another group's by now; find what \
             keeps the lease with `fuser DIR/*.life`",
        ));
    }
    let (clock, mut zombies) = (Clock::system(), Zombies::default());
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
            thread::sleep(PAUSE); // between two looks at processes that are nobody's children here
        }
    }
    Ok(false)
}

/// Returns whether the environment of a process in this group names the owner.
#[cfg(target_os = "linux")]
fn is_of(group: Pid, owner: Owner) -> bool {
    use std::fs;

    use crate::base::process_stat::ProcessStat;

    let variable = format!("SOLOIST_OWNER={owner}");
    let knows = |id: u32| {
        fs::read(format!("/proc/{id}/environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|it| it == variable.as_bytes()))
    };
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id| ProcessStat::read(*id).is_some_and(|it| it.group == group.as_raw_pid())).any(knows)
}

/// Returns `true`: other systems do not show the environment of a process.
#[cfg(not(target_os = "linux"))]
fn is_of(_: Pid, _: Owner) -> bool {
    true
}
