//! The policies for a command whose scheduler is killed.

#[cfg(unix)]
use std::env;

use crate::store::event_mutex::lifeline::Lifeline;

/// The policy for a command whose scheduler is killed. But if the scheduler is itself a command of another scheduler, a
/// watchdog ends the commands of the killed scheduler under each policy.
pub(crate) enum OrphanPolicy {
    /// The command continues, and no lease protects it.
    RunOn,
    /// The command continues, and the lease lasts as long as the command.
    KeepLease(Lifeline),
    /// A watchdog ends the command.
    End,
}

/// The environment variable that gives a command the name of its event.
pub(super) const EVENT: &str = "SOLOIST_EVENT";

/// Returns whether this process is the command of another scheduler. If so, a watchdog must end the commands of this
/// process. The other scheduler can kill this process, but not the commands of this process, because each of these
/// commands has its own process group.
#[cfg(unix)]
pub(super) fn scheduler_is_a_command() -> bool {
    env::var_os(EVENT).is_some()
}
