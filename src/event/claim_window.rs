//! The claim window: the time in which a run may request its claim. The window begins with the tick of the run. A claim
//! lasts longer than the window, by [`CLAIM_MARGIN`].

use std::time::Duration;

use super::add_error::{AddErrorKind, Refusal};
use super::protection::claim::{CLAIM_MARGIN, Claim, MINUTE};
use crate::time::clock::shown::ExactDuration;

/// The highest number of claims that one event may have in a store at a time. In the file store, each admission of the
/// event reads all its claims. In other stores, each claim takes memory.
const MOST_LIVE_CLAIMS: u128 = 50_000;

/// The longest usual claim window. A queue or `catch_up` can make the window longer.
const LONGEST_WINDOW: Duration = Duration::from_secs(60 * 60);

/// Returns the usual claim window for an event with this period. A queue or `catch_up` can make the window longer.
pub(crate) fn usual_claim_window(period: Duration) -> Duration {
    (period * 10).clamp(MINUTE, LONGEST_WINDOW)
}

/// Returns the seconds of the jitter `longest`. Refuses a jitter that is not in whole seconds, or not shorter than
/// `period`. So an occurrence starts before the next occurrence is due. The period is at most an hour, and a claim
/// lasts longer than the period. So an occurrence also starts before its own claim can expire.
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

/// Refuses an event that would have too many claims at a time. Each occurrence makes a claim, which lasts for `window`
/// and [`CLAIM_MARGIN`].
pub(super) fn check_live_claims(window: Duration, claim: Option<Claim>, period: Duration) -> Result<(), Refusal> {
    let live = (window + CLAIM_MARGIN).as_nanos() / period.as_nanos().max(1);
    match claim {
        Some(Claim::Occurrence) if live > MOST_LIVE_CLAIMS => {
            let [period, window] = [period, window].map(ExactDuration);
            Err(AddErrorKind::Conflict.because(format_args!(
                "it is due every {period}, and an occurrence may start {window} late, so that it would have more than 50,000 \
                 claims at a time: choose a shorter `within(..)` or `catch_up_all(..)`, or let it be due less often"
            )))
        }
        _ => Ok(()),
    }
}
