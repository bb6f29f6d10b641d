//! What becomes of a command when its scheduler is killed.

use crate::store::event_mutex::lifeline::Lifeline;

/// What becomes of a command when its scheduler is killed.
pub(crate) enum OrphanPolicy {
    /// It runs on; no lease protects it.
    RunOn,
    /// It runs on, and the lease lasts as long as it does.
    KeepLease(Lifeline),
    /// A watchdog ends it.
    End,
}
