//! The claims of an event: on an occurrence (`on_one_server`), on a period (a permit, `once_per`), and for a backfill.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::lease::name::MutexName;
use crate::lease::term::Term;
use crate::time::{clock::shown::Rfc3339, period::Period, timetable::Timetable};

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

/// The claims of a backfill: a marker for each occurrence. They are independent of the claims of the timetable, because
/// a backfill also runs occurrences that have run before.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackfillClaims {
    /// The label of `Backfill::again`. A backfill with another label makes other claims, so that it can run the
    /// occurrences again.
    pub(crate) again: Option<Arc<str>>,
}

/// The term of a claim of a backfill.
pub(crate) const BACKFILL_CLAIM_LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl BackfillClaims {
    /// Returns the name and the term of the claim on `occurrence` of `event`.
    pub(crate) fn name_and_term(
        &self,
        mutex: &MutexName,
        event: &Arc<str>,
        occurrence: DateTime<Utc>,
    ) -> (MutexName, Term) {
        let again = self.again.as_ref().map_or_else(String::new, |label| format!(" {label}"));
        let name = mutex.mark(Arc::clone(event), format!("backfill {}{again}", Rfc3339(occurrence)));
        (name, Term::new(BACKFILL_CLAIM_LASTS).unwrap_or(Term::MAX))
    }
}
