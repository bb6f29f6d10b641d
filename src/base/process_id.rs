//! The id of this process, also in a child that `fork` made. Such a child has a copy of the memory and the same open files
//! and sockets, and none of the threads: whatever was acquired or opened belongs to the process that did so.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The id of this process, as far as it was asked for; zero if not.
static ID: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the one in which they were first noticed.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process. It differs from the processes that it was forked from, even if it has the id of an ended one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
    forks: u32,
}

impl Process {
    pub(crate) fn this() -> Self {
        // In this order: the first call begins to notice forks.
        let id = current();
        Self { id, forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Returns a child of this process that has its id.
    #[cfg(test)]
    pub(super) fn forked(self) -> Self {
        Self { forks: self.forks + 1, ..self }
    }
}

/// The id of this process. To ask the system costs a call each time, so it is asked once, and again after a `fork`.
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

/// Nobody forks here.
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
