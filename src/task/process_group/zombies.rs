//! Zombies: processes that have ended, and were not reaped by their parent yet.

use rustix::process::Pid;

#[cfg(target_os = "linux")]
mod linux;

/// The zombies of a process group. Their parent may never reap them: in a container, the process that adopts orphans need not do
/// so.
#[derive(Default)]
pub(super) struct Zombies {
    /// The zombies of the last check, if it found no other process.
    last: Vec<u32>,
}

impl Zombies {
    /// Returns whether only zombies are left of this group. Two checks in a row must agree.
    #[cfg(target_os = "linux")]
    pub(super) fn are_all_of(&mut self, group: Pid) -> bool {
        let zombies = linux::if_all_are_zombies(group).unwrap_or_default();
        // A process that ended after the list was made may have started another, which is not listed. A process that had ended
        // before has started none since.
        let had_ended = !zombies.is_empty() && zombies.iter().all(|id| self.last.contains(id));
        self.last = zombies;
        had_ended
    }

    /// Returns `false`: other systems do not show zombies.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn are_all_of(&mut self, _: Pid) -> bool {
        self.last.clear();
        false
    }
}
