//! `PostgresMutex`: a store in a table of a PostgreSQL server. [`sql`](super::sql) describes how the table is used.

use std::sync::Arc;

use super::sql::{DEFAULT_TIMEOUT, SqlServer, TIMEOUTS, engine::SqlEngine, table_methods, table_names::TABLE};
use crate::base::error::InvalidOptions;
use crate::store::{event_mutex::delegate::delegate, server::server_builder::server_builder};

mod address;
mod connection;
mod health;
mod plaintext_password;
mod server_error;

use address::Address;
use connection::Connection;

/// A store in a table of PostgreSQL 12 or newer, for all processes that reach this table. The store supports all
/// methods of [`EventMutex`](crate::EventMutex) except [`lifeline`](crate::EventMutex::lifeline). Its tests run on
/// PostgreSQL 15.
///
/// The store connects at the first call, so a tick without a due event opens no connection. The store can be used
/// inside an asynchronous runtime: another thread then makes the call, and the calling thread waits for the answer.
///
/// # The table
///
/// Create the table with [`create_table`](Self::create_table), or with [`SCHEMA`](Self::SCHEMA) in a migration of
/// yours. If the table is missing, or has other columns, the first error says what to run. A table without the column
/// `v1` has another format, and is refused.
///
/// ```sql
#[doc = include_str!("postgres/statements/schema.sql")]
/// ```
///
/// | name | row |
/// | --- | --- |
/// | `lease/reports` | the lease of `reports` |
/// | `claim/reports/reports/2026-03-01T02:30:00Z` | the run that took this occurrence of the event `reports` |
/// | `claim/warehouse/import/2026-03-01T02:30:00Z` | the run that took this occurrence of `import`, an event that uses the mutex `warehouse` |
/// | `permit/reports/reports/day@2026-03-01` | the run that took the permit for this [period](crate::Period) |
/// | `mark/reports/reports/seen…` | the time since which an event that [catches up](crate::Event::catch_up) is known |
/// | `mark/shop/shop/paused` | the [pause](crate::Schedule::pause) of a schedule |
/// | `advisory-key` | a secret for the advisory locks, in the column `owner` |
///
/// In a name, `%` and `/` are written as `%25` and `%2F`. Spaces, quotes, braces, backslashes, and bytes that are not
/// plain ASCII are written as `%XX`, too. A name of more than 500 characters is cut: it then ends in `%~` and a hash of
/// the whole name. [`held`](crate::EventMutex::held) does not list leases with cut names. This query shows the names
/// that are held now:
///
/// ```sql
/// SELECT name, host, pid, acquired_at, expires_at FROM soloist_mutexes
/// WHERE expires_at > now() AND NOT released;
/// ```
///
/// To free a name by hand, call [`break_lease`](crate::EventMutex::break_lease), or run
/// `UPDATE soloist_mutexes SET released = true, expires_at = now() WHERE name = 'lease/reports'`. The holder notices
/// the loss of its lease at its next renewal.
///
/// The user in the URL needs only `SELECT, INSERT, UPDATE, DELETE` on the table. For a [log of
/// runs](crate::Schedule::with_run_log), it needs these rights on the second table, too. `create_table` also needs
/// `CREATE` on the schema. If the table exists already, `create_table` must be called by the table's owner.
///
/// If the [name](PostgresMutexBuilder::table) has no schema, the table is the first of this name in the user's search
/// path. The path is read when a connection is made, which takes one round trip. Nothing else depends on the search
/// path: operators, functions and types are the server's own, even if other users have made some with equal names. A
/// table that belongs to a stranger, or has a trigger, can run code of other users with the rights of this user. So
/// `create_table` refuses such a table, and [`check`](crate::EventMutex::check) warns of it. A stranger is a user who
/// owns neither the database nor the schema, is no superuser, and is not the user in the URL.
///
/// The second table has the [log of runs](crate::Schedule::with_run_log): a row for each run in the log. The name of
/// the second table is the name of the first, with `_runs` at the end. No admission reads the second table.
///
/// # What it costs
///
/// | | round trips | transactions that write |
/// | --- | --- | --- |
/// | an admission that is granted, of up to a hundred events | 2, and 1 for a clean-up | 1 |
/// | an admission that is refused | 1 | 0 |
/// | a release, of up to a hundred leases | 1 | 1 |
/// | a renewal of all leases that have equal terms | 2 | 1 |
/// | a release with a minimum hold | 2 | 1 |
/// | `exists`, `held` | 1 | 0 |
/// | `break_lease` | 2 | 1 |
///
/// If the server's clock was set back, an admission may find a lease that is to end later than one term from now. The
/// admission then takes two more round trips and one more commit. An admission that loses the race between its read and
/// its write reads again, which costs two more round trips. The lost race writes nothing, and causes no error in the
/// server's log.
///
/// Admissions use transaction-level advisory locks (`pg_advisory_xact_lock`). The keys of the locks are hashes of names
/// and of a secret in the table. These are the locks:
///
/// - If several admissions ask for one name at the same moment, they wait in a queue for the lock of this name.
/// - All admissions that an [excluding](crate::store::Admission::unless) name can refuse share the lock of this name.
/// - All admissions share one more lock. An admission of more than 50 names takes only this lock, and does not share
///   it: it waits for all other admissions.
///
/// No setting outlasts its transaction. So the store also works with a pooler that gives each transaction another
/// session.
///
/// An admission that has written one row also cleans up after its commit in one of eight cases, in one more round trip
/// and one more transaction. An admission of two rows cleans up in two of eight cases, and an admission of eight rows
/// always. The clean-up deletes rows that ended more than 90 seconds ago: at most 16, or twice as many as the admission
/// has written. Rows that another transaction has locked stay. If the clean-up fails, the admission stays granted.
/// [`purge`](Self::purge) deletes all ended rows at once.
///
/// # What it promises, and what the server does not
///
/// Terms are measured on the server's clock. The lease of a killed process stays until its term ends.
///
/// A name that was released, or that [`break_lease`](crate::EventMutex::break_lease) freed, stays free even if the
/// server's clock is set to another time, because the row records the release. If the clock is set
///
/// - **back**, the lease of a killed process ends one term after the next admission that asks for it. A claim ends in
///   the same way, and so does the minimum hold of [`hold_at_least`](crate::Event::hold_at_least). If such a lease
///   blocks an admission, the report says that the holder's `since` lies in the future, and the skip [counts as a
///   failure](crate::SkipReason::is_failure). If such a claim blocks an admission, the report says nothing special.
///   [`check`](crate::EventMutex::check) warns of such a clock. A pause lasts until the server's clock shows the end of
///   the pause.
/// - **forward**, leases and claims end early. A run is then cancelled at its next renewal. An occurrence may run
///   twice, the second time with a higher [fencing token](crate::FencingToken).
///
/// If `synchronous_commit` is off, a server that crashes can lose the last grants. A failover to a replica that was
/// behind can also lose grants. A second holder then gets a higher [fencing token](crate::FencingToken).
/// [`check`](crate::EventMutex::check) warns of a wrong table, of a missing right, and of a server that is too old or
/// takes no writes, but not of this setting.
///
/// A call takes four seconds at most, or the [`timeout`](PostgresMutexBuilder::timeout) that is set. This time includes
/// the look-up of the host and the handshake. [`break_lease`](crate::EventMutex::break_lease) makes two calls. If
/// another open transaction has locked the row of a name, the call waits for a quarter of its time. Then the call
/// fails, but only for this name.
///
/// If an answer is lost, the request is sent once more on a new connection. If it stays unknown whether a name was
/// granted, a later call of this process releases the name first, and spends at most a quarter of its time on that. If
/// the last handle of the store is dropped, such a release is tried once more. If a process ends before it gets an
/// answer, its lease and its claim stay until their terms end.
///
/// If the server has no room for another connection, is being started, or refuses connections, the call is retried
/// after short random pauses, until its time limit.
///
/// Clones are cheap, and share their connections: at most eight idle connections, which are closed about a second after
/// their last use. Concurrent calls open as many more connections as they need. A forked child process opens its own
/// connections.
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
    /// The statements that create the tables, for users who keep their own migrations. They do not change tables that
    /// exist already.
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
    /// | `postgres://USER:PASSWORD@HOST[:PORT]/DATABASE` | over TCP; port 5432. `postgresql://…` is another spelling |
    /// | `…?sslmode=require` | over TCP with TLS; needs the feature `postgres-tls`. The certificate, and the name of the host in it, are checked |
    /// | `postgres://USER@%2Fvar%2Frun%2Fpostgresql/DATABASE` | over a socket in this directory of this host |
    /// | `…?table=app.mutexes&timeout=2s` | with these options of the [builder](PostgresMutexBuilder) |
    /// | `postgres://USER:PASSWORD@HOST,HOST/DATABASE?target_session_attrs=read-write` | the first of these hosts that takes writes |
    ///
    /// Without TLS, the store sends no password in plain text to a server on another host. If such a server asks for
    /// the password in plain text, the call fails. There are two possible causes: the server's `pg_hba.conf` has the
    /// method `password`, or an impostor answers in the server's place. With the methods `scram-sha-256` and `md5`, no
    /// password is sent in plain text. A server is on this host if the URL names only sockets, `localhost` and loopback
    /// addresses.
    ///
    /// Other options go to the driver, for example `application_name`, `options` and `keepalives`. The URL can't have
    /// `connect_timeout`, because `timeout` limits the whole call, and is divided among the hosts.
    ///
    /// # Errors
    ///
    /// The URL has none of these forms. No error message shows the user or the password in the URL.
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

table_methods!(PostgresMutex);

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
    pub struct PostgresMutexBuilder(Address) of PostgresMutex on SqlEngine with "postgres-tls";

    /// Sets the table: 1 to 48 of a-z, 0-9 and _. The first character is not a digit. The name of the table's schema
    /// can precede it, as in `app.mutexes`. The default is the table in the URL, or `soloist_mutexes`. Programs with
    /// different tables don't see each other's leases, as with different prefixes on Redis.
    #[doc(alias = "prefix")]
    table: TABLE;

    /// Sets the longest time of a call: 100 milliseconds to a minute. The default is the timeout in the URL, or four
    /// seconds. The time includes the look-up of the host, the connection, the TLS handshake, the login, and a second
    /// attempt.
    timeout: DEFAULT_TIMEOUT, in TIMEOUTS;
}

delegate!(impl EventMutex for PostgresMutex, |this| &*this.0);
