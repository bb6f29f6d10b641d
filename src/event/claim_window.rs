//! The claim window: the time after the beginning of a tick when a run may request its claim. A claim lives
//! [`CLAIM_MARGIN`] longer.

use std::time::Duration;

use super::add_error::{AddErrorKind, Refusal};
use super::protection::claim::{CLAIM_MARGIN, Claim, MINUTE};
use crate::time::clock::shown::ExactDuration;

/// The most live claims of one event. On files, every admission reads all of them; in other stores, they take memory.
const MOST_LIVE_CLAIMS: u128 = 50_000;

/// The longest claim window without a queue and without `catch_up`.
const LONGEST_WINDOW: Duration = Duration::from_secs(60 * 60);

/// Returns the claim window of an event with this period, without a queue and without `catch_up`.
pub(crate) fn usual_claim_window(period: Duration) -> Duration {
    (period * 10).clamp(MINUTE, LONGEST_WINDOW)
}

/// Checks that a jitter is whole seconds, and shorter than the period, which is an hour at most, and so no longer than the usual
/// claim window. So each occurrence starts before the next one, and while no claim on it can have expired.
pub(super) fn checked_jitter(longest: Duration, period: Duration) -> Result<u32, Refusal> {
    let seconds = u32::try_from(longest.as_secs()).ok().filter(|seconds| *seconds > 0 && longest.subsec_nanos() == 0);
    seconds.filter(|_| longest < period).ok_or_else(|| {
        let [longest, least, limit] = [longest, Duration::from_secs(1), period].map(ExactDuration);
        let why = if period < LONGEST_WINDOW { "the time between two of its occurrences" } else { "its claim window" };
        AddErrorKind::OutOfRange.because(format_args!(
            "`jitter({longest})`: use whole seconds, from {least} to less than {limit}, which is {why}"
        ))
    })
}

/// Refuses an event that would have too many claims at a time: one for each of its occurrences until the claim expires.
pub(super) fn check_live_claims(window: Duration, claim: Option<Claim>, period: Duration) -> Result<(), Refusal> {
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
