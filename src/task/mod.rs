//! What an event does: a callback, and what it is called with, or a command.

pub(crate) mod work;
pub(crate) mod command;
pub(crate) mod orphan_policy;
pub(crate) mod output;
#[cfg(unix)]
mod process_group;
#[cfg(not(unix))]
mod process_not_unix;
pub(crate) mod run;
#[cfg(unix)]
mod watchdog;
