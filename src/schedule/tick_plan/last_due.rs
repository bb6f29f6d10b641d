//! The last due time of an event, for a process that starts after it.

use chrono::{DateTime, TimeDelta, Utc};

use crate::schedule::schedule::Schedule;
use crate::schedule::schedule::registry::UnknownEvent;

/// How long after its time an occurrence may still be claimed, as by a server whose clock is behind.
pub(crate) const CLAIMED_AFTER: TimeDelta = TimeDelta::minutes(5);

impl Schedule {
    /// Returns when an event was due last, if that was no longer before `now` than [`CLAIMED_AFTER`]: the claim on an earlier time may have
    /// expired.
    pub(crate) fn last_due(&self, name: &str, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, UnknownEvent> {
        self.last_due_within(name, now, CLAIMED_AFTER)
    }

    /// Returns when an event was due last, if that was no longer before `now` than this.
    pub(crate) fn last_due_within(
        &self,
        name: &str,
        now: DateTime<Utc>,
        window: TimeDelta,
    ) -> Result<Option<DateTime<Utc>>, UnknownEvent> {
        Ok(self.upcoming(name, now - window)?.take_while(|due| *due <= now).last())
    }
}
