//! One connection to a PostgreSQL server, and the statements that are sent on it.

use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Socket};

use super::address::Address;
use super::health;
use super::plaintext_password::Plain;
use super::server_error::failed;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::server::attempts::shares;
use crate::store::server::failure::Failure;
use crate::store::server::server_builder::Target;
use crate::store::server::server_url::ServerAddress;
use crate::store::sql::driver_runtime::DriverRuntime;
use crate::store::sql::session::{Session, TextRow, lock_timeout};
use crate::store::sql::table_names::Tables;
use crate::time::clock::{Clock, moment::Moment};

pub(super) struct Connection {
    /// The client. It must be dropped before the transport: the drop of the transport waits for its task, and this task
    /// runs as long as the client exists.
    client: Client,
    transport: Transport,
    /// The settings with which each call begins. They last until the call's transaction ends. The timeouts limit how
    /// long the server waits. The isolation level lets each statement see all rows that are committed: a call that lost
    /// a race finds the winner's row, and does not fail. The search path makes all operators, functions and types the
    /// server's own, even if another user has made others with equal names.
    settings: String,
    tables: Tables,
}

/// The statement that finds the schema of the table, or the schema for a new table, by the user's search path. No other
/// name is looked up in this path, because another user may have made a function or an operator there.
const FIND_SCHEMA: &str = "SELECT coalesce((\
        SELECT pg_catalog.quote_ident(nspname::pg_catalog.text) \
        FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid OPERATOR(pg_catalog.=) relnamespace \
        WHERE pg_class.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('\"{table}\"')::pg_catalog.oid\
    ), pg_catalog.quote_ident(pg_catalog.current_schema()::pg_catalog.text), 'public')";

/// The runtime, and its task that reads and writes the socket.
struct Transport {
    runtime: DriverRuntime,
    task: JoinHandle<()>,
}

/// Connects to the first host that answers. Each host gets a share of the time, so that a host that never answers leaves
/// time for the next. The driver gets one host at a time, because it limits only the time until a socket is connected.
fn connect(target: &Target<Address>, until: Moment) -> Result<(Client, Transport), Failure> {
    let hosts = &target.address.hosts;
    let mut failed = None;
    for (host, until) in hosts.iter().zip(shares(hosts.len(), until)) {
        match connect_to_host(host.clone(), target, until) {
            Ok(connected) => return Ok(connected),
            Err(failure) => failed = Some(Failure::more_telling(failed, failure)),
        }
    }
    Err(failed.unwrap_or_else(|| Failure::unusable("the url names no server")))
}

fn connect_to_host(
    mut config: Config,
    target: &Target<Address>,
    until: Moment,
) -> Result<(Client, Transport), Failure> {
    // If the first address of a name never answers, half of the time is left for the others.
    config.connect_timeout(until.since(Clock::system().moment()) / 2);
    #[cfg(feature = "postgres-tls")]
    if target.address.is_encrypted() {
        let tls = target.tls.config().map_err(Failure::not_asked)?;
        return connect_by(tokio_postgres_rustls::MakeRustlsConnect::new((*tls).clone()), &config, until);
    }
    if target.address.is_overheard() {
        config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        return connect_by(Plain, &config, until);
    }
    connect_by(NoTls, &config, until)
}

fn connect_by<T>(by: T, config: &Config, until: Moment) -> Result<(Client, Transport), Failure>
where
    T: MakeTlsConnect<Socket, Stream: Send + 'static, TlsConnect: TlsConnect<Socket, Future: Send> + Send> + Send,
{
    let runtime = DriverRuntime::new().map_err(Failure::not_asked)?;
    let connect = async {
        let (client, connection) = config.connect(by).await?;
        // The error that ends a connection is ignored, because each later request on this connection fails.
        Ok((client, tokio::spawn(async move { _ = connection.await })))
    };
    let refused = |failure: Failure| failure.while_connecting("max_connections");
    let connected = runtime.until(until, connect).map_err(|error| refused(Failure::not_asked(error)))?;
    let (client, task) = connected.map_err(|error: tokio_postgres::Error| refused(failed(&error).undone()))?;
    Ok((client, Transport { runtime, task }))
}

impl Session for Connection {
    type Address = Address;

    const QUOTE: char = '"';
    const SCHEMA: &'static str = include_str!("statements/schema.sql");
    const NOW: &'static str = "clock_timestamp()";
    const EPOCH: &'static str = "'epoch'::timestamptz";
    const TOKEN: &'static str = "current_setting('soloist.token')::bigint";
    const LOOK: &'static str = include_str!("statements/look.sql");
    const SHORTEN: &'static str = include_str!("statements/shorten.sql");
    const ADMIT: &'static str = include_str!("statements/admit.sql");
    const END: &'static str = include_str!("statements/end.sql");
    const REVOKE: Option<&'static str> = Some(include_str!("statements/revoke.sql"));
    const CLEAN_UP: &'static str = include_str!("statements/clean_up.sql");
    const HEALTH: &'static str = include_str!("statements/health.sql");
    const STRANGERS: &'static str = include_str!("statements/strangers.sql");
    const WARNINGS: fn(&[TextRow]) -> Vec<StoreWarning> = health::warnings;
    const LOOK_AT_RUNS: &'static str = include_str!("statements/look_at_runs.sql");
    const LOG_RUNS: &'static str = include_str!("statements/log_runs.sql");
    const COUNT_SKIPS: &'static str = include_str!("statements/count_skips.sql");

    fn open(target: &Target<Address>, until: Moment) -> Result<Self, Failure> {
        let lock = lock_timeout(target.timeout).as_millis().max(1);
        let statement = target.timeout.as_millis().max(1);
        let limits = format!("SET LOCAL lock_timeout = {lock}; SET LOCAL statement_timeout = {statement}; ");
        let settings = format!(
            "{limits}SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL transaction_isolation = 'read committed'; "
        );
        let (client, transport) = connect(target, until)?;
        let table = &target.namespace;
        let mut connection = Self { client, transport, settings, tables: Tables::new(table, Self::QUOTE, "") };
        if !table.contains('.') {
            let find_schema = FIND_SCHEMA.replace("{table}", table);
            let found = connection.send(&format!("{limits}{find_schema}"), until).map_err(Failure::undone)?;
            connection.tables = Tables::new(table, Self::QUOTE, &(found.concat().concat() + "."));
        }
        Ok(connection)
    }

    fn later(instant: &str, micros: &str) -> String {
        format!("{instant} + {micros} * interval '1 microsecond'")
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure> {
        self.send(&format!("{}{statements}", self.settings), until)
    }
}

impl Connection {
    fn send(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure> {
        let asked = self.client.simple_query(statements);
        let answered = self.transport.runtime.until(until, asked).map_err(Failure::unanswered)?;
        Ok(rows(answered.map_err(|error| failed(&error))?))
    }
}

fn rows(messages: Vec<SimpleQueryMessage>) -> Vec<TextRow> {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect()).collect()
}

/// Waits until the task has said goodbye to the server. To close the socket is not enough, because a child process may
/// have it open, too.
impl Drop for Transport {
    fn drop(&mut self) {
        self.runtime.leave(&mut self.task);
    }
}
