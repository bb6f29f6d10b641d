//! Who holds a name in memory.

use chrono::{DateTime, Utc};

use crate::lease::holder::{Holder, this_host};
use crate::lease::{owner::Owner, token::FencingToken};
use crate::time::clock::{Clock, moment::Moment, wall_plus};

/// Who holds a name that is not free.
pub(super) struct Holding<'a> {
    pub(super) owner: Owner,
    pub(super) token: FencingToken,
    pub(super) since: Moment,
    pub(super) until: Moment,
    pub(super) occurrence: Option<DateTime<Utc>>,
    pub(super) reason: Option<&'a str>,
}

impl Holding<'_> {
    /// As a person wants to read it, with its times on the wall clock as that is set now.
    pub(super) fn holder(&self, clock: &Clock, now: Moment) -> Holder {
        let (since, until) = (clock.wall_at(self.since), wall_plus(clock.now(), self.until.since(now)));
        let holder = Holder::new(self.owner, self.token, this_host(), since, until);
        holder.with_occurrence(self.occurrence).with_reason(self.reason)
    }
}
