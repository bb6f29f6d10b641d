//! The tasks of events: callbacks, futures and commands.

pub(crate) mod command;
pub(crate) mod event_task;
pub(crate) mod future_task;
pub(crate) mod orphan_policy;
pub(crate) mod output;
#[cfg(unix)]
pub(crate) mod process_group;
#[cfg(not(unix))]
mod process_not_unix;
pub(crate) mod run;
pub(crate) mod runtime;
#[cfg(unix)]
mod watchdog;
