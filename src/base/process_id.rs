//! The id of this process, also in a child that `fork` made. Such a child has a copy of the memory, shares the open files and
//! sockets, and has none of the threads. A lease or a connection belongs to the process that acquired or opened it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The id of this process; zero if it is not known yet.
static ID: AtomicU32 = AtomicU32::new(0);

/// The number of forks between this process and the first process that noticed forks.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process. It differs from the processes that it was forked from, even if it has the id of an ended one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
    forks: u32,
}

impl Process {
    pub(crate) fn this() -> Self {
        // In this order, because the first call begins to notice forks.
        let id = current();
        Self { id, forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Returns a child of this process that has its id.
    #[cfg(test)]
    pub(super) fn forked(self) -> Self {
        Self { forks: self.forks + 1, ..self }
    }
}

/// Returns the id of this process. A system call reads it once, and again after a `fork`.
#[inline]
pub(crate) fn current() -> u32 {
    match ID.load(Ordering::Relaxed) {
        0 => ask(),
        id => id,
    }
}

#[cold]
fn ask() -> u32 {
    let id = std::process::id();
    if forks_are_noticed() {
        ID.store(id, Ordering::Relaxed);
    }
    id
}

#[cfg(unix)]
fn forks_are_noticed() -> bool {
    extern "C" fn in_the_child() {
        ID.store(0, Ordering::Relaxed);
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    static NOTICED: OnceLock<bool> = OnceLock::new();
    *NOTICED.get_or_init(|| crate::base::system::at_fork(in_the_child))
}

/// Returns `true`: there are no forks.
#[cfg(not(unix))]
fn forks_are_noticed() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_that_of_this_process() {
        assert_eq!([current(), current()], [std::process::id(); 2]);
    }
}
