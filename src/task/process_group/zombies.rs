//! Zombies: processes that have ended, and whose parent has not noticed it yet.

use rustix::process::Pid;

#[cfg(target_os = "linux")]
mod linux;

/// Zombies of a process group. Their parent may never notice that they have ended: in a container, the process that adopts orphans
/// need not look.
#[derive(Default)]
pub(super) struct Zombies {
    /// Those that the last look found, if it found nothing else.
    last: Vec<u32>,
}

impl Zombies {
    /// Returns whether nothing else is left of this group, which takes two looks.
    #[cfg(target_os = "linux")]
    pub(super) fn are_all_of(&mut self, group: Pid) -> bool {
        let zombies = linux::if_all_are_zombies(group).unwrap_or_default();
        // Whoever ended after it was listed may have started another that was not. What had ended before has not.
        let had_ended = !zombies.is_empty() && zombies.iter().all(|id| self.last.contains(id));
        self.last = zombies;
        had_ended
    }

    /// Elsewhere the kernel does not show it.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn are_all_of(&mut self, _: Pid) -> bool {
        self.last.clear();
        false
    }
}
