//! Tells of the scheduler's steps: to subscribers of `tracing`, and on standard error what no report has, where nothing
//! subscribes.

use super::notice::Notice;
use crate::base::catch_panic::contain;

pub(crate) mod delivery;
pub(crate) mod trace;

use trace::trace;

/// Tells of a step.
#[inline]
pub(crate) fn tell(notice: &Notice<'_>) {
    // Only the code of a subscriber, or of somebody's error, can panic here.
    if let Err(message) = contain(|| trace(notice)) {
        let _ = contain(|| trace(&Notice::NotShown(&message)));
    }
}
