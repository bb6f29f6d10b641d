//! What becomes of a command when its scheduler is killed.

#[cfg(unix)]
use std::env;

use crate::store::event_mutex::lifeline::Lifeline;

/// What becomes of a command when its scheduler is killed.
pub(crate) enum OrphanPolicy {
    /// It runs on; no lease protects it.
    RunOn,
    /// It runs on, and the lease lasts as long as it does; unless its scheduler is a command itself.
    KeepLease(Lifeline),
    /// A watchdog ends it.
    End,
}

/// The variable in which each command finds the name of its event.
pub(super) const EVENT: &str = "SOLOIST_EVENT";

/// Returns whether this process is the command of another scheduler. That scheduler may kill this process, and does not know what
/// this process has started, which is in a group of its own: so it is ended by a watchdog.
#[cfg(unix)]
pub(super) fn scheduler_is_a_command() -> bool {
    env::var_os(EVENT).is_some()
}
