//! Deletes rows that ended more than 90 seconds ago: a few after an admission, or all in a purge.

use super::session::{Session, last_number, rows};
use crate::store::server::{engine::Attempt, failure::Failure};
use crate::time::clock::random_index;

/// The most rows that a statement of a purge deletes.
pub(super) const PURGED_AT_ONCE: usize = 500;

/// The number of written rows for which there is one clean-up, on average. A clean-up is a transaction of its own.
const ROWS_FOR_CLEAN_UP: usize = 8;

/// Cleans up by chance after an admission has written rows. On average, twice as many rows are deleted as were written,
/// so that the table shrinks. If the clean-up fails, the admission stays granted.
pub(super) fn clean_up_at_times<S: Session>(attempt: &mut Attempt<S>, written: usize) {
    if random_index(ROWS_FOR_CLEAN_UP) < written {
        let cleaned = rows(attempt, S::CLEAN_UP, &[("batch", &(2 * written.max(ROWS_FOR_CLEAN_UP)))]);
        attempt.is_broken |= cleaned.is_err_and(|failure| failure.code().is_none());
    }
}

/// Deletes rows that have ended, except those that another transaction has locked. Returns their number.
pub(super) fn purge<S: Session>(attempt: &mut Attempt<S>) -> Result<u64, Failure> {
    last_number::<S, _>(&rows(attempt, S::CLEAN_UP, &[("batch", &PURGED_AT_ONCE)])?, 0)
}
