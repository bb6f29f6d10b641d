//! The claims of an event: on each occurrence, or on a period, which is a permit (`once_per`); and those of a backfill.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::lease::name::MutexName;
use crate::lease::term::Term;
use crate::time::{clock::shown::Rfc3339, period::Period, timetable::Timetable};

/// The unit that an event claims with each admission, so that no other server runs it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// Each occurrence.
    Occurrence,
    Period(Period),
}

/// The words that ask for it.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occurrence => f.write_str("on_one_server"),
            Self::Period(period) => write!(f, "once_per {period:?}"),
        }
    }
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// The five minutes of the second promise: by how much the clocks and ticks of servers may differ, so that an occurrence still starts
/// once. A claim is kept for so much longer than its window, and so is a request to stop. An occurrence that is older may have had a
/// claim that has expired: neither `run_due_since` nor the command line starts it.
pub(crate) const CLAIM_MARGIN: Duration = Duration::from_secs(5 * 60);

impl Claim {
    /// Returns the name of the claim on one occurrence of `event`, and its term: the longest time to the end of the occurrence or period,
    /// the longest jitter, the window and its margin. Two starts of one occurrence are no further apart than the jitter, if an operator
    /// claims it or a definition was changed.
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

/// The claims of a backfill, a marker for each occurrence. They are apart from the claims of the timetable: a backfill also runs
/// occurrences that ran before.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackfillClaims {
    /// The label of a set of claims. Another label is another set.
    pub(crate) again: Option<Arc<str>>,
}

/// How long a claim of a backfill lasts.
pub(crate) const BACKFILL_CLAIM_LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl BackfillClaims {
    /// Returns the name of the claim on one occurrence, and its term.
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
