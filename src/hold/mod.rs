//! Leases of runs: renewal, loss and release.

pub(crate) mod cancellation;
pub(crate) mod change_signal;
pub(crate) mod guard;
pub(crate) mod held_lease;
#[cfg(unix)]
pub(crate) mod process_exit;
mod renewal_plan;
pub(crate) mod renewal_thread;
mod sync;
mod timer_thread;

#[cfg(test)]
mod loom_tests;
