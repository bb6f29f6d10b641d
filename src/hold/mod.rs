//! What a run holds and until when: the lease, its renewal, its loss and its release.

pub(crate) mod cancellation;
pub(crate) mod guard;
pub(crate) mod held_lease;
pub(crate) mod keeper;
mod plan;
#[cfg(unix)]
pub(crate) mod process_exit;
pub(crate) mod release_on_drop;
pub(crate) mod signal;
mod sync;
mod timer_thread;

#[cfg(test)]
mod loom_tests;
