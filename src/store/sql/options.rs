//! What can be chosen for a table of mutexes, whichever the server.

use std::time::Duration;

use super::text::TableName;
use crate::base::error::InvalidOptions;

/// The shortest and the longest time-out of a call. The longest leaves a row that has ended where it is for longer than
/// that.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// As the user says it.
pub(crate) struct SqlOptions {
    pub(crate) table: String,
    pub(crate) timeout: Duration,
}

impl Default for SqlOptions {
    fn default() -> Self {
        Self { table: TableName::default().to_string(), timeout: Duration::from_secs(4) }
    }
}

impl SqlOptions {
    pub(crate) fn check(&self) -> Result<CheckedOptions, InvalidOptions> {
        let table = TableName::new(&self.table)?;
        let [shortest, longest] = TIMEOUTS;
        if !(shortest..=longest).contains(&self.timeout) {
            let what = format!("a time-out of {:?} is outside of {shortest:?} to {longest:?}", self.timeout);
            return Err(InvalidOptions::new(what));
        }
        Ok(CheckedOptions { table, timeout: self.timeout })
    }
}

/// The same, when nothing is wrong with it.
pub(crate) struct CheckedOptions {
    pub(super) table: TableName,
    pub(crate) timeout: Duration,
}

impl CheckedOptions {
    /// How long a statement waits for what somebody else's transaction has: so much less than a call may last on a
    /// connection that was at rest, that the server says so in time.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.timeout / 4
    }
}
