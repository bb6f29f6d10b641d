//! One connection to a PostgreSQL server, and the statements that are sent on it.

use std::collections::HashMap;

use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Socket};
use uuid::Uuid;

use super::address::Address;
use super::health;
use super::plaintext_password::Plain;
use super::server_error::failed;
use crate::store::remote::driver_runtime::DriverRuntime;
use crate::store::remote::engine::ServerConnection;
use crate::store::remote::failure::Failure;
use crate::store::remote::server_builder::Target;
use crate::store::remote::server_url::ServerAddress;
use crate::store::sql::session::{Session, lock_timeout};
use crate::store::sql::statements::{Call, Dialect, Literal, SCHEMA_MARK, TextRow, texts};
use crate::time::clock::moment::Moment;

pub(super) struct Connection {
    /// Dropped before its course, which ends then.
    client: Client,
    course: Course,
    /// What each call begins with, and what ends with it: that no operator, function or type is looked for elsewhere than among
    /// the server's own; the limits in time of what it does; and that each of its statements sees what others have committed,
    /// so that none fails because somebody came first.
    settings: String,
    /// The schema of the table, quoted and with a dot, unless the table's name has it.
    schema: String,
    prepared: Prepared,
}

/// The calls that are prepared on a connection.
enum Prepared {
    /// Each call with the name that it is prepared under. `None`: it was sent once as text, and the second time prepares it, since
    /// most processes send a call once.
    Calls(HashMap<String, Option<String>>),
    /// None: a pooler gives it other sessions, which do not have them.
    Nothing,
}

/// A call with more values is a batch. Few batches are alike, so that they are not prepared.
const MOST_VALUES: usize = 24;

/// Finds the schema in which the search path of the user finds the table, or in which the table would be made. Nothing else is
/// looked for by that path: another user may have made a function or an operator there.
const FIND_SCHEMA: &str = "SELECT coalesce((\
        SELECT pg_catalog.quote_ident(nspname::pg_catalog.text) \
        FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid OPERATOR(pg_catalog.=) relnamespace \
        WHERE pg_class.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('\"{table}\"')::pg_catalog.oid\
    ), pg_catalog.quote_ident(pg_catalog.current_schema()::pg_catalog.text), 'public')";

/// A session does not know a prepared statement, or knows it already: this is not the session that prepared it.
const NOT_PREPARED: [&str; 2] = ["26000", "42P05"];

/// The runtime, and the task in it that carries bytes between the client and the socket.
struct Course {
    runtime: DriverRuntime,
    task: JoinHandle<()>,
}

fn connect(target: &Target<Address>, until: Moment) -> Result<(Client, Course), Failure> {
    let mut config = target.address.config.clone();
    // A host that swallows everything leaves time for the next.
    config.connect_timeout(target.timeout / u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX));
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

fn connect_by<T>(by: T, config: &Config, until: Moment) -> Result<(Client, Course), Failure>
where
    T: MakeTlsConnect<Socket, Stream: Send + 'static>,
{
    let runtime = DriverRuntime::new().map_err(Failure::not_asked)?;
    let connect = async {
        let (client, connection) = config.connect(by).await?;
        // What ends it is told to whoever asks next.
        Ok((client, tokio::spawn(async move { _ = connection.await })))
    };
    let connected = runtime.until(until, connect).map_err(Failure::not_asked)?;
    let failed = |error: tokio_postgres::Error| failed(&error).undone().while_connecting("max_connections");
    let (client, task) = connected.map_err(failed)?;
    Ok((client, Course { runtime, task }))
}

impl ServerConnection for Connection {
    type Address = Address;

    fn open(target: &Target<Address>, until: Moment) -> Result<Self, Failure> {
        let (lock, statement) = (lock_timeout(target.timeout).as_millis().max(1), target.timeout.as_millis().max(1));
        let limits = format!("SET LOCAL lock_timeout = {lock}; SET LOCAL statement_timeout = {statement}; ");
        let settings = format!(
            "{limits}SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL transaction_isolation = 'read committed'; "
        );
        let (client, course) = connect(target, until)?;
        let prepared = Prepared::Calls(HashMap::new());
        let mut connection = Self { client, course, settings, schema: String::new(), prepared };
        if !target.namespace.contains('.') {
            let find_schema = FIND_SCHEMA.replace("{table}", &target.namespace);
            let found = connection.send(&format!("{limits}{find_schema}"), until).map_err(Failure::undone)?;
            connection.schema = found.concat().concat() + ".";
        }
        Ok(connection)
    }

    fn is_closed(&mut self) -> bool {
        self.client.is_closed()
    }
}

impl Session for Connection {
    const DIALECT: Dialect = Dialect {
        kind: "postgres",
        store: "PostgresMutex",
        quote: '"',
        mark: SCHEMA_MARK,
        schema: include_str!("statements/schema.sql"),
        texts: texts!(),
        warnings: health::warnings,
        no_table: "42P01",
        other_columns: &["42703", "23502"],
    };

    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure> {
        self.send(&format!("{}{}", self.settings, statements.replace(SCHEMA_MARK, &self.schema)), until)
    }

    /// It is prepared by `PREPARE`, a statement, because a pooler may give each transaction another session. If that session does
    /// not have it, the call is sent as text.
    fn call(&mut self, call: &Call, until: Moment) -> Result<Vec<TextRow>, Failure> {
        if let Some(prepared) = self.prepared.statements(call) {
            let answer = self.query(&prepared, until);
            if !answer.as_ref().is_err_and(|failure| failure.code().is_some_and(|code| NOT_PREPARED.contains(&code))) {
                return answer;
            }
            self.prepared = Prepared::Nothing;
        }
        self.query(&call.as_text(), until)
    }
}

impl Connection {
    fn send(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure> {
        let asked = self.client.simple_query(statements);
        let answered = self.course.runtime.until(until, asked).map_err(Failure::unanswered)?;
        let messages = answered.map_err(|error| failed(&error))?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows.map(|row| (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect()).collect())
    }
}

impl Prepared {
    /// The call by what is prepared, or will be with it. `None`: it is to be sent as it is.
    fn statements(&mut self, call: &Call) -> Option<String> {
        let Self::Calls(calls) = self else { return None };
        if call.values.iter().len() > MOST_VALUES {
            return None;
        }
        let Some(name) = calls.get_mut(&call.statements) else {
            calls.insert(call.statements.clone(), None);
            return None;
        };
        let list = |each: &dyn Fn(&Literal) -> String| call.values.iter().map(each).collect::<Vec<_>>().join(", ");
        let each = call.statements.split_terminator(';').enumerate();
        let mut prepare = String::new();
        let name = name.get_or_insert_with(|| {
            let name = format!("soloist_{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, call.statements.as_bytes()).simple());
            let types = list(&|value| if matches!(value, Literal::Text(_)) { "text" } else { "bigint" }.to_owned());
            prepare.extend(each.clone().map(|(at, one)| format!("PREPARE {name}_{at} ({types}) AS {one}; ")));
            name
        });
        let values = list(&ToString::to_string);
        let execute = each.map(|(at, _)| format!("EXECUTE {name}_{at} ({values}); "));
        Some(prepare + &execute.collect::<String>())
    }
}

/// Says goodbye to the server. To close the socket is not enough: a child process of ours may have it open, too.
impl Drop for Course {
    fn drop(&mut self) {
        self.runtime.leave(&mut self.task);
    }
}
