//! The claims of an event: on each occurrence, or on a period, which is a permit (`once_per`); and those of a backfill.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::lease::name::MutexName;
use crate::lease::term::Term;
use crate::time::{period::Period, tick::Tick, zone::Zone};

/// The unit that an event claims with each admission, so that no other server runs it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// Each occurrence.
    Occurrence,
    Period(Period),
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Occurrence => f.write_str("each"),
            Self::Period(period) => write!(f, "once per {period:?}"),
        }
    }
}

/// The event and the time that the name of a claim is made from.
#[derive(Clone, Copy)]
pub(crate) struct Claimant<'a> {
    pub(crate) event: &'a Arc<str>,
    pub(crate) tick: &'a Tick,
    pub(crate) zone: &'a Zone,
    /// For how long after its tick began the claim may be asked for.
    pub(crate) window: Duration,
    /// The longest jitter. Two starts of one occurrence are no further apart, if an operator claims it or a definition was changed.
    pub(crate) jitter: Duration,
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// The five minutes of the second promise: by how much the clocks and ticks of servers may differ, so that an occurrence still starts
/// once. A claim is kept for so much longer than its window, and so is a request to stop. An occurrence that is older may have had a
/// claim that has expired: neither `run_due_since` nor the command line starts it.
pub(crate) const CLAIM_MARGIN: Duration = Duration::from_secs(5 * 60);

impl Claim {
    /// Returns the name of the claim of one run, and its term: the longest time to the end of the occurrence or period, the longest
    /// jitter, the window and its margin.
    pub(super) fn name_and_term(
        self,
        mutex: &MutexName,
        Claimant { event, tick, zone, window, jitter }: Claimant<'_>,
    ) -> (MutexName, Term) {
        let (event, occurrence) = (Arc::clone(event), tick.occurrence());
        let (name, rest) = match self {
            Self::Occurrence => (mutex.claim(event, occurrence), Duration::ZERO),
            Self::Period(period) => {
                let (name, rest) = period.permit(occurrence, zone);
                (mutex.permit(event, name), rest)
            }
        };
        (name, Term::new(rest + jitter + window + CLAIM_MARGIN).unwrap_or(Term::MAX))
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
        let occurrence = occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        let name = mutex.mark(Arc::clone(event), format!("backfill {occurrence}{again}"));
        (name, Term::new(BACKFILL_CLAIM_LASTS).unwrap_or(Term::MAX))
    }
}
