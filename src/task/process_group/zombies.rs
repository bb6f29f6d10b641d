//! Zombies: processes that have ended, but that their parent has not reaped yet.

#[cfg(target_os = "linux")]
use std::collections::HashSet;

use rustix::process::Pid;

#[cfg(target_os = "linux")]
use crate::base::process_stat::{ProcessStat, processes};

/// The highest number of scans. A scan is repeated if a listed process ended during the scan.
#[cfg(target_os = "linux")]
const MOST_SCANS: u32 = 10;

/// The zombies of a process group. Their parent may never reap them: in a container, the process that adopts orphans
/// often reaps nothing. So a group that has only zombies counts as ended.
#[derive(Default)]
pub(super) struct Zombies {
    /// The zombies that the last check found. Empty if another process of the group lived then, or may have lived.
    last: Vec<u32>,
}

impl Zombies {
    /// Returns whether all processes of this group are zombies. Returns `true` only if the previous check found these
    /// zombies, too.
    #[cfg(target_os = "linux")]
    pub(super) fn are_all_of(&mut self, group: Pid) -> bool {
        let zombies = if_all_are_zombies(group).unwrap_or_default();
        // A process that ended during this check may have started another process, which this check did not see. But a
        // process that was a zombie in the previous check had ended before this check began.
        let had_ended = !zombies.is_empty() && zombies.iter().all(|id| self.last.contains(id));
        self.last = zombies;
        had_ended
    }

    /// Returns `false`, because the answer is unknown: only Linux shows in `/proc` which processes are zombies.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn are_all_of(&mut self, _: Pid) -> bool {
        self.last.clear();
        false
    }
}

/// Returns the processes of this group if all are zombies. `None`: a process of the group lives, or the answer is
/// unknown. It is unknown if a listed process ended during each scan. It is also unknown if `/proc` does not show
/// process 1, because then `/proc` may hide the processes of other users.
#[cfg(target_os = "linux")]
fn if_all_are_zombies(group: Pid) -> Option<Vec<u32>> {
    ProcessStat::read(1)?;
    let mut zombies = Vec::new();
    let mut known = HashSet::new();
    for _ in 0..MOST_SCANS {
        let mut all_are_known = true;
        for id in processes().ok()? {
            if known.contains(&id) {
                continue;
            }
            // The process `id` ended after it was listed. If it belonged to the group, it may have started another
            // process, so `/proc` is scanned again.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_has_ended_is_told_from_one_that_lives() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;

        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().expect("there is sleep");
        let group = Pid::from_child(&child);
        // If other processes start or end meanwhile, a scan may have no result.
        let listed = |expected: &Option<Vec<u32>>| (0..1000).any(|_| if_all_are_zombies(group) == *expected);
        assert_eq!(if_all_are_zombies(group), None, "it lives");
        child.kill().expect("it is ours");
        assert!(listed(&Some(vec![child.id()])), "it waits to be noticed");
        child.wait().expect("it is ours");
        assert!(listed(&Some(Vec::new())), "it has gone");
    }
}
