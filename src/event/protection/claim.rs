//! The claims of an event: on each occurrence, or on a period, which is a permit (`once_per`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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

/// How much longer than its window a claim is kept, for servers whose clocks differ.
pub(crate) const CLAIM_MARGIN: Duration = Duration::from_secs(5 * 60);

impl Claim {
    /// Returns the name of the claim of one run, and its term: to the end of the occurrence or period, then the longest jitter,
    /// the window and its margin.
    pub(super) fn name_and_term(
        self,
        mutex: &MutexName,
        Claimant { event, tick, zone, window, jitter }: Claimant<'_>,
    ) -> (MutexName, Term) {
        let (event, occurrence) = (Arc::clone(event), tick.occurrence());
        let (name, rest) = match self {
            Self::Occurrence => (mutex.claim(event, occurrence), Duration::ZERO),
            Self::Period(period) => {
                let permit = period.at(occurrence, zone);
                let rest = (permit.end - tick.now()).to_std().unwrap_or_default();
                (mutex.permit(event, permit.period), rest)
            }
        };
        (name, Term::new(rest + jitter + window + CLAIM_MARGIN).unwrap_or(Term::MAX))
    }
}
