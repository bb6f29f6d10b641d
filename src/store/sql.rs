//! A store in a table, on any kind of SQL server. The kinds differ in how they connect and in their statements.
//!
//! The scope is the fleet that is connected to the server, and the clock is the server's. After a crash, a lease stays
//! for the rest of its term at most, and a claim until it expires.
//!
//! Each name is a row of one table. When its lease or claim has ended, the row stays until it is taken over or cleaned
//! away. A row records its release, so that the name stays free when the server's clock is set back. A row records its
//! term, too: an admission that finds the name held for longer shortens this to one term.
//!
//! The column `v1` marks the format of a table. Statements name this column, so that the server refuses them for a
//! table of another format.
//!
//! An admission reads its rows first, and locks nothing: a loser writes nothing. The rows of all granted admissions are written in one
//! transaction, in the order of their names: each row is inserted, or replaces an ended row that has a lower token.
//!
//! If none of the rows could be written, another process won the race, and the admission reads again. If only some
//! could, the transaction must fail: a final insert repeats every row that another process has written, which violates
//! the primary key. So no loser commits anything, at any isolation level, and nothing depends on a count of affected
//! rows.
//!
//! On PostgreSQL, processes that ask for one name queue, so that a lost race is no error. One of these processes is
//! elected to write. The others wait for it, write nothing, and leave the queue together.
//!
//! The read includes the names that exclude an admission. The transaction reads these names again, and commits nothing
//! if one of them is held. On MySQL, it reads them with locks, after its rows are written. On PostgreSQL, it reads them
//! in the queue, where processes with one excluding name share a place. On PostgreSQL, a transaction of more than 50
//! names writes only while no other transaction writes.
//!
//! A token is the larger of the server's time in microseconds and one more than the highest token in the table, at the write. The row
//! with the highest token is never cleaned away.
//!
//! One granted admission for each eight rows that a process writes deletes rows that have ended: after its commit, and twice as many
//! as were written since the last clean-up, so that the table shrinks. The count begins at random, because a process that cron starts
//! may write one row.
//!
//! An admission names a window of the server's time: from the read of its rows to the deadline of its caller. Outside
//! of the window nothing is committed. A renewal and a minimum hold have a window, too. A row is never free for the
//! owner that wrote it. So a late copy of an admission whose run is over is granted nothing.
//!
//! If an answer is lost, the request is sent once more on another connection, and its owner is recognised. A name that
//! this process may hold after all is released with a later call.

use std::time::Duration;

use super::server::attempts::Server;
use super::server::engine::Attempt;
use super::server::failure::Failure;
use super::server::server_builder::ServerOptions;
use crate::base::error::{InvalidOptions, MutexError};

mod admission_plan;
mod admit;
pub(crate) mod driver_runtime;
mod engine;
mod row_key;
mod run_rows;
pub(crate) mod session;
mod snapshot;
pub(crate) mod table_names;

use engine::{PURGED_AT_ONCE, SqlEngine, purge};
use session::Session;

/// The default time limit of a call.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4);

/// The shortest and the longest time-out of a call. The longest is shorter than the 90 seconds after which an ended row is deleted.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// The rights that a user needs.
pub(crate) const RIGHTS: &str = "its user needs SELECT, INSERT, UPDATE and DELETE on the table, for a log of runs also on the table \
                                 with _runs behind its name, and CREATE to make them";

/// A store in a table, on any kind of SQL server.
pub(crate) type SqlServer<S> = Server<SqlEngine<S>>;

impl<S: Session> SqlServer<S> {
    pub(super) fn of_table(options: ServerOptions<S::Address>) -> Result<Self, InvalidOptions> {
        Ok(Self::new(SqlEngine::new(options.check(TIMEOUTS)?)?))
    }

    pub(super) fn create_table(&self) -> Result<(), MutexError> {
        self.ask_of_table("create", |attempt| self.engine.create_table(attempt))
    }

    /// Deletes the rows that have ended, batch by batch, and returns their number.
    pub(super) fn purge(&self) -> Result<u64, MutexError> {
        let mut purged = 0;
        loop {
            let deleted = self.ask_of_table("purge", purge)?;
            purged += deleted;
            if deleted < PURGED_AT_ONCE as u64 {
                return Ok(purged);
            }
        }
    }

    fn ask_of_table<T: Send>(
        &self,
        verb: &str,
        ask: impl FnMut(&mut Attempt<S>) -> Result<T, Failure> + Send,
    ) -> Result<T, MutexError> {
        let table = self.engine.name.as_str();
        self.call(ask).map_err(|failure| self.failed(format_args!("{verb} the table {table}"), failure))
    }
}

/// The methods that the public stores in a table have in common.
macro_rules! table_methods {
    ($store:ident, $builder:ident) => {
        impl $store {
            /// Returns a builder, for options.
            pub fn builder(url: &str) -> $builder {
                $builder::new(url)
            }

            /// Makes the table, if there is none of this name. Any number of processes may do so at once. An existing table is not
            /// altered.
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
            /// that another transaction has locked stay. Admissions delete some of these rows by themselves. Call this
            /// at a time of day when the server has little else to do.
            ///
            /// # Errors
            ///
            /// The server did not answer. The rows that were deleted until then stay deleted.
            pub fn purge(&self) -> Result<u64, $crate::base::error::MutexError> {
                self.0.purge()
            }
        }

        impl $builder {
            /// Checks the options, and returns the store, which connects at the first call.
            ///
            /// # Errors
            ///
            /// The URL, the table's name, the timeout, or a certificate is not valid.
            pub fn build(self) -> Result<$store, InvalidOptions> {
                Ok($store(std::sync::Arc::new($crate::store::sql::SqlServer::of_table(self.options)?)))
            }
        }
    };
}
pub(crate) use table_methods;
