//! The ground floor: errors, caught panics, escaped text, and calls to the C library.

pub(crate) mod contain;
pub(crate) mod error;
pub(crate) mod escape;
pub(crate) mod process;
#[cfg(unix)]
pub(crate) mod system;
