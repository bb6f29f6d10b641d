//! The id of this process, also in a child that `fork` made. Such a child has a copy of the memory, shares the open files and
//! sockets, and has none of the threads. A lease or a connection belongs to the process that acquired or opened it.

pub(crate) use std::process::id as current;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks since the first process in this line that counts forks.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process. It differs from the processes that it was forked from, even if it has the id of an ended one.
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

    /// Returns a child of this process that has its id.
    #[cfg(test)]
    pub(super) fn forked(self) -> Self {
        Self { forks: self.forks + 1, ..self }
    }
}

/// Counts the forks from now on.
#[cfg(unix)]
fn notice_forks() {
    extern "C" fn in_the_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    static NOTICED: std::sync::Once = std::sync::Once::new();
    NOTICED.call_once(|| {
        // Without memory for the handler, the ids alone tell processes apart.
        let _ = crate::base::system::at_fork(in_the_child);
    });
}

/// Counts nothing: there are no forks.
#[cfg(not(unix))]
fn notice_forks() {}
