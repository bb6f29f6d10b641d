//! One connection to a MySQL server, and the statements that are sent on it.

use std::io;

use mysql_async::prelude::{Protocol, Queryable};
use mysql_async::{Conn, OptsBuilder, QueryResult, Row as Found, Value};

use super::address::Address;
use super::health;
use super::server_error::failed;
use crate::store::remote::driver_runtime::DriverRuntime;
use crate::store::remote::engine::ServerConnection;
use crate::store::remote::failure::{Failure, RefusalKind};
use crate::store::remote::server_builder::Target;
use crate::store::sql::session::{Session, lock_timeout};
use crate::store::sql::statements::{Call, Dialect, PLACES, TextRow, texts};
use crate::time::clock::moment::Moment;

/// What the statements rely on, whatever the server's defaults are: that a commit begins nothing, that one assignment sees
/// those before it, and that all rows are found. It waits for locks for 50 seconds and a day by itself.
const SESSION: &str = "SET autocommit = 1, completion_type = 'NO_CHAIN', sql_mode = 'STRICT_ALL_TABLES', \
                       sql_select_limit = 18446744073709551615, sql_safe_updates = 0";

/// How many looks are not prepared: to prepare one is a round trip of its own, which is saved again by many looks only.
const LOOKS_AS_TEXT: u8 = 8;

/// The server has no room for another prepared statement.
const TOO_MANY_PREPARED: &str = "1461";

#[cfg(feature = "mysql-tls")]
const NO_PROVIDER: &str = "TLS to a mysql server needs the process's default provider of rustls, and none is installed: call \
                           rustls::crypto::ring::default_provider().install_default() when the program starts";

pub(super) struct Connection {
    /// Gone when it was left in words.
    conn: Option<Conn>,
    /// How many looks were asked for.
    looks: u8,
    runtime: DriverRuntime,
}

impl ServerConnection for Connection {
    type Address = Address;

    fn open(target: &Target<Address>, until: Moment) -> Result<Self, Failure> {
        let runtime = DriverRuntime::new().map_err(Failure::not_asked)?;
        let wait = lock_timeout(target.timeout).as_secs().max(1); // The server counts them in seconds.
        let session = format!("{SESSION}, innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}");
        let options = OptsBuilder::from_opts(target.address.options.clone()).init(vec![session]);
        #[cfg(feature = "mysql-tls")]
        let options = encrypted(options, target).map_err(Failure::not_asked)?;
        let connected = runtime.until(until, Conn::new(options)).map_err(Failure::not_asked)?;
        let conn = connected.map_err(|error| failed(error).undone().while_connecting("max_connections"))?;
        Ok(Self { conn: Some(conn), looks: 0, runtime })
    }

    /// One that the server has ended is known when it is asked, and costs another.
    fn is_closed(&mut self) -> bool {
        self.conn.is_none()
    }
}

impl Session for Connection {
    const DIALECT: Dialect = Dialect {
        kind: "mysql",
        store: "MysqlMutex",
        quote: '`',
        mark: "",
        schema: include_str!("statements/schema.sql"),
        texts: texts!(),
        warnings: health::warnings,
        no_table: "1146",
        other_columns: &["1054", "1364"],
    };

    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure> {
        self.ask(until, async |conn| rows(conn.query_iter(statements).await?).await)
    }

    /// Only one statement can be prepared, which is a look.
    fn call(&mut self, call: &Call, until: Moment) -> Result<Vec<TextRow>, Failure> {
        if call.statements.contains(';') || call.values.iter().len() > PLACES {
            return self.query(&call.as_text(), until);
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks > LOOKS_AS_TEXT {
            let values: Vec<Value> = call.values.iter().map(|value| Value::from(value.as_str())).collect();
            let statement = call.with(|_| "?".to_owned());
            let answer = self.ask(until, async |conn| rows(conn.exec_iter(statement, values).await?).await);
            if !answer.as_ref().is_err_and(|failure| failure.code() == Some(TOO_MANY_PREPARED)) {
                return answer;
            }
            self.looks = 0;
        }
        self.query(&call.as_text(), until)
    }
}

impl Connection {
    fn ask(
        &mut self,
        until: Moment,
        ask: impl AsyncFnOnce(&mut Conn) -> mysql_async::Result<Vec<TextRow>>,
    ) -> Result<Vec<TextRow>, Failure> {
        let Some(conn) = &mut self.conn else { return Err(Failure::not_asked(io::ErrorKind::NotConnected.into())) };
        let answered = self.runtime.until(until, ask(conn)).map_err(Failure::unanswered)?;
        answered.map_err(failed).or_else(|failure| {
            // Else the server goes on with nothing, or is not heard any more, and what it has done is not known.
            if !matches!(failure.refusal_kind(), Some(RefusalKind::RetryAtOnce | RefusalKind::Locked)) {
                return Err(failure);
            }
            // What it had begun is still open, and has what it has locked.
            let undone = self.runtime.until(until, conn.query_drop("ROLLBACK")).map_err(Failure::not_asked)?;
            Err(undone.map_or_else(|error| failed(error).undone(), |()| failure))
        })
    }
}

/// The same options; with encryption, if the URL asks for it.
#[cfg(feature = "mysql-tls")]
fn encrypted(options: OptsBuilder, target: &Target<Address>) -> io::Result<OptsBuilder> {
    if !target.address.is_encrypted {
        return Ok(options);
    }
    target.tls.config()?; // What is wrong with a certificate is said in the same words as for the other stores.
    // The driver takes the provider of the process, and would install one where there is none. That is for the program to do.
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

/// The rows of all statements, one behind the other.
async fn rows<P: Protocol>(mut answer: QueryResult<'_, 'static, P>) -> mysql_async::Result<Vec<TextRow>> {
    let mut rows = Vec::new();
    loop {
        // Asked once more when there is nothing left: that tells the error of a statement which followed others.
        let was_empty = answer.is_empty();
        let found: Vec<Found> = answer.collect().await?;
        rows.extend(found.iter().map(|row| (0..row.len()).map(|at| text(row.as_ref(at))).collect::<TextRow>()));
        if was_empty {
            return Ok(rows);
        }
    }
}

/// All is sent as text, but for the numbers of a prepared statement.
fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::Bytes(bytes)) => str::from_utf8(bytes).unwrap_or_default().to_owned(),
        Some(Value::Int(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// A server notes connections that it loses, so that this one is left in words, if the server hears them at once.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.runtime.leave(conn.disconnect());
        }
    }
}
