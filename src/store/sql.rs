//! A store in a table, on any kind of SQL server. The kinds differ in how they connect and in their statements.
//!
//! Scope: the fleet that is connected to the server. Clock: the server's. A crash leaves a lease for the rest of its term
//! at most, and a claim until it expires.
//!
//! Each name is a row of one table, which stays when it has ended, until it is taken over or cleaned away. A row that was
//! released says so, and stays free when the server's clock is set back. A row has its term, too: an admission that finds it held
//! for longer shortens it to one term.
//!
//! The column `v1` says the format of a table. A statement names it, so that the server refuses a table without it.
//!
//! An admission reads its rows first, and locks nothing: a loser writes nothing. The rows of all granted admissions are written in one
//! transaction, in the order of their names: each row is inserted, or replaces an ended row that has a lower token.
//!
//! If none of the rows could be written, another process won the race, and the admission reads again. If only some could, the
//! transaction must fail: a final insert repeats every row that is not ours, which violates the primary key. So no loser commits
//! anything, at any isolation level, and no count of affected rows matters.
//!
//! On PostgreSQL, processes that ask for one name queue, so that a lost race is no error; one of them is elected to write. The others
//! write nothing, and need not be admitted one after another.
//!
//! The read includes the names that exclude an admission. The transaction reads them again, and commits nothing if one is held: on
//! MySQL with locks, after its rows are written; on PostgreSQL in the queue, where processes with one excluding name share a place.
//! There, a transaction of more than 50 names writes while no other one does.
//!
//! A token is the larger of the server's time in microseconds and one more than the highest token in the table, at the write. The row
//! with the highest token is never cleaned away.
//!
//! One granted admission for each eight rows that a process writes deletes rows that have ended: after its commit, and twice as many
//! as were written since the last clean-up, so that the table shrinks. The count begins at random, because a process that cron starts
//! may write one row.
//!
//! An admission names a window of the server's time: its caller waits for the answer until the end. Outside of the window nothing is
//! committed. A renewal and a minimum hold have a window, too. A row is never free for the owner that wrote it: a late copy of an
//! admission, whose run is over, is granted nothing.
//!
//! If an answer is lost on a connection, the owner asks once more on another, and is recognised. A name that may be ours after all is
//! released with a later call.

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

/// The longest time of a call, unless it is set.
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

    /// Deletes the rows that have ended, batch by batch, and says how many.
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

            /// Returns the statements that [`create_table`](Self::create_table) sends: [`SCHEMA`](Self::SCHEMA), for the table of
            /// this name.
            pub fn schema(&self) -> &str {
                &self.0.engine.schema
            }

            /// Deletes all rows that have ended more than 90 seconds ago, batch by batch, and says how many. Rows that another
            /// transaction has locked stay. Admissions delete some by themselves: this is for a time of day when the server has
            /// nothing else to do.
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
