//! The identity of this process, also after a `fork`. The child has a copy of the parent's memory, and shares the
//! parent's open files and sockets. But of the parent's threads, the child has only the thread that called `fork`. So a
//! lease or a connection of the parent does not belong to the child.

pub(crate) use std::process::id as current;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between this process and its first ancestor that counted forks.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The identity of a process. Each ancestor of the process has another identity, even an ended ancestor with an equal
/// id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
    forks: u32,
}

impl Process {
    pub(crate) fn this() -> Self {
        notice_forks();
        Self { id: current(), forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Returns a child of this process with an equal id.
    #[cfg(test)]
    pub(super) fn forked(self) -> Self {
        Self { forks: self.forks + 1, ..self }
    }
}

/// Registers the handler that counts forks, at the first call.
#[cfg(unix)]
fn notice_forks() {
    extern "C" fn in_the_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    static NOTICED: std::sync::Once = std::sync::Once::new();
    NOTICED.call_once(|| {
        // This fails only if there is no memory for the handler. Then only the process ids tell processes apart.
        let _ = crate::base::system::at_fork(in_the_child);
    });
}

/// Counts nothing, because this system has no `fork`.
#[cfg(not(unix))]
fn notice_forks() {}
