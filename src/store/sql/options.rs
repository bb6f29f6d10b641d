//! The options of a store in a table, checked.

use std::time::Duration;

use super::statements::TableName;
use crate::base::error::InvalidOptions;
use crate::store::remote::server_builder::ServerOptions;

pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4);

/// The shortest and the longest time-out of a call. The longest leaves a row that has ended where it is for longer than
/// that.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// The options that are the same for every kind of server.
pub(crate) struct TableOptions {
    pub(super) table: TableName,
    pub(crate) timeout: Duration,
}

impl TableOptions {
    pub(crate) fn check<A>(options: &ServerOptions<A>) -> Result<Self, InvalidOptions> {
        let (table, timeout) = (TableName::new(&options.namespace)?, options.timeout);
        let [shortest, longest] = TIMEOUTS;
        if (shortest..=longest).contains(&timeout) {
            return Ok(Self { table, timeout });
        }
        Err(InvalidOptions::new(format!("a time-out of {timeout:?} is outside of {shortest:?} to {longest:?}")))
    }

    /// The longest time that a statement waits for a row that another transaction has locked: so much less than a call may
    /// last on a connection that was idle, that the server says so in time.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.timeout / 4
    }
}
