//! What a run holds and until when: the lease, its renewal, its loss and its release.

pub(crate) mod guard;
pub(crate) mod held;
#[cfg(test)]
pub(crate) mod interleavings;
pub(crate) mod keeper;
#[cfg(unix)]
pub(crate) mod process_exit;
pub(crate) mod sync;
pub(crate) mod tenure;
