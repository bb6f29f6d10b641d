//! The ground floor: errors, panics that stay within bounds, text that is safe to show, and what only libc has.

pub(crate) mod contain;
pub(crate) mod error;
pub(crate) mod escape;
pub(crate) mod process;
#[cfg(unix)]
pub(crate) mod system;
