//! `MysqlMutex`: mutexes in a table of a MySQL or MariaDB server. [`sql`](super::sql) says how the table is used.

use std::sync::Arc;

use super::sql::{DEFAULT_TIMEOUT, SqlServer, table_methods, table_names::TABLE};
use crate::base::error::InvalidOptions;
use crate::store::{event_mutex::delegate::delegate, server::server_builder::server_builder};

mod address;
mod connection;
mod health;
mod server_error;

use address::Address;
use connection::Connection;

/// Mutexes between all processes that reach one table in MySQL 8.0 or newer, or in MariaDB 10.6 or newer. It can do
/// all that an [`EventMutex`](crate::EventMutex) can. Its tests run on MariaDB 10.11; the statements are those of MySQL too.
///
/// It connects at the first call: a tick without a due event opens no connection. It may be
/// used inside an asynchronous runtime, and blocks there as any task does; each call is then made from another thread.
///
/// # The table
///
/// [`create_table`](Self::create_table) makes it, or [`SCHEMA`](Self::SCHEMA) in a migration of yours. Where the table is
/// missing, or has other columns, the first error says what to run. A table of another format lacks the column `v1`.
///
/// ```sql
#[doc = include_str!("mysql/statements/schema.sql")]
/// ```
///
/// | name | row |
/// | --- | --- |
/// | `lease/reports` | the lease of `reports` |
/// | `claim/reports/reports/2026-03-01T02:30:00Z` | who ran this occurrence of the event `reports` |
/// | `claim/warehouse/import/2026-03-01T02:30:00Z` | the same for `import`, whose mutex is called `warehouse` |
/// | `permit/reports/reports/day@2026-03-01T00:00:00+01:00` | who ran it in this [period](crate::Period) |
/// | `mark/reports/reports/seen…` | since when an event is known that [catches up](crate::Event::catch_up) |
/// | `mark/shop/shop/paused` | that a schedule is [paused](crate::Schedule::pause) |
///
/// In a name, `%` and `/` stand as `%25` and `%2F`, and `%XX` for each byte that is not plain ASCII, and for spaces, quotes, braces
/// and backslashes. One of more than 500 characters is cut, and ends in `%~` and an id that is made of all of it.
/// [`held`](crate::EventMutex::held) leaves the leases with cut names out of its lists. What is held now:
///
/// ```sql
/// SELECT name, host, pid, acquired_at, expires_at FROM soloist_mutexes
/// WHERE expires_at > UTC_TIMESTAMP(6) AND NOT released;
/// ```
///
/// To free a name by hand, call [`break_lease`](crate::EventMutex::break_lease), or run `UPDATE soloist_mutexes SET
/// released = TRUE, expires_at = UTC_TIMESTAMP(6) WHERE name = 'lease/reports'`. Its holder is told at its next
/// renewal.
///
/// Its user needs `SELECT, INSERT, UPDATE, DELETE` on the table, and the same on the second one for a
/// [log of runs](crate::Schedule::with_run_log); and nothing else; for `create_table` also `CREATE` and
/// `INDEX`.
///
/// The second table has the [log of runs](crate::Schedule::with_run_log): a row for each run that is kept. It is called like the
/// first one, and `_runs`. No admission reads it.
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
/// An admission that finds a lease held for longer than its term, after the server's clock was set back, takes two round trips and a
/// commit more. An admission that is beaten between its look and its write looks again: two round trips more, and sometimes a
/// transaction that is undone. Those who ask for one name at the same moment wait for one another's transactions. With
/// a tenth of a second to the server, eight that ask four times a second each keep MariaDB busy for longer than the
/// time-out now and then, and one of them skips its event: `no answer within 4s`. Once a minute they are far from that.
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
/// A released name stays free whatever the server's clock does, and so does a name that
/// [`break_lease`](crate::EventMutex::break_lease) freed: the row records the release. If the clock is set
///
/// - **back**, the lease of a killed process ends one term after the next admission that asks for it. So do a claim and the
///   minimum hold of [`hold_at_least`](crate::Event::hold_at_least). If such a lease refuses an admission, the report says that the
///   holder's `since` lies in the future, and [the process fails](crate::SkipReason::is_failure); a claim is reported
///   as usual. [`check`](crate::EventMutex::check) warns. A pause lasts until the server's clock shows its end.
/// - **forward**, leases and claims end early: a run is cancelled at its next renewal, and an occurrence may run twice,
///   the second time with a higher [fencing token](crate::FencingToken).
///
/// With `innodb_flush_log_at_trx_commit` other than 1, a server whose host loses its power can forget what was granted
/// in the second before; so can a failover to a replica that was behind. A second holder then gets a higher [fencing
/// token](crate::FencingToken). [`check`](crate::EventMutex::check) looks at the server and the table.
///
/// A call takes four seconds at most, or what [`timeout`](MysqlMutexBuilder::timeout) says, the look-up of the host and
/// the handshake included; [`break_lease`](crate::EventMutex::break_lease) is two. A row that another open transaction has locked is
/// waited for a quarter of that, but a second at least, and then is an error of that name alone. If an answer is lost, it is
/// asked for once more on a new connection. What this process may then
/// hold without knowing it is released with its next call, which takes a quarter of its time for that at most; the last handle
/// tries once more when it goes. A process that ends without an answer leaves the lease to its term, and the claim.
///
/// If the server has no room for another connection, is being started, or refuses connections, the call asks again after
/// short random pauses, until its time limit.
///
/// A cheap handle. Its clones keep up to eight idle connections, each for half a second to a second after its last use. Calls that
/// are made at the same time open as many more as they need. A child process that `fork` makes opens its own.
///
/// ```no_run
/// use soloist::{Event, MysqlMutex, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MysqlMutex::new("mysql://app:secret@db.internal/app")?;
/// mutex.create_table()?;
/// let schedule = Schedule::new(mutex);
/// schedule.add(Event::call("reports", |_| println!("once in the whole fleet")).hourly().on_one_server())?;
/// schedule.run_due(chrono::Utc::now());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MysqlMutex(Arc<SqlServer<Connection>>);

impl MysqlMutex {
    /// The statements that make the table, for people who keep their own migrations. Where there is one, they do nothing.
    ///
    /// ```
    /// assert!(soloist::MysqlMutex::SCHEMA.contains("CREATE TABLE IF NOT EXISTS soloist_mutexes"));
    /// ```
    pub const SCHEMA: &'static str = include_str!("mysql/statements/schema.sql");

    /// Returns a store in a table of a URL's database, `soloist_mutexes` unless the URL names another, and connects at the first call.
    ///
    /// | URL | server |
    /// | --- | --- |
    /// | `mysql://USER:PASSWORD@HOST[:PORT]/DATABASE` | over TCP; port 3306. `mariadb://…` means the same |
    /// | `…?ssl-mode=REQUIRED` | the same over TLS, with the feature `mysql-tls`; the certificate and the host's name in it are looked at |
    /// | `…?socket=/run/mysqld/mysqld.sock` | over a socket of this host |
    /// | `…?table=app.mutexes&timeout=2s` | with these options of the [builder](MysqlMutexBuilder) |
    /// | `…?client_found_rows=true` | on a connection that counts rows as `CLIENT_FOUND_ROWS` says, which changes nothing |
    ///
    /// TLS is done by the default provider of `rustls` that the process has installed, because the driver takes no other. A
    /// program that uses it installs one when it starts: `rustls::crypto::ring::default_provider().install_default()`. Without
    /// one, each call is an error that says so. The program `soloist` has one.
    ///
    /// The driver sends no password in plain text without TLS. All other data can be read and changed on its way:
    /// [`check`](crate::EventMutex::check) warns of a server without TLS that is not on this host.
    ///
    /// # Errors
    ///
    /// The URL is none of these. No message shows its user or its password.
    ///
    /// ```
    /// use soloist::MysqlMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = MysqlMutex::new("mysql://app:secret@127.0.0.1/app")?;
    /// assert_eq!(
    ///     format!("{mutex:?}"),
    ///     r#"MysqlMutex { server: "mysql://127.0.0.1:3306/app", table: "soloist_mutexes" }"#
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(url: &str) -> Result<Self, InvalidOptions> {
        Self::builder(url).build()
    }
}

table_methods!(MysqlMutex, MysqlMutexBuilder);

server_builder! {
    /// Options of a [`MysqlMutex`]; [`build`](Self::build) checks them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::MysqlMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = MysqlMutex::builder("mysql://app:secret@127.0.0.1/app").table("app.mutexes");
    /// let mutex = builder.timeout(Duration::from_secs(2)).build()?;
    /// assert!(format!("{mutex:?}").contains("app.mutexes"));
    ///
    /// let error = MysqlMutex::builder("mysql://app:secret@127.0.0.1/app").table("Billing mutexes").build().unwrap_err();
    /// assert!(error.to_string().starts_with("the name of a table for mutexes has to be 1 to 48 of a-z, 0-9 and _"));
    /// # Ok(())
    /// # }
    /// ```
    pub struct MysqlMutexBuilder(Address) of MysqlMutex with "mysql-tls";

    /// The table: that of the URL, or `soloist_mutexes`, unless it is set. Programs with different tables don't see each other's leases. 1 to
    /// 48 of a-z, 0-9 and _, no digit first; the name of its database may stand before it, as in `app.mutexes`.
    table: TABLE;

    /// The longest time of a call: that of the URL, or four seconds, unless it is set; 100 milliseconds to a minute. It includes the
    /// look-up of the host, the connecting, the TLS handshake, the login, and a second attempt.
    ///
    /// The server waits for a row that another transaction has locked for a second at least. With less than four seconds
    /// for a call, that can be longer than the first attempt, and the error then concerns the store and not only the name.
    timeout: DEFAULT_TIMEOUT;
}

delegate!(impl EventMutex for MysqlMutex, |this| &*this.0);
