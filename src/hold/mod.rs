//! What a run holds and until when: the lease, its renewal, its loss and its release.

pub(crate) mod guard;
pub(crate) mod keeper;
#[cfg(test)]
mod loom_tests;
#[cfg(unix)]
pub(crate) mod process_exit;
pub(crate) mod release_on_drop;
pub(crate) mod sync;
pub(crate) mod tenure;
pub(crate) mod timer_thread;
