//! The delivery of notices and incidents to subscribers of `tracing` and to observers. If nothing subscribes, the facts that no
//! report has are printed on standard error.

use super::notice::incident::Incident;
use crate::base::catch_panic::contain;

pub(crate) mod delivery;
pub(crate) mod observers;
pub(crate) mod trace;

use trace::trace_incident;

/// Logs an incident.
pub(crate) fn log(incident: &Incident<'_>) {
    log_by(|| trace_incident(incident));
}

/// Logs, and contains a panic: the code of a subscriber or of an error may panic here.
#[inline]
fn log_by(trace: impl FnOnce()) {
    if let Err(message) = contain(trace) {
        let _ = contain(|| trace_incident(&Incident::NotShown(&message)));
    }
}
