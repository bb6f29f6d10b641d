//! One connection to a MySQL server, and the statements that are sent on it.

use std::io;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row as Found, Value};

use super::address::Address;
use super::health;
use super::server_error::failed;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::server::failure::Failure;
use crate::store::server::server_builder::Target;
use crate::store::sql::driver_runtime::DriverRuntime;
use crate::store::sql::session::{Session, TextRow, lock_timeout};
use crate::store::sql::table_names::Tables;
use crate::time::clock::moment::Moment;

/// The settings that the statements need. With them, a commit begins no new transaction, and an error does not become a
/// warning. An assignment of an `UPDATE` sees the assignments before it, and no limit hides rows.
const SESSION: &str = "SET autocommit = 1, completion_type = 'NO_CHAIN', sql_mode = 'STRICT_ALL_TABLES', \
                       sql_select_limit = 18446744073709551615, sql_safe_updates = 0";

/// The number of seconds after which the server ends a silent connection. A client that is stopped, or cut off, may have
/// left a transaction open, and its locks keep the holder of a lease from renewing it. A call sends its statements
/// without a pause, and an idle connection is closed after about a second.
const SILENT_FOR: u32 = 5;

/// Sets the isolation level, so that no read sees the rows of an admission that may be rolled back. The setting has a
/// statement of its own, because its variable has different names in MySQL and in MariaDB.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

#[cfg(feature = "mysql-tls")]
const NO_PROVIDER: &str = "TLS to a mysql server needs the process's default provider of rustls, and none is installed: call \
                           rustls::crypto::ring::default_provider().install_default() when the program starts";

pub(super) struct Connection {
    /// The driver's connection, or `None` after it was closed.
    conn: Option<Conn>,
    tables: Tables,
    runtime: DriverRuntime,
}

impl Session for Connection {
    type Address = Address;

    const QUOTE: char = '`';
    const SCHEMA: &'static str = include_str!("statements/schema.sql");
    const NOW: &'static str = "UTC_TIMESTAMP(6)";
    const EPOCH: &'static str = "TIMESTAMP '1970-01-01 00:00:00'";
    const TOKEN: &'static str = "@soloist_token";
    const LOOK: &'static str = include_str!("statements/look.sql");
    const SHORTEN: &'static str = include_str!("statements/shorten.sql");
    const ADMIT: &'static str = include_str!("statements/admit.sql");
    const END: &'static str = include_str!("statements/end.sql");
    /// `None`, because `END` also revokes the owner: `END` waits for an open transaction of the owner, and then marks
    /// the owner's row as released.
    const REVOKE: Option<&'static str> = None;
    const CLEAN_UP: &'static str = include_str!("statements/clean_up.sql");
    const HEALTH: &'static str = include_str!("statements/health.sql");
    /// Empty, because other users can't run code with the rights of this user: in MySQL, a trigger runs with the rights
    /// of the user who made the trigger.
    const STRANGERS: &'static str = "";
    const WARNINGS: fn(&[TextRow]) -> Vec<StoreWarning> = health::warnings;
    const LOOK_AT_RUNS: &'static str = include_str!("statements/look_at_runs.sql");
    const LOG_RUNS: &'static str = include_str!("statements/log_runs.sql");
    const COUNT_SKIPS: &'static str = include_str!("statements/count_skips.sql");

    fn open(target: &Target<Address>, until: Moment) -> Result<Self, Failure> {
        let runtime = DriverRuntime::new().map_err(Failure::not_asked)?;
        let wait = lock_timeout(target.timeout).as_secs().max(1); // The server takes whole seconds.
        let session = format!(
            "{SESSION}, innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}, wait_timeout = {SILENT_FOR}; {ISOLATION}"
        );
        let options = OptsBuilder::from_opts(target.address.options.clone()).init(vec![session]);
        #[cfg(feature = "mysql-tls")]
        let options = encrypted(options, target).map_err(Failure::not_asked)?;
        let refused = |failure: Failure| failure.while_connecting("max_connections");
        let connected = runtime.until(until, Conn::new(options));
        let connected = connected.map_err(|error| refused(Failure::not_asked(error)))?;
        let conn = connected.map_err(|error| refused(failed(error).undone()))?;
        Ok(Self { conn: Some(conn), tables: Tables::new(&target.namespace, Self::QUOTE, ""), runtime })
    }

    fn later(instant: &str, micros: &str) -> String {
        format!("{instant} + INTERVAL {micros} MICROSECOND")
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure> {
        let Some(conn) = &mut self.conn else { return Err(Failure::not_asked(io::ErrorKind::NotConnected.into())) };
        let answered = self.runtime.until(until, read(conn, statements)).map_err(Failure::unanswered)?;
        answered.map_err(failed).or_else(|failure| {
            if !failure.is_conflict() && !failure.is_of_one_name() {
                return Err(failure);
            }
            // After such an error, the transaction may still be open and keep its locks, so it must be rolled back.
            let undone = self.runtime.until(until, conn.query_drop("ROLLBACK")).map_err(Failure::not_asked)?;
            Err(undone.map_or_else(|error| failed(error).undone(), |()| failure))
        })
    }
}

/// Adds encryption, if the URL asks for it.
#[cfg(feature = "mysql-tls")]
fn encrypted(options: OptsBuilder, target: &Target<Address>) -> io::Result<OptsBuilder> {
    if !target.address.is_encrypted {
        return Ok(options);
    }
    target.tls.config()?; // Checks the certificates, with the error messages that all stores share.
    // If the process has no provider of cryptography, the driver would install one. Only the program itself should do
    // that.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, NO_PROVIDER));
    }
    let roots = target.tls.roots()?.iter().map(|root| root.to_vec().into()).collect();
    let mut tls = mysql_async::SslOpts::default().with_root_certs(roots).with_disable_built_in_roots(true);
    if let Some((chain, key)) = &target.tls.client {
        tls =
            tls.with_client_identity(Some(mysql_async::ClientIdentity::new(chain.clone().into(), key.clone().into())));
    }
    Ok(options.ssl_opts(tls))
}

/// Reads the rows of all statements, as text.
async fn read(conn: &mut Conn, statements: &str) -> mysql_async::Result<Vec<TextRow>> {
    let text = |value: Option<&Value>| match value {
        Some(Value::Bytes(bytes)) => str::from_utf8(bytes).unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    let mut answer = conn.query_iter(statements).await?;
    let mut rows = Vec::new();
    loop {
        // If a statement after the first has failed, `is_empty` returns `true`, and only the next `collect` returns the
        // error. So the loop calls `collect` once more when the answer is empty.
        let was_empty = answer.is_empty();
        let found: Vec<Found> = answer.collect().await?;
        rows.extend(found.iter().map(|row| (0..row.len()).map(|at| text(row.as_ref(at))).collect::<TextRow>()));
        if was_empty {
            return Ok(rows);
        }
    }
}

/// Ends the connection with a goodbye, because the server logs each connection that ends without a goodbye.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.runtime.leave(conn.disconnect());
        }
    }
}
