//! Zombies: processes that have ended, and whose parent has not noticed it yet.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::process::Pid;

use crate::base::process_stat::ProcessStat;

/// How often it looks again for processes that others have started meanwhile.
const LOOKS: u32 = 10;

/// The processes of this group, if all are zombies. `None`: one of them lives, or it is not known.
pub(super) fn if_all_are_zombies(group: Pid) -> Option<Vec<u32>> {
    let (mut zombies, mut known) = (Vec::new(), HashSet::new());
    for _ in 0..LOOKS {
        let mut all_are_known = true;
        for id in processes().ok()? {
            if known.contains(&id) {
                continue;
            }
            // What has gone since it was listed may have been of the group, and may have started another before.
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
            // Where others' processes are hidden, the first of all is.
            return known.contains(&1).then_some(zombies);
        }
    }
    None
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
        // Others that come and go may leave the answer open.
        let known = |expected: &Option<Vec<u32>>| (0..1000).any(|_| if_all_are_zombies(group) == *expected);
        assert_eq!(if_all_are_zombies(group), None, "it lives");
        child.kill().expect("it is ours");
        assert!(known(&Some(vec![child.id()])), "it waits to be noticed");
        child.wait().expect("it is ours");
        assert!(known(&Some(Vec::new())), "it has gone");
    }
}
