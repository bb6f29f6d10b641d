//! The mutexes in a table, on any kind of SQL server. The stores differ in how they connect and in their statements.
//!
//! Scope: the fleet that is connected to the server. Clock: the server's. A crash leaves a lease for the rest of its term
//! at most, and a claim until it expires.
//!
//! Each name is a row of one table, which stays when it has ended, until it is taken over or cleaned away. A row that was
//! released says so, and stays free when the server's clock is set back. A row says its term, too: a gate that finds one
//! held for longer than that lets it end one term later. Both columns name the token that they are about, because earlier
//! versions take a row over and leave them as they are.
//!
//! An admission looks at its rows first, and locks nothing; whoever loses has written nothing. What is free is written in one
//! transaction, all names of all admissions, in their order: each row is inserted, or takes the place of one that has ended
//! and has a lower token. Whoever wrote none of them was beaten, and looks again. Whoever wrote some and not others must not
//! commit: before that, the statements try to insert a second time each row that is not as we asked for it, which a primary
//! key refuses. So nobody who lost commits anything, whatever the isolation level is, and no count of affected rows is relied
//! on. On PostgreSQL those who ask for the same names queue, so that they are beaten without an error.
//!
//! The look reads the names that exclude an admission, too. The transaction reads them again, and commits nothing if one is
//! held: on MySQL with locks, after its rows are written; on PostgreSQL in the queue, where it shares their place.
//!
//! Tokens are the larger of the server's time in microseconds and one more than the highest in the table; the row that has
//! that is never cleaned away.
//!
//! An admission names a window of the server's time, in which somebody waits for its answer; outside it commits nothing.
//! An answer that is lost on a connection is asked for once more on another by the same owner, who is known again. What may
//! be ours after all is given back as soon as the server answers.

use super::remote::server::Server;
use super::remote::server_mutex::ServerMutex;
use crate::base::error::MutexError;

mod admission_plan;
mod clean_up;
pub(crate) mod driver_runtime;
mod mutex_table;
pub(crate) mod options;
mod row_key;
pub(crate) mod session;
mod snapshot;
pub(crate) mod statements;
mod table_client;

use mutex_table::MutexTable;
use options::TableOptions;
use session::Session;
use table_client::TableClient;

/// The mutexes in a table, on any kind of SQL server.
pub(crate) type SqlMutex<S> = ServerMutex<TableClient<S>>;

impl<S: Session> SqlMutex<S> {
    pub(super) fn of_table(target: S::Target, options: TableOptions) -> Self {
        Self::new(TableClient::new(MutexTable::new(Server::new(target, options.timeout), options.table)))
    }

    /// The statements that make the table.
    pub(super) fn schema(&self) -> &str {
        &self.backend.table.statements.schema
    }

    pub(super) fn create_table(&self) -> Result<(), MutexError> {
        let table = &self.backend.table;
        let made = table.ask_for(&table.statements.create.with(&[]));
        made.map(drop).map_err(|failure| self.backend.error_of_table("create", failure))
    }

    /// Deletes the rows that have ended, batch by batch, and says how many.
    pub(super) fn purge(&self) -> Result<u64, MutexError> {
        let mut purged = 0;
        loop {
            let deleted = self.backend.table.clean_up();
            let deleted = deleted.map_err(|failure| self.backend.error_of_table("purge", failure))?;
            purged += deleted;
            if deleted < clean_up::BATCH {
                return Ok(purged);
            }
        }
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

            /// Makes the table, if there is none of this name, and adds the columns that one of an earlier version lacks.
            /// Any number of processes may do so at once. Where no column is missing, the table is not altered.
            ///
            /// # Errors
            ///
            /// The server did not answer, or the user may not.
            pub fn create_table(&self) -> Result<(), $crate::base::error::MutexError> {
                self.0.create_table()
            }

            /// The statements that [`create_table`](Self::create_table) sends: [`SCHEMA`](Self::SCHEMA), for the table of
            /// this name.
            pub fn schema(&self) -> &str {
                self.0.schema()
            }

            /// Deletes all rows that have ended more than 90 seconds ago, batch by batch, and says how many. The store
            /// does so now and then by itself: this is for a time of day when the server has nothing else to do.
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
