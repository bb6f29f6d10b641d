//! The mutexes in a table, on any kind of SQL server. The stores differ in how they connect and in their statements.
//!
//! Scope: the fleet that is connected to the server. Clock: the server's. A crash leaves a lease for the rest of its term
//! at most, and a claim until it expires.
//!
//! Each name is a row of one table, which stays when it has ended, until it is taken over or cleaned away. A row that was
//! released says so, and stays free when the server's clock is set back. A row says its term, too: a gate that finds one
//! held for longer than that lets it end one term later.
//!
//! The column `v1` says the format of a table. A statement names it, so that the server refuses a table without it.
//!
//! An admission looks at its rows first, and locks nothing; whoever loses has written nothing. What is free is written in one
//! transaction, all names of all admissions, in their order: each row is inserted, or takes the place of one that has ended
//! and has a lower token. Whoever wrote none of them was beaten, and looks again. Whoever wrote some and not others must not
//! commit: before that, the statements try to insert a second time each row that is not as we asked for it, which a primary
//! key refuses. So nobody who lost commits anything, whatever the isolation level is, and no count of affected rows is relied
//! on. On PostgreSQL those who ask for the same names queue, so that they are beaten without an error; and one of them has the
//! turn. The others write nothing, and need not be let in one after another.
//!
//! The look reads the names that exclude an admission, too. The transaction reads them again, and commits nothing if one is
//! held: on MySQL with locks, after its rows are written; on PostgreSQL in the queue, where it shares their place. There, a
//! transaction of more than 50 names writes while no other one is admitted.
//!
//! Tokens are the larger of the server's time in microseconds and one more than the highest in the table, when it is written:
//! a look, which most lose by, does not search for it. The row that has the highest is never cleaned away.
//!
//! A granted admission deletes rows that have ended, behind its commit, in the same round trip: twice as many as it writes, so that
//! the table shrinks.
//!
//! An admission names a window of the server's time, in which somebody waits for its answer; outside it commits nothing. So do a
//! renewal and a minimum hold. A row is never free for the owner that wrote it: a late copy of an admission, whose run is over,
//! is granted nothing.
//! An answer that is lost on a connection is asked for once more on another by the same owner, who is known again. What may
//! be ours after all is released with a later call.

use std::time::Duration;

use super::remote::engine::Attempt;
use super::remote::failure::Failure;
use super::remote::server_builder::ServerOptions;
use super::remote::server_mutex::ServerMutex;
use crate::base::error::{InvalidOptions, MutexError};

mod admission_plan;
mod engine;
mod row_key;
mod run_rows;
pub(crate) mod session;
mod snapshot;
pub(crate) mod table_names;

use engine::{PURGED_AT_ONCE, SqlEngine, purge};
use session::Session;
use table_names::TableName;

/// The longest time that one call takes, unless it is set.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4);

/// The shortest and the longest time-out of a call. The longest leaves a row that has ended where it is for longer than
/// that.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// The mutexes in a table, on any kind of SQL server.
pub(crate) type SqlMutex<S> = ServerMutex<SqlEngine<S>>;

impl<S: Session> SqlMutex<S> {
    pub(super) fn of_table(options: ServerOptions<S::Address>) -> Result<Self, InvalidOptions> {
        let target = options.check(TIMEOUTS)?;
        Ok(Self::new(SqlEngine::new(TableName::new(&target.namespace)?), target))
    }

    pub(super) fn create_table(&self) -> Result<(), MutexError> {
        self.ask_of_table("create", |attempt| self.engine().create_table(attempt))
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
        let table = self.engine().name.as_str();
        self.server().ask(ask).map_err(|failure| self.failed(format_args!("{verb} the table {table}"), failure))
    }
}

/// The methods that the public stores in a table have in common.
macro_rules! table_methods {
    ($store:ident, $builder:ident) => {
        impl $store {
            /// The same with options.
            pub fn builder(url: &str) -> $builder {
                $builder::new(url)
            }

            /// Makes the table, if there is none of this name. Any number of processes may do so at once. A table that is
            /// there is not altered.
            ///
            /// # Errors
            ///
            /// The server did not answer, the user may not, or the table that is there does not have these columns.
            pub fn create_table(&self) -> Result<(), $crate::base::error::MutexError> {
                self.0.create_table()
            }

            /// The statements that [`create_table`](Self::create_table) sends: [`SCHEMA`](Self::SCHEMA), for the table of
            /// this name.
            pub fn schema(&self) -> &str {
                &self.0.engine().schema
            }

            /// Deletes all rows that have ended more than 90 seconds ago, batch by batch, and says how many. Rows that another
            /// transaction has locked stay. Each admission deletes some by itself: this is for a time of day when the server has
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
            /// The mutexes; nothing is connected yet.
            ///
            /// # Errors
            ///
            /// The URL, the table's name, the time-out, or a certificate is not what it should be.
            pub fn build(self) -> Result<$store, InvalidOptions> {
                Ok($store($crate::store::sql::SqlMutex::of_table(self.options)?))
            }
        }
    };
}
pub(crate) use table_methods;
