//! The claim window: for how long after its tick began a run may ask for its claim. A claim lives [`CLAIM_MARGIN`] longer.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::add_error::{AddErrorKind, Refusal};
use super::catch_up::CatchUp;
use super::protection::claim::{CLAIM_MARGIN, Claim, MINUTE};
use crate::time::clock::shown::ExactDuration;
use crate::time::timetable::Timetable;

/// The most live claims of one event: each of them costs every decision on files, and memory in the other stores.
const MOST_LIVE_CLAIMS: u128 = 50_000;

/// Returns the claim window of an event with this period, without a queue and without `catch_up`.
pub(crate) fn usual_claim_window(period: Duration) -> Duration {
    (period * 10).clamp(MINUTE, 60 * MINUTE)
}

/// The claim window of an event, without `catch_up`: longer than usual for an event that may wait in a queue, or that makes up for
/// all missed occurrences.
#[derive(Clone, Copy)]
pub(crate) struct ClaimWindow(pub(crate) Duration);

impl ClaimWindow {
    /// Returns the claim window for one occurrence: with `catch_up`, also as long as other servers look for its claim.
    #[inline]
    pub(crate) fn of(self, occurrence: DateTime<Utc>, catch_up: Option<&CatchUp>, timetable: &Timetable) -> Duration {
        match catch_up.filter(|catch_up| catch_up.window + MINUTE > self.0) {
            Some(catch_up) => catch_up.claim_lookup_time(timetable, occurrence).max(self.0),
            None => self.0,
        }
    }

    /// Refuses an event that would have too many claims at a time: one for each of its occurrences until the claim expires.
    pub(crate) fn check_live_claims(self, claim: Option<Claim>, period: Duration) -> Result<(), Refusal> {
        let Self(window) = self;
        let live = (window + CLAIM_MARGIN).as_nanos() / period.as_nanos().max(1);
        match claim {
            Some(Claim::Occurrence) if live > MOST_LIVE_CLAIMS => {
                let [period, window] = [period, window].map(ExactDuration);
                Err(AddErrorKind::Conflict.because(format_args!(
                    "an occurrence every {period} that may run {window} later leaves more than 50,000 claims in the store at a \
                     time: choose a shorter `within(..)` or `catch_up_all(..)`, or let it be due less often"
                )))
            }
            _ => Ok(()),
        }
    }
}
