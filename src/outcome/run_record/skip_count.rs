//! The number of skipped occurrences of an event. A log keeps it in addition to the records of runs.

use chrono::{DateTime, Utc};

use super::kept_time;
use crate::outcome::skip_reason::SkipReason;

/// The number of an event's occurrences that were skipped for one reason, in the whole fleet; see
/// [`Schedule::skips`](crate::Schedule::skips).
///
/// ```
/// use soloist::observe::SkipCount;
///
/// let noon = "2026-03-01T12:00:00Z".parse()?;
/// let skips = SkipCount::new("overlapping", 4, noon).expect("a log counts these");
/// assert_eq!((skips.reason(), skips.count(), skips.latest()), ("overlapping", 4, noon));
/// assert!(SkipCount::new("ran_elsewhere", 1, noon).is_none());
/// # Ok::<(), chrono::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SkipCount {
    reason: &'static str,
    count: u64,
    latest: DateTime<Utc>,
}

impl SkipCount {
    /// Makes a count of skipped occurrences. `reason` is the [keyword](SkipReason::keyword) of the reason, and `latest`
    /// is the latest skipped occurrence. `None`: a log does not count skips for this reason.
    pub fn new(reason: &str, count: u64, latest: DateTime<Utc>) -> Option<Self> {
        let reason = SkipReason::COUNTED.into_iter().find(|known| *known == reason)?;
        Some(Self { reason, count, latest: kept_time(latest) })
    }

    /// Returns the [keyword](SkipReason::keyword) of the reason: `overlapping`, `stuck`, `queue_full`,
    /// `queued_too_long`, `replaced` or `paused`.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Returns the number of skipped occurrences since the log began.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the latest skipped occurrence.
    pub fn latest(&self) -> DateTime<Utc> {
        self.latest
    }
}

/// Adds `more` to `numbers`, which has one entry for each reason.
pub(crate) fn add_skips(numbers: &mut Vec<SkipCount>, more: &[SkipCount]) {
    for skip in more {
        match numbers.iter_mut().find(|known| known.reason == skip.reason) {
            None => numbers.push(*skip),
            Some(known) => {
                known.count = known.count.saturating_add(skip.count);
                known.latest = known.latest.max(skip.latest);
            }
        }
    }
}
