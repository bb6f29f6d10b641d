//! A store in a table of an SQL server. The kinds of servers differ in how to connect, and in the text of the
//! statements.
//!
//! The scope is the fleet: all processes that use the server. The clock is the server's. If a process crashes, its
//! lease stays until its term ends, and its claim stays until it expires.
//!
//! Each name has a row in one table. After a lease or a claim has ended, its row stays, until a new grant replaces the
//! row or a clean-up deletes it. A row records its release, so that the name stays free if the server's clock is set
//! back. A row also records its term. If the end in a row is more than one term away, the server's clock was set back.
//! The admission that finds this end moves it to one term from now.
//!
//! The column `v1` marks the format of a table. Statements name this column, so that a server refuses them if the table
//! has another format.
//!
//! An admission first reads its rows, and locks none of them. So a refused admission writes nothing. One transaction
//! writes the rows of all granted admissions, in the order of their names. It inserts each row, or replaces a row that
//! has ended and has a lower token.
//!
//! If the transaction could write none of its rows, another process won the race, and the admission reads again. If the
//! transaction could write only some of its rows, it must fail. So its last statement inserts the other processes' rows
//! a second time, which violates the primary key. Therefore an admission that lost the race commits nothing, at any
//! isolation level. The admission does not rely on the server's count of affected rows.
//!
//! On PostgreSQL, if several processes ask for one name at the same time, they wait in a queue, so that a lost race
//! causes no error: each process finds the rows of the process before it, and then writes nothing.
//!
//! The first read includes the names that exclude an admission. The transaction reads these names again, and commits
//! nothing if one of them is held. On MySQL, the transaction reads them with locks, after its rows are written. On
//! PostgreSQL, the transaction reads them while it is in the queue. Each name has its own queue. All admissions that a
//! name excludes share one place in the queue of this name: they do not wait for each other. On PostgreSQL, a
//! transaction of more than 50 names writes only while no other transaction writes.
//!
//! A token is one more than the highest token in the table, or the server's time in microseconds if that is larger. The
//! row with the highest token is never deleted.
//!
//! After its commit, an admission deletes ended rows by chance: with a chance of one in eight for each row that it has
//! written. It deletes up to 16 rows, or twice as many as it has written, so that the table shrinks.
//!
//! An admission names a window of the server's time: from the read of its rows to the deadline of its caller. Outside
//! of the window, nothing is committed. A renewal and a minimum hold have such a window, too. If a row has the owner of
//! an admission, the row is not granted to this owner again. So when a run is over, a late copy of its admission is
//! granted nothing.
//!
//! If an answer is lost, the request is sent once more on another connection. The owner in a row shows whether the
//! first copy was carried out. If this stays unknown, a later call releases the name.

use std::time::Duration;

use super::server::attempts::Server;
use crate::base::error::MutexError;

mod admission_plan;
mod admit;
mod clean_up;
pub(crate) mod driver_runtime;
pub(crate) mod engine;
mod row_key;
mod run_rows;
pub(crate) mod session;
mod snapshot;
pub(crate) mod table_names;

use clean_up::{PURGED_AT_ONCE, purge};
use engine::{SqlEngine, create_table};
use session::Session;

/// The default time limit of a call.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4);

/// The shortest and the longest timeout of a call. A late copy of a request must find its row, so the longest timeout
/// is shorter than the 90 seconds after which a clean-up deletes an ended row.
pub(crate) const TIMEOUTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// The advice about the rights of the user in the URL.
pub(crate) const RIGHTS: &str = "the user in the url needs SELECT, INSERT, UPDATE and DELETE on the table; for a log of runs, it needs \
                                 them on the table with _runs behind its name, too; to create the tables, it needs CREATE";

/// The advice if a table is missing.
pub(crate) const NO_TABLE: &str = "create the tables, with `soloist create-table` or `create_table()`";

/// The advice if a table has other columns.
pub(crate) const OTHER_COLUMNS: &str = "the table, or the table with _runs behind its name, does not have the columns of the format v1: drop \
                                        it while nothing runs, and create it again, with `soloist create-table` or `create_table()`";

/// The advice if no token is higher than all tokens in the table.
pub(crate) const NO_TOKEN: &str =
    "the table has the highest possible token: drop the table while nothing runs, and create it again";

/// A store in a table of an SQL server.
pub(crate) type SqlServer<S> = Server<SqlEngine<S>>;

impl<S: Session> SqlServer<S> {
    pub(super) fn create_table(&self) -> Result<(), MutexError> {
        self.ask(format_args!("create the table {}", self.engine.target.namespace), create_table)
    }

    /// Deletes the rows that have ended, batch by batch, and returns their number.
    pub(super) fn purge(&self) -> Result<u64, MutexError> {
        let mut purged = 0;
        loop {
            let deleted = self.ask(format_args!("purge the table {}", self.engine.target.namespace), purge)?;
            purged += deleted;
            if deleted < PURGED_AT_ONCE as u64 {
                return Ok(purged);
            }
        }
    }
}

/// Defines the methods that `MysqlMutex` and `PostgresMutex` have in common.
macro_rules! table_methods {
    ($store:ident) => {
        impl $store {
            /// Creates the tables that do not exist yet. Several processes may do this at the same time. An existing
            /// table is not altered.
            ///
            /// # Errors
            ///
            /// The server did not answer, the user lacks the right, or an existing table has other columns.
            pub fn create_table(&self) -> Result<(), $crate::base::error::MutexError> {
                self.0.create_table()
            }

            /// Returns the statements that [`create_table`](Self::create_table) sends: [`SCHEMA`](Self::SCHEMA), with
            /// the name of this store's table.
            pub fn schema(&self) -> &str {
                &self.0.engine.schema
            }

            /// Deletes all rows that ended more than 90 seconds ago, batch by batch, and returns their number. Rows
            /// that another transaction has locked stay. Admissions also delete such rows, but only a few at a time.
            /// Call this method when the server has little else to do.
            ///
            /// # Errors
            ///
            /// The server did not answer. The rows that were deleted until then stay deleted.
            pub fn purge(&self) -> Result<u64, $crate::base::error::MutexError> {
                self.0.purge()
            }
        }
    };
}
pub(crate) use table_methods;
