//! The lowest layer of the crate: errors, caught panics, escaped text, and calls to the C library.

pub(crate) mod catch_panic;
pub(crate) mod error;
pub(crate) mod escape;
pub(crate) mod lock;
pub(crate) mod per_process;
#[cfg(target_os = "linux")]
pub(crate) mod process_stat;
#[cfg_attr(
    not(all(feature = "server", feature = "tokio")),
    expect(dead_code, reason = "stores on servers report progress, and async services read it")
)]
pub(crate) mod progress;
pub(crate) mod similar;
pub(crate) mod standard_error;
#[cfg(unix)]
pub(crate) mod system;
pub(crate) mod threads;
