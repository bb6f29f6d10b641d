//! Tells of the steps of a schedule: to subscribers of `tracing` and to its observers; and on standard error what no report has,
//! where nothing subscribes.

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

/// Only the code of a subscriber, or of somebody's error, can panic here.
#[inline]
fn log_by(trace: impl FnOnce()) {
    if let Err(message) = contain(trace) {
        let _ = contain(|| trace_incident(&Incident::NotShown(&message)));
    }
}
