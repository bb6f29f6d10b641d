//! Zombies: processes that have ended, and whose parent has not noticed it yet.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::process::Pid;

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
            let Some(process) = Process::read(id) else {
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

/// A process, as the kernel shows it in `/proc`.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    group: i32,
    lives: bool,
}

impl Process {
    fn read(id: u32) -> Option<Self> {
        Self::of(&fs::read(format!("/proc/{id}/stat")).ok()?)
    }

    fn of(stat: &[u8]) -> Option<Self> {
        // The name may have anything in it, also parentheses, and need not be text.
        let after_its_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let mut fields = str::from_utf8(&stat[after_its_name..]).ok()?.split_ascii_whitespace();
        let (state, group) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        let threads: u32 = fields.nth(14)?.parse().ok()?;
        // Its first thread may have ended before the others.
        Some(Self { group, lives: !matches!(state, "Z" | "X") || threads > 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &[u8], state: &str, threads: u32) -> Option<Process> {
        let rest = format!(") {state} 1 4242 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 1 2 3\n");
        Process::of(&[b"4243 (", name, rest.as_bytes()].concat())
    }

    #[test]
    fn a_process_has_ended_when_all_of_its_threads_have() {
        for (state, threads, lives) in
            [("R", 1, true), ("S", 1, true), ("T", 1, true), ("Z", 1, false), ("X", 0, false), ("Z", 2, true)]
        {
            assert_eq!(process(b"sleep", state, threads), Some(Process { group: 4242, lives }), "{state} {threads}");
        }
    }

    #[test]
    fn a_process_may_be_called_anything() {
        for name in [b"".as_slice(), b"a b", b") Z 1 1 (", b"\xff\xfe\n"] {
            assert_eq!(process(name, "S", 1), Some(Process { group: 4242, lives: true }), "{name:?}");
        }
        assert_eq!(Process::of(b""), None);
        assert_eq!(Process::of(b"1 (init) S"), None);
    }

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
