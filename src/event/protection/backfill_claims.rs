//! The claims of a backfill, which last for 30 days.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::lease::{name::MutexName, term::Term};
use crate::time::clock::shown::Rfc3339;

/// The claims of a backfill: a marker for each occurrence. They are independent of the claims of the timetable, because
/// a backfill also runs occurrences that have run before.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackfillClaims {
    /// The label of `Backfill::again`. A backfill with another label makes other claims, so that it can run the
    /// occurrences again.
    pub(crate) again: Option<Arc<str>>,
}

/// The term of a claim of a backfill.
const BACKFILL_CLAIM_LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

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
