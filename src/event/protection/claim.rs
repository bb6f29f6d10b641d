//! The claims of an event: on an occurrence (`on_one_server`), or on a period (a permit, `once_per`).
//!
//! The claim window is the time in which a run may request its claim. The window begins with the tick of the run. A
//! claim lasts longer than the window, by [`CLAIM_MARGIN`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::event::add_error::{AddErrorKind, Refusal};
use crate::lease::name::MutexName;
use crate::lease::term::Term;
use crate::time::clock::shown::ExactDuration;
use crate::time::{period::Period, timetable::Timetable};

/// The kind of claim that an event makes at each admission: on an occurrence, or on a period.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// A claim on the occurrence. No other server runs the occurrence.
    Occurrence,
    /// A permit: a claim on the period of the occurrence. No other run starts in this period.
    Period(Period),
}

/// Shows the builder's method: `on_one_server`, `once_per Hour`.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occurrence => f.write_str("on_one_server"),
            Self::Period(period) => write!(f, "once_per {period:?}"),
        }
    }
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// The margin for differences between clocks and between ticks. If the clocks and the ticks of two servers differ by
/// less than this margin, an occurrence starts only once. A claim lasts longer than its window by this margin, because
/// the tick of a server with a slow clock comes later.
///
/// An occurrence that waits to replace a run writes a marker, which asks the run to stop. The marker lasts until the
/// occurrence may no longer wait, and then for this margin.
///
/// If an occurrence is older than this margin, its claim may have expired. So neither `run_due_since` nor the command
/// line starts such an old occurrence.
pub(crate) const CLAIM_MARGIN: Duration = Duration::from_secs(5 * 60);

impl Claim {
    /// Returns the name and the term of the claim for `occurrence` of `event`. The term is the sum of the claim window,
    /// [`CLAIM_MARGIN`], the longest jitter and, for a permit, the rest of the period. The longest jitter is added
    /// because two servers can start one occurrence with different delays. For example, `run-one --claim` claims an
    /// occurrence without any delay. Or the servers have different definitions of the event.
    pub(crate) fn name_and_term(
        self,
        mutex: &MutexName,
        event: &Arc<str>,
        occurrence: DateTime<Utc>,
        timetable: &Timetable,
        window: Duration,
    ) -> (MutexName, Term) {
        let event = Arc::clone(event);
        let (name, rest) = match self {
            Self::Occurrence => (mutex.claim(event, occurrence), Duration::ZERO),
            Self::Period(period) => {
                let (name, rest) = period.permit(occurrence, &timetable.zone);
                (mutex.permit(event, name), rest)
            }
        };
        (name, Term::new(rest + timetable.jitter.longest() + window + CLAIM_MARGIN).unwrap_or(Term::MAX))
    }
}

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
pub(in crate::event) fn checked_jitter(longest: Duration, period: Duration) -> Result<u32, Refusal> {
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
pub(in crate::event) fn check_live_claims(
    window: Duration,
    claim: Option<Claim>,
    period: Duration,
) -> Result<(), Refusal> {
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
