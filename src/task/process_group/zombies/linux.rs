//! Finds the zombies of a process group on Linux.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::base::{process_stat::ProcessStat, system::group_of};

/// The most scans for processes that others have started meanwhile.
const LOOKS: u32 = 10;

/// The largest number that Linux gives a process.
const LARGEST: i32 = 1 << 22;

/// Returns the processes of this group, if all are zombies. `None`: a process lives, or the states are not known.
pub(super) fn if_all_are_zombies(group: Pid) -> Option<Vec<u32>> {
    // If `/proc` hides the processes of other users, it hides process 1.
    if ProcessStat::read(1).is_some() { if_listed_are_zombies(group) } else { if_numbered_are_zombies(group) }
}

/// Reads `/proc`, which lists all processes.
fn if_listed_are_zombies(group: Pid) -> Option<Vec<u32>> {
    let (mut zombies, mut known) = (Vec::new(), HashSet::new());
    for _ in 0..LOOKS {
        let mut all_are_known = true;
        for id in processes().ok()? {
            if known.contains(&id) {
                continue;
            }
            // A process that has gone since the list was made may belong to the group, and may have started another.
            let Some(process) = ProcessStat::read(id) else {
                all_are_known = false;
                continue;
            };
            known.insert(id);
            if process.group == group.as_raw_pid() {
                if process.lives {
                    return None;
                }
                zombies.push(id);
            }
        }
        if all_are_known {
            return Some(zombies);
        }
    }
    None
}

/// Asks the kernel about each possible process id, first those that follow the group's own. The kernel answers about the processes
/// of every user, but four million ids take a second.
fn if_numbered_are_zombies(group: Pid) -> Option<Vec<u32>> {
    let largest = fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|largest| largest.trim().parse().ok());
    let (first, largest) = (group.as_raw_pid(), largest.unwrap_or(LARGEST));
    let of_group = (first..=largest).chain(1..first).filter(|id| group_of(*id) == first);
    of_group.map(|id| has_ended(id).then_some(id.unsigned_abs())).collect()
}

/// Returns whether a process has ended; it may belong to another user.
fn has_ended(id: i32) -> bool {
    match Pid::from_raw(id).map(|id| pidfd_open(id, PidfdFlags::empty())) {
        Some(Ok(process)) => poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&Timespec::default())) == Ok(1),
        Some(Err(error)) => error == Errno::SRCH,
        None => true,
    }
}

fn processes() -> io::Result<Vec<u32>> {
    let id = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name().to_str()?.parse().ok()).transpose();
    fs::read_dir("/proc")?.filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_has_ended_is_told_from_one_that_lives() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;

        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().expect("there is sleep");
        let group = Pid::from_child(&child);
        // Other processes that start or end may leave the result open.
        let listed = |expected: &Option<Vec<u32>>| (0..1000).any(|_| if_listed_are_zombies(group) == *expected);
        assert_eq!((if_listed_are_zombies(group), if_numbered_are_zombies(group)), (None, None), "it lives");
        child.kill().expect("it is ours");
        let zombie = Some(vec![child.id()]);
        assert!(listed(&zombie), "it waits to be noticed");
        assert_eq!(if_numbered_are_zombies(group), zombie);
        child.wait().expect("it is ours");
        assert!(listed(&Some(Vec::new())), "it has gone");
        assert_eq!(if_numbered_are_zombies(group), Some(Vec::new()));
    }
}
