//! Deletes rows that ended more than 90 seconds ago: a few after an admission, or all in a purge.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::session::{Session, last_number, rows};
use crate::store::server::{engine::Attempt, failure::Failure};
use crate::time::clock::random_index;

/// The most rows that a statement of a purge deletes.
pub(super) const PURGED_AT_ONCE: usize = 500;

/// The number of written rows after which an admission cleans up. A clean-up is a transaction of its own.
const ROWS_UNTIL_CLEAN_UP: usize = 8;

/// The number of rows that this process has written since its last clean-up.
pub(super) struct UncleanedRows(AtomicUsize);

impl UncleanedRows {
    /// Begins to count at a random number below [`ROWS_UNTIL_CLEAN_UP`]. So if many processes write one row each, one in
    /// eight of them cleans up.
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(random_index(ROWS_UNTIL_CLEAN_UP)))
    }

    /// Counts the rows that an admission has written, and cleans up if that is due. The clean-up deletes up to twice as
    /// many rows as were counted since the last clean-up, so that the table shrinks. If the clean-up fails, the
    /// admission stays granted.
    pub(super) fn add<S: Session>(&self, written: usize, attempt: &mut Attempt<S>) {
        let uncleaned = self.0.fetch_add(written, Ordering::Relaxed) + written;
        if uncleaned >= ROWS_UNTIL_CLEAN_UP {
            self.0.store(0, Ordering::Relaxed);
            let cleaned = rows(attempt, S::CLEAN_UP, &[("batch", &(2 * uncleaned))]);
            attempt.is_broken |= cleaned.is_err_and(|failure| failure.code().is_none());
        }
    }
}

/// Deletes rows that have ended, except those that another transaction has locked. Returns their number.
pub(super) fn purge<S: Session>(attempt: &mut Attempt<S>) -> Result<u64, Failure> {
    last_number::<S, _>(&rows(attempt, S::CLEAN_UP, &[("batch", &PURGED_AT_ONCE)])?, 0)
}
