//! The last due time of an event, for a process that starts after it.

use chrono::{DateTime, TimeDelta, Utc};

use crate::event::protection::claim::CLAIM_MARGIN;
use crate::schedule::schedule::Schedule;
use crate::schedule::schedule::registry::UnknownEvent;

impl Schedule {
    /// Returns when an event was due last, if that was no longer before `now` than [`CLAIM_MARGIN`]: the claim on an earlier time may have
    /// expired.
    pub(crate) fn last_due(&self, name: &str, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, UnknownEvent> {
        self.last_due_within(name, now, TimeDelta::from_std(CLAIM_MARGIN).unwrap_or_default())
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
