//! The state of a process in `/proc` of Linux.

use std::{fs, io};

/// The state of a process, from `/proc/ID/stat`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) parent: u32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Whether the process still lives. A zombie does not live: it has ended, but its parent has not collected it yet.
    pub(crate) lives: bool,
}

/// Returns the ids of all processes that `/proc` shows.
pub(crate) fn processes() -> io::Result<Vec<u32>> {
    let id = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name().to_str()?.parse().ok()).transpose();
    fs::read_dir("/proc")?.filter_map(id).collect()
}

impl ProcessStat {
    pub(crate) fn read(id: u32) -> Option<Self> {
        Self::of(&fs::read(format!("/proc/{id}/stat")).ok()?)
    }

    fn of(stat: &[u8]) -> Option<Self> {
        // The name stands in parentheses, and may itself contain parentheses: the last `)` ends the name.
        let after_its_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let mut fields = str::from_utf8(&stat[after_its_name..]).ok()?.split_ascii_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
        let (group, session) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let threads: u32 = fields.nth(13)?.parse().ok()?;
        // If the main thread has ended before the other threads, the state is `Z`, but the process still lives.
        Some(Self { parent, group, session, lives: !matches!(state, "Z" | "X") || threads > 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &[u8], state: &str, threads: u32) -> Option<ProcessStat> {
        let rest = format!(") {state} 1 4242 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 1 2 3\n");
        ProcessStat::of(&[b"4243 (", name, rest.as_bytes()].concat())
    }

    #[test]
    fn a_process_has_ended_when_all_of_its_threads_have() {
        for (state, threads, lives) in
            [("R", 1, true), ("S", 1, true), ("T", 1, true), ("Z", 1, false), ("X", 0, false), ("Z", 2, true)]
        {
            assert_eq!(
                process(b"sleep", state, threads),
                Some(ProcessStat { parent: 1, group: 4242, session: 7, lives }),
                "{state} {threads}"
            );
        }
    }

    #[test]
    fn a_process_may_be_called_anything() {
        for name in [b"".as_slice(), b"a b", b") Z 1 1 (", b"\xff\xfe\n"] {
            assert_eq!(
                process(name, "S", 1),
                Some(ProcessStat { parent: 1, group: 4242, session: 7, lives: true }),
                "{name:?}"
            );
        }
        assert_eq!(ProcessStat::of(b""), None);
        assert_eq!(ProcessStat::of(b"1 (init) S"), None);
    }
}
