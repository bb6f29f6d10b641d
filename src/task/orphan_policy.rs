//! The fate of a command whose scheduler is killed.

#[cfg(unix)]
use std::env;

use crate::store::event_mutex::lifeline::Lifeline;

/// The fate of a command whose scheduler is killed.
pub(crate) enum OrphanPolicy {
    /// The command continues, and no lease protects it.
    RunOn,
    /// The command continues, and the lease lasts as long as the command. If the scheduler is itself a command, a
    /// watchdog ends the command instead.
    KeepLease(Lifeline),
    /// A watchdog ends the command.
    End,
}

/// The environment variable of a command that has the name of its event.
pub(super) const EVENT: &str = "SOLOIST_EVENT";

/// Returns whether this process is the command of another scheduler. That scheduler may kill this process, but does not know the
/// commands of this process, which are in groups of their own. So a watchdog ends them.
#[cfg(unix)]
pub(super) fn scheduler_is_a_command() -> bool {
    env::var_os(EVENT).is_some()
}
