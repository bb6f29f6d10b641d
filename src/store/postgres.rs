//! `PostgresMutex`: mutexes in a table of a PostgreSQL server. [`sql`](super::sql) says how the table is used.

use std::sync::Arc;

use super::sql::{DEFAULT_TIMEOUT, SqlServer, table_methods, table_names::TABLE};
use crate::base::error::InvalidOptions;
use crate::store::{event_mutex::delegate::delegate, server::server_builder::server_builder};

mod address;
mod connection;
mod health;
mod plaintext_password;
mod server_error;

use address::Address;
use connection::Connection;

/// Mutexes between all processes that reach one table in PostgreSQL 12 or newer. It supports all methods of
/// [`EventMutex`](crate::EventMutex), except that it has no [lifelines](crate::EventMutex::lifeline). Its tests run on
/// PostgreSQL 15.
///
/// The store connects at the first call, so a tick without a due event opens no connection. It may be used inside an
/// asynchronous runtime: each call is then made from another thread, and the calling thread waits for the answer.
///
/// # The table
///
/// Make the table with [`create_table`](Self::create_table), or with [`SCHEMA`](Self::SCHEMA) in a migration of yours.
/// If the table is missing, or has other columns, the first error says what to run. A table of another format lacks the
/// column `v1`.
///
/// ```sql
#[doc = include_str!("postgres/statements/schema.sql")]
/// ```
///
/// | name | row |
/// | --- | --- |
/// | `lease/reports` | the lease of `reports` |
/// | `claim/reports/reports/2026-03-01T02:30:00Z` | who ran this occurrence of the event `reports` |
/// | `claim/warehouse/import/2026-03-01T02:30:00Z` | the same for `import`, whose mutex is called `warehouse` |
/// | `permit/reports/reports/day@2026-03-01` | who ran it in this [period](crate::Period) |
/// | `mark/reports/reports/seen…` | since when an event is known that [catches up](crate::Event::catch_up) |
/// | `mark/shop/shop/paused` | that a schedule is [paused](crate::Schedule::pause) |
/// | `advisory-key` | the secret of the advisory locks, in `owner` |
///
/// In a name, `%` and `/` stand as `%25` and `%2F`, and `%XX` for each byte that is not plain ASCII, and for spaces, quotes, braces
/// and backslashes. One of more than 500 characters is cut, and ends in `%~` and an id that is made of all of it.
/// [`held`](crate::EventMutex::held) leaves the leases with cut names out of its lists. What is held now:
///
/// ```sql
/// SELECT name, host, pid, acquired_at, expires_at FROM soloist_mutexes
/// WHERE expires_at > now() AND NOT released;
/// ```
///
/// To free a name by hand, call [`break_lease`](crate::EventMutex::break_lease), or run `UPDATE soloist_mutexes SET
/// released = true, expires_at = now() WHERE name = 'lease/reports'`. The holder learns of this at its next renewal.
///
/// The store's user needs only `SELECT, INSERT, UPDATE, DELETE` on the table. For a [log of
/// runs](crate::Schedule::with_run_log), the user also needs these rights on the second table. For `create_table`, the
/// user also needs `CREATE` on the schema, and must own the table if it exists already.
///
/// If the [name](PostgresMutexBuilder::table) has no schema, the table is the first of this name in the user's search
/// path. The path is read when a connection is made, which takes one round trip. Nothing else depends on the search
/// path: operators, functions and types are the server's own, even if other users have made others with their names. A
/// table that belongs to a stranger, or has a trigger, can run code of other users with the rights of this user. So
/// `create_table` refuses such a table, and [`check`](crate::EventMutex::check) warns of it. A stranger is a user who
/// owns neither the database nor the schema, is no superuser, and is not this user.
///
/// The second table has the [log of runs](crate::Schedule::with_run_log): a row for each run that is kept. Its name is
/// that of the first table with `_runs` behind it. No admission reads it.
///
/// # What it costs
///
/// | | round trips | transactions that write |
/// | --- | --- | --- |
/// | an admission that is granted, of up to a hundred events | 2, and 1 for a clean-up | 1 |
/// | an admission that is refused | 1 | 0 |
/// | a release, of up to a hundred leases | 1 | 1 |
/// | a renewal of all leases of a term | 1 | 1 |
/// | `exists`, `held` | 1 | 0 |
/// | `break_lease` | 2 | 1 |
///
/// An admission that finds a lease held for longer than its term, after the server's clock was set back, takes two
/// round trips and a commit more. Admissions that ask for one name at the same moment queue for a transaction-level
/// advisory lock (`pg_advisory_xact_lock`). The key of the lock is a hash of the name and of a secret in the table.
/// Admissions with one [excluding](crate::store::Admission::unless) name share the lock of this name. All admissions
/// share one more such lock. An admission of more than 50 names takes only this lock, alone, and waits for all others.
/// One of the admissions that ask for one name has the turn to write, by another such lock. The others wait for it and
/// then read again, all at once. An admission that loses the race between its read and its write reads again: two round
/// trips more. It writes nothing, and no error appears in the server's log.
///
/// No setting outlasts its transaction, so that a pooler may give each transaction another session.
///
/// One admission for each eight rows that a process writes deletes twice as many rows as it wrote since its last clean-up, of those
/// that ended 90 seconds ago: after its commit, in a round trip and a transaction of its own. Rows that another transaction has locked
/// stay. If the clean-up fails, the admission stands. The count of a process begins at random, so that one in eight processes that
/// write one row cleans up.
/// [`purge`](Self::purge) deletes all of them at once.
///
/// # What it promises, and what the server does not
///
/// Terms are measured on the server's clock. A killed process leaves its lease until the term ends.
///
/// A released name stays free however the server's clock is set, and so does a name that
/// [`break_lease`](crate::EventMutex::break_lease) freed, because the row records the release. If the clock is set
///
/// - **back**, the lease of a killed process ends one term after the next admission that asks for it. So do a claim and
///   the minimum hold of [`hold_at_least`](crate::Event::hold_at_least). If such a lease blocks an admission, the
///   report says that the holder's `since` lies in the future, and [the process fails](crate::SkipReason::is_failure);
///   a claim is reported as usual. [`check`](crate::EventMutex::check) warns of such a clock. A pause lasts until the
///   server's clock shows its end.
/// - **forward**, leases and claims end early: a run is cancelled at its next renewal, and an occurrence may run twice,
///   the second time with a higher [fencing token](crate::FencingToken).
///
/// If `synchronous_commit` is off, a server that crashes can lose the last grants. So can a failover to a replica that
/// was behind. A second holder then gets a higher [fencing token](crate::FencingToken).
/// [`check`](crate::EventMutex::check) looks at the server and the table.
///
/// A call takes four seconds at most, or the [`timeout`](PostgresMutexBuilder::timeout) that is set. This includes the
/// look-up of the host and the handshake; [`break_lease`](crate::EventMutex::break_lease) makes two calls. If another
/// open transaction has locked a row, the call waits a quarter of that time for it. After that, this is an error of the
/// name alone. If an answer is lost, the request is sent once more on a new connection. A name that this process may
/// then hold without knowing it is released with its next call. The call takes a quarter of its time for this at most.
/// The last handle tries once more when it is dropped. If a process ends without an answer, its lease and its claim
/// stay until their terms end.
///
/// If the server has no room for another connection, is being started, or refuses connections, the call is retried
/// after short random pauses, until its time limit.
///
/// Clones are cheap. Together they keep up to eight idle connections, each for half a second to a second after its last
/// use. Concurrent calls open as many more connections as they need. A child process that `fork` makes opens
/// connections of its own.
///
/// ```no_run
/// use soloist::{Event, PostgresMutex, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = PostgresMutex::new("postgres://app:secret@db.internal/app")?;
/// mutex.create_table()?;
/// let schedule = Schedule::new(mutex);
/// schedule.add(Event::call("reports", |_| println!("once in the whole fleet")).hourly().on_one_server())?;
/// schedule.run_due(chrono::Utc::now());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresMutex(Arc<SqlServer<Connection>>);

impl PostgresMutex {
    /// The statements that make the table, for people who keep their own migrations. If the table exists already, they
    /// do nothing.
    ///
    /// ```
    /// assert!(soloist::PostgresMutex::SCHEMA.contains("CREATE TABLE IF NOT EXISTS soloist_mutexes"));
    /// ```
    pub const SCHEMA: &'static str = include_str!("postgres/statements/schema.sql");

    /// Returns a store in a table of the URL's database. The table is `soloist_mutexes`, unless the URL names another.
    /// The store connects at the first call.
    ///
    /// | URL | server |
    /// | --- | --- |
    /// | `postgres://USER:PASSWORD@HOST[:PORT]/DATABASE` | over TCP; port 5432. `postgresql://…` means the same |
    /// | `…?sslmode=require` | the same over TLS, with the feature `postgres-tls`; the certificate and the host's name in it are looked at |
    /// | `postgres://USER@%2Fvar%2Frun%2Fpostgresql/DATABASE` | over a socket in this directory of this host |
    /// | `…?table=app.mutexes&timeout=2s` | with these options of the [builder](PostgresMutexBuilder) |
    /// | `postgres://USER:PASSWORD@HOST,HOST/DATABASE?target_session_attrs=read-write` | the first of these hosts that takes writes |
    ///
    /// Without TLS, a server that is not on this host gets no password in plain text. If it asks for one, because of
    /// `password` in its `pg_hba.conf` or because it is an impostor, the call fails. `scram-sha-256` and `md5` send no
    /// password in plain text. A server is on this host if the URL names a socket, `localhost` or a loopback address,
    /// and no other host beside it.
    ///
    /// Other options are those of the driver: `application_name`, `options`, `keepalives` and the like.
    ///
    /// # Errors
    ///
    /// The URL has none of these forms. No message shows its user or its password.
    ///
    /// ```
    /// use soloist::PostgresMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = PostgresMutex::new("postgres://app:secret@127.0.0.1/app")?;
    /// assert_eq!(
    ///     format!("{mutex:?}"),
    ///     r#"PostgresMutex { server: "postgres://127.0.0.1:5432/app", table: "soloist_mutexes" }"#
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(url: &str) -> Result<Self, InvalidOptions> {
        Self::builder(url).build()
    }
}

table_methods!(PostgresMutex, PostgresMutexBuilder);

server_builder! {
    /// Options of a [`PostgresMutex`]; [`build`](Self::build) checks them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::PostgresMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = PostgresMutex::builder("postgres://app:secret@127.0.0.1/app").table("app.mutexes");
    /// let mutex = builder.timeout(Duration::from_secs(2)).build()?;
    /// assert!(format!("{mutex:?}").contains("app.mutexes"));
    ///
    /// let error = PostgresMutex::builder("postgres://app:secret@127.0.0.1/app").table("Billing mutexes").build().unwrap_err();
    /// assert!(error.to_string().starts_with("the name of a table for mutexes has to be 1 to 48 of a-z, 0-9 and _"));
    /// # Ok(())
    /// # }
    /// ```
    pub struct PostgresMutexBuilder(Address) of PostgresMutex with "postgres-tls";

    /// Sets the table: 1 to 48 of a-z, 0-9 and _, without a digit first. The name of its schema may stand before it, as
    /// in `app.mutexes`. The default is the table in the URL, or `soloist_mutexes`. Programs with different tables
    /// don't see each other's leases.
    table: TABLE;

    /// Sets the longest time of a call: 100 milliseconds to a minute. The default is the timeout in the URL, or four
    /// seconds. The time includes the look-up of the host, the connecting, the TLS handshake, the login, and a second
    /// attempt.
    timeout: DEFAULT_TIMEOUT;
}

delegate!(impl EventMutex for PostgresMutex, |this| &*this.0);
