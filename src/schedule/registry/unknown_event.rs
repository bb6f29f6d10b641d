//! An event that a schedule does not have.

use crate::base::{error::debug_as_display, escape::Quoted};

/// The schedule has no event of this name.
///
/// ```
/// use soloist::Schedule;
///
/// let error = Schedule::in_process().run_event("reports", chrono::Utc::now()).unwrap_err();
/// assert_eq!(error.to_string(), "there is no event `reports` in the schedule");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no event {name} in the schedule")]
pub struct UnknownEvent {
    pub(super) name: Quoted,
}

debug_as_display!(UnknownEvent);
